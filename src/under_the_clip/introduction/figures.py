"""DP-SGD as arrows that are cut and blurred."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from dpstudy.page.figure import STYLES, Figure, canvas

NORM, NOISE = 1.0, 1.1  # of the picture: C, and σ
GRADIENTS = (
    *((2.2, 0.9), (0.5, 1.9), (-0.6, 0.5), (0.9, -0.4)),
    *((1.5, 1.4), (-1.6, 0.6), (0.3, 0.35), (0.8, -1.6)),
)
SPAN = np.array([-4.5, 4.5])


def arrows() -> Figure:
    """Draw a step of DP-SGD on eight examples: gradients, cut to a circle, summed and blurred."""
    draw = np.random.default_rng(1)
    gradients = np.array(GRADIENTS)
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    cut = gradients * np.minimum(1, NORM / norms)
    total = cut.sum(axis=0)
    noisy = total + NOISE * NORM * draw.normal(size=(400, 2))
    color = {name: STYLES[at].color for name, at in (("of each", 0), ("sum", 4), ("noise", 3))}
    titles = "a gradient per example", "cut to length C", "summed, and blurred"
    with canvas(1, 3, size=(7, 2.55)) as (figure, panels):
        for axes, title in zip(panels, titles, strict=True):
            axes.set_title(title, fontsize="medium")
            axes.set(aspect="equal", xticks=[], yticks=[])
        for axes, drawn in zip(panels, (gradients, cut), strict=False):
            _draw_arrows(axes, drawn, color["of each"])
            axes.add_patch(Circle((0, 0), NORM, fill=False, linestyle="--", color="0.3"))
            axes.set(xlim=(-2.1, 2.6), ylim=(-1.9, 2.33))
        panels[1].annotate("C", (NORM * 0.72, -NORM * 0.72), xytext=(4, -8), **_POINTS)
        panels[2].plot(*noisy.T, ".", color=color["noise"], markersize=3, alpha=0.5)
        _draw_arrows(panels[2], total[None], color["sum"])
        panels[2].annotate("what is released", total, xytext=(-40, -58), **_POINTS)
        panels[2].set(xlim=total[0] / 2 + SPAN, ylim=total[1] / 2 + SPAN * 0.9)
    return Figure(
        fig=figure,
        name="dp-sgd-arrows",
        caption="A step of DP-SGD, in two dimensions. No example moves the sum by more than C, and "
        "noise blurs it by about as much: whether one of them took part can hardly be told.",
        alt=f"Three panels. Eight arrows start at one point, {(norms > NORM).sum()} of them longer "
        "than a circle; in the second all end on the circle or within; in the third one arrow is "
        "their sum, and ends in a cloud of points as wide as the circle.",
        data=pd.DataFrame(np.hstack([gradients, cut]), columns=["x", "y", "x cut", "y cut"]),
    )


_POINTS = {"textcoords": "offset points", "fontsize": "small"}


def _draw_arrows(axes: Axes, ends: np.ndarray, color: str) -> None:
    for end in ends:
        how = {"arrowstyle": "-|>", "color": color, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", end, xytext=(0, 0), arrowprops=how)
