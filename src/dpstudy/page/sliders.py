"""Numbers that a reader looks up by moving sliders; without a script, in a folded table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from dpstudy.page.figure import Captioned, Table

# Shows the row that the sliders point at; works from the keyboard, as any range input does.
_SCRIPT = """
(() => {
  const figure = document.getElementById(%s), {values, rows} = %s
  const inputs = [...figure.querySelectorAll("input")]
  const show = () => {
    const chosen = inputs.map((input, at) => values[at][input.value])
    inputs.forEach((input, at) => {
      input.setAttribute("aria-valuetext", chosen[at])
      input.nextElementSibling.textContent = chosen[at]
    })
    const cells = rows[chosen.join(" ")]
    figure.querySelectorAll("strong").forEach((cell, at) => { cell.textContent = cells[at] })
  }
  inputs.forEach((input) => input.addEventListener("input", show))
  figure.querySelector(".sliders").hidden = false
  show()
})()
"""


@dataclass(frozen=True, kw_only=True)
class Sliders(Captioned):
    """A table with a row for each combination of some values, one of which is looked up."""

    inputs: Mapping[str, float]  # by column, the value that its slider starts at
    # By column, how its values are shown; those that are no inputs are what is looked up.
    formats: Mapping[str, str]

    @property
    def plain(self) -> str:
        """All rows, in text."""
        return self._table.plain

    @property
    def _table(self) -> Table:
        what = {"data": self.data[list(self.formats)], "formats": self.formats}
        return Table(name=f"{self.name}-values", caption="All values.", **what)

    def _repr_html_(self) -> str:
        shown = {name: self.data[name].map(form.format) for name, form in self.formats.items()}
        found = [name for name in self.formats if name not in self.inputs]
        keys = zip(*(shown[name] for name in self.inputs), strict=True)
        cells = zip(*(shown[name] for name in found), strict=True)
        rows = {" ".join(key): row for key, row in zip(keys, cells, strict=True)}
        values = [list(dict.fromkeys(shown[name])) for name in self.inputs]
        sliders = "\n".join(
            f'<label style="display: block">{escape(name)} <input type="range" min="0" '
            f'max="{len(of) - 1}" value="{of.index(self.formats[name].format(start))}" '
            'style="width: 12em; vertical-align: middle"> <output></output></label>'
            for (name, start), of in zip(self.inputs.items(), values, strict=True)
        )
        answers = "<br>\n".join(f"{escape(name)}: <strong></strong>" for name in found)
        given = json.dumps({"values": values, "rows": rows}).replace("</", "<\\/")
        return self._wrap(
            f'<div class="sliders" hidden>\n{sliders}\n'
            f'<p aria-live="polite">{answers}</p>\n</div>\n'
            f"<details><summary>All values as a table</summary>{self._table._repr_html_()}"
            f"</details>\n<script>{_SCRIPT % (json.dumps(self.name), given)}</script>"
        )
