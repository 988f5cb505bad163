"""What one figure or table on a page is: accessible, downloadable, the same on every build.

`Figure`, `Table` and `Note` render themselves as HTML, in Jupyter and in the built book alike.
Each carries its numbers as a CSV to download, and each figure a text alternative. Marks differ in
colour (safe for colour-blind readers), in dash and in shape, so that a grey print reads as well.
"""

import base64
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from string import Formatter
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from pandas.api.types import is_numeric_dtype

from dpstudy.page import pieces

MISSING = "—"
# Pixels that a figure's smallest letters have at least: what is then wider than a page scrolls.
SMALLEST = 7


@dataclass(frozen=True)
class Style:
    """How one series is told from the others: by any of colour, dash, marker or hatch alone."""

    color: str
    dash: Any
    marker: str
    hatch: str

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`."""
        return {"color": self.color, "linestyle": self.dash, "marker": self.marker}

    @property
    def area(self) -> dict[str, Any]:
        """Keyword arguments for `Axes.bar` and `Axes.fill_between`."""
        return {"facecolor": self.color, "hatch": self.hatch, "edgecolor": "black"}


# Colours of Okabe & Ito, ordered so that neighbours differ in lightness too.
STYLES = (
    Style("#0072B2", "-", "o", ""),
    Style("#E69F00", (0, (5, 2)), "s", "///"),
    Style("#000000", (0, (1, 1.5)), "^", "..."),
    Style("#56B4E9", (0, (6, 2, 1, 2)), "D", "xxx"),
    Style("#D55E00", (0, (3, 1, 1, 1, 1, 1)), "v", "\\\\\\"),
    Style("#CC79A7", (0, (9, 3)), "P", "+++"),
    Style("#4D4D4D", (0, (2, 3)), "X", "--"),
)

# From a name to what it names, as `arrowprops`: not a curve's colour, or it reads as data.
LEADER = {"arrowstyle": "-", "color": "0.5", "linestyle": ":"}

# A caption reads as text does: themes centre it, and set it light and grey.
_CAPTION = "text-align: left; font-weight: normal; font-size: 0.9em; color: inherit"
_RENDERING = {
    # Element ids in an SVG are random unless salted; text as outlines needs no font installed.
    "svg.hashsalt": "dpstudy",
    "svg.fonttype": "path",
}
_THEME = {
    **sns.axes_style("whitegrid"),
    **sns.plotting_context("notebook", font_scale=0.9),
    "font.family": "sans-serif",
    # The one font that comes with matplotlib: the same outlines everywhere.
    "font.sans-serif": ["DejaVu Sans"],
    "axes.edgecolor": "0.5",
    "grid.color": "0.88",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "lines.markersize": 5,
    **_RENDERING,
}


@contextmanager
def canvas(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float], **axes: Any
) -> Iterator[tuple[Canvas, list[Axes]]]:
    """Open a themed matplotlib figure, its size in inches, and a flat list of its axes.

    What else is given goes to `Figure.subplots`, for instance `sharey=True`.
    """
    with mpl.rc_context(_THEME):
        # Not made by pyplot, so that no notebook shows it a second time.
        figure = Canvas(figsize=size, layout="constrained")
        yield figure, list(figure.subplots(rows, columns, squeeze=False, **axes).flat)


def star(axes: Axes, x: float, y: float, style: Style, name: str) -> None:
    """Draw a published value as a star, with the mark of its series in it: told apart in grey."""
    edge = {"markeredgecolor": "black", "linestyle": "none"}
    axes.plot(x, y, marker="*", markersize=15, color=style.color, label=name, **edge)
    axes.plot(x, y, marker=style.marker, markersize=4, color="white", **edge)


def legend_below(figure: Canvas) -> None:
    """Name what is drawn in all axes below them, once each."""
    named = {}
    for axes in figure.axes:
        named |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    # In inches: a line with its mark, and a letter of small print.
    widest = 0.6 + 0.075 * max(map(len, named), default=0)
    columns = max(1, min(len(named), int(figure.get_figwidth() / widest)))
    place = {"loc": "outside lower center", "ncols": columns}
    figure.legend(named.values(), named, fontsize="small", **place)


class Shown:
    """What a notebook displays: as HTML, by `_repr_html_`, and where that is not read, as text."""

    plain: str

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": self.plain}


@dataclass(frozen=True, kw_only=True)
class Captioned(Shown):
    """What figures and tables share: a name, a caption, and numbers to download.

    The name, lower-case words joined by hyphens, identifies it on the page and names its CSV.
    """

    name: str
    caption: str
    data: pd.DataFrame

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(f"name must be lower-case words joined by hyphens, got {self.name!r}")
        if not self.caption.strip():
            raise ValueError(f"{self.name}: a caption is needed")
        if self.data.empty:
            raise ValueError(f"{self.name}: no data to download")

    @property
    def csv(self) -> str:
        """The numbers as CSV, in full precision, without row numbers."""
        return self.data.to_csv(index=False, lineterminator="\n")

    @property
    def _scrolling(self) -> str:
        """What is wider than the page scrolls by itself, and by keyboard."""
        return (
            '<div class="sideways" style="overflow-x: auto" tabindex="0" role="region" '
            f'aria-labelledby="{self.name}-caption">'
        )

    def download(self) -> str:
        """Return the caption and the numbers to download, without what it is the caption of."""
        return self._wrap("")

    def _wrap(self, body: str) -> str:
        address = _data_uri("text/csv;charset=utf-8", self.csv.encode())
        link = (
            f'<span class="download">[<a href="{address}" '
            f'download="{self.name}.csv" aria-label="Download {self.name}.csv">CSV</a>]</span>'
        )
        return (
            f'<figure role="group" id="{self.name}" aria-labelledby="{self.name}-caption" '
            'style="margin: 0.5em 0">\n'
            f"{body}\n"
            f'<figcaption id="{self.name}-caption" style="{_CAPTION}">'
            f"{escape(self.caption)} {link}</figcaption>\n"
            "</figure>"
        )


@dataclass(frozen=True, kw_only=True)
class Figure(Captioned):
    """A figure: an image with its text alternative, a caption and the numbers it was drawn from.

    ValueError where the name is malformed, or alt, caption or data are empty.
    """

    fig: Canvas  # closed for pyplot, so that it is shown once
    alt: str  # what a reader who cannot see the figure needs to know

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.alt.strip():
            raise ValueError(f"{self.name}: a text alternative is needed")
        plt.close(self.fig)

    @property
    def svg(self) -> bytes:
        """The image as SVG; the same figure gives the same bytes."""
        with mpl.rc_context(_RENDERING):
            return pieces.svg(self.fig)

    @property
    def png(self) -> bytes:
        """The image as PNG, at 150 dots an inch."""
        buffer = io.BytesIO()
        with mpl.rc_context(_RENDERING):
            self.fig.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        with mpl.rc_context(_RENDERING):
            columns, entries = pieces.pieces(self.fig)
        whole = sum(column.width for column in columns)
        if len(columns) == 1:
            shown = f"{self._scrolling}\n{_image(columns[0], self.alt)}\n</div>"
        else:
            said = [self.alt, *(f"{column.title}, continued" for column in columns[1:])]
            beside = [
                _beside(column, column.width / whole, alt)
                for column, alt in zip(columns, said, strict=True)
            ]
            shown = _flow("pieces", beside, whole)
        below = [_natural(entry) for entry in entries]
        return self._wrap("\n".join([shown, _flow("entries", below, whole)] if below else [shown]))

    @property
    def plain(self) -> str:
        """What stands for the figure in text."""
        return f"Figure {self.name}: {self.alt}"


@dataclass(frozen=True, kw_only=True)
class Table(Captioned):
    """A table whose first column heads its rows, with dashes for missing values.

    ValueError where the name is malformed, caption or data are empty, or what is to be formatted or
    merged is no column.
    """

    # For a column, how its values are shown: as for `str.format`, or by a function to text.
    formats: Mapping[str, str | Callable[[Any], str]] = field(default_factory=dict)
    # Columns shown as one, in the place of the first of them, each by a template with their names,
    # "{minimum} to {maximum}"; the CSV has them apart.
    merged: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        named = {*self.formats, *(part for form in self.merged.values() for part in fields(form))}
        if unknown := sorted(named - set(self.data.columns)):
            raise ValueError(f"{self.name}: no column {unknown[0]!r} to format or merge")

    def shown(self) -> list[list[str]]:
        """Return the cells as text, row by row."""
        columns = [self._shown(name) for name in self._columns()]
        return [list(row) for row in zip(*columns, strict=True)]

    def _columns(self) -> list[str]:
        whole = {part: name for name, form in self.merged.items() for part in fields(form)}
        return list(dict.fromkeys(whole.get(column, column) for column in self.data.columns))

    def _shown(self, column: str) -> list[str]:
        if column not in self.merged:
            return [self._cell(column, value) for value in self.data[column]]
        form = self.merged[column]
        rows = self.data[fields(form)].to_dict("records")
        cells = [{name: self._cell(name, value) for name, value in row.items()} for row in rows]
        return [_merge(form, of) for of in cells]

    def _cell(self, column: str, value: Any) -> str:
        form = self.formats.get(column, "{}")
        show = form.format if isinstance(form, str) else form
        return MISSING if pd.isna(value) else show(value)

    def _repr_html_(self) -> str:
        columns, data = self._columns(), self.data
        numeric = [name not in self.merged and is_numeric_dtype(data[name]) for name in columns]
        aligned = [' style="text-align: right"' if right else "" for right in numeric]
        head = "".join(
            f'<th scope="col"{style}>{escape(str(name))}</th>'
            for name, style in zip(columns, aligned, strict=True)
        )
        body = "\n".join(_row(cells, aligned) for cells in self.shown())
        return self._wrap(
            f"{self._scrolling}\n"
            '<table class="table table-sm" style="font-size: 0.8em; line-height: 1.3">\n'
            f"<thead><tr>{head}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody></table>\n</div>"
        )

    @property
    def plain(self) -> str:
        """The table in text."""
        return "\n".join([" | ".join(self._columns()), *map(" | ".join, self.shown())])


@dataclass(frozen=True)
class Note(Shown):
    """A visible remark in place of, or beside, a figure."""

    title: str
    text: str
    command: str = ""

    def _repr_html_(self) -> str:
        command = f"<pre><code>{escape(self.command)}</code></pre>" if self.command else ""
        return (
            '<div class="admonition note" role="note">'
            f'<p class="admonition-title">{escape(self.title)}</p>'
            f"<p>{escape(self.text)}</p>{command}</div>"
        )

    @property
    def plain(self) -> str:
        """The remark in text."""
        return "\n".join(part for part in (self.title, self.text, self.command) if part)


@dataclass(frozen=True)
class Several(Shown):
    """Figures, tables or notes one below the other; those with a title but the first are folded."""

    parts: tuple[Shown, ...]
    titles: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        shown = [part._repr_html_() for part in self.parts]
        for at, title in enumerate(self.titles[1:], start=1):
            shown[at] = f"<details><summary>{escape(title)}</summary>\n{shown[at]}\n</details>"
        return "\n".join(shown)

    @property
    def plain(self) -> str:
        """The parts in text. None is drawn for it, as its HTML would be."""
        return "\n\n".join(part.plain for part in self.parts)


def not_yet_run(name: str, command: str) -> Note:
    """Return what stands in place of a figure or table whose runs are not stored."""
    takes = "for as many hours as the table of experiments says"
    return Note("Not yet run", f"{name}: some runs are not stored. To run them, {takes}:", command)


def _image(piece: pieces.Piece, alt: str) -> str:
    # On a narrow page it scrolls before its text gets too small to read.
    style = f"max-width: 100%; min-width: {piece.pixels(SMALLEST):.0f}px; height: auto"
    source = _data_uri("image/svg+xml", piece.svg)
    return f'<img src="{source}" alt="{escape(alt)}" style="{style}">'


def _beside(piece: pieces.Piece, share: float, alt: str) -> str:
    """Show a piece beside others where there is room; with numbers else alone, its axis left."""
    images = []
    for part, said in ((piece.axis, "the same axis"), (piece, alt)):
        if part is not None:
            source = _data_uri("image/svg+xml", part.svg)
            style = (
                f"flex: {part.width:.3f} 1 0; min-width: 0; height: auto; align-self: flex-start"
            )
            hidden = "" if part is piece else ' class="axis" hidden'
            images.append(f'<img{hidden} src="{source}" alt="{escape(said)}" style="{style}">')
    kind = ' class="numbered"' if piece.numbered else ""
    least = 75 * piece.width if piece.numbered else piece.pixels(SMALLEST)
    narrowest = f"min(100%, {least:.0f}px)"
    style = f"display: flex; width: max({99.9 * share:.2f}%, {narrowest})"
    return f'<div{kind} style="{style}">{"".join(images)}</div>'


def _natural(entry: pieces.Piece) -> str:
    """Show an entry of a legend in its own size, on any page."""
    source, style = _data_uri("image/svg+xml", entry.svg), "max-width: 100%; height: auto"
    return f'<img src="{source}" alt="{escape(entry.title)}" style="{style}">'


def _flow(kind: str, shown: list[str], width: float) -> str:
    """Show parts side by side, as many as there is room for, no wider than so many inches."""
    row = "display: flex; flex-wrap: wrap; justify-content: center"
    style = f"{row}; max-width: {96 * width:.0f}px"
    return "\n".join([f'<div class="{kind}" style="{style}">', *shown, "</div>"])


def _data_uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def fields(form: str) -> list[str]:
    """Return the names of the columns in a template."""
    return [name for _, name, _, _ in Formatter().parse(form) if name is not None]


def _merge(form: str, cells: dict[str, str]) -> str:
    """Return cells as one, without what is missing: a range in brackets, or one of a list."""
    if set(cells.values()) == {MISSING}:
        return MISSING
    return re.sub(rf" \({MISSING}[^)]*{MISSING}\)|, {MISSING}", "", form.format_map(cells))


def _row(cells: list[str], aligned: list[str]) -> str:
    first, *others = [f"{style}>{escape(cell)}" for cell, style in zip(cells, aligned, strict=True)]
    rest = "".join(f"<td{cell}</td>" for cell in others)
    return f'<tr><th scope="row"{first}</th>{rest}</tr>'
