"""Chapter 1: what the four papers' settings cost, by their own accounting and by today's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from dpstudy.errors import UserError
from dpstudy.ledger.wording import rounded_down
from dpstudy.page.figure import STYLES, Figure, Table, canvas
from dpstudy.parts.dataset import DATASETS
from dpstudy.parts.sampling import steps_per_epoch
from dpstudy.privacy.accounting import (
    epsilon,
    epsilon_curve,
    gdp_epsilon,
    noise_multiplier_for,
    zcdp_epsilon,
)
from dpstudy.privacy.shuffling import least_epsilon_curve
from dpstudy.published import (
    BACKPROPAGATION_CLIPPING,
    CORRECTED_CLIPPING,
    DELTA,
    END_TO_END,
    MNIST_PARAMETERS,
    SCATTERNET,
    TANH_FILTER,
    TEMPERED_SIGMOID_CLAIMS,
    BackpropagationClipping,
    CorrectedClipping,
    Setting,
    TanhFilter,
)

NAMES = {"rdp-2019": "RDP 2019", "rdp": "RDP", "pld": "PLD"}

# What the papers quote, and what noise is calibrated to.
TARGET = 3.0
# The tanh filter's paper states no epochs. Its other settings are those of TensorFlow Privacy's
# MNIST tutorial of 2019, which trains for 60.
TANH_FILTER_EPOCHS = 60
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_AT_DELTA = "δ = 10" + f"{math.log10(DELTA):.0f}".translate(_SUPERSCRIPTS)
# Curves go on past the end of the papers' runs, to where the PLD accountant reaches TARGET.
_CURVE_LENGTH = 1.75


@dataclass(frozen=True)
class Resolution:
    """How finely a profile draws this chapter; the numbers do not depend on it.

    Attributes:
        stride: epochs between two points of a curve.
        parameters: numbers of parameters n at which the tanh filter is accounted for.
        calibrated: settings for which noise is calibrated.
    """

    stride: int
    parameters: tuple[int, ...]
    calibrated: tuple[Setting, ...]


PROFILES = {
    "stored": Resolution(2, (1, 10, 100, 1_000, 10_000, MNIST_PARAMETERS), END_TO_END),
    "smoke": Resolution(10, (1, 1_000, MNIST_PARAMETERS), END_TO_END[:1]),
    "full": Resolution(
        1,
        (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, MNIST_PARAMETERS),
        END_TO_END + SCATTERNET,
    ),
}


def resolution(profile: str) -> Resolution:
    """Return how finely a profile draws this chapter.

    Raises:
        UserError: there is no such profile; the message names those that exist.
    """
    if profile not in PROFILES:
        raise UserError(f"unknown profile {profile!r}; one of: {', '.join(PROFILES)}")
    return PROFILES[profile]


def show_epsilon(value: float) -> str:
    """Show an epsilon with two decimals, or with three significant digits from 100 on."""
    return f"{value:.2f}" if value < 99.995 else f"{float(f'{value:.3g}'):,.0f}"


def cost_table() -> Table:
    """Tabulate the epsilon of the four papers' settings: claimed, recomputed, and proven."""
    rows = [
        *map(_setting_row, END_TO_END + SCATTERNET),
        *map(_backpropagation_row, BACKPROPAGATION_CLIPPING),
        *map(_tanh_row, TANH_FILTER),
    ]
    columns = list(rows[0])
    claims = [
        dict.fromkeys(columns)
        | {"Paper": claim.paper, "Data set": DATASETS[claim.dataset], "Claimed ε": claim.epsilon}
        for claim in TEMPERED_SIGMOID_CLAIMS
    ]
    epsilons = columns[columns.index("Claimed ε") :]
    data = pd.DataFrame(claims + rows, columns=columns)
    return Table(
        name="cost-of-the-settings",
        caption=(
            f"ε at {_AT_DELTA}, for one example added or removed; shuffled, for one example "
            "blanked. At least, shuffled: what some gradients within the clip give away, where "
            "every noisy sum is seen. σ: noise over claimed sensitivity, of one step, or for "
            "backpropagation clipping of one epoch, all layers together. A dash: not published, "
            "not used by the paper, not computable from what it states, or not computed. The "
            "tanh filter's "
            f"{TANH_FILTER_EPOCHS} epochs and {MNIST_PARAMETERS:,} parameters are our choice: its "
            "paper states neither."
        ),
        data=data.astype({name: float for name in ("q", "σ", "Steps", *epsilons)}),
        formats={
            "q": "{:.4f}",
            "σ": "{:.3g}",
            "Steps": "{:.0f}",
            **dict.fromkeys(epsilons, show_epsilon),
            "At least, shuffled": rounded_down,
        },
    )


