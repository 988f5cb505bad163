"""Tempered sigmoids: what is said of the members of the family themselves (Eq. 3 and around it)."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.parts.networks.activation import Tempered
from dpstudy.propositions.proposition import Outcome, proposition, stated_in
from dpstudy.propositions.search import Found, normal, search

if TYPE_CHECKING:
    from jaxtyping import Array

stated = partial(proposition, "papernot2021tempered")
# Two ways of computing one function in double precision differ by less.
_EQUAL = 1e-12
# A member counts as relu where it is nowhere further from it than this share of the interval.
_AS_GOOD_AS_RELU = 1e-3
_GRID = 401
# How far the best straight line is from relu on [-1, 1], and by which share a member that has
# relu's bend must be nearer.
_STRAIGHT_LINE, _NEARER = 0.25, 0.01


@stated("Eq. 3", refuted_by="A number at which the two differ.")
def tanh_is_tempered(point: tuple[float, float, float] = (2.0, 2.0, 1.0)) -> Outcome:
    """φ with s = 2, T = 2, o = 1 is tanh, exactly.

    As printed, and as computed here.
    """
    scale, inverse_temperature, offset = point

    def sides(x: Array) -> tuple[Array, Array]:
        printed = scale / (1 + jnp.exp(-inverse_temperature * x)) - offset
        ours = Tempered(*point)(x)
        apart = jnp.maximum(jnp.abs(printed - jnp.tanh(x)), jnp.abs(ours - jnp.tanh(x)))
        return apart, jnp.ones(())

    found = search(sides, normal(scale=4), steps=100)
    said = f"The largest distance to tanh is {found.ratio:.1e}."
    return Outcome(found.ratio, found.looked, said, tolerance=_EQUAL)


@cache
def smaller_scale(*, offset_too: bool) -> Found:
    """Search for an activation that a smaller s, o left or shrunk too, makes larger; T > 0."""

    def sides(case: Any) -> tuple[Array, Array]:
        scale, inverse_temperature = jnp.exp(case["log_scale"]), jnp.exp(case["log_temperature"])
        share = jax.nn.sigmoid(case["share"])
        offset = jnp.exp(case["log_offset"])
        smaller = offset * share if offset_too else offset
        before = Tempered(scale, inverse_temperature, offset)(case["x"])
        after = Tempered(scale * share, inverse_temperature, smaller)(case["x"])
        # Compared on the scale of the member: its activations lie between -o and s - o.
        return (jnp.abs(after) - jnp.abs(before)) / jnp.maximum(scale, offset), jnp.ones(())

    names = ("log_scale", "log_temperature", "log_offset", "share", "x")
    return search(sides, dict.fromkeys(names, normal()), climbers=8)


@stated(
    "text after Eq. 3",
    refuted_by="s, T, o and an input whose activation grows as s falls.",
    instead="If o shrinks in proportion to s, the activation does.",
)
def scale_and_magnitude(*, offset_too: bool = False) -> Outcome:
    """A smaller s makes an activation smaller in magnitude."""
    alone, together = smaller_scale(offset_too=offset_too), smaller_scale(offset_too=True)
    # tanh, its scale halved.
    before, after = (float(Tempered(s, 2.0, 1.0)(jnp.zeros(()))) for s in (2.0, 1.0))
    return Outcome(
        worst=alone.ratio,
        corrected=together.ratio,
        looked=alone.looked,
        finding=(
            "With s halved and the offset left, the magnitude of tanh at 0 goes from "
            f"{abs(before):g} to {abs(after):g}. The largest growth found is {alone.ratio:.3f} of "
            "max(s, o)."
        ),
    )


@cache
def nearest_to_relu(low: float, *, shifted: bool) -> Found:
    """Search for the member nearest to relu on [low, 1], `shifted` by a bias of its input or not.

    The ratio is one over the distance at the point where the two are furthest apart.
    """
    x = np.linspace(low, 1, _GRID)

    def sides(case: Any) -> tuple[Array, Array]:
        bias = case["bias"] if shifted else 0.0
        scale, inverse_temperature = jnp.exp(case["log_scale"]), jnp.exp(case["log_temperature"])
        apart = Tempered(scale, inverse_temperature, 0.0)(x + bias) - jax.nn.relu(x)
        # The offset that serves best takes the middle away.
        return 2 / (jnp.max(apart) - jnp.min(apart)), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> Any:
        # A straight piece of slope 1 has s T = 4: drawn around it, the larger s the straighter.
        log_scale = rng.uniform(0, 5, n)
        return {
            "log_scale": log_scale,
            "log_temperature": np.log(4) - log_scale + rng.normal(size=n),
            "bias": rng.normal(size=n),
        }

    return search(sides, draw, climbers=8)


@stated("Introduction", refuted_by="No member to be found that comes as near.")
def relu_approximated(*, shifted: bool = True, low: float = 0.0) -> Outcome:
    """In a limit the family has an approximation of relu on inputs that occur: as near as
    one likes on [0, a], and on [-a, a], with a bias, nearer than any straight line.

    Two members are looked for: on [-1, 1] one that is nearer than any straight line, and on
    [low, 1] one that is nowhere further away than a thousandth.

    Around 0 none is as near as that: φ(x) + φ(-x) is the same for all x, and relu(x) + relu(-x) is
    |x|. So the errors at 0, 1 and -1 cannot all be below a quarter, whatever the limit. A straight
    line of slope 1/2, which the family has in the limit, attains it. A bias, which every unit of
    these networks has, breaks the symmetry.

    Args:
        shifted: let the member around 0 have a bias.
        low: where the interval of the second one begins.
    """
    around = 1 / nearest_to_relu(-1.0, shifted=shifted).ratio
    found = nearest_to_relu(low, shifted=False)
    alone = 1 / nearest_to_relu(-1.0, shifted=False).ratio
    return Outcome(
        worst=max(around - (1 - _NEARER) * _STRAIGHT_LINE, 1 / found.ratio - _AS_GOOD_AS_RELU),
        looked=found.looked,
        finding=(
            f"On [{low:g}, a] the nearest member found is {1 / found.ratio:.0e} a away from relu "
            f"at its furthest point, and on [-a, a], with a bias, {around:.4f} a; the best "
            f"straight line is {_STRAIGHT_LINE:g} a away. Read as near as one likes on all inputs "
            f"it fails: on [-a, a] no member without a bias comes nearer than {alone:.4f} a."
        ),
        tolerance=0.0,
    )


STATEMENTS = stated_in(globals())
