"""What an accountant is worth: ε over epochs, and the noise that ε = 3 takes, by each."""

import math
from bisect import bisect_right
from typing import NamedTuple

import pandas as pd

from dpstudy.errors import check_known
from dpstudy.page.figure import STYLES, Figure, Table, canvas
from dpstudy.parts.accountable import steps_per_epoch
from dpstudy.parts.data.images import DATASETS
from dpstudy.privacy.accounting import epsilon, epsilon_curve, noise_multiplier_for
from under_the_clip.losing_less.published import END_TO_END, SCATTERNET
from under_the_clip.published import DELTA, Configuration

NAMES = {"rdp-2019": "RDP 2019", "rdp": "RDP", "pld": "PLD"}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
AT_DELTA = "δ = 10" + f"{math.log10(DELTA):.0f}".translate(_SUPERSCRIPTS)


class Resolution(NamedTuple):
    """How finely a profile draws this chapter; the numbers do not depend on it."""

    stride: int  # epochs between two points of a curve
    calibrated: tuple[Configuration, ...]


PROFILES = {
    "stored": Resolution(2, END_TO_END),
    "smoke": Resolution(10, END_TO_END[:1]),
    "full": Resolution(1, END_TO_END + SCATTERNET),
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
    """Draw epsilon over epochs for losing less on MNIST, by each accountant."""
    frames = [_curve_frame(setting, drawn.stride) for setting in END_TO_END]
    setting, frame = END_TO_END[0], frames[0]
    level, last = setting.claimed_epsilon, setting.epochs
    with canvas(size=(5.2, 2.6)) as (fig, [ax]):
        beside = {"fontsize": "small", "color": "0.2", "textcoords": "offset points"}
        for style, (accountant, name) in zip(STYLES, NAMES.items(), strict=False):
            curve = frame[frame["accountant"] == accountant]
            ax.plot(curve["epoch"], curve["epsilon"], markevery=5, **style.line)
            ax.annotate(name, curve[["epoch", "epsilon"]].iloc[-1], xytext=(6, -3), **beside)
        ax.axhline(level, color="0.35", linewidth=1)
        ax.axvline(last, color="0.35", linewidth=1)
        ax.annotate(f"ε = {level:g}, as quoted", (0, level), xytext=(5, 4), **beside)
        ax.annotate("last epoch", (last, 0), xytext=(5, 6), **beside)
        ax.set(xlabel="epochs", ylabel=f"ε at {AT_DELTA}", ylim=(0, None))
        ax.set_xlim(0, frame["epoch"].max())
    ends = "; ".join(
        f"{DATASETS[setting.dataset]} " + ", ".join(_ends(setting, frame))
        for setting, frame in zip(END_TO_END, frames, strict=True)
    )
    return Figure(
        name="epsilon-over-epochs",
        fig=fig,
        alt=(
            "Epsilon against epochs, three rising, flattening curves: RDP 2019 highest, then RDP, "
            f"then PLD. At the papers' last epoch they stand at: {ends}."
        ),
        caption=(
            "ε over epochs for losing less on MNIST (Table 5), under Poisson sampling. The lines "
            f"mark the paper's last epoch and the ε = {level:g} that it quotes. The CSV has the "
            "other two datasets too."
        ),
        data=pd.concat(frames, ignore_index=True),
    )


def calibration_table(drawn: Resolution) -> Table:
    """Tabulate the noise that costs exactly epsilon = 3, next to the paper's."""
    rows = [_calibration_row(setting, drawn.stride) for setting in drawn.calibrated]
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
    run = {
        "sampling_probability": setting.sampling_probability,
        "noise_multiplier": setting.noise_multiplier,
        "steps": steps,
        "delta": DELTA,
    }
    frames = []
    for accountant in NAMES:
        columns = {"dataset": setting.dataset, "accountant": accountant, "epoch": epochs}
        curve = epsilon_curve(**run, accountant=accountant)
        frames.append(pd.DataFrame(columns | {"steps": steps, "epsilon": curve}))
    return pd.concat(frames, ignore_index=True)


def _ends(setting: Configuration, frame: pd.DataFrame) -> list[str]:
    last = frame[frame["epoch"] == setting.epochs].set_index("accountant")["epsilon"]
    return [f"{last[accountant]:.2f} ({name})" for accountant, name in NAMES.items()]


def _calibration_row(setting: Configuration, stride: int) -> dict[str, object]:
    q, steps = setting.sampling_probability, setting.steps
    run = {"sampling_probability": q, "steps": steps, "delta": DELTA}
    noise = {
        name: noise_multiplier_for(TARGET, **run, accountant=accountant)
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


def _affordable_epochs(setting: Configuration, stride: int) -> int:
    """Return the last epoch at which the PLD is within TARGET: from the curve, then bisection."""
    curve = _curve_frame(setting, stride).query("accountant == 'pld'")
    within = int(curve.query("epsilon <= @TARGET")["epoch"].max())
    beyond = int(curve.query("epsilon > @TARGET")["epoch"].min())

    def spent_by(epoch: int) -> float:
        steps = epoch * steps_per_epoch(setting.examples, setting.batch)
        return spent(setting.sampling_probability, setting.noise_multiplier, steps)

    return bisect_right(range(beyond), TARGET, lo=within + 1, key=spent_by) - 1
