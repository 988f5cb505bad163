"""Tempered sigmoids, what Theorem 1 "essentially shows": less temperature, less bias.

The bound falls with T; the bias itself need not, all else equal.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.propositions.proposition import Outcome, proposition
from dpstudy.propositions.search import in_double, normal, searched
from under_the_clip.tempered_sigmoids.propositions.clipping_bias import (
    ON_A_SEGMENT,
    SHARP,
    Problem,
    Segment,
    data_and_segment,
    segment_bias,
)

stated = partial(proposition, "papernot2021tempered")


class Comparison(NamedTuple):
    """One logistic regression on a segment, at two temperatures."""

    problem: Problem
    segment: Segment
    lower: Float[Array, ""]
    higher: Float[Array, ""]

    def bias(self, temperature: Array) -> Array:
        """Return the excess loss at the clipped optimum at a temperature, all else equal."""
        return segment_bias(self.problem._replace(temperature=temperature), self.segment)

    def most(self, temperature: Array) -> Array:
        """Return what that cannot exceed: half of Theorem 1's Δ."""
        beyond = jnp.maximum(temperature - self.problem.clip_norm, 0)
        return SHARP * beyond * 2 * self.segment.radius


def comparison(case: Any, *, unclipped: bool = False) -> Comparison:
    """Return what a case compares; `unclipped`: C is the lower T, so that nothing is clipped."""
    problem, segment = data_and_segment(case)
    lower = problem.temperature
    higher = lower * (1 + jnp.exp(case["log_step"]))
    clip_norm = lower if unclipped else higher * jax.nn.sigmoid(case["clip"])
    return Comparison(problem._replace(clip_norm=clip_norm), segment, lower, higher)


@searched(ON_A_SEGMENT | {"log_step": normal()}, climbers=8)
def falling(case: Any, *, unclipped: bool) -> tuple[Array, Array]:
    """Search for a bias that a higher T makes smaller, over the most that it can be there."""
    both = comparison(case, unclipped=unclipped)
    return both.bias(both.lower) - both.bias(both.higher), both.most(both.higher)


@cache
def counterexample() -> dict[str, np.ndarray]:
    """Return T from C to twice the higher, and bias and bound at each, on the case found."""
    case = falling(unclipped=False).case

    def over(shares: Array) -> tuple[Array, Array, Array]:
        both = comparison(case)
        clip_norm = both.problem.clip_norm
        temperatures = clip_norm * (2 * both.higher / clip_norm) ** shares
        return temperatures, jax.vmap(both.bias)(temperatures), jax.vmap(both.most)(temperatures)

    names = ("temperature", "bias", "bound")
    return dict(zip(names, in_double(over)(np.linspace(0, 1, 121)), strict=True))


@cache
def compared() -> dict[str, float]:
    """Return the two T of the case that the search found, and the biases there."""

    @in_double
    def numbers(case: Any) -> tuple[Array, ...]:
        both = comparison(case)
        return both.higher, both.lower, both.bias(both.higher), both.bias(both.lower)

    names = ("higher", "lower", "at_higher", "at_lower")
    # Rounding can leave a bias of 0 a little below it.
    return {
        name: max(0.0, float(x))
        for name, x in zip(names, numbers(falling(unclipped=False).case), strict=True)
    }


@stated(
    "text after Theorem 1",
    refuted_by="Data, Θ, C and two T, the lower of which has the larger bias.",
    instead="The bound falls with T, and the bias does where the lower T is at most C.",
)
def bias_falls_with_temperature(*, unclipped: bool = False) -> Outcome:
    """A lower T makes the bias of clipped gradient descent smaller, for any C."""
    found, mended = falling(unclipped=unclipped), falling(unclipped=True)
    return Outcome(
        worst=found.ratio,
        corrected=mended.ratio,
        looked=found.looked,
        finding=(
            "With T lowered from {higher:.3g} to {lower:.3g}, all else equal, the bias rises from "
            "{at_higher:.2g} to {at_lower:.2g}."
        ).format(**compared()),
    )
