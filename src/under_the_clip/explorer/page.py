"""The explorer: accuracy against epsilon, with controls of the browser's own, and a table.

What is picked is declared here and done by Vega in the page. Colours are `currentColor` where the
theme decides, so that the chart reads on light and on dark. The table has the same rows and needs
no script.
"""

import json
from dataclasses import dataclass
from html import escape
from itertools import cycle

import altair as alt
import pandas as pd
import vl_convert

from dpstudy.lab import wording
from dpstudy.page.figure import MISSING, STYLES, Captioned, Note
from dpstudy.page.results import none_stored
from dpstudy.parts.mechanism import NoPrivacy
from under_the_clip.explorer import rows, words

# By what a control shows, what it picks: columns of epsilon, and the least number of seeds.
EPSILONS = {"true, as proven here": "proven", "claimed, by the accounting of the time": "claimed"}
SEEDS = {"3 or more": 3, "any": 1}
MOST = {"10": 10, "3.1": 3.1, "1.1": 1.1, "any": 1e99}
# Of the styles that figures have, with the theme's own colour of text for black.
_COLORS = [style.color.replace("#000000", "currentColor") for style in STYLES]
_SIDES = ("up", "down", "left", "right")
# One more than colours, so that fifty methods differ in one or the other.
_SHAPES = ["circle", "square", "diamond", "cross", *(f"triangle-{at}" for at in _SIDES)]
_ERRORS = [0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.9]
_TICKS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, *(10**power for power in range(3, 8))]
_OF_THE_THEME = ("labelColor", "titleColor", "tickColor", "domainColor", "gridColor")
_THEME = {
    "background": "transparent",
    "axis": dict.fromkeys(_OF_THE_THEME, "currentColor")
    | {"gridOpacity": 0.15, "labelFontSize": 12, "titleFontSize": 13},
    "legend": {
        "labelColor": "currentColor",
        "labelFontSize": alt.ExprRef("width < 500 ? 8 : 10"),
        "columns": alt.ExprRef("width < 500 ? 1 : 2"),
        "labelLimit": 320,
        "symbolLimit": 100,
        "orient": "bottom",
        "symbolOpacity": 1,
        "title": None,
    },
    "text": {"align": "left", "color": "currentColor", "fontSize": 12},
    "rule": {"color": "currentColor"},
    "view": {"stroke": None},
}
# What every layer is drawn from: error and epsilon, as picked, and the words of the tooltip.
_WORDS = {
    "epsilon": "datum[which_epsilon]",
    "error": "1 - datum.median",
    "low": "1 - datum.min",
    "high": "1 - datum.max",
    "accuracy": "format(datum.median, '.2%') + (datum.seeds > 1 ? ' (' + format(datum.min, '.2%') "
    "+ ' to ' + format(datum.max, '.2%') + ')' : '') + ', seeds: ' + datum.seeds",
    **{
        f"{column} ε": f"datum.{column} === null ? 'none' : format({shown} / 100, ',.2~f')"
        for column, shown in (
            ("claimed", "round(100 * datum.claimed)"),
            ("proven", "ceil(100 * datum.proven - 1e-6)"),
            ("audited", "floor(100 * datum.audited)"),
        )
    },
}
_SPENT = ["claimed ε", "proven ε", "audited ε"]
_TOOLTIP = ["method", "network", "settings", "accuracy", *_SPENT, "experiment", "variant"]
_WITHIN = "datum.epsilon > 0 && datum.epsilon <= which_most"
_OF = "(which_{0} == 'all' || datum.{0} == which_{0})"
_PICKED = " && ".join([_WITHIN, *map(_OF.format, ("paper", "method", "network"))])
# Where an ε is missing there may be noise all the same, on features of the private images.
_WITHOUT = f"indexof(datum.method, '{words.kind(NoPrivacy())}') == 0"
_FREE = " && ".join([_WITHOUT, *map(_OF.format, ("paper", "network"))])
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
            '<p><a href="#explorer-tables">The same settings as tables</a>, '
            "for the keyboard and for a screen reader.</p>\n"
            '<div id="explorer-controls"></div>\n<div id="explorer-chart" style="width: 100%">'
            "<noscript>The chart needs JavaScript. The tables below have all of its rows."
            "</noscript></div>\n"
            f"<script>(() => {{\n{script}{json.dumps(_EMBED)})\n}})()</script>\n"
            f"<details><summary>All {len(self.data)} settings as tables</summary>\n"
            '<div id="explorer-tables">\n'
            + "\n".join(_folded(name, of) for name, of in self.data.groupby("dataset", sort=False))
            + "</div></details>"
        )

    @property
    def plain(self) -> str:
        """What stands for the chart in text."""
        return self.caption


def explorer() -> Explorer | Note:
    """Return the explorer of what is stored now; a note if that is nothing."""
    stored = rows.settings()
    if not stored:
        return none_stored("explorer")
    data = rows.table(stored)
    return Explorer(
        name="explorer",
        caption=(
            f"{len(data)} settings of the {data.experiment.nunique()} experiments that have stored "
            "runs. A mark is the median over seeds of the accuracy at the last epoch, a line its "
            "range; grey is what is not picked. Accuracy is on test images, or on those held out "
            "where the settings say so. A mark leads to its section."
        ),
        data=data,
    )