def curves_figure(drawn: Resolution) -> Figure:
    """Draw epsilon over epochs for the end-to-end settings of losing less, by each accountant."""
    frames = [_curve_frame(setting, drawn.stride) for setting in END_TO_END]
    with canvas(1, 3, size=(8.4, 3.4), sharey=True) as (fig, axes):
        for ax, setting, frame in zip(axes, END_TO_END, frames, strict=True):
            _draw_curves(ax, setting, frame)
        _label_lines(axes[0], END_TO_END[0])
        axes[0].set_ylabel(f"ε at {_AT_DELTA}")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=3)
    ends = "; ".join(
        f"{DATASETS[setting.dataset]} " + ", ".join(_ends(setting, frame))
        for setting, frame in zip(END_TO_END, frames, strict=True)
    )
    return Figure(
        name="epsilon-over-epochs",
        fig=fig,
        alt=(
            "Three panels of epsilon against epochs, one a data set, each with three rising, "
            "flattening curves: RDP 2019 highest, then RDP, then PLD. At the papers' last epoch "
            f"they stand at: {ends}."
        ),
        caption=(
            "ε over epochs for the end-to-end settings of losing less, Table 5, by three "
            "accountants, under Poisson sampling. Upright line: the papers' last epoch. Level "
            "line: the ε = 3 that they quote. Computed, not trained: no seeds, no device."
        ),
        data=pd.concat(frames, ignore_index=True),
    )


def calibration_table(drawn: Resolution) -> Table:
    """Tabulate the noise that costs exactly epsilon = 3, next to the paper's."""
    rows = [_calibration_row(setting, drawn.stride) for setting in drawn.calibrated]
    return Table(
        name="noise-for-epsilon-3",
        caption=(
            f"The noise multiplier σ for ε = {TARGET:g} at {_AT_DELTA} under Poisson sampling: "
            "the paper's (losing less, Table 5), and the least that each accountant certifies. "
            "Less noise: of the PLD's σ against the paper's. Last column: whole epochs that the "
            f"paper's σ affords before the PLD passes {TARGET:g}."
        ),
        data=pd.DataFrame(rows),
        formats={"Less noise": "{:.1%}", "Paper's σ": "{:.2f}"}
        | {f"σ, {name}": "{:.3f}" for name in NAMES.values()},
    )


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
        ax.set(xscale="log", yscale="log", ylabel=f"ε at {_AT_DELTA} (PLD)")
        ax.set_xlabel("number of parameters n; the proven sensitivity is √n")
        ax.legend()
    claimed, proven = (_tanh_epsilon(setting, n, TANH_FILTER_EPOCHS) for n in (1, MNIST_PARAMETERS))
    return Figure(
        name="tanh-filter-epsilon",
        fig=fig,
        alt=(
            "Epsilon against the number of parameters, both on logarithmic axes: two curves, for "
            f"1 and {TANH_FILTER_EPOCHS} epochs, rise steeply throughout. On the upper one "
            f"epsilon is {show_epsilon(claimed)} for n = 1 and {show_epsilon(proven)} for "
            f"n = {MNIST_PARAMETERS:,}."
        ),
        caption=(
            f"The tanh filter on MNIST (σ = {setting.noise_std}, batch {setting.batch}): the ε "
            "that follows from the proven sensitivity √n of n parameters, by PLD under Poisson "
            "sampling. n = 1 is what the paper accounts for. It states neither epochs nor network: "
            "both are our choice. Computed, not trained: no seeds, no device."
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
            "Proven ε": zcdp_epsilon(setting.proven_rho, setting.delta),
        }
        for setting in BACKPROPAGATION_CLIPPING
    ]
    data = pd.DataFrame(rows)
    return Table(
        name="backpropagation-clipping-epsilon",
        caption=(
            f"Backpropagation clipping as published (batch "
            f"{BACKPROPAGATION_CLIPPING[0].batch:,}), at {_AT_DELTA}. Δ: one "
            "example's greatest share in one layer's gradient. σ: noise on one layer's gradient, "
            "over Δ. ρ: zCDP of the whole run, composed as in the paper, batches in parallel, "
            "layers and epochs in sequence."
        ),
        data=data,
        formats={
            **dict.fromkeys((name for name in data if "Δ" in name), "{:.2g}"),
            **dict.fromkeys((name for name in data if "σ" in name), "{:.3g}"),
            "Claimed ρ": "{:.2g}",
            "Proven ρ": show_epsilon,
            **dict.fromkeys((name for name in data if "ε" in name), show_epsilon),
        },
    )


