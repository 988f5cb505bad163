"""Tempered sigmoids: a loss with an inverse temperature, and its gradient norms (Eq. 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.propositions.search import Found, search
from dpstudy.propositions.statement import Outcome, Statement

if TYPE_CHECKING:
    from jaxtyping import Array, Float

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


def _draw(rng: np.random.Generator, temperatures: np.ndarray, classes: int | None) -> Any:
    rows, n = () if classes is None else (classes,), len(temperatures)
    return temperatures, rng.normal(size=(n, _FEATURES)), rng.normal(size=(n, *rows, _FEATURES))


@cache
def steepest(classes: int | None) -> Found:
    """Search for the largest gradient of the loss over |T| |z|; None: the binary loss.

    Every case carries its own T, drawn over both signs and climbed with the rest.
    """

    def draw(rng: np.random.Generator, n: int) -> Any:
        return _draw(rng, 3 * rng.normal(size=n), classes)

    return search(_unit_gradient, draw, climbers=8)


def steepest_by_temperature(classes: int | None, temperatures: np.ndarray) -> np.ndarray:
    """Return, for each T, the largest gradient over |z| that a search with that T finds."""

    def sides(case: Any) -> tuple[Array, Array]:
        return _unit_gradient((jax.lax.stop_gradient(case[0]), *case[1:]))

    climbers = 4 * len(temperatures)
    found = search(
        sides,
        lambda rng, n: _draw(rng, np.resize(temperatures, n), classes),
        cases=climbers,
        climbers=climbers,
    )
    climbed = found.climbed[0]
    largest = [found.ratios[climbed == temperature].max() for temperature in temperatures]
    return np.abs(temperatures) * np.array(largest)


def binary_gradient(bound: float = 1.0) -> Outcome:
    """Search for a gradient of the logistic loss longer than `bound` times |T| |z| (Eq. 4)."""
    found = steepest(None)
    return Outcome(
        worst=found.ratio - bound,
        looked=found.looked,
        tightness=found.ratio / bound,
        finding=(
            f"The longest gradient found is {found.ratio:.6f} |T| |z|, where the example is "
            "grossly misclassified."
        ),
    )


@cache
def steepest_class() -> Found:
    """Search for the longest part of the gradient that one class's weights have, over |T| |z|."""

    def sides(case: Any) -> tuple[Array, Array]:
        temperature, z, theta = case
        gradient = jax.grad(multiclass_loss)(theta, z, temperature)
        longest = jnp.max(jnp.linalg.norm(gradient, axis=1))
        return longest / (jnp.abs(temperature) * jnp.linalg.norm(z)), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> Any:
        return _draw(rng, 3 * rng.normal(size=n), STUDIED_CLASSES)

    return search(sides, draw, climbers=8)


def class_gradient(bound: float = 1.0) -> Outcome:
    """Search for one class's part of the softmax gradient longer than `bound` times |T| |z|."""
    found = steepest_class()
    return Outcome(
        worst=found.ratio - bound,
        looked=f"{found.looked}, for {STUDIED_CLASSES} classes",
        tightness=found.ratio / bound,
        finding=f"The longest found is {found.ratio:.6f} |T| |z|.",
    )


def multiclass_gradient(bound: Callable[[int], float] = math.sqrt) -> Outcome:
    """Search for a gradient of the softmax loss longer than `bound(k)` |T| |z| (Eq. 5).

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


@cache
def gradient_over_part(part: Callable[[Array], Array], classes: int) -> Found:
    """Search for the largest gradient over √k times what `part` makes of its classes' norms."""

    def sides(case: Any) -> tuple[Array, Array]:
        temperature, z, theta = case
        gradient = jax.grad(multiclass_loss)(theta, z, temperature)
        of_classes = jnp.linalg.norm(gradient, axis=1)
        return jnp.linalg.norm(gradient), math.sqrt(len(theta)) * part(of_classes)

    def draw(rng: np.random.Generator, n: int) -> Any:
        return _draw(rng, 3 * rng.normal(size=n), classes)

    # Not climbed over the shortest: as probabilities go to 0, the ratio grows until it overflows.
    return search(sides, draw, climbers=8, steps=0 if part is jnp.min else 300)


def gradient_by_one_class(part: Callable[[Array], Array] = jnp.max) -> Outcome:
    """Search for a gradient longer than √k times its part for one class (text after Eq. 5).

    Tightness is that at ten classes.

    Args:
        part: from the norms of all classes' parts to that of the one.
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


def log_of_a_member(offset: float = 0.0) -> Outcome:
    """Compare the tempered logistic loss with ln(1/φ), φ having s = 1 and an offset."""

    def sides(case: Any) -> tuple[Array, Array]:
        temperature, z, theta = case
        loss = binary_loss(theta, z, temperature)
        # As printed: the one used for training loses the digits of an output next to -o.
        member = 1 / (1 + jnp.exp(-temperature * (z @ theta))) - offset
        return jnp.abs(-jnp.log(member) - loss), _EQUAL * jnp.maximum(loss, 1.0)

    def draw(rng: np.random.Generator, n: int) -> Any:
        return _draw(rng, 3 * rng.normal(size=n), None)

    # Not climbed, which leads to where 1/φ overflows.
    found = search(sides, draw, cases=4096, steps=0)
    return Outcome(
        worst=found.worst,
        looked=found.looked,
        finding=(
            f"The largest distance found is {found.ratio * _EQUAL:.1e} of the larger of 1 and the "
            "loss."
        ),
    )


def root_two(classes: int) -> float:
    """Return what holds for any number of classes: |p - y| < √2, p and y being distributions."""
    del classes
    return math.sqrt(2)


_KEY = "papernot2021tempered"
STATEMENTS = (
    Statement(
        name="loss-of-a-member",
        paper=_KEY,
        where="text before Eq. 4",
        says=(
            "The tempered logistic loss is ln(1/φ), where φ has s = 1 and, which the paper leaves "
            "open, o = 0."
        ),
        refuted_by="T, z, θ at which the two differ.",
        check=log_of_a_member,
    ),
    Statement(
        name="gradient-norm-binary",
        paper=_KEY,
        where="Eq. 4",
        says="The tempered logistic loss has a gradient no longer than |T| |z|.",
        refuted_by="T, z, θ with a longer gradient.",
        check=binary_gradient,
    ),
    Statement(
        name="gradient-norm-class",
        paper=_KEY,
        where="Eq. 5 and the text around it",
        says="The weights of any class get a gradient no longer than |T| |z|.",
        refuted_by="k, T, z, θ and a class with a longer one.",
        check=class_gradient,
    ),
    Statement(
        name="gradient-norm-longest-class",
        paper=_KEY,
        where="text after Eq. 5, which does not say of which class",
        says="The whole gradient is no longer than √k times its part for one class, the longest.",
        refuted_by="k, T, z, θ with a longer gradient.",
        check=gradient_by_one_class,
    ),
    Statement(
        name="gradient-norm-multiclass",
        paper=_KEY,
        where="Eq. 5",
        says="The tempered softmax loss of k classes has a gradient no longer than √k |T| |z|.",
        refuted_by="k, T, z, θ with a longer gradient.",
        check=multiclass_gradient,
    ),
    Statement(
        name="gradient-norm-multiclass-sharp",
        ours=True,
        paper=_KEY,
        where="Eq. 5, sharpened here",
        says="Whatever the number of classes, that gradient is no longer than √2 |T| |z|.",
        refuted_by="k, T, z, θ with a longer gradient.",
        check=lambda: multiclass_gradient(root_two),
    ),
)
