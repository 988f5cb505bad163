"""The two papers whose sensitivity is not proven: what their ε comes to with one that is."""

from __future__ import annotations

import math

import pandas as pd

from dpstudy.lab import wording
from dpstudy.page.figure import STYLES, Figure, Table, canvas
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.sampling import steps_per_epoch
from dpstudy.privacy.conversions import zcdp_epsilon
from under_the_clip.accounting.curves import AT_DELTA, Resolution, spent
from under_the_clip.backpropagation_clipping.published import (
    BACKPROPAGATION_CLIPPING,
    CORRECTED_CLIPPING,
    CorrectedClipping,
)
from under_the_clip.published import DELTA, MNIST_PARAMETERS
from under_the_clip.tanh_filter.published import TANH_FILTER, TanhFilter

# The tanh filter's paper states no epochs. Its other settings are those of TensorFlow Privacy's
# MNIST tutorial of 2019, which trains for 60.
TANH_FILTER_EPOCHS = 60


def tanh_filter_figure(drawn: Resolution) -> Figure:
    """Draw the tanh filter's epsilon against the number of parameters its sensitivity grows by."""
    setting = TANH_FILTER[0]
    data = _tanh_frame(setting, drawn.parameters)
    with canvas(size=(6.4, 4.0)) as (fig, [ax]):
        for style, (epochs, curve) in zip(STYLES, data.groupby("epochs"), strict=False):
            label = f"{epochs} epoch{'s' if epochs > 1 else ''}"
            ax.plot(curve["parameters"], curve["epsilon"], label=label, **style.line)
        ax.axvline(MNIST_PARAMETERS, color="0.35", linewidth=1)
        ax.annotate(
            f"n = {MNIST_PARAMETERS:,}",
            (MNIST_PARAMETERS, data["epsilon"].min()),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
        )
        ax.set(xscale="log", yscale="log", ylabel=f"ε at {AT_DELTA} (PLD)")
        ax.set_xlabel("number of parameters n; the proven sensitivity is √n")
        ax.legend()
    claimed, proven = (tanh_epsilon(setting, n, TANH_FILTER_EPOCHS) for n in (1, MNIST_PARAMETERS))
    return Figure(
        name="tanh-filter-epsilon",
        fig=fig,
        alt=(
            "Epsilon against the number of parameters, both on logarithmic axes: two curves, for "
            f"1 and {TANH_FILTER_EPOCHS} epochs, rise steeply throughout. On the upper one "
            f"epsilon is {wording.epsilon(claimed)} for n = 1 and {wording.epsilon(proven)} for "
            f"n = {MNIST_PARAMETERS:,}."
        ),
        caption=(
            f"The tanh filter on MNIST (σ = {setting.noise_std}, batch {setting.batch}): the ε of "
            "the proven sensitivity √n, by PLD under Poisson sampling. n = 1 is what the paper "
            "accounts for."
        ),
        data=data,
    )


def backpropagation_table() -> Table:
    """Tabulate backpropagation clipping as published: claimed and proven, step by step."""
    rows = [
        {
            "Data set": DATASETS[setting.dataset],
            "Claimed Δ": setting.claimed_sensitivity,
            "Proven Δ": setting.proven_sensitivity,
            "Claimed σ": setting.claimed_noise_multiplier,
            "Proven σ": setting.proven_noise_multiplier,
            "Claimed ρ": setting.claimed_rho,
            "Proven ρ": setting.proven_rho,
            "Claimed ε": setting.claimed_epsilon,
            "Proven ε": zcdp_epsilon(setting.proven_rho, DELTA),
        }
        for setting in BACKPROPAGATION_CLIPPING
    ]
    data = pd.DataFrame(rows)
    return Table(
        name="backpropagation-clipping-epsilon",
        caption=(
            "Backpropagation clipping as published, batch "
            f"{BACKPROPAGATION_CLIPPING[0].batch:,}, at {AT_DELTA}. Δ: what one example adds to "
            "one layer's gradient; σ: the noise over Δ; ρ: zCDP of the whole run. Claimed: as the "
            "code had it. The paper's text has Δ = 0.01 for MNIST (Section 8)."
        ),
        data=data,
        formats={
            **dict.fromkeys((name for name in data if "Δ" in name), "{:.2g}"),
            **dict.fromkeys((name for name in data if "σ" in name), "{:.3g}"),
            "Claimed ρ": "{:.2g}",
            "Proven ρ": wording.epsilon,
            **dict.fromkeys((name for name in data if "ε" in name), wording.epsilon),
        },
    )


PROVEN = ("Proven ε, constant divisor", "Proven ε, as it is")


def corrected_table() -> Table:
    """Tabulate the authors' corrected code: the epsilon it aims at and the one that is proven."""
    code = CORRECTED_CLIPPING[0]
    data = pd.DataFrame([_corrected_row(setting) for setting in CORRECTED_CLIPPING])
    return Table(
        name="corrected-clipping-epsilon",
        caption=(
            f"The corrected code on MNIST: batch {code.batch}, {code.epochs} epochs, {code.layers} "
            f"layers, at {AT_DELTA}. Layers apart: PLD as if each layer drew its own batch. "
            "Proven: PLD with one batch for all layers; with a constant divisor, as this book runs "
            "it, and with that of the code, the size of the drawn batch."
        ),
        data=data,
        formats={
            "Accuracy": "{:.0%}",
            "σ a layer": "{:.3f}",
            "σ of a step": "{:.3f}",
            **dict.fromkeys(("Target ε", "ε, layers apart", *PROVEN), "{:.3g}"),
        },
    )


def tanh_epsilon(setting: TanhFilter, parameters: int, epochs: int) -> float:
    """Return the epsilon that follows from the proven sensitivity, for a number of parameters."""
    steps = epochs * steps_per_epoch(setting.examples, setting.batch)
    return spent(setting.sampling_probability, setting.noise_multiplier(parameters), steps)


def _tanh_frame(setting: TanhFilter, counts: tuple[int, ...]) -> pd.DataFrame:
    rows = [
        {
            "epochs": epochs,
            "parameters": n,
            "sensitivity": math.sqrt(n),
            "noise multiplier": setting.noise_multiplier(n),
            "epsilon": tanh_epsilon(setting, n, epochs),
        }
        for n in counts
        for epochs in (1, TANH_FILTER_EPOCHS)
    ]
    return pd.DataFrame(rows)


def _corrected_row(setting: CorrectedClipping) -> dict[str, object]:
    return {
        "Target ε": setting.target_epsilon,
        "Accuracy": setting.accuracy,
        "σ a layer": setting.noise_multiplier,
        "ε, layers apart": spent(
            setting.sampling_probability, setting.noise_multiplier, setting.steps * setting.layers
        ),
        "σ of a step": setting.joint_noise_multiplier,
        **dict(zip(PROVEN, map(setting.epsilon, (1.0, 2.0)), strict=True)),
    }