def corrected_table() -> Table:
    """Tabulate the authors' corrected code: the epsilon it aims at and the one that is proven."""
    code = CORRECTED_CLIPPING[0]
    data = pd.DataFrame([_corrected_row(setting) for setting in CORRECTED_CLIPPING])
    return Table(
        name="corrected-clipping-epsilon",
        caption=(
            "Backpropagation clipping in its authors' corrected code (MNIST, batch "
            f"{code.batch}, {code.epochs} epochs, {code.layers} layers, Poisson sampling), at "
            f"{_AT_DELTA}. Target: what the code calibrates the noise to, by a central limit over "
            "steps × layers. Layers apart: PLD, with the code's assumption that each layer draws "
            "its own batch. Proven: PLD with one batch for all layers, which is what runs. "
            "Accuracy: as the code's comments state it."
        ),
        data=data,
        formats={
            "Accuracy": "{:.0%}",
            "σ a layer": "{:.3f}",
            "σ of a step": "{:.3f}",
            **dict.fromkeys(("Target ε", "ε, layers apart", "Proven ε"), "{:.3g}"),
        },
    )


def settings_in_words() -> str:
    """State the chapter's main numbers for the end-to-end settings, one line a data set."""
    lines = [f"{'':<14}claimed  RDP 2019   RDP    PLD      σ   σ for ε = 3 by RDP"]
    for setting in END_TO_END:
        noise = noise_multiplier_for(
            TARGET,
            sampling_probability=setting.sampling_probability,
            steps=setting.steps,
            delta=setting.delta,
            accountant="rdp",
        )
        old, loose, tight = (_setting_epsilon(setting, accountant) for accountant in NAMES)
        lines.append(
            f"{DATASETS[setting.dataset]:<14}{setting.claimed_epsilon:>7.2f}{old:>10.2f}"
            f"{loose:>6.2f}{tight:>7.2f}{setting.noise_multiplier:>7.2f}{noise:>21.3f}"
        )
    return "\n".join(lines)


def broken_in_words() -> str:
    """State claimed and proven epsilon of the two papers whose sensitivity is not proven."""
    lines = [
        f"backpropagation clipping, {DATASETS[setting.dataset]}: "
        f"claimed {setting.claimed_epsilon:.2f}, "
        f"proven {show_epsilon(_unsampled_epsilon(setting.proven_rho))}"
        for setting in BACKPROPAGATION_CLIPPING
    ]
    lines += [
        f"backpropagation clipping, corrected code: target {setting.target_epsilon:.2f}, "
        f"proven {_corrected_epsilon(setting):.3g}"
        for setting in CORRECTED_CLIPPING
    ]
    claimed, proven = (
        show_epsilon(_tanh_epsilon(TANH_FILTER[0], n, TANH_FILTER_EPOCHS))
        for n in (1, MNIST_PARAMETERS)
    )
    lines.append(f"tanh filter, MNIST: by the claimed sensitivity {claimed}, proven {proven}")
    return "\n".join(lines)


def _unsampled_epsilon(rho: float) -> float:
    """Gaussians of total zCDP rho, no sampling: sqrt(2 rho)-GDP, converted exactly."""
    return gdp_epsilon(math.sqrt(2 * rho), DELTA)


def _setting_epsilon(setting: Setting, accountant: str) -> float:
    return epsilon(
        sampling_probability=setting.sampling_probability,
        noise_multiplier=setting.noise_multiplier,
        steps=setting.steps,
        delta=setting.delta,
        accountant=accountant,
    )


def _least_epsilon(setting: Setting) -> float:
    [least] = least_epsilon_curve(
        examples=setting.examples,
        batch=setting.batch,
        noise_multiplier=setting.noise_multiplier,
        epochs=[setting.epochs],
        delta=setting.delta,
    )
    return least


