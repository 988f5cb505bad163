"""Chapter 1: what the four papers' settings cost, by their own accounting and by today's."""

import math
from functools import cache
from typing import NamedTuple

import pandas as pd

from dpstudy.errors import check_known
from dpstudy.lab import wording
from dpstudy.page.figure import STYLES, Figure, Table, canvas
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.sampling import steps_per_epoch
from dpstudy.privacy.accounting import epsilon, epsilon_curve, noise_multiplier_for
from dpstudy.privacy.conversions import gdp_epsilon, zcdp_epsilon
from dpstudy.privacy.shuffling import least_epsilon_curve
from under_the_clip.backpropagation_clipping.published import (
    BACKPROPAGATION_CLIPPING,
    CORRECTED_CLIPPING,
    BackpropagationClipping,
)
from under_the_clip.losing_less.published import END_TO_END, SCATTERNET
from under_the_clip.published import DELTA, MNIST_PARAMETERS, Configuration
from under_the_clip.tanh_filter.published import TANH_FILTER, TanhFilter

NAMES = {"rdp-2019": "RDP 2019", "rdp": "RDP", "pld": "PLD"}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
AT_DELTA = "δ = 10" + f"{math.log10(DELTA):.0f}".translate(_SUPERSCRIPTS)


class Resolution(NamedTuple):
    """How finely a profile draws this chapter; the numbers do not depend on it."""

    stride: int  # epochs between two points of a curve
    parameters: tuple[int, ...]  # at which the tanh filter is accounted for
    calibrated: tuple[Configuration, ...]


_ALL = END_TO_END + SCATTERNET
PROFILES = {
    "stored": Resolution(2, (1, 10, 100, 1_000, 10_000, MNIST_PARAMETERS), END_TO_END),
    "smoke": Resolution(10, (1, 1_000, MNIST_PARAMETERS), END_TO_END[:1]),
    "full": Resolution(1, (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, MNIST_PARAMETERS), _ALL),
}

# What the papers quote, and what noise is calibrated to.
TARGET = 3.0
# Curves go on past the end of the papers' runs, to where the PLD accountant reaches TARGET.
_CURVE_LENGTH = 1.75


def resolution(profile: str) -> Resolution:
    """Return how finely a profile draws this chapter, or raise UserError that names them all."""
    check_known("profile", profile, PROFILES)
    return PROFILES[profile]


def spent(q: float, sigma: float, steps: int, accountant: str = "pld") -> float:
    """Return the ε of a sampled Gaussian at the papers' δ."""
    run = {"sampling_probability": q, "noise_multiplier": sigma, "steps": steps}
    return epsilon(**run, delta=DELTA, accountant=accountant)


def curves_figure(drawn: Resolution) -> Figure:
    """Draw epsilon over epochs for the end-to-end settings of losing less, by each accountant."""
    frames, ends = [_curve_frame(setting, drawn.stride) for setting in END_TO_END], []
    with canvas(1, 3, size=(8.4, 3.4), sharey=True) as (fig, axes):
        for ax, setting, frame in zip(axes, END_TO_END, frames, strict=True):
            for style, (accountant, name) in zip(STYLES, NAMES.items(), strict=False):
                curve = frame[frame["accountant"] == accountant]
                every = max(1, len(curve) // 7)
                ax.plot(curve["epoch"], curve["epsilon"], label=name, markevery=every, **style.line)
            ax.axhline(setting.claimed_epsilon, color="0.35", linewidth=1)
            ax.axvline(setting.epochs, color="0.35", linewidth=1)
            ax.set(title=DATASETS[setting.dataset], xlabel="epochs", xlim=(0, None), ylim=(0, None))
            last = frame[frame["epoch"] == setting.epochs].set_index("accountant")["epsilon"]
            at_end = ", ".join(f"{last[one]:.2f} ({name})" for one, name in NAMES.items())
            ends.append(f"{DATASETS[setting.dataset]} {at_end}")
        small = {"fontsize": "small", "color": "0.2", "textcoords": "offset points"}
        level, last = END_TO_END[0].claimed_epsilon, END_TO_END[0].epochs
        axes[0].annotate(f"ε = {level:g}, as quoted", (0, level), xytext=(5, 4), **small)
        axes[0].annotate("last epoch", (last, 0), xytext=(5, 6), **small)
        axes[0].set_ylabel(f"ε at {AT_DELTA}")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=3)
    return Figure(
        name="epsilon-over-epochs",
        fig=fig,
        alt=(
            "Three panels of epsilon against epochs, one a data set, each with three rising, "
            "flattening curves: RDP 2019 highest, then RDP, then PLD. At the papers' last epoch "
            f"they stand at: {'; '.join(ends)}."
        ),
        caption=(
            "ε over epochs for the end-to-end settings of losing less (Table 5), under Poisson "
            "sampling. The lines mark the papers' last epoch and the ε = 3 that they quote."
        ),
        data=pd.concat(frames, ignore_index=True),
    )


