"""Tempered sigmoids: the loss of several classes as printed before Eq. 5, without a minus."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.propositions.proposition import Outcome, proposition, stated_in
from dpstudy.propositions.search import Found, search
from under_the_clip.tempered_sigmoids.propositions.gradient_norms import multiclass_loss

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Loss = Callable[[Array, Array, Array], Array]
    """From theta, z and T to a loss, class 0 being right."""

stated = partial(proposition, "papernot2021tempered")
_CLASSES, _FEATURES = 3, 3
_TINY = 1e-300


def printed_loss(theta: Float[Array, "k d"], z: Float[Array, "d"], temperature: Array) -> Array:
    """Return ln of the right class' share, as printed."""
    return -multiclass_loss(theta, z, temperature)


def _draw(rng: np.random.Generator, n: int) -> Any:
    theta = rng.normal(size=(n, _CLASSES, _FEATURES))
    return theta, rng.normal(size=(n, _FEATURES)), 3 * rng.normal(size=n)


@cache
def furthest_below_zero(loss: Loss) -> Found:
    """Search for the most negative loss."""

    def sides(case: Any) -> tuple[Array, Array]:
        return -loss(*case), jnp.ones(())

    return search(sides, _draw, climbers=4)


@cache
def wrong_way(loss: Loss) -> Found:
    """Search for the largest cosine of the gradients of the loss and of the class' log share."""

    def sides(case: Any) -> tuple[Array, Array]:
        ours, share = jax.grad(loss)(*case), -jax.grad(multiclass_loss)(*case)
        return jnp.sum(ours * share), jnp.linalg.norm(ours) * jnp.linalg.norm(share) + _TINY

    return search(sides, _draw, steps=0)


@stated(
    "text before Eq. 5, as printed",
    refuted_by="T, z, θ where it is negative, or where descent leads away from the class.",
    instead="Minus that logarithm is, and minus Eq. 5 its gradient.",
    misprint=True,
)
def multiclass_loss_sign(loss: Loss = printed_loss) -> Outcome:
    """ln of the right class' tempered softmax is a loss: at least 0, and descent on it
    makes that class likelier.
    """
    below, away = furthest_below_zero(loss), wrong_way(loss)
    mended = furthest_below_zero(multiclass_loss), wrong_way(multiclass_loss)
    return Outcome(
        worst=max(below.ratio, away.ratio),
        corrected=max(found.ratio for found in mended),
        looked=f"below 0: {below.looked}; descent: {away.looked}, for {_CLASSES} classes",
        finding=(
            f"The printed loss falls to {-below.ratio:.4g} and further the longer it is climbed; "
            f"the cosine between it and the right class' share is {away.ratio:.3f}, so that "
            f"descent leads away from that class. With a minus in front it is {mended[1].ratio:.3f}"
            ". Eq. 5 is the gradient of what is printed; no norm depends on the sign."
        ),
    )


STATEMENTS = stated_in(globals())
