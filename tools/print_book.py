"""Print the built book as one PDF, through Chromium: `make pdf`.

    python tools/print_book.py CHROMIUM _build/html _build/under-the-clip.pdf

The pages are joined in the order of the table of contents and printed twice: the first print says
on which page a section starts, and the second has that in its contents. Folded parts are open, but
for what was measured for each claim, which is left out; the explorer is left to the browser.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from importlib import metadata
from pathlib import Path
from posixpath import normpath
from urllib.parse import urldefrag, urljoin

import matplotlib
import yaml
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader

ROOT = Path(__file__).parents[1]
LEFT_OUT = "script, .headerlink, .download, .measured, .hide > summary, summary svg"
EXPLORER = "The chart and its tables answer to the reader, and are in the book as a website alone."
# Of the fonts that come with matplotlib: the same pages on every machine.
FONTS = {
    ("Text", "normal", "normal"): "STIXGeneral",
    ("Text", "normal", "italic"): "STIXGeneralItalic",
    ("Text", "bold", "normal"): "STIXGeneralBol",
    ("Text", "bold", "italic"): "STIXGeneralBolIta",
    ("Heading", "normal", "normal"): "DejaVuSans",
    ("Heading", "bold", "normal"): "DejaVuSans-Bold",
    ("Code", "normal", "normal"): "DejaVuSansMono",
    ("Code", "bold", "normal"): "DejaVuSansMono-Bold",
    ("Code", "normal", "italic"): "DejaVuSansMono-Oblique",
}
TEMPLATE = """<!doctype html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="stylesheet" href="_static/pygments.css">
<link rel="stylesheet" href="_static/print.css">
<style>
{fonts}
{heads}
</style>
{mathjax}
</head>
<body>
<section id="title">
<img src="_static/logo.svg" alt="">
<h1>{title}</h1>
<p>Version {version}</p>
</section>
<nav>
<h1>Contents</h1>
{contents}
</nav>
{body}
<script>
// What is wider than a page is made to fit it.
addEventListener("load", () => {{
  for (const box of document.querySelectorAll(".page [tabindex]"))
    box.style.zoom = Math.min(1, box.clientWidth / box.scrollWidth);
}});
</script>
</body>
</html>
"""


def parts() -> Iterator[tuple[str, list[str]]]:
    """Yield the caption of each part of the book, if any, with its pages, in order of reading."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    first = [toc["root"]]
    for part in toc["parts"]:
        yield part.get("caption", ""), first + [page["file"] for page in part["chapters"]]
        first = []


def article(html: Path, page: str, known: set[str]) -> Tag:
    """Return the text of a page, its folds open, with names and links of the joined book."""
    soup = BeautifulSoup((html / f"{page}.html").read_text(), "html.parser")
    text = soup.select_one("article.bd-article")
    for gone in text.select(LEFT_OUT):
        gone.decompose()
    for explorer in text.select("#explorer"):
        explorer.replace_with(EXPLORER)
    for fold in text.select("details"):
        fold.name = "div"
    for named in text.select("summary"):
        named.name = "h4"
    for named in text.select("[id]"):
        named["id"] = f"{page}/{named['id']}"
    for link in text.select("a[href]"):
        link["href"] = moved(link["href"], page, known)
    text.name, text.attrs = "section", {"class": "page", "id": page}
    return text


def moved(target: str, page: str, known: set[str]) -> str:
    """Return where a link of a page leads in the joined book."""
    there, name = urldefrag(urljoin(f"{page}.html", target))
    there = normpath(there).removesuffix(".html")
    if there in known:
        return f"#{there}/{name}" if name else f"#{there}"
    return target


def contents(book: list[tuple[str, list[Tag]]]) -> Iterator[str]:
    """Yield the lines of the contents, with a place for the number of each page."""
    for caption, articles in book:
        if caption:
            yield f"<p>{escape(caption)}</p>"
        for heading in (found for of in articles for found in of.select("h1, h2")):
            target = heading.find_parent("section")["id"]
            yield (
                f'<a class="{heading.name}" href="#{target}"><span>{heading.decode_contents()}'
                f'</span><span class="number" data-to="{target}"></span></a>'
            )


def running_heads(articles: list[Tag]) -> Iterator[str]:
    """Yield what puts the title of each chapter at the head of its pages."""
    for number, of in enumerate(articles):
        of["style"] = f"page: chapter-{number}"
        title = of.h1.get_text().replace('"', '\\"')
        yield f'@page chapter-{number} {{ @top-left {{ content: "{title}" }} }}'


def font_faces() -> Iterator[str]:
    """Yield what names the fonts."""
    folder = Path(matplotlib.get_data_path()) / "fonts/ttf"
    for (family, weight, style), name in FONTS.items():
        source = (folder / f"{name}.ttf").as_uri()
        yield (
            f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-style: {style}; '
            f'src: url("{source}") }}'
        )


def mathjax(html: Path, page: str) -> Iterator[str]:
    """Yield the scripts that set mathematics, as a page has them."""
    soup = BeautifulSoup((html / f"{page}.html").read_text(), "html.parser")
    for script in soup.select("script"):
        if "mathjax" in f"{script.get('src')}{script.string}".lower():
            yield str(script).replace('src="../', 'src="')


def joined(html: Path) -> BeautifulSoup:
    """Return the whole book as one page."""
    order = list(parts())
    known = {page for _, of in order for page in of}
    book = [(caption, [article(html, page, known) for page in of]) for caption, of in order]
    articles = [of for _, group in book for of in group]
    return BeautifulSoup(
        TEMPLATE.format(
            title="Under the Clip",
            version=metadata.version("dpstudy"),
            fonts="\n".join(font_faces()),
            heads="\n".join(running_heads(articles)),
            mathjax="\n".join(mathjax(html, "notebooks/01_accounting")),
            contents="\n".join(contents(book)),
            body="\n".join(map(str, articles)),
        ),
        "html.parser",
    )


def printed(chromium: str, source: Path, target: Path) -> PdfReader:
    """Have Chromium print a page once its mathematics is set; return the print."""
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            f"--user-data-dir={profile}",
            "--virtual-time-budget=60000",
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
            f"--print-to-pdf={target}",
        ]
        subprocess.run([chromium, *options, source.as_uri()], check=True, capture_output=True)
    return PdfReader(target)


def main(chromium: str, html: Path, target: Path) -> None:
    """Print the book twice, with the numbers of pages in its contents the second time."""
    book, source = joined(html), html / "print.html"
    source.write_text(str(book))
    first = printed(chromium, source, target)
    starts = {
        name: first.get_destination_page_number(of) for name, of in first.named_destinations.items()
    }
    for number in book.select("nav .number"):
        number.string = str(starts[f"/{number['data-to']}"] + 1)
    source.write_text(str(book))
    printed(chromium, source, target)
    source.unlink()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