def calibration_table(drawn: Resolution) -> Table:
    """Tabulate the noise that costs exactly epsilon = 3, next to the paper's."""
    rows = []
    for setting in drawn.calibrated:
        run = {"sampling_probability": setting.sampling_probability, "steps": setting.steps}
        noise = {
            name: noise_multiplier_for(TARGET, **run, delta=DELTA, accountant=accountant)
            for accountant, name in NAMES.items()
        }
        rows.append(
            {
                "Data set": DATASETS[setting.dataset] + _features(setting),
                "Paper's σ": setting.noise_multiplier,
                **{f"σ, {name}": sigma for name, sigma in noise.items()},
                "Less noise": 1 - noise["PLD"] / setting.noise_multiplier,
                "Paper's epochs": setting.epochs,
                "Epochs within 3": _affordable_epochs(setting, drawn.stride),
            }
        )
    return Table(
        name="noise-for-epsilon-3",
        caption=(
            f"The noise multiplier σ for ε = {TARGET:g} at {AT_DELTA} under Poisson sampling: the "
            "paper's, and the least that each accountant certifies. Last column: the epochs that "
            f"the paper's σ affords before PLD passes {TARGET:g}."
        ),
        data=pd.DataFrame(rows),
        formats={"Less noise": "{:.1%}", "Paper's σ": "{:.2f}"}
        | {f"σ, {name}": "{:.3f}" for name in NAMES.values()},
    )


def _curve_frame(setting: Configuration, stride: int) -> pd.DataFrame:
    length = math.ceil(_CURVE_LENGTH * setting.epochs)
    # The papers' last epoch is always a point.
    epochs = sorted({*range(stride, length + 1, stride), setting.epochs})
    steps = [epoch * steps_per_epoch(setting.examples, setting.batch) for epoch in epochs]
    q, sigma = setting.sampling_probability, setting.noise_multiplier
    run = {"sampling_probability": q, "noise_multiplier": sigma, "steps": steps, "delta": DELTA}
    frames = []
    for accountant in NAMES:
        columns = {"dataset": setting.dataset, "accountant": accountant, "epoch": epochs}
        curve = epsilon_curve(**run, accountant=accountant)
        frames.append(pd.DataFrame(columns | {"steps": steps, "epsilon": curve}))
    return pd.concat(frames, ignore_index=True)


def _features(setting: Configuration) -> str:
    return "" if setting.network == "end-to-end" else f", {setting.network}"


def _affordable_epochs(setting: Configuration, stride: int) -> int:
    """Return the last epoch at which the PLD is within TARGET: from the curve, then bisection."""
    curve = _curve_frame(setting, stride).query("accountant == 'pld'")
    within = int(curve.query("epsilon <= @TARGET")["epoch"].max())
    beyond = int(curve.query("epsilon > @TARGET")["epoch"].min())
    while beyond - within > 1:
        middle = (within + beyond) // 2
        steps = middle * steps_per_epoch(setting.examples, setting.batch)
        enough = spent(setting.sampling_probability, setting.noise_multiplier, steps) <= TARGET
        within, beyond = (middle, beyond) if enough else (within, middle)
    return within


# --- the price of the four papers' settings: claimed, recomputed, with a proven sensitivity -------

PROVEN = ("Proven, Poisson", "At least, shuffled", "Proven, shuffled")
# The tanh filter's paper states no epochs. Its other settings are those of TensorFlow Privacy's
# MNIST tutorial of 2019, which trains for 60.
TANH_FILTER_EPOCHS = 60


@cache
def cost_rows() -> pd.DataFrame:
    """Return one row a setting of the three papers that state their noise."""
    clipped = map(_backpropagation_row, BACKPROPAGATION_CLIPPING)
    return pd.DataFrame([*map(_setting_row, _ALL), *clipped, *map(_tanh_row, TANH_FILTER)])


