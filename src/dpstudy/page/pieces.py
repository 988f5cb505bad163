"""A figure of several columns in pieces: side by side on a wide page, stacked on a narrow one.

Together the pieces are the figure. A piece that takes its numbers from the first column's vertical
axis has a picture of that beside it, which only a narrow page shows.
"""

import io
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

MOST = 5  # more columns are pictures in a grid


@dataclass(frozen=True)
class Piece:
    """A part of a figure as SVG, its width in inches, and what it shows."""

    svg: bytes
    width: float
    title: str
    axis: "Piece | None" = None  # of the first column, where it has none of its own
    below: bool = False  # under all columns, as wide as these


def svg(figure: Figure) -> bytes:
    """Return a whole figure as SVG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    # `savefig` draws all of it once more, for the bounds that it need not cut.
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def pieces(figure: Figure) -> list[Piece]:
    """Return a figure's columns, and its legend; nothing where it is one picture."""
    columns = _columns(figure)
    if not columns:
        return []
    figure.set_dpi(72)  # An SVG is in points.
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
    figure.set_layout_engine("none")  # Where all stands no longer hangs on what is shown.
    boxes = [Bbox.union([axes.get_tightbbox() for axes in column]) for column in columns]
    between = [(one.x1 + other.x0) / 2 for one, other in pairwise(boxes)]
    width, height = figure.bbox.size
    foot = max((legend.get_window_extent().y1 for legend in figure.legends), default=0)
    first = columns[0]
    axis = Bbox([[0, foot], [min(axes.bbox.x0 for axes in first), height]])
    numbers = [part for axes in first for part in axes.get_children() if part is not axes.yaxis]
    found = []
    for column, (left, right) in zip(columns, pairwise([0, *between, width]), strict=True):
        borrowed = None
        if any(_labels(first)) and not any(_labels(column)):
            borrowed = _cut(figure, axis, first, "the same axis", hidden=numbers)
        title = column[0].get_title() or "the same figure"
        piece = _cut(figure, Bbox([[left, foot], [right, height]]), column, title)
        found.append(replace(piece, axis=borrowed))
    if figure.legends:
        legend = _cut(figure, Bbox([[0, 0], [width, foot]]), figure.legends, "legend")
        found.append(replace(legend, below=True))
    figure.set_layout_engine(layout)
    return found


def _columns(figure: Figure) -> list[list[Axes]]:
    """Return the axes by column; none where they are no such grid, or something spans them."""
    columns = defaultdict(list)
    for axes in figure.axes:
        place = axes.get_subplotspec()
        if place is None or len(place.colspan) > 1:
            return []
        columns[place.colspan.start].append(axes)
    own = {figure.patch, *figure.axes, *figure.legends}
    several = 1 < len(columns) <= MOST and own.issuperset(figure.get_children())
    return [columns[at] for at in sorted(columns)] if several else []


def _labels(column: Iterable[Axes]) -> list[str]:
    axes = [one.yaxis for one in column if one.yaxis.get_visible()]
    drawn = [axis for axis in axes if axis.get_tick_params().get("labelleft", True)]
    return [one.get_text() for axis in drawn for one in axis.get_ticklabels() if one.get_visible()]


def _cut(
    figure: Figure, box: Bbox, shown: Iterable[Artist], title: str, hidden: Iterable[Artist] = ()
) -> Piece:
    """Return what lies in a box, in points, of some of a figure's parts alone."""
    others = [part for part in (*figure.axes, *figure.legends) if part not in shown]
    off = [part for part in (*others, *hidden) if part.get_visible()]
    for part in off:
        part.set_visible(False)
    whole = svg(figure)
    for part in off:
        part.set_visible(True)
    width, height = box.size
    size = f'width="{width:g}pt" height="{height:g}pt"'
    size += f' viewBox="{box.x0:g} {figure.bbox.height - box.y1:g} {width:g} {height:g}"'
    cut = re.sub(rb'width="\S+pt" height="\S+pt" viewBox="[^"]+"', size.encode(), whole, count=1)
    return Piece(cut, width / 72, title)
