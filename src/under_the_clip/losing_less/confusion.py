"""Which classes are taken for which (losing less, Figures 9 and 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import nnx

from dpstudy.parts.measure import Examples, Measure, Moment, in_chunks
from dpstudy.parts.part import part

if TYPE_CHECKING:
    from jaxtyping import Array, Int

CLASSES = 10


@part("confusion")
class Confusion(Measure):
    """`counts`: training examples by their class, a row each, and by what they are taken for."""

    def __call__(self, moment: Moment) -> dict[str, Int[Array, "classes classes"]]:
        module = nnx.merge(moment.network.graph(), moment.params)

        def of_chunk(chunk: Examples) -> Array:
            prepared = moment.dataset.prepare(chunk.images)
            return moment.network.outputs(module, prepared).logits.argmax(axis=1)

        taken_for = jax.lax.map(of_chunk, in_chunks(moment.train)).reshape(-1)
        cells = moment.train.labels.astype(int) * CLASSES + taken_for
        return {"counts": jnp.bincount(cells, length=CLASSES**2).reshape(CLASSES, CLASSES)}
