"""Norms layer by layer: of weights, pre-activations and logits (losing less, Figures 1, 5, 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import nnx

from dpstudy.gradients.layers import names_of
from dpstudy.parts.measure import Examples, Measure, Moment, in_chunks
from dpstudy.parts.part import part

if TYPE_CHECKING:
    from jaxtyping import Array, Float


@part("layer-norms")
class LayerNorms(Measure):
    """l2 norms by layer, in the order of the network.

    `weights`: of a layer's kernel and bias together; `last_weights`: of the last. `hidden`: of
    a hidden layer's pre-activations, mean over examples. `logits`: likewise.
    """

    def __call__(self, moment: Moment) -> dict[str, Float[Array, "..."]]:
        module = nnx.merge(moment.network.graph(), moment.params)

        def of_chunk(chunk: Examples) -> tuple[Array, list[Array]]:
            prepared = moment.dataset.prepare(chunk.images)
            logits, hidden = moment.network.outputs(module, prepared)
            return _norms(logits), [_norms(layer) for layer in hidden]

        logits, hidden = jax.tree.map(jnp.mean, jax.lax.map(of_chunk, in_chunks(moment.train)))
        layers: dict[tuple, list[Array]] = {}
        for path, leaf in jax.tree.leaves_with_path(moment.params):
            layers.setdefault(names_of(path)[:-1], []).append(jnp.sum(leaf**2))
        weights = jnp.sqrt(jnp.stack([sum(squares) for squares in layers.values()]))
        return {
            "weights": weights,
            "last_weights": weights[-1],
            "hidden": jnp.stack(hidden),
            "logits": logits,
        }


def _norms(of: Float[Array, "batch *units"]) -> Float[Array, "batch"]:
    return jnp.linalg.norm(of.reshape(len(of), -1), axis=1)
