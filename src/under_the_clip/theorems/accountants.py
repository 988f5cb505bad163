"""The accountants against what chance itself does, and what batches that are not sampled cost.

A sampled step releases P = (1 - q) N(0, σ²) + q N(1, σ²) with the example and Q = N(0, σ²) without
it. The δ that belongs to an ε is E[(1 - exp(ε - L))₊], L being the privacy loss, and is the larger
of two: for removing the example L = log P/Q under P, for adding it L = log Q/P under Q. Drawing L
gives that δ without any of the accountants' mathematics; and so it does for an epoch of shuffled
batches, with P and Q as in `dpstudy.privacy.shuffling`.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from dpstudy.parts.data.images import DATASETS
from dpstudy.privacy.accounting import epsilon
from dpstudy.privacy.conversions import gdp_epsilon
from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import search_box
from under_the_clip.losing_less.published import END_TO_END
from under_the_clip.published import DELTA, Configuration

DRAWS = 300_000
# A δ is taken as exceeded when the estimate is above it by so many standard errors.
_ERRORS = 5.0
# Composition by Fourier transform rounds.
_NUMERICAL = 1e-6


def drawn_delta(losses: np.ndarray, at: float) -> tuple[float, float]:
    """Return the δ at an ε, estimated from drawn privacy losses, and its standard error."""
    excess = np.maximum(-np.expm1(at - losses), 0)
    return float(excess.mean()), float(excess.std() / math.sqrt(len(excess)))


def _sampled_loss(output: np.ndarray, q: float, sigma: float) -> np.ndarray:
    return np.log1p(q * np.expm1((2 * output - 1) / (2 * sigma**2)))


class Small(NamedTuple):
    """A case small enough for its δ to be seen in draws."""

    sampling_probability: float
    noise_multiplier: float
    steps: int
    delta: float = 1e-2


CASES = (Small(1.0, 1.0, 1), Small(0.5, 1.0, 4), Small(0.1, 0.7, 8), Small(0.02, 0.5, 12, 5e-3))


@cache
def losses(case: Small) -> tuple[np.ndarray, np.ndarray]:
    """Draw the privacy loss of a case's steps, for removing and for adding an example."""
    rng = np.random.default_rng(0)
    q, sigma = case.sampling_probability, case.noise_multiplier
    removing, adding = np.zeros(DRAWS), np.zeros(DRAWS)
    for _ in range(case.steps):
        noise = sigma * rng.standard_normal((2, DRAWS))
        kept = rng.random(DRAWS) < q
        removing += _sampled_loss(noise[0] + kept, q, sigma)
        adding -= _sampled_loss(noise[1], q, sigma)
    return removing, adding


def estimated_delta(case: Small, at: float) -> tuple[float, float]:
    """Return the δ of a case at an ε, estimated from draws, and its standard error."""
    return max(drawn_delta(drawn, at) for drawn in losses(case))


def by(accountant: str) -> Callable[[Small], float]:
    """Return the accountant of that name as a function of a small case."""
    return lambda case: epsilon(**case._asdict(), accountant=accountant)


PLD, RDP = by("pld"), by("rdp")


@proposition(
    "koskela2020computing",
    "PLD accountant",
    refuted_by="A mechanism whose privacy loss, drawn, gives a larger δ.",
    ours=True,
)
def pld_covers_delta(accountant: Callable[[Small], float] = PLD) -> Outcome:
    """The ε that PLD gives for δ is an upper bound: at that ε the true δ is no larger."""
    worst, ratios, errors = -np.inf, [], []
    for case in CASES:
        estimate, error = estimated_delta(case, accountant(case))
        worst = max(worst, (estimate - _ERRORS * error) / case.delta - 1)
        ratios.append(estimate / case.delta)
        errors.append(error / case.delta)
    return Outcome(
        worst=worst,
        looked=f"{len(CASES)} mechanisms of 1 to 12 steps, {DRAWS:,} draws in each direction",
        tightness=max(ratios),
        finding=(
            "At the accountant's ε the estimated δ is "
            f"{', '.join(f'{ratio:.3f}' for ratio in ratios)} of the δ asked for, with a standard "
            f"error of up to {max(errors):.3f}."
        ),
    )


@proposition(
    "mironov2019renyi",
    "RDP accountant",
    refuted_by="A mechanism whose privacy loss, drawn, gives a larger δ.",
    ours=True,
)
def rdp_covers_delta(accountant: Callable[[Small], float] = RDP) -> Outcome:
    """The ε that RDP gives for δ is an upper bound: at that ε the true δ is no larger."""
    return pld_covers_delta.check(accountant)


# What the accountants are compared over. Losing less trains in its middle.
BOX = {
    "sampling_probability": (1e-3, 0.1),
    "noise_multiplier": (0.6, 6.0),
    "steps": (1.0, 1000.0),
    "delta": (1e-7, 1e-3),
}


@proposition(
    "koskela2020computing", "PLD accountant", refuted_by="A run with a larger ε by PLD.", ours=True
)
def pld_below_rdp(tighter: str = "pld", looser: str = "rdp") -> Outcome:
    """PLD never charges more than RDP."""

    def sides(**case: float) -> tuple[float, float]:
        case["steps"] = round(case["steps"])
        return epsilon(**case, accountant=tighter), epsilon(**case, accountant=looser)

    found = search_box(sides, BOX, cases=8, refinements=4)
    said = f"PLD's ε comes to at most {found.ratio:.4f} of RDP's."
    return judge(found, finding=said, tolerance=_NUMERICAL)