def _cost_row(
    *,
    paper: str,
    dataset: str,
    q: float,
    sigma: float,
    steps: int,
    claimed: float | None,
    poisson: float | None,
    at_most: float | None,
    at_least: float | None = None,
    accountants: tuple[str, ...] = tuple(NAMES),
) -> dict[str, object]:
    accounted = dict.fromkeys(NAMES.values()) | {
        NAMES[accountant]: epsilon(
            sampling_probability=q,
            noise_multiplier=sigma,
            steps=steps,
            delta=DELTA,
            accountant=accountant,
        )
        for accountant in accountants
    }
    row = {"Paper": paper, "Data set": dataset, "q": q, "σ": sigma, "Steps": steps}
    proven = {
        "Proven, Poisson": poisson,
        "At least, shuffled": at_least,
        "Proven, shuffled": at_most,
    }
    return row | {"Claimed ε": claimed} | accounted | proven


def _setting_row(setting: Setting) -> dict[str, object]:
    public = "" if setting.network == "end-to-end" else f", {setting.network}"
    return _cost_row(
        paper=setting.paper,
        dataset=DATASETS[setting.dataset] + public,
        q=setting.sampling_probability,
        sigma=setting.noise_multiplier,
        steps=setting.steps,
        claimed=setting.claimed_epsilon,
        poisson=_setting_epsilon(setting, "pld"),
        at_most=gdp_epsilon(math.sqrt(setting.epochs) / setting.noise_multiplier, DELTA),
        at_least=_least_epsilon(setting),
    )


def _backpropagation_row(setting: BackpropagationClipping) -> dict[str, object]:
    """One row a run: an example enters one batch an epoch, so an epoch is one unsampled step."""
    sigma = setting.claimed_noise_multiplier / math.sqrt(setting.layers)
    return _cost_row(
        paper="backprop clipping",
        dataset=DATASETS[setting.dataset],
        q=1.0,
        sigma=sigma,
        steps=setting.epochs,
        claimed=setting.claimed_epsilon,
        poisson=epsilon(
            sampling_probability=setting.batch / setting.examples,
            noise_multiplier=setting.proven_noise_multiplier / math.sqrt(setting.layers),
            steps=setting.epochs * steps_per_epoch(setting.examples, setting.batch),
            delta=setting.delta,
        ),
        at_most=_unsampled_epsilon(setting.proven_rho),
        accountants=("rdp", "pld"),  # the paper itself converts from zCDP
    )


def _tanh_row(setting: TanhFilter) -> dict[str, object]:
    known = setting.dataset == "mnist"
    sigma = setting.noise_multiplier(MNIST_PARAMETERS)
    return _cost_row(
        paper="tanh filter",
        dataset=DATASETS[setting.dataset],
        q=setting.sampling_probability,
        sigma=setting.noise_std / setting.claimed_sensitivity,
        steps=TANH_FILTER_EPOCHS * steps_per_epoch(setting.examples, setting.batch),
        claimed=setting.claimed_epsilon,
        poisson=_tanh_epsilon(setting, MNIST_PARAMETERS, TANH_FILTER_EPOCHS) if known else None,
        at_most=gdp_epsilon(math.sqrt(TANH_FILTER_EPOCHS) / sigma, DELTA) if known else None,
    )


def _curve_frame(setting: Setting, stride: int) -> pd.DataFrame:
    length = math.ceil(_CURVE_LENGTH * setting.epochs)
    # The papers' last epoch is always a point.
    epochs = sorted({*range(stride, length + 1, stride), setting.epochs})
    steps = [epoch * steps_per_epoch(setting.examples, setting.batch) for epoch in epochs]
    frames = [
        pd.DataFrame(
            {
                "dataset": setting.dataset,
                "accountant": accountant,
                "epoch": epochs,
                "steps": steps,
                "epsilon": epsilon_curve(
                    sampling_probability=setting.sampling_probability,
                    noise_multiplier=setting.noise_multiplier,
                    steps=steps,
                    delta=setting.delta,
                    accountant=accountant,
                ),
            }
        )
        for accountant in NAMES
    ]
    return pd.concat(frames, ignore_index=True)


