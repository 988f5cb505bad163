"""Functions of one number, drawn over a range of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpstudy.page.figure import STYLES, Figure, canvas, legend_below


def functions(
    x: np.ndarray,
    drawn: Mapping[str, Callable[[np.ndarray], ArrayLike]],
    *,
    name: str,
    caption: str,
    alt: str,
    **axes: object,
) -> Figure:
    """Draw functions, a curve each.

    Args:
        x: where they are computed.
        drawn: by name.
        name: of the figure.
        caption: of the figure.
        alt: its text alternative.
        **axes: labels and limits, as for `Axes.set`.
    """
    data = pd.DataFrame({"x": x, **{of: np.asarray(function(x)) for of, function in drawn.items()}})
    with canvas(size=(6.4, 3.4)) as (figure, (panel,)):
        for style, of in zip(cycle(STYLES), drawn, strict=False):
            panel.plot(x, data[of], **style.line, markevery=len(x) // 8, label=of)
        panel.set(**axes)
        legend_below(figure)
    return Figure(fig=figure, name=name, caption=caption, alt=alt, data=data)