# A factor for each argument that must not make ε smaller.
COSTLIER = {"sampling_probability": 1.5, "noise_multiplier": 0.8, "steps": 2.0, "delta": 0.1}


@proposition(
    "abadi2016deep",
    "Theorem 1, as computed today",
    refuted_by="A run that costs less after one of them was made worse.",
)
def epsilon_monotone(costlier: dict[str, float] | None = None) -> Outcome:
    """ε grows with q and the steps, and falls with σ and δ.

    Args:
        costlier: for each argument the factor that is said to make ε larger.
    """
    costlier = costlier or COSTLIER

    def sides(which: float, rdp: float, **case: float) -> tuple[float, float]:
        case["steps"] = round(case["steps"])
        name = list(costlier)[int(which) - 1]
        accountant = "rdp" if rdp < 1.5 else "pld"
        more = case | {name: case[name] * costlier[name]}
        more["steps"] = round(more["steps"])
        return epsilon(**case, accountant=accountant), epsilon(**more, accountant=accountant)

    box = {"which": (1.0, len(costlier) + 0.999), "rdp": (1.0, 2.0)} | BOX
    found = search_box(sides, box, cases=12, refinements=0)
    said = (
        f"ε before the change comes to at most {found.ratio:.4f} of that after it, in every "
        "direction tried."
    )
    looked = f"{found.looked}, PLD and RDP, each with one argument changed"
    return Outcome(worst=found.worst, looked=looked, finding=said, tolerance=_NUMERICAL)


# --- shuffled batches -------------------------------------------------------------------------

_RUNS, _AT_ONCE = 10_000, 2_000
# The δ at which what does hold is looked at: draws can see these.
_SEEN = (0.5, 0.1, 0.01)


@cache
def drawn_losses(setting: Configuration, sampled: bool = False) -> np.ndarray:
    """Draw the privacy loss of a setting's epochs, shuffled or Poisson-sampled."""
    draw = partial(_losses, np.random.default_rng(0), setting, sampled)
    return np.concatenate([draw() for _ in range(_RUNS // _AT_ONCE)])


def _losses(rng: np.random.Generator, setting: Configuration, sampled: bool) -> np.ndarray:
    """Draw the privacy loss of a whole run some thousand times, with the example in it."""
    batches, sigma = setting.examples // setting.batch, setting.noise_multiplier
    total = np.zeros(_AT_ONCE)
    for _ in range(setting.epochs):
        seen = sigma * rng.standard_normal((_AT_ONCE, batches))
        if sampled:
            q = setting.sampling_probability
            seen += rng.random(seen.shape) < q
            total += _sampled_loss(seen, q, sigma).sum(axis=1)
        else:
            # Which batch has the example makes no difference; in the rest of the data none has.
            taking_part = batches * setting.batch / setting.examples
            seen[:, 0] += 2 * (rng.random(_AT_ONCE) < taking_part)
            with_example, blanked = (
                np.exp(mean * (2 * seen - mean) / (2 * sigma**2)).mean(axis=1) for mean in (2, 1)
            )
            absent = 1 - taking_part
            total += np.log(
                (taking_part * with_example + absent) / (taking_part * blanked + absent)
            )
    return total


@proposition(
    "abadi2016deep",
    "Theorem 1 and what followed it, used without its assumption of sampling",
    refuted_by="Gradients within the clip that give away more, one example being blanked.",
    instead="They cost no more than one unsampled step an epoch, for one example blanked.",
    ours=True,
)
def shuffled_as_if_sampled(sampled: bool = False) -> Outcome:
    """The formula for Poisson sampling holds for batches cut from a shuffled data set.

    Args:
        sampled: the statement is about Poisson-sampled batches instead.
    """
    worst, corrected, found = -np.inf, -np.inf, []
    for setting in END_TO_END:
        losses = drawn_losses(setting, sampled)
        formula = epsilon(
            sampling_probability=setting.sampling_probability,
            noise_multiplier=setting.noise_multiplier,
            steps=setting.steps,
            delta=DELTA,
            accountant="rdp-2019",
        )
        drawn, error = drawn_delta(losses, formula)
        excess = (drawn - _ERRORS * error) / DELTA - 1
        worst = max(worst, excess)
        told = f"{drawn:.1e} ± {error:.0e}" if excess > 0 else "no more can be told by drawing"
        found.append(f"{DATASETS[setting.dataset]}, ε = {formula:.2f}: {told}")
        for delta in _SEEN:
            unsampled = math.sqrt(setting.epochs) / setting.noise_multiplier
            drawn, error = drawn_delta(losses, gdp_epsilon(unsampled, delta))
            corrected = max(corrected, (drawn - _ERRORS * error) / delta - 1)
    return Outcome(
        worst=worst,
        corrected=corrected,
        looked=f"the {len(END_TO_END)} end-to-end settings of losing less, {_RUNS:,} draws each",
        finding=(
            f"δ drawn at the ε that the formula gives for δ = {DELTA:.0e}. {'; '.join(found)}."
        ),
    )
