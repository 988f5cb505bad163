"""Tempered sigmoids: a loss with an inverse temperature, and its gradient norms (Eq. 4 and 5)."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import Found, search, searched

stated = partial(proposition, "papernot2021tempered")
# Eq. 5 is searched at these numbers of classes; all data sets of the four papers have ten.
CLASSES = (2, 10)
STUDIED_CLASSES = 10
_FEATURES = 3
# Two ways of computing one loss in double precision differ by less.
_EQUAL = 1e-12


def binary_loss(theta: Float[Array, "d"], z: Float[Array, "d"], temperature: Array) -> Array:
    """Return ln(1 + exp(-T <z, theta>)), the tempered logistic loss; the label is in z's sign."""
    return jax.nn.softplus(-temperature * (z @ theta))


def multiclass_loss(theta: Float[Array, "k d"], z: Float[Array, "d"], temperature: Array) -> Array:
    """Return the tempered softmax's -ln p of class 0 (the paper prints it without the minus)."""
    logits = temperature * (theta @ z)
    return jax.nn.logsumexp(logits) - logits[0]


def _unit_gradient(case: Any) -> tuple[Array, Array]:
    temperature, z, theta = case
    loss: Any = binary_loss if theta.ndim == 1 else multiclass_loss
    gradient = jax.grad(loss)(theta, z, temperature)
    unit = jnp.abs(temperature) * jnp.linalg.norm(z)
    return jnp.linalg.norm(gradient) / unit, jnp.ones(())


def _draw(classes: int | None, temperatures: np.ndarray | None = None) -> Any:
    """Return the draw of T (one of those given, if any are), z and theta; None: the binary loss."""
    rows = () if classes is None else (classes,)

    def draw(rng: np.random.Generator, n: int) -> Any:
        drawn = 3 * rng.normal(size=n) if temperatures is None else np.resize(temperatures, n)
        return drawn, rng.normal(size=(n, _FEATURES)), rng.normal(size=(n, *rows, _FEATURES))

    return draw


@cache
def steepest(classes: int | None) -> Found:
    """Search for the largest gradient of the loss over |T| |z|; None: the binary loss."""
    return search(_unit_gradient, _draw(classes), climbers=8)


def steepest_by_temperature(classes: int | None, temperatures: np.ndarray) -> np.ndarray:
    """Return, for each T, the largest gradient over |z| that a search with that T finds."""

    def sides(case: Any) -> tuple[Array, Array]:
        return _unit_gradient((jax.lax.stop_gradient(case[0]), *case[1:]))

    climbers = 4 * len(temperatures)
    found = search(sides, _draw(classes, temperatures), cases=climbers, climbers=climbers)
    climbed = found.climbed[0]
    largest = [found.ratios[climbed == temperature].max() for temperature in temperatures]
    return np.abs(temperatures) * np.array(largest)


@stated("text before Eq. 4", refuted_by="T, z, θ at which the two differ.")
def loss_of_a_member(offset: float = 0.0) -> Outcome:
    """The tempered logistic loss is ln(1/φ), where φ has s = 1 and, which the paper leaves
    open, o = 0.
    """

    def sides(case: Any) -> tuple[Array, Array]:
        temperature, z, theta = case
        loss = binary_loss(theta, z, temperature)
        # As printed: the one used for training loses the digits of an output next to -o.
        member = 1 / (1 + jnp.exp(-temperature * (z @ theta))) - offset
        return jnp.abs(-jnp.log(member) - loss), jnp.maximum(loss, 1.0)

    # Not climbed, which leads to where 1/φ overflows.
    found = search(sides, _draw(None), cases=4096, steps=0)
    said = f"The largest distance found is {found.ratio:.1e} of the larger of 1 and the loss."
    return Outcome(found.ratio, found.looked, said, tolerance=_EQUAL)


@stated("Eq. 4", refuted_by="T, z, θ with a longer gradient.")
def gradient_norm_binary(bound: float = 1.0) -> Outcome:
    """The tempered logistic loss has a gradient no longer than |T| |z|."""
    found = steepest(None)
    return judge(
        found,
        bound=bound,
        finding=(
            f"The longest gradient found is {found.ratio:.6f} |T| |z|, where the example is "
            "grossly misclassified."
        ),
    )


