"""Tempered sigmoids: members of the family (Eq. 3), and what bounded activations do to clipping.

With activations of size at most b = max(|o|, |s - o|), a C of |T| b √d clips no gradient of the
logistic loss' weights (Eq. 4). Of relu's activations no C can say as much.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dpstudy.parts.networks.activation import Tempered
from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import normal, search, searched
from under_the_clip.tempered_sigmoids.propositions.gradient_norms import binary_loss

Activation = Callable[[Array], Array]
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


_MEMBER = ("log_scale", "log_temperature", "log_offset", "share", "x")


@searched(dict.fromkeys(_MEMBER, normal()), climbers=8)
def smaller_scale(case: Any, *, offset_too: bool) -> tuple[Array, Array]:
    """Search for an activation that a smaller s, o left or shrunk too, makes larger; T > 0."""
    scale, inverse_temperature = jnp.exp(case["log_scale"]), jnp.exp(case["log_temperature"])
    share, offset = jax.nn.sigmoid(case["share"]), jnp.exp(case["log_offset"])
    smaller = offset * share if offset_too else offset
    before = Tempered(scale, inverse_temperature, offset)(case["x"])
    after = Tempered(scale * share, inverse_temperature, smaller)(case["x"])
    # Compared on the scale of the member: its activations lie between -o and s - o.
    return (jnp.abs(after) - jnp.abs(before)) / jnp.maximum(scale, offset), jnp.ones(())


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


def _nearly_straight(rng: np.random.Generator, n: int) -> Any:
    # A straight piece of slope 1 has s T = 4: drawn around it, the larger s the straighter.
    log_scale = rng.uniform(0, 5, n)
    log_temperature = np.log(4) - log_scale + rng.normal(size=n)
    return {"log_scale": log_scale, "log_temperature": log_temperature, "bias": rng.normal(size=n)}


@searched(_nearly_straight, climbers=8)
def nearest_to_relu(case: Any, low: float, *, shifted: bool) -> tuple[Array, Array]:
    """Search for the member nearest to relu on [low, 1], `shifted` by a bias of its input or not.

    The ratio is one over the distance at the point where the two are furthest apart.
    """
    x, bias = np.linspace(low, 1, _GRID), case["bias"] if shifted else 0.0
    scale, inverse_temperature = jnp.exp(case["log_scale"]), jnp.exp(case["log_temperature"])
    apart = Tempered(scale, inverse_temperature, 0.0)(x + bias) - jax.nn.relu(x)
    # The offset that serves best takes the middle away.
    return 2 / (jnp.max(apart) - jnp.min(apart)), jnp.ones(())


@stated("Introduction", refuted_by="No member to be found that comes as near.")
def relu_approximated(*, shifted: bool = True, low: float = 0.0) -> Outcome:
    """In a limit the family has an approximation of relu on inputs that occur: as near as
    one likes on [0, a], and on [-a, a], with a bias, nearer than any straight line.

    Around 0 none is as near without a bias: φ(x) + φ(-x) is the same for all x, and relu(x) +
    relu(-x) is |x|, so that the errors at 0, 1 and -1 cannot all be below a quarter. A straight
    line of slope 1/2 attains it.
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


_UNITS = 4
# Beyond that the gradients of a point and of the same with a larger T agree to all digits.
_MOST_MARGIN = 10.0
_TINY, _ROUNDED = 1e-300, 1e-12
_NETWORK = dict.fromkeys(("log_scale", "log_temperature", "offset", "temperature"), normal())
_NETWORK |= dict.fromkeys(("x", "theta"), normal(_UNITS, scale=2))
_POINT = dict.fromkeys(("margin", "log_growth", "log_temperature"), normal()) | {"z": normal(3)}


@searched(_POINT, climbers=8)
def furthest_from_linear(case: Any, sign: float) -> tuple[Array, Array]:
    """Search for the largest |growth of the norm / growth of T - 1|, over exp(-m)."""
    # The margin m > 0, and by which factor above 1 T grows.
    margin, growth = _MOST_MARGIN * jax.nn.sigmoid(case["margin"]), 1 + jnp.exp(case["log_growth"])
    temperature, z = jnp.exp(case["log_temperature"]), case["z"]
    theta = sign * margin / temperature * z / jnp.sum(z**2)
    before, after = (
        jnp.linalg.norm(jax.grad(binary_loss)(theta, z, factor * temperature))
        for factor in (1, growth)
    )
    return jnp.abs(after / (growth * before) - 1), jnp.exp(-margin) + _ROUNDED


@stated(
    "text after Eq. 4",
    refuted_by="T, a larger T, z and θ with a growth that is further from linear.",
)
def linear_in_temperature(share: float = 1.0, sign: float = -1.0) -> Outcome:
    """For a grossly misclassified point the gradient grows with T as if T scaled z: up to
    exp(-m) of it where -T y ⟨z, θ⟩ is m.
    """
    found, rightly = furthest_from_linear(sign), furthest_from_linear(1.0)
    margin = _MOST_MARGIN / (1 + np.exp(-rightly.case["margin"]))
    return judge(
        found,
        bound=share,
        finding=(
            f"Where -T y ⟨z, θ⟩ is m, growth is off by at most {found.ratio:.4f} exp(-m) of linear."
            " Of points classified rightly it is not linear: there it was off by up to "
            f"{rightly.ratio * np.exp(-margin):.2f} of that, where T y ⟨z, θ⟩ is {margin:.2g}."
        ),
    )


def _member_and_bound(case: Any) -> tuple[Activation, Array]:
    """Return a case's activation and |T| b √d, with b the largest size of its values."""
    scale, offset = jnp.exp(case["log_scale"]), case["offset"]
    member = Tempered(scale, jnp.exp(case["log_temperature"]), offset)
    size = jnp.maximum(jnp.abs(offset), jnp.abs(scale - offset))
    return member, jnp.abs(case["temperature"]) * size * np.sqrt(_UNITS) + _TINY


@searched(_NETWORK, climbers=8, rate=0.1)
def longest_of_bounded(case: Any, activation: Activation | None) -> tuple[Array, Array]:
    """Search for the longest gradient of the weights after the activations, over |T| b √d."""
    member, bound = _member_and_bound(case)
    z = (activation or member)(case["x"])
    return jnp.linalg.norm(jax.grad(binary_loss)(case["theta"], z, case["temperature"])), bound


@searched(_NETWORK, steps=0)
def longest_below(case: Any) -> tuple[Array, Array]:
    """Search for the longest gradient by the activations' own inputs, over the same bound."""
    member, bound = _member_and_bound(case)

    def loss(x: Array) -> Array:
        return binary_loss(case["theta"], member(x), case["temperature"])

    return jnp.linalg.norm(jax.grad(loss)(case["x"])), bound


@stated(
    "Introduction of arXiv v1, read for the layer that its analysis is about",
    refuted_by="A member of the family, T, inputs and weights with a longer gradient.",
)
def never_clipped(share: float = 1.0, activation: Activation | None = None) -> Outcome:
    """Bounded activations eliminate clipping: of the logistic loss on d activations of size
    at most b, no gradient exceeds a C of |T| b √d.
    """
    found, below = longest_of_bounded(activation), longest_below()
    return judge(
        found,
        bound=share,
        looked=f"{{}}, {_UNITS} activations",
        finding=(
            f"The longest gradient found is {found.ratio:.6f} |T| b √d, so that a C of |T| b √d "
            "clips none. Read of all layers it fails, as the one below has gradients that grow "
            f"with the weights above (by its inputs {below.ratio:.3g} |T| b √d was found); and the "
            "noise, which grows with C, stays."
        ),
    )
