"""What hangs on an address: buttons on the repository's, and how a DOI is checked."""

from sphinx.application import Sphinx
from sphinx.config import Config

BUTTONS = {
    "use_repository_button": True,
    "use_edit_page_button": True,
    "use_issues_button": True,
    "launch_buttons": {"colab_url": "https://colab.research.google.com"},
}


def buttons(app: Sphinx, config: Config) -> None:
    """Show the repository's buttons, and say where its book is, once it is set."""
    address = config.html_theme_options["repository_url"].rstrip("/")
    if address:
        owner, name = address.split("/")[-2:]
        config.html_baseurl = f"https://{owner.lower()}.github.io/{name}/"
        config.html_theme_options |= BUTTONS


def notebooks_alone(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """Take the button to Colab, which opens notebooks, off Markdown that has code."""
    if context.get("page_source_suffix") == ".md":
        kept = [b for b in context["header_buttons"] if b["label"] != "launch-buttons"]
        context["header_buttons"] = kept


def registered(app: Sphinx, address: str) -> str | None:
    """Have a DOI looked up where it is registered: publishers turn programs away."""
    doi = address.removeprefix("https://doi.org/")
    return None if doi == address else f"https://doi.org/api/handles/{doi}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect them."""
    app.connect("config-inited", buttons)
    app.connect("html-page-context", notebooks_alone, priority=600)  # the theme adds them at 501
    app.connect("linkcheck-process-uri", registered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
