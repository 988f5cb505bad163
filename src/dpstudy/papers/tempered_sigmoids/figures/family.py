"""The tempered sigmoid family, drawn from its formula (Figure 1)."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pandas as pd

from dpstudy.page.figure import STYLES, Figure, canvas
from dpstudy.parts.activation import TANH, Relu, Tempered

# Representative members: tanh, then each of s, T and o moved by itself.
FAMILY = ((2.0, 2.0, 1.0), (1.0, 2.0, 1.0), (2.0, 0.5, 1.0), (2.0, 8.0, 1.0), (2.0, 2.0, 0.0))


def family(members: tuple[tuple[float, float, float], ...] = FAMILY) -> Figure:
    """Draw members (s, T, o) of the tempered sigmoid family, with relu (Figure 1, Eq. 3)."""
    x = np.linspace(-4, 4, 161, dtype=np.float32)
    lines = {f"s={s:g}, T={t:g}, o={o:g}": Tempered(s, t, o)(x) for s, t, o in members}
    lines["relu"] = Relu()(x)
    data = pd.DataFrame({"x": x, **{name: np.asarray(y) for name, y in lines.items()}})
    with canvas(size=(6.4, 3.6)) as (figure, (axes,)):
        for style, name in zip(cycle(STYLES), lines, strict=False):
            axes.plot(x, data[name], **style.line, markevery=20, label=name)
        bounds = [bound for s, _, o in members for bound in (-o, s - o)]
        limits = min(bounds) - 0.3, max(bounds) + 0.3
        axes.set(xlabel="pre-activation x", ylabel="activation", ylim=limits)
        axes.legend(loc="upper left", fontsize="small")
    return Figure(
        fig=figure,
        name="tempered-sigmoid-family",
        caption="Members of the tempered sigmoid family s/(1 + exp(-T x)) - o, and relu.",
        alt=(
            f"Curves of {len(members)} tempered sigmoids and relu from x = -4 to 4. (s, T, o) = "
            f"{', '.join(f'({s:g}, {t:g}, {o:g})' for s, t, o in members)}. Every tempered sigmoid "
            "stays between -o and s - o, and nears both the faster the larger T; relu grows "
            "without bound."
        ),
        data=data,
    )


def distance_from_tanh() -> float:
    """Return the largest |(2, 2, 1) member - tanh| on a fine grid of float32 numbers."""
    x = np.linspace(-20, 20, 100_001, dtype=np.float32)
    return float(np.max(np.abs(np.asarray(TANH(x)) - np.tanh(x))))
