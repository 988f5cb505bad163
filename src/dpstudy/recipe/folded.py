"""A head written out over features, as a model's file keeps it: it needs no basis.

A trained head weighs principal components, and those hang on the machine. Fitted again from the
same seed with another number of threads, components of nearly the same variance come out turned
into one another, with other signs, and the smallest with variances that differ by per cents: the
weights then mean something else. To ship the basis takes a gigabyte. To fit it again takes minutes
and 4 GB, and not even double precision on one thread makes another processor round alike.

What a head makes of an image does not hang on all that. Scaled components z are linear in features,
and so are a score and the product with the released mean before z is divided by its norm: weights,
mean and basis fold into one matrix, with a column for each class and one for the mean. The norm is
that of a random projection of z onto 256 directions (Johnson and Lindenstrauss 1984), as many
columns more, which is right to 4 %; the exact one would take the whole basis. All machines make the
same error. It tempers an image's scores by so much; where there is one block and no mean, no label
changes. At full size the file takes some 15 MB, most of it for norms, and with the filters, which
are small, an image is scored in seconds: nothing is drawn or fitted again.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float16, Float32, UInt8

from dpstudy.errors import DataError
from dpstudy.gradients import devices
from dpstudy.parts.data.dataset import of_each_image
from dpstudy.recipe.basis import BATCH
from dpstudy.recipe.whitened import Whitened

# Directions that a norm is estimated in; where there are fewer components it is exact.
_DIRECTIONS = 256
# By so much of their length outputs of an image may differ: instructions of an older processor
# make 2e-6, other filters make 1.
_ALIKE = 1e-3
_FIELDS = ("scale", "maps", "offset", "witness")


class Folded(NamedTuple):
    """What a block of features is scored by: linear in them, after which only a norm is taken."""

    filters: tuple[Float[np.ndarray, "..."], ...]
    """What the features are computed with, if anything."""
    scale: Float32[np.ndarray, "features"]
    maps: Float16[np.ndarray, "features outputs"]
    """Of features times `scale`: half precision holds all of them, however flat a feature is."""
    offset: Float32[np.ndarray, "outputs"]
    witness: Float32[np.ndarray, "examples outputs"]
    """Outputs of some images that are kept beside it."""

    def outputs(
        self, block: Whitened, pixels: UInt8[np.ndarray, "n h w c"]
    ) -> Float32[np.ndarray, "n outputs"]:
        """Return the outputs of images; UserError where JAX does not start."""
        devices.backend()
        of = partial(_outputs, block, self.filters, jnp.asarray(self._weights), self.offset)
        return np.concatenate(list(of_each_image([pixels], of, f"{block.kind} of images", BATCH)))

    @property
    def _weights(self) -> Float32[np.ndarray, "features outputs"]:
        return self.scale[:, None] * self.maps

    def check(self, again: Float32[np.ndarray, "examples outputs"]) -> None:
        """Raise DataError unless outputs that were computed again are those of the training."""
        if not np.linalg.norm(again - self.witness) < _ALIKE * np.linalg.norm(self.witness):
            raise DataError(
                "the features computed here are not those that the model was trained on: use the "
                "version of this package that it was trained with, or train again"
            )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all of it by names, as `of_arrays` takes it."""
        banks = {f"filters_{number}": bank for number, bank in enumerate(self.filters)}
        return banks | {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return what `arrays` returned; KeyError where one is missing."""
        banks = sorted(set(arrays) - set(_FIELDS))
        return cls(tuple(arrays[bank] for bank in banks), *(arrays[name] for name in _FIELDS))


def width(block: Whitened, columns: int) -> int:
    """Return how many outputs there are of so many columns of weights.

    >>> from dpstudy.recipe.features import SyntheticFeatures
    >>> width(SyntheticFeatures(components=8_000), columns=11)
    267
    """
    return columns + min(_DIRECTIONS, block.components)


def fold(
    block: Whitened,
    weights: Float[np.ndarray, "components columns"],
    examples: UInt8[np.ndarray, "examples h w c"],
) -> Folded:
    """Return weights of a block's components, and what their norm is estimated by, over features.

    Errors are as of `Whitened.basis`.
    """
    basis = block.basis()
    of_components = np.concatenate([weights, _projection(block.components)], axis=1)
    of_components *= basis.variances[:, None] ** -block.exponent
    found = basis.directions @ np.float32(of_components)
    scale = np.abs(found).max(1)
    maps = np.float16(found / np.where(scale > 0, scale, 1)[:, None])
    offset = (basis.mean * scale) @ np.float32(maps)
    unseen = Folded(basis.filters, scale, maps, offset, np.empty((0, len(offset)), np.float32))
    return unseen._replace(witness=unseen.outputs(block, examples))


def _projection(components: int) -> Float[np.ndarray, "components directions"]:
    """Return directions that are orthogonal, whose share of a squared norm is 1 in expectation."""
    directions = min(_DIRECTIONS, components)
    drawn = np.random.default_rng(0).normal(size=(components, directions))
    return np.linalg.qr(drawn)[0] * np.sqrt(components / directions)


def _outputs(
    block: Whitened,
    filters: tuple[np.ndarray, ...],
    weights: Float[Array, "features outputs"],
    offset: Float[np.ndarray, "outputs"],
    pixels: UInt8[np.ndarray, "n h w c"],
) -> Float[Array, "n outputs"]:
    return block.features_of(filters, pixels) @ weights - offset