def _folded(dataset: str, data: pd.DataFrame) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in ("from", *_COLUMNS, *_SPENT))
    body = "\n".join(map(_row, data.sort_values("median", ascending=False).to_dict("records")))
    return (
        f"<details><summary>{escape(dataset)}: {len(data)} settings</summary>\n"
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
    bounds = {"proven": wording.rounded_up, "audited": wording.rounded_down}
    return MISSING if pd.isna(value) else bounds.get(name, wording.epsilon)(value)


def chart(data: pd.DataFrame) -> alt.LayerChart:
    """Return the chart of rows, as `rows.table` has them, with its data and its controls in it."""
    # Else all are words to Vega, and a missing number is an empty one.
    numbers = dict.fromkeys(data.select_dtypes("number"), "number")
    form = alt.CsvDataFormat(type="csv", parse=numbers)
    source = alt.InlineData(values=data.to_csv(index=False), format=form)
    # What is not picked, too: the axes stay where they are.
    others = alt.Chart().mark_point(filled=True, size=18, color="currentColor", opacity=0.2)
    others = others.transform_filter(_WITHIN).encode(_x(), _y())
    drawn = alt.layer(others, _free(), *_picked(sorted(data.method.unique())), _best(), data=source)
    drawn = drawn.transform_calculate(**_WORDS)
    drawn = drawn.transform_filter("datum.dataset == which_dataset && datum.seeds >= which_seeds")
    drawn = drawn.add_params(*_controls(data))
    said = (
        f"Accuracy against ε of {len(data)} stored settings, one mark each, by dataset, ε, "
        "paper, method and network as picked above. The table below has the same rows."
    )
    return drawn.properties(width="container", height=400, description=said).configure(**_THEME)


def _controls(data: pd.DataFrame) -> list[alt.Parameter]:
    datasets = data.dataset.unique()
    radios = {
        "dataset": ("Dataset", dict(zip(datasets, datasets, strict=True))),
        "epsilon": ("ε", EPSILONS),
        "most": ("ε at most", MOST),
        "seeds": ("Seeds", SEEDS),
    }
    selects = {
        "paper": ("Paper", data.paper.unique()),
        "method": ("Method", sorted(data.method[data.proven.notna()].unique())),
        "network": ("Network", sorted(data.network.unique())),
    }
    bound = {
        name: alt.binding_radio(options=list(of.values()), labels=list(of), name=f"{title} ")
        for name, (title, of) in radios.items()
    } | {
        name: alt.binding_select(options=["all", *options], name=f"{title} ")
        for name, (title, options) in selects.items()
    }
    return [
        alt.param(f"which_{name}", value=control.options[0], bind=control)
        for name, control in bound.items()
    ]


def _x() -> alt.X:
    shown = "datum.value < 1 ? toString(datum.value) : format(datum.value, ',')"
    axis = alt.Axis(values=_TICKS, labelExpr=shown, labelOverlap="parity")
    domain = alt.DomainUnionWith(unionWith=[1, 3])
    scale = alt.Scale(type="log", domain=domain, nice=False, padding=8)
    return alt.X("epsilon:Q", title="ε", scale=scale, axis=axis)


def _y() -> alt.Y:
    axis = alt.Axis(values=_ERRORS, labelExpr="format(1 - datum.value, '~%')", labelOverlap=True)
    scale = alt.Scale(type="log", reverse=True, nice=False, padding=8)
    return alt.Y("error:Q", title="accuracy at the last epoch", scale=scale, axis=axis)


def _picked(methods: list[str]) -> tuple[alt.Chart, alt.Chart]:
    """Return the range over seeds, and the median, which leads to the section that it is from.

    A method looks the same whatever is picked, and the legend has those alone that are.
    """
    color, shape = (
        json.dumps(dict(zip(methods, cycle(looks), strict=False))) for looks in (_COLORS, _SHAPES)
    )
    picked = alt.Chart().transform_filter(_PICKED)
    picked = picked.transform_calculate(
        color=f"({color})[datum.method]", shape=f"({shape})[datum.method]"
    )
    ranges = picked.mark_rule(opacity=0.6).encode(_x(), alt.Y("low:Q"), alt.Y2("high:Q"))
    # Of a channel that tells nothing apart, so that its legend follows what is picked.
    legend = alt.Legend(
        symbolFillColor=alt.ExprRef(f"({color})[datum.value]"),
        symbolStrokeColor="transparent",
        symbolType=alt.ExprRef(f"({shape})[datum.value]"),
    )
    medians = picked.mark_point(filled=True, size=70).encode(
        _x(),
        _y(),
        alt.Color("color:N", scale=None),
        alt.Shape("shape:N", scale=None),
        alt.Opacity("method:N", scale=alt.Scale(type="ordinal", range=[0.9]), legend=legend),
        tooltip=[alt.Tooltip(name, type="nominal") for name in _TOOLTIP],
        href="link:N",
    )
    return ranges, medians


def _free() -> alt.LayerChart:
    """Return a line at the best that is stored without privacy."""
    best = alt.Chart().transform_filter(_FREE).transform_aggregate(error="min(error)")
    best = best.transform_filter("isValid(datum.error)")  # no line where nothing is stored
    words = best.mark_text(baseline="top", dy=3).encode(
        _y(), x=alt.value(4), text=alt.value("best without privacy")
    )
    return best.mark_rule(strokeDash=[4, 3]).encode(_y()) + words


def _best() -> alt.Chart:
    """Return the best of what is picked, in words above the chart, or that there is nothing."""
    best = alt.Chart().transform_calculate(picked=f"{_PICKED} ? datum.median : 0")
    best = best.transform_window(
        rank="row_number()", sort=[alt.SortField("picked", order="descending")]
    ).transform_filter("datum.rank == 1")
    said = "'best: ' + format(datum.median, '.2%') + ' at ε ' + datum[which_epsilon + ' ε']"
    best = best.transform_calculate(
        said=f"datum.picked > 0 ? [{said}, datum.method] : ['no stored run']"
    )
    return best.mark_text(baseline="top").encode(x=alt.value(4), y=alt.value(-36), text="said:N")