def in_short() -> Figure:
    """Draw the epsilon that is claimed beside those that are proven, by paper and data set."""
    rows = cost_rows()
    ours = rows[~rows["Data set"].str.contains("ScatterNet") & rows["Proven, Poisson"].notna()]
    corrected = CORRECTED_CLIPPING[0]
    mended = {
        "Paper": "the same, corrected code",
        "Data set": DATASETS[corrected.dataset],
        "Claimed ε": corrected.target_epsilon,
        "Proven, Poisson": corrected.epsilon(),
    }
    columns = ["Paper", "Data set", "Claimed ε", "PLD", *PROVEN]
    known = ours[columns].to_dict("records")
    after = max(at for at, row in enumerate(known) if row["Paper"] == "backprop clipping") + 1
    data = pd.DataFrame([*known[:after], mended, *known[after:]], columns=columns)
    # The tanh filter states no ε; by the sensitivity that it claims its settings give PLD's.
    data["Claimed ε"] = data["Claimed ε"].fillna(data.pop("PLD"))
    at = -data.index
    with canvas(size=(7.2, 2.9)) as (figure, [axes]):
        shuffled = data["At least, shuffled"].fillna(data["Proven, shuffled"])
        axes.hlines(at, shuffled, data["Proven, shuffled"], color=STYLES[1].color, linewidth=5)
        for name, style, label in (
            ("Claimed ε", STYLES[2], "claimed"),
            ("Proven, Poisson", STYLES[0], "proven, Poisson sampling"),
            ("Proven, shuffled", STYLES[1], "shuffled: at least, to proven"),
        ):
            mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(data[name], at, label=label, **mark)
        axes.set(xscale="log", xlabel=f"ε at {AT_DELTA}, logarithmic")
        axes.set_yticks(at, data["Paper"] + ", " + data["Data set"])
        axes.legend(fontsize="small", loc="upper right")
    said = "; ".join(
        f"{row[0]}, {row[1]}: " + ", ".join(map(wording.epsilon, row[2:4]))
        for row in data.itertuples(index=False)
    )
    return Figure(
        fig=figure,
        name="accounting-in-short",
        caption=(
            "What is claimed and what is proven for the same run. The tanh filter states no ε; its "
            "triangle is what PLD gives for the sensitivity that it claims. The corrected code is "
            f"shown with a constant divisor; as it is, {corrected.epsilon(2.0):.0f} is proven."
        ),
        alt=f"ε claimed, and proven for Poisson sampling. {said}.",
        data=data,
    )


def cost_table() -> Table:
    """Tabulate the epsilon of the four papers' settings: claimed, recomputed, and proven."""
    rows = cost_rows()
    numbers = list(rows.columns[2:])
    epsilons = numbers[numbers.index("Claimed ε") :]
    return Table(
        name="cost-of-the-settings",
        caption=(
            f"ε at {AT_DELTA}. RDP 2019 and PLD take sampling and sensitivity as the paper does; "
            "σ is over the sensitivity that it claims; for backpropagation clipping it is that of "
            "a whole epoch, all layers together. At least, shuffled: of backpropagation clipping "
            "and the tanh filter it may be far more, since at most about 24 an epoch can be shown. "
            "A dash: not published, or not computable from what is."
        ),
        data=rows.astype(dict.fromkeys(numbers, float)),
        formats={
            "q": "{:.4f}",
            "σ": "{:.3g}",
            "Steps": "{:.0f}",
            **dict.fromkeys(epsilons, wording.epsilon),
            "At least, shuffled": wording.rounded_down,
        },
    )


def _row(
    setting: Configuration | BackpropagationClipping | TanhFilter,
    *,
    paper: str,
    features: str = "",
    q: float,
    sigma: float,
    epochs: int,
    steps: int,
    proven: float | None,
    accountants: tuple[str, ...] = ("rdp-2019", "pld"),
) -> dict[str, object]:
    """Return a row of `cost_rows`: `q`, `sigma` and `steps` as the paper accounts for them.

    `proven` is the noise over the proven sensitivity, or None where that is not computable.
    """
    bounds: tuple[float | None, ...] = (None, None, None)
    if proven is not None:
        data = {"examples": setting.examples, "batch": setting.batch}
        sampled = spent(setting.batch / setting.examples, proven, epochs * steps_per_epoch(**data))
        [least] = least_epsilon_curve(**data, noise_multiplier=proven, epochs=[epochs], delta=DELTA)
        bounds = sampled, least, gdp_epsilon(math.sqrt(epochs) / proven, DELTA)
    return {
        "Paper": paper,
        "Data set": DATASETS[setting.dataset] + features,
        "q": q,
        "σ": sigma,
        "Steps": steps,
        "Claimed ε": setting.claimed_epsilon,
        "RDP 2019": None,
        **{NAMES[name]: spent(q, sigma, steps, name) for name in accountants},
        **dict(zip(PROVEN, bounds, strict=True)),
    }


