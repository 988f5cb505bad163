"""A figure in pieces: its columns, side by side on a wide page, and the entries of its legend.

Together the pieces are the figure. A narrow page stacks columns with numbers, and breaks a legend
between its entries, so that no text gets too small to read. A column that takes its numbers from
the first one's vertical axis has a picture of that beside it, which only a narrow page shows.
"""

import io
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

MOST = 5  # more columns are pictures in a grid


@dataclass(frozen=True)
class Piece:
    """A part of a figure as SVG, its width in inches, and what it shows.

    `smallest` is the size of its figure's smallest letters in points, infinite where it has none.
    """

    svg: bytes
    width: float
    title: str
    axis: "Piece | None" = None  # of the first column, where it has none of its own
    numbered: bool = False  # by a vertical axis, its own or that one
    smallest: float = math.inf

    def pixels(self, letters: float) -> float:
        """Return the pixels that it is wide where its smallest letters have so many."""
        return 72 * self.width * letters / self.smallest


def svg(figure: Figure) -> bytes:
    """Return a whole figure as SVG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    # `savefig` draws all of it once more, for the bounds that it need not cut.
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def pieces(figure: Figure) -> tuple[list[Piece], list[Piece]]:
    """Return a figure's columns, or all of what is one picture, and the entries of its legends."""
    columns = _columns(figure) or [figure.axes]
    figure.set_dpi(72)  # An SVG is in points.
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
    figure.set_layout_engine("none")  # Where all stands no longer hangs on what is shown.
    if figure.legends:
        svg(figure)  # It is then that they place their entries, as wide as they are there.
    boxes = [Bbox.union([axes.get_tightbbox() for axes in column]) for column in columns]
    between = [(one.x1 + other.x0) / 2 for one, other in pairwise(boxes)]
    width, height = figure.bbox.size
    foot = max((legend.get_window_extent().y1 for legend in figure.legends), default=0)
    first = columns[0]
    axis = Bbox([[0, foot], [min(axes.bbox.x0 for axes in first), height]])
    numbers = [part for axes in first for part in axes.get_children() if part is not axes.yaxis]
    texts = [text for axes in figure.axes for text in axes.findobj(Text) if text.get_text()]
    smallest, found = min((text.get_fontsize() for text in texts), default=math.inf), []
    for column, (left, right) in zip(columns, pairwise([0, *between, width]), strict=True):
        own, borrowed = any(_labels(column)), None
        if any(_labels(first)) and not own:
            borrowed = _cut(figure, axis, first, "the same axis", hidden=numbers)
        title = column[0].get_title() or "the same figure"
        piece = _cut(figure, Bbox([[left, foot], [right, height]]), column, title)
        numbered = own or borrowed is not None
        found.append(replace(piece, axis=borrowed, numbered=numbered, smallest=smallest))
    entries = [entry for legend in figure.legends for entry in _entries(figure, legend)]
    figure.set_layout_engine(layout)
    return found, entries


def _entries(figure: Figure, legend: Legend) -> list[Piece]:
    """Return each name of a legend with its mark."""
    parts, found = [*legend.get_texts(), *legend.legend_handles], []
    for name, mark in zip(legend.get_texts(), legend.legend_handles, strict=True):
        before = (legend.handlelength + legend.handletextpad) * name.get_fontsize() + 2
        left, bottom, right, top = name.get_window_extent().extents
        box = Bbox([[left - before, bottom - 2], [right + 2, top + 2]])
        others = [part for part in parts if part not in (name, mark)]
        found.append(_cut(figure, box, [legend], name.get_text(), hidden=others))
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