@searched(_draw(STUDIED_CLASSES), climbers=8)
def steepest_class(case: Any) -> tuple[Array, Array]:
    """Search for the longest part of the gradient that one class's weights have, over |T| |z|."""
    temperature, z, theta = case
    gradient = jax.grad(multiclass_loss)(theta, z, temperature)
    longest = jnp.max(jnp.linalg.norm(gradient, axis=1))
    return longest / (jnp.abs(temperature) * jnp.linalg.norm(z)), jnp.ones(())


@stated("Eq. 5 and the text around it", refuted_by="k, T, z, θ and a class with a longer one.")
def gradient_norm_class(bound: float = 1.0) -> Outcome:
    """The weights of any class get a gradient no longer than |T| |z|."""
    found = steepest_class()
    return judge(
        found,
        bound=bound,
        looked=f"{{}}, for {STUDIED_CLASSES} classes",
        finding=f"The longest found is {found.ratio:.6f} |T| |z|.",
    )


@cache
def gradient_over_part(part: Callable[[Array], Array], classes: int) -> Found:
    """Search for the largest gradient over √k times what `part` makes of its classes' norms."""

    def sides(case: Any) -> tuple[Array, Array]:
        temperature, z, theta = case
        gradient = jax.grad(multiclass_loss)(theta, z, temperature)
        of_classes = jnp.linalg.norm(gradient, axis=1)
        return jnp.linalg.norm(gradient), math.sqrt(len(theta)) * part(of_classes)

    # Not climbed over the shortest: as probabilities go to 0, the ratio grows until it overflows.
    return search(sides, _draw(classes), climbers=8, steps=0 if part is jnp.min else 300)


@stated(
    "text after Eq. 5, which does not say of which class",
    refuted_by="k, T, z, θ with a longer gradient.",
)
def gradient_norm_longest_class(part: Callable[[Array], Array] = jnp.max) -> Outcome:
    """The whole gradient is no longer than √k times its part for one class, the longest.

    `part` goes from the norms of all classes' parts to that of the one.
    """
    found = {k: gradient_over_part(part, k) for k in CLASSES}
    shortest = gradient_over_part(jnp.min, STUDIED_CLASSES)
    counts = " and ".join(map(str, CLASSES))
    return Outcome(
        worst=max(f.ratio for f in found.values()) - 1,
        looked=f"{found[STUDIED_CLASSES].looked}, each for {counts} classes",
        tightness=found[STUDIED_CLASSES].ratio,
        finding=(
            "The largest gradients found are "
            f"{' and '.join(f'{found[k].ratio:.4f}' for k in CLASSES)} of √k times that part, for "
            f"{counts} classes. Read of a class of one's choice it fails: the part of an unlikely "
            f"class can be {shortest.ratio:.1g} times too short."
        ),
    )


@stated("Eq. 5", refuted_by="k, T, z, θ with a longer gradient.")
def gradient_norm_multiclass(bound: Callable[[int], float] = math.sqrt) -> Outcome:
    """The tempered softmax loss of k classes has a gradient no longer than √k |T| |z|.

    Tightness is that at ten classes.
    """
    found = {k: steepest(k) for k in CLASSES}
    counts = " and ".join(map(str, CLASSES))
    longest = ", ".join(f"{found[k].ratio:.6f} for {k}" for k in CLASSES)
    return Outcome(
        worst=max(found[k].ratio - bound(k) for k in CLASSES),
        looked=f"{found[STUDIED_CLASSES].looked}, each for {counts} classes",
        tightness=found[STUDIED_CLASSES].ratio / bound(STUDIED_CLASSES),
        finding=(
            f"The longest gradients found, in units of |T| |z|, are {longest} classes; the bound "
            f"there is {', '.join(f'{bound(k):.4g}' for k in CLASSES)}."
        ),
    )


@stated("Eq. 5, sharpened here", refuted_by="k, T, z, θ with a longer gradient.", ours=True)
def gradient_norm_multiclass_sharp(
    bound: Callable[[int], float] = lambda k: math.sqrt(2),
) -> Outcome:
    """Whatever the number of classes, that gradient is no longer than √2 |T| |z|.

    For |p - y| < √2, p and y being distributions.
    """
    return gradient_norm_multiclass.check(bound)
