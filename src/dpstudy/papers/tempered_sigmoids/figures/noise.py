"""Figure 3 with the noise that its epsilon allows, and with batches as its library forms them."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.ledger.wording import points, rounded_down
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids.figures.accuracy import (
    accuracy_limits,
    draw_published,
    draw_spread,
    spread_over_seeds,
)
from dpstudy.papers.tempered_sigmoids.figures.common import (
    dataset_of,
    diverged,
    for_each_dataset,
    over_seeds,
    published_accuracy,
    seeds_of,
    spending_of,
    until,
)
from dpstudy.parts.images import DATASETS

LINES = {
    ("σ of Figure 3", "relu"): STYLES[1],
    ("σ of Figure 3", "tanh"): STYLES[0],
    ("calibrated σ", "relu"): STYLES[4],
    ("calibrated σ", "tanh"): STYLES[3],
}


@for_each_dataset
def calibrated_noise(published: Reading, calibrated: Reading) -> Figure | Note:
    """Draw accuracy against epsilon at the noise of Figure 3, and at that which PLD asks for.

    Args:
        published: of Figure 3.
        calibrated: of the same with less noise, that spends the quoted epsilon.
    """
    if not calibrated.found:
        return not_yet_run("Figure 3 at the calibrated noise", calibrated.command)
    dataset, parts = dataset_of(calibrated), []
    both = replace(calibrated, found=[*published.on(dataset).found, *calibrated.found])
    for name, reading in (("σ of Figure 3", published), ("calibrated σ", calibrated)):
        curves = reading.curves
        if len(curves):
            spread = spread_over_seeds(curves[curves.dataset == dataset])
            parts.append(spread.assign(noise=name))
    data = pd.concat(parts, ignore_index=True)
    if data.empty:
        return Note("Calibrated noise", "No stored run finished an epoch before it diverged.")
    with canvas(size=(6.4, 4.2)) as (figure, (axes,)):
        for (noise, label), rows in data.groupby(["noise", "label"], sort=False):
            draw_spread(axes, f"{label}, {noise}", rows, LINES[noise, label])
        draw_published(axes, dataset)
        axes.set(xlabel="ε spent (PLD)", ylabel="test accuracy")
        axes.set_ylim(accuracy_limits(data, dataset))
        axes.legend(loc="lower right", fontsize="small")
    noises = {r.run.mechanism.noise_multiplier for _, r in calibrated.found}
    said = "; ".join(
        f"{label} at the {noise} ends at {rows['median'].iloc[-1]:.2%}{until(rows, calibrated)}"
        for (noise, label), rows in data.groupby(["noise", "label"], sort=False)
    )
    gains = "; ".join(
        f"{label} {gain_said(gain)}"
        for label in dict.fromkeys(data.label)
        if (gain := paired_gain(published.on(dataset), calibrated, label)) is not None
    )
    gained = (
        f" Seed for seed, ± two standard errors, the calibrated σ adds: {gains}." if gains else ""
    )
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-calibrated-{dataset}",
        caption=(
            f"Test accuracy against ε on {DATASETS[dataset]}: median and range over "
            f"{seeds_of(calibrated.curves)} at the calibrated noise (σ = "
            f"{', '.join(f'{noise:g}' for noise in sorted(noises))}), beside the runs of Figure 3; "
            f"computed on {both.devices}. Medians: {said}.{gained} {spending_of(calibrated)}."
            f"{diverged(dataset, both)}"
        ),
        alt=f"{data.groupby(['noise', 'label']).ngroups} curves: {said}.{gained}",
        data=data,
    )


def paired_gain(before: Reading, after: Reading, label: str) -> tuple[float, float] | None:
    """Return the mean difference in accuracy of runs that share a seed, and its standard error.

    Runs with one seed start alike and draw alike, so that much of what a seed changes cancels.
    None with fewer than two pairs.
    """
    if not before.found or not after.found:
        return None
    first, second = (
        finals[finals.label == label].set_index("seed").test_accuracy
        for finals in (before.finals, after.finals)
    )
    gain = (second - first).dropna()
    return (float(gain.mean()), float(gain.sem())) if len(gain) > 1 else None


def gain_said(gain: tuple[float, float]) -> str:
    """Show a mean difference in points, with two standard errors either way."""
    return points(gain[0]).replace(" points", f" ± {200 * gain[1]:.2f} points")


@for_each_dataset
def poisson_and_shuffled(poisson: Reading, shuffled: Reading) -> Table | Note:
    """Return the same runs with Poisson sampling and with shuffled batches, and their epsilons."""
    if not shuffled.found:
        return not_yet_run("Shuffled batches", shuffled.command)
    dataset = dataset_of(shuffled)
    both = replace(shuffled, found=[*poisson.on(dataset).found, *shuffled.found])
    rows = [
        _row(sampling, label, finals)
        for sampling, reading in (("Poisson", poisson), ("shuffled", shuffled))
        for label, finals in _by_label(reading, dataset)
    ]
    return Table(
        name=f"tempered-sigmoids-shuffled-{dataset}",
        caption=(
            f"Poisson sampling and shuffled batches on {DATASETS[dataset]}: median, minimum and "
            "maximum over seeds of the test accuracy at the last epoch. ε (RDP 2019): by the "
            "conversion of the paper's time, which assumes Poisson sampling whatever was done. ε "
            f"proven, at δ = {both.found[0][1].run.delta:g}: PLD, with Poisson sampling for one "
            "example added or removed; with shuffled batches without amplification, and for one "
            "example blanked. ε at least: what some gradients that clipping permits give away, "
            "shuffled, for one example blanked, where every noisy sum is seen; no accountant that "
            "knows no more of them can prove less. "
            f"Computed on {both.devices}.{diverged(dataset, both)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            **dict.fromkeys(("median", "minimum", "maximum"), "{:.2%}"),
            **dict.fromkeys(("ε quoted", "ε (RDP 2019)", "ε proven"), "{:.2f}"),
            "ε at least": rounded_down,
        },
    )


def _by_label(reading: Reading, dataset: str) -> list[tuple[str, pd.DataFrame]]:
    finals = reading.finals
    if finals.empty:
        return []
    return list(finals[finals.dataset == dataset].groupby("label"))


def _row(sampling: str, label: str, finals: pd.DataFrame) -> dict[str, object]:
    columns = {
        "Poisson": ("rdp-2019", None, "pld"),
        "shuffled": ("claimed-rdp-2019", "shuffled-at-least", "shuffled-pld"),
    }[sampling]
    claimed, at_least, proven = (
        finals.get(f"epsilon_{name}", pd.Series(dtype=float)).median() for name in columns
    )
    theirs = published_accuracy(finals.dataset.iloc[0], f"DP-SGD, {label}")
    return {
        "batches": f"{sampling}, {label}",
        **over_seeds(finals.test_accuracy),
        "ε quoted": theirs.claimed_epsilon if theirs else None,
        "ε (RDP 2019)": claimed,
        "ε at least": at_least,
        "ε proven": proven,
    }