def _setting_row(setting: Configuration) -> dict[str, object]:
    return _row(
        setting,
        paper=setting.paper,
        features=_features(setting),
        q=setting.sampling_probability,
        sigma=setting.noise_multiplier,
        epochs=setting.epochs,
        steps=setting.steps,
        proven=setting.noise_multiplier,
    )


def _backpropagation_row(setting: BackpropagationClipping) -> dict[str, object]:
    """One row a run: an example enters one batch an epoch, so an epoch is one unsampled step."""
    together = math.sqrt(setting.layers)
    return _row(
        setting,
        paper="backprop clipping",
        q=1.0,
        sigma=setting.claimed_noise_multiplier / together,
        epochs=setting.epochs,
        steps=setting.epochs,
        proven=setting.proven_noise_multiplier / together,
        accountants=("pld",),  # the paper itself converts from zCDP
    )


def _tanh_row(setting: TanhFilter) -> dict[str, object]:
    known = setting.dataset == "mnist"
    return _row(
        setting,
        paper="tanh filter",
        q=setting.sampling_probability,
        sigma=setting.noise_std / setting.claimed_sensitivity,
        epochs=TANH_FILTER_EPOCHS,
        steps=TANH_FILTER_EPOCHS * steps_per_epoch(setting.examples, setting.batch),
        proven=setting.noise_multiplier(MNIST_PARAMETERS) if known else None,
    )


def tanh_filter_figure(drawn: Resolution) -> Figure:
    """Draw the tanh filter's epsilon against the number of parameters its sensitivity grows by."""
    setting = TANH_FILTER[0]
    data = pd.DataFrame(
        {
            "epochs": epochs,
            "parameters": n,
            "sensitivity": math.sqrt(n),
            "noise multiplier": setting.noise_multiplier(n),
            "epsilon": tanh_epsilon(setting, n, epochs),
        }
        for n in drawn.parameters
        for epochs in (1, TANH_FILTER_EPOCHS)
    )
    with canvas(size=(6.4, 4.0)) as (fig, [ax]):
        for style, (epochs, curve) in zip(STYLES, data.groupby("epochs"), strict=False):
            label = f"{epochs} epoch{'s' if epochs > 1 else ''}"
            ax.plot(curve["parameters"], curve["epsilon"], label=label, **style.line)
        ax.axvline(MNIST_PARAMETERS, color="0.35", linewidth=1)
        place = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right"}
        at = MNIST_PARAMETERS, data["epsilon"].min()
        ax.annotate(f"n = {MNIST_PARAMETERS:,}", at, **place)
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
    delta, sigma, epsilon = ([name for name in data if sign in name] for sign in "Δσε")
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
            **dict.fromkeys([*delta, "Claimed ρ"], "{:.2g}"),
            **dict.fromkeys(sigma, "{:.3g}"),
            **dict.fromkeys([*epsilon, "Proven ρ"], wording.epsilon),
        },
    )


CORRECTED = ("Proven ε, constant divisor", "Proven ε, as it is")


def corrected_table() -> Table:
    """Tabulate the authors' corrected code: the epsilon it aims at and the one that is proven."""
    code = CORRECTED_CLIPPING[0]
    rows = [
        {
            "Target ε": one.target_epsilon,
            "Accuracy": one.accuracy,
            "σ a layer": one.noise_multiplier,
            "ε, layers apart": spent(
                one.sampling_probability, one.noise_multiplier, one.steps * one.layers
            ),
            "σ of a step": one.joint_noise_multiplier,
            **dict(zip(CORRECTED, map(one.epsilon, (1.0, 2.0)), strict=True)),
        }
        for one in CORRECTED_CLIPPING
    ]
    return Table(
        name="corrected-clipping-epsilon",
        caption=(
            f"The corrected code on MNIST: batch {code.batch}, {code.epochs} epochs, {code.layers} "
            f"layers, at {AT_DELTA}. Layers apart: PLD as if each layer drew its own batch. "
            "Proven: PLD with one batch for all layers; with a constant divisor, as this book runs "
            "it, and with that of the code, the size of the drawn batch."
        ),
        data=pd.DataFrame(rows),
        formats={
            "Accuracy": "{:.0%}",
            **dict.fromkeys(("σ a layer", "σ of a step"), "{:.3f}"),
            **dict.fromkeys(("Target ε", "ε, layers apart", *CORRECTED), "{:.3g}"),
        },
    )


def tanh_epsilon(setting: TanhFilter, parameters: int, epochs: int) -> float:
    """Return the epsilon that follows from the proven sensitivity, for a number of parameters."""
    steps = epochs * steps_per_epoch(setting.examples, setting.batch)
    return spent(setting.sampling_probability, setting.noise_multiplier(parameters), steps)
