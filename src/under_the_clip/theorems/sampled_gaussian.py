"""The sub-sampled Gaussian mechanism, and the accountants against what chance itself does.

One step keeps an example with probability q and adds noise of standard deviation σ to a sum in
which it counts 1. With the example the output is P = (1 - q) N(0, σ²) + q N(1, σ²), without it
Q = N(0, σ²). The δ that belongs to an ε is E[(1 - exp(ε - L))₊], L being the privacy loss, and is
the larger of two: for removing the example L = log P/Q under P, for adding it L = log Q/P under Q.
Drawing L gives that δ without any of the accountants' mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from dpstudy.privacy.accounting import epsilon
from dpstudy.propositions.search import search_box
from dpstudy.propositions.statement import Outcome, Statement

DRAWS = 300_000
# A δ is taken as exceeded when the estimate is above it by so many standard errors.
_ERRORS = 5.0
# Composition by Fourier transform rounds.
_NUMERICAL = 1e-6


class Small(NamedTuple):
    """A case small enough for its δ to be seen in draws."""

    sampling_probability: float
    noise_multiplier: float
    steps: int
    delta: float = 1e-2


CASES = (Small(1.0, 1.0, 1), Small(0.5, 1.0, 4), Small(0.1, 0.7, 8), Small(0.02, 0.5, 12, 5e-3))


class Losses(NamedTuple):
    """Draws of the privacy loss of all steps, for removing and for adding an example."""

    removing: np.ndarray
    adding: np.ndarray


@cache
def losses(case: Small) -> Losses:
    """Draw the privacy loss of a case's steps, in both directions."""
    rng = np.random.default_rng(0)
    q, sigma = case.sampling_probability, case.noise_multiplier
    removing, adding = np.zeros(DRAWS), np.zeros(DRAWS)
    for _ in range(case.steps):
        noise = sigma * rng.standard_normal((2, DRAWS))
        kept = rng.random(DRAWS) < q
        removing += _loss(noise[0] + kept, q, sigma)
        adding -= _loss(noise[1], q, sigma)
    return Losses(removing, adding)


def _loss(output: np.ndarray, q: float, sigma: float) -> np.ndarray:
    return np.log1p(q * np.expm1((2 * output - 1) / (2 * sigma**2)))


def estimated_delta(case: Small, at: float) -> tuple[float, float]:
    """Return the δ of a case at an ε, estimated from draws, and its standard error."""
    estimates = []
    for drawn in losses(case):
        excess = np.maximum(-np.expm1(at - drawn), 0)
        estimates.append((float(excess.mean()), float(excess.std() / DRAWS**0.5)))
    return max(estimates)


def covers(accountant: Callable[[Small], float]) -> Outcome:
    """Search for a small case whose δ, at the accountant's ε, is above the one asked for."""
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


def by(accountant: str) -> Callable[[Small], float]:
    """Return the accountant of that name as a function of a small case."""
    return lambda case: epsilon(**case._asdict(), accountant=accountant)


# What the accountants are compared over. Losing less trains in its middle.
BOX = {
    "sampling_probability": (1e-3, 0.1),
    "noise_multiplier": (0.6, 6.0),
    "steps": (1.0, 1000.0),
    "delta": (1e-7, 1e-3),
}


def ordered(tighter: str = "pld", looser: str = "rdp") -> Outcome:
    """Search for a run that the tighter accountant charges more than the looser one."""

    def sides(**case: float) -> tuple[float, float]:
        case["steps"] = round(case["steps"])
        return epsilon(**case, accountant=tighter), epsilon(**case, accountant=looser)

    found = search_box(sides, BOX, cases=8, refinements=4)
    return Outcome(
        worst=found.worst,
        looked=found.looked,
        tightness=found.ratio,
        finding=f"PLD's ε comes to at most {found.ratio:.4f} of RDP's.",
        tolerance=_NUMERICAL,
    )


# A factor for each argument that must not make ε smaller.
COSTLIER = {"sampling_probability": 1.5, "noise_multiplier": 0.8, "steps": 2.0, "delta": 0.1}


def monotone(costlier: dict[str, float] | None = None) -> Outcome:
    """Search for a run that costs less with more sampling, less noise, more steps or a smaller δ.

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
    return Outcome(
        worst=found.worst,
        looked=f"{found.looked}, PLD and RDP, each with one argument changed",
        finding=(
            "ε before the change comes to at most "
            f"{found.ratio:.4f} of that after it, in every direction tried."
        ),
        tolerance=_NUMERICAL,
    )


STATEMENTS = (
    Statement(
        name="pld-covers-delta",
        ours=True,
        paper="koskela2020computing",
        where="PLD accountant",
        says="The ε that PLD gives for δ is an upper bound: at that ε the true δ is no larger.",
        refuted_by="A mechanism whose privacy loss, drawn, gives a larger δ.",
        check=lambda: covers(by("pld")),
    ),
    Statement(
        name="rdp-covers-delta",
        ours=True,
        paper="mironov2019renyi",
        where="RDP accountant",
        says="The ε that RDP gives for δ is an upper bound: at that ε the true δ is no larger.",
        refuted_by="A mechanism whose privacy loss, drawn, gives a larger δ.",
        check=lambda: covers(by("rdp")),
    ),
    Statement(
        name="pld-below-rdp",
        ours=True,
        paper="koskela2020computing",
        where="PLD accountant",
        says="PLD never charges more than RDP.",
        refuted_by="A run with a larger ε by PLD.",
        check=ordered,
    ),
    Statement(
        name="epsilon-monotone",
        paper="abadi2016deep",
        where="Theorem 1, as computed today",
        says="ε grows with q and the steps, and falls with σ and δ.",
        refuted_by="A run that costs less after one of them was made worse.",
        check=monotone,
    ),
)