def _draw_curves(ax: Axes, setting: Setting, frame: pd.DataFrame) -> None:
    for style, (accountant, name) in zip(STYLES, NAMES.items(), strict=False):
        curve = frame[frame["accountant"] == accountant]
        every = max(1, len(curve) // 7)
        ax.plot(curve["epoch"], curve["epsilon"], label=name, markevery=every, **style.line)
    ax.axhline(setting.claimed_epsilon, color="0.35", linewidth=1)
    ax.axvline(setting.epochs, color="0.35", linewidth=1)
    ax.set(title=DATASETS[setting.dataset], xlabel="epochs", xlim=(0, None), ylim=(0, None))


def _label_lines(ax: Axes, setting: Setting) -> None:
    small = {"fontsize": "small", "color": "0.2", "textcoords": "offset points"}
    level, last = setting.claimed_epsilon, setting.epochs
    ax.annotate(f"ε = {level:g}, as quoted", (0, level), xytext=(5, 4), **small)
    ax.annotate("last epoch", (last, 0), xytext=(5, 6), **small)


def _ends(setting: Setting, frame: pd.DataFrame) -> list[str]:
    last = frame[frame["epoch"] == setting.epochs].set_index("accountant")["epsilon"]
    return [f"{last[accountant]:.2f} ({name})" for accountant, name in NAMES.items()]


def _calibration_row(setting: Setting, stride: int) -> dict[str, object]:
    noise = {
        name: noise_multiplier_for(
            TARGET,
            sampling_probability=setting.sampling_probability,
            steps=setting.steps,
            delta=setting.delta,
            accountant=accountant,
        )
        for accountant, name in NAMES.items()
    }
    public = "" if setting.network == "end-to-end" else f", {setting.network}"
    return {
        "Data set": DATASETS[setting.dataset] + public,
        "Paper's σ": setting.noise_multiplier,
        **{f"σ, {name}": sigma for name, sigma in noise.items()},
        "Less noise": 1 - noise["PLD"] / setting.noise_multiplier,
        "Paper's epochs": setting.epochs,
        "Epochs within 3": _affordable_epochs(setting, stride),
    }


def _affordable_epochs(setting: Setting, stride: int) -> int:
    """Return the last epoch at which the PLD is within TARGET: from the curve, then bisection."""
    curve = _curve_frame(setting, stride).query("accountant == 'pld'")
    within = int(curve.query("epsilon <= @TARGET")["epoch"].max())
    beyond = int(curve.query("epsilon > @TARGET")["epoch"].min())
    while beyond - within > 1:
        middle = (within + beyond) // 2
        spent = epsilon(
            sampling_probability=setting.sampling_probability,
            noise_multiplier=setting.noise_multiplier,
            steps=middle * steps_per_epoch(setting.examples, setting.batch),
            delta=setting.delta,
        )
        within, beyond = (middle, beyond) if spent <= TARGET else (within, middle)
    return within


def _tanh_epsilon(setting: TanhFilter, parameters: int, epochs: int) -> float:
    return epsilon(
        sampling_probability=setting.sampling_probability,
        noise_multiplier=setting.noise_multiplier(parameters),
        steps=epochs * steps_per_epoch(setting.examples, setting.batch),
        delta=setting.delta,
    )


def _tanh_frame(setting: TanhFilter, counts: tuple[int, ...]) -> pd.DataFrame:
    rows = [
        {
            "epochs": epochs,
            "parameters": n,
            "sensitivity": math.sqrt(n),
            "noise multiplier": setting.noise_multiplier(n),
            "epsilon": _tanh_epsilon(setting, n, epochs),
        }
        for n in counts
        for epochs in (1, TANH_FILTER_EPOCHS)
    ]
    return pd.DataFrame(rows)


def _corrected_epsilon(setting: CorrectedClipping) -> float:
    return epsilon(
        sampling_probability=setting.sampling_probability,
        noise_multiplier=setting.joint_noise_multiplier,
        steps=setting.steps,
        delta=setting.delta,
    )


def _corrected_row(setting: CorrectedClipping) -> dict[str, object]:
    return {
        "Target ε": setting.target_epsilon,
        "Accuracy": setting.accuracy,
        "σ a layer": setting.noise_multiplier,
        "ε, layers apart": epsilon(
            sampling_probability=setting.sampling_probability,
            noise_multiplier=setting.noise_multiplier,
            steps=setting.steps * setting.layers,
            delta=setting.delta,
        ),
        "σ of a step": setting.joint_noise_multiplier,
        "Proven ε": _corrected_epsilon(setting),
    }
