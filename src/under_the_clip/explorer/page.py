"""The explorer on its page: controls, chart, and a table of the same rows that needs no script."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape

import pandas as pd
import vl_convert

from dpstudy.lab import wording
from dpstudy.page.figure import MISSING, Captioned
from under_the_clip.explorer import rows
from under_the_clip.explorer.chart import chart

_EMBED = {
    "mode": "vega-lite",
    "renderer": "svg",
    "actions": False,
    "bind": "#explorer-controls",
    # What is picked is still there when the reader comes back.
    "loader": {"target": "_blank"},
}
_COLUMNS = ("method", "network", "settings", "accuracy", "seeds")


@dataclass(frozen=True, kw_only=True)
class Explorer(Captioned):
    """Every stored setting, drawn as the reader picks; the CSV has all of them.

    Vega comes with the page, so that nothing is fetched when it is read.
    """

    def _repr_html_(self) -> str:
        spec = json.dumps(chart(self.data).to_dict(), ensure_ascii=False).replace("</", "<\\/")
        script = f"{vl_convert.javascript_bundle()}\nvegaEmbed('#explorer-chart', {spec}, "
        return self._wrap(
            '<div id="explorer-controls"></div>\n<div id="explorer-chart" style="width: 100%">'
            "<noscript>The chart needs JavaScript. The tables below have all of its rows."
            "</noscript></div>\n"
            f"<script>(() => {{\n{script}{json.dumps(_EMBED)})\n}})()</script>\n"
            + "\n".join(_folded(name, of) for name, of in self.data.groupby("dataset", sort=False))
        )

    @property
    def plain(self) -> str:
        """What stands for the chart in text."""
        return self.caption


def explorer() -> Explorer:
    """Return the explorer of what is stored now."""
    data = rows.table(rows.settings())
    return Explorer(
        name="explorer",
        caption=(
            f"{len(data)} settings of the {data.experiment.nunique()} experiments that have stored "
            "runs. A mark is the median over seeds of the test accuracy at the last epoch, a line "
            "its range; grey is what is not picked. A mark leads to the section that it is from."
        ),
        data=data,
    )


def _folded(dataset: str, data: pd.DataFrame) -> str:
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("from", *_COLUMNS, "claimed ε", "proven ε", "audited ε")
    )
    body = "\n".join(map(_row, data.sort_values("median", ascending=False).to_dict("records")))
    return (
        f"<details><summary>{escape(dataset)}: all {len(data)} settings as a table</summary>\n"
        '<div style="overflow-x: auto" tabindex="0" role="region" '
        f'aria-label="Settings on {escape(dataset)}">'
        '<table class="table table-sm" style="font-size: 0.8em; line-height: 1.3">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></details>"
    )


def _row(row: dict) -> str:
    source = f"{row['experiment']}: {row['variant']}"
    spread = f" ({row['min']:.2%} to {row['max']:.2%})" if row["seeds"] > 1 else ""
    cells = [row["method"], row["network"], row["settings"], f"{row['median']:.2%}{spread}"]
    cells += [str(row["seeds"]), *(_epsilon(name, row[name]) for name in rows.EPSILONS)]
    shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row"><a href="{row["link"]}">{escape(source)}</a></th>{shown}</tr>'


def _epsilon(name: str, value: float) -> str:
    shown = wording.rounded_down if name == "audited" else wording.epsilon
    return MISSING if pd.isna(value) else shown(value)
