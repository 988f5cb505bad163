"""What losing less looks at inside a network while it trains: its Figures 1, 2, 5 to 9 and 15."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from dpstudy.gradients import per_example
from dpstudy.gradients.layers import names_of
from dpstudy.parts.measure import EDGES, SHAPES, Examples, Measure, Snapshot, counts_by_norm
from dpstudy.parts.mechanism import ByNorm, Mechanism
from dpstudy.parts.part import SpecError, part, positive

Vector = Float[Array, "numbers"]
CLASSES = 10
SHAPES |= {"clipping-bias.counts": (len(EDGES) - 1,), "confusion.counts": (CLASSES, CLASSES)}
SHAPES |= {"clipping-bias.cosine": (), "smoothness.largest": ()}
SHAPES |= {"layer-norms.logits": (), "layer-norms.last_weights": ()}


@part("clipping-bias")
class ClippingBias(Measure):
    """Of per-example gradients, by the clip of the run's mechanism (Figures 1, 7 and 8).

    `counts`: examples by the norm of their gradient before clipping, as in `BoundedNorms`.
    `cosine`: between the mean of the clipped gradients and that of the unclipped ones.
    """

    def check_mechanism(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, ByNorm):
            raise SpecError(f"{self.kind!r} is of clips by norm, got {mechanism.kind!r}")

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        graph = snapshot.network.graph()

        def of_chunk(chunk: Examples) -> tuple[Array, nnx.State, nnx.State]:
            _, gradients = per_example.gradients(graph, snapshot.losses, snapshot.params, *chunk)
            norms = gradients.norms()
            clipped = gradients.weighted_sum(snapshot.mechanism.coefficients(norms))
            return norms, clipped, gradients.weighted_sum(jnp.ones_like(norms))

        norms, *means = snapshot.in_chunks(of_chunk)
        clipped, plain = jax.tree.map(lambda sums: sums.sum(axis=0), tuple(means))
        lengths = optax.tree.norm(clipped) * optax.tree.norm(plain)
        cosine = optax.tree.vdot(clipped, plain) / jnp.maximum(lengths, 1e-30)
        return {"counts": counts_by_norm(norms), "cosine": cosine}


@part("confusion")
class Confusion(Measure):
    """`counts`: training examples by their class, a row each, and by what they are taken for.

    Figures 9 and 15.
    """

    def __call__(self, snapshot: Snapshot) -> dict[str, Int[Array, "classes classes"]]:
        def of_chunk(chunk: Examples) -> Array:
            return snapshot.outputs(chunk.images).logits.argmax(axis=1)

        taken_for = snapshot.in_chunks(of_chunk).reshape(-1)
        cells = snapshot.train.labels.astype(int) * CLASSES + taken_for
        return {"counts": jnp.bincount(cells, length=CLASSES**2).reshape(CLASSES, CLASSES)}


@part("layer-norms")
class LayerNorms(Measure):
    """l2 norms by layer, in the order of the network (Figures 1, 5 and 6).

    `weights`: of kernel and bias together; `last_weights`: of the last. `hidden`: of a hidden
    layer's pre-activations, mean over examples. `logits`: likewise.
    """

    def __call__(self, snapshot: Snapshot) -> dict[str, Float[Array, "..."]]:
        def of_chunk(chunk: Examples) -> tuple[Array, list[Array]]:
            logits, hidden = snapshot.outputs(chunk.images)
            return _norms(logits), [_norms(layer) for layer in hidden]

        logits, hidden = jax.tree.map(jnp.mean, snapshot.in_chunks(of_chunk))
        layers: dict[tuple, list[Array]] = {}
        for path, leaf in jax.tree.leaves_with_path(snapshot.params):
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


@part("smoothness")
class Smoothness(Measure):
    """`largest`: the largest absolute eigenvalue of the mean loss' Hessian (Figure 2), by Lanczos.

    A lower bound that is near it: the largest within a space of so many dimensions as `steps`.
    """

    examples: int = 200
    steps: int = 12

    def check(self) -> None:
        positive(self, "examples", "steps")

    def __call__(self, snapshot: Snapshot) -> dict[str, Float[Array, ""]]:
        graph = snapshot.network.graph()
        seen = jax.tree.map(lambda x: x[: self.examples], snapshot.train)
        flat, shaped = ravel_pytree(snapshot.params)

        def slope(flat: Vector) -> Vector:
            def loss(flat: Vector) -> Array:
                return snapshot.losses(nnx.merge(graph, shaped(flat)), *seen).mean()

            return jax.grad(loss)(flat)

        def product(direction: Vector) -> Vector:
            # Twice backwards: the layers' own rules have no forward derivative.
            return jax.grad(lambda at: jnp.vdot(slope(at), direction))(flat)

        return {"largest": largest_eigenvalue(product, flat.size, self.steps)}


def largest_eigenvalue(
    product: Callable[[Vector], Vector], size: int, steps: int
) -> Float[Array, ""]:
    """Return the largest absolute eigenvalue of a symmetric matrix, by `steps` of Lanczos.

    `product` is of the matrix with a vector of that `size`, which `steps` do not exceed.
    """
    first = jax.random.normal(jax.random.key(0), (size,))
    basis = jnp.zeros((steps + 1, size)).at[0].set(first / jnp.linalg.norm(first))

    def step(basis: Array, at: Array) -> tuple[Array, Array]:
        image = product(basis[at])
        row = basis @ image
        # Twice, or rounding lets eigenvectors already found come back.
        rest = image - basis.T @ row
        rest = rest - basis.T @ (basis @ rest)
        length = jnp.linalg.norm(rest)
        return basis.at[at + 1].set(rest / jnp.maximum(length, 1e-30)), row[:-1]

    _, projected = jax.lax.scan(step, basis, jnp.arange(steps))
    # What lies above the diagonal was not known yet when its row was taken.
    lower = jnp.tril(projected)
    symmetric = lower + lower.T - jnp.diag(jnp.diag(lower))
    return jnp.abs(jnp.linalg.eigvalsh(symmetric)).max()
