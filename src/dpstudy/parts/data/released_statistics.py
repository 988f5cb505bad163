"""Means and variances of private features, released with noise once, before the first step.

`release_mean` is for vectors of norm 1. The rest is as Tramèr and Boneh (2021) normalise scattering
coefficients for MNIST and CIFAR-10. Of an example two vectors count: the mean of each channel over
positions, and the mean of its square. A vector that is longer than a bound is scaled down to it, so
that one example more or less moves the sum of either by at most its bound, and Gaussian noise of σ
times the bound is added to each sum. That is two releases with noise multiplier σ, which together
cost what one with σ/√2 does.

Their code takes the medians of the private vectors' lengths for bounds, "technically a small
privacy leak". Here they are the medians of synthetic images, which are nobody's.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpstudy.parts.data import scattering_transform as scattering_features
from dpstudy.parts.data import synthetic_images
from dpstudy.parts.part import SpecError

if TYPE_CHECKING:
    from jaxtyping import Float, Float16

    Features = Float16[np.ndarray, "n h w c"]
    Vectors = Float[np.ndarray, "n c"]

# The least noise multiplier of what is released.
_LEAST_NOISE = 1.0
# Added to a variance: that of PyTorch's normalisations.
EPSILON = 1e-5
_SYNTHETIC, _CHUNK = 500, 1_000


class Statistics(NamedTuple):
    """Of each channel, over examples and positions."""

    mean: Float[np.ndarray, "c"]
    variance: Float[np.ndarray, "c"]


def check_noise(released: float) -> None:
    """Raise SpecError unless so much noise can be accounted for; 0 is for what is not released."""
    if released and released < _LEAST_NOISE:
        raise SpecError(
            f"released must be 0, or at least {_LEAST_NOISE:g} to be accounted for, got {released}"
        )


def release(
    features: Features, noise_multiplier: float, bounds: tuple[float, float], seed: int = 0
) -> Statistics:
    """Release the statistics of features, each of two sums with noise; see the module.

    Args:
        features: of the training examples, whose number is public.
        noise_multiplier: σ of each sum.
        bounds: on the length of an example's means, and of its mean squares.
        seed: of the noise.
    """
    draw = np.random.default_rng(seed)
    mean, square = (
        (total + draw.normal(scale=noise_multiplier * bound, size=total.shape)) / len(features)
        for total, bound in zip(bounded_sums(features, bounds), bounds, strict=True)
    )
    return Statistics(mean, np.maximum(square - mean**2, 0))


def bounded_sums(
    features: Features, bounds: tuple[float, float]
) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c"]]:
    """Return the sums over examples of their means and mean squares, each within its bound."""
    totals = np.zeros((2, features.shape[-1]))
    for start in range(0, len(features), _CHUNK):
        for at, vectors in enumerate(_of_examples(features[start : start + _CHUNK])):
            totals[at] += _bounded_sum(vectors, bounds[at])
    return totals[0], totals[1]


def _bounded_sum(vectors: Vectors, bound: float) -> Float[np.ndarray, "c"]:
    """Return the sum of vectors, those that are longer than a bound scaled down to it.

    A vector whose length is not finite counts as 0: it would show through any noise.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    finite = np.isfinite(lengths[:, 0])
    return (vectors[finite] / np.maximum(lengths[finite] / bound, 1)).sum(0)


def release_mean(
    features: Float16[np.ndarray, "n k"],
    noise_multiplier: float,
    seed: int | np.random.SeedSequence,
) -> Float[np.ndarray, "k"]:
    """Release the mean of vectors of norm 1, with Gaussian noise of that multiplier on their sum.

    One example more or less moves the sum by at most 1: what rounding makes longer is scaled down.

    Args:
        features: of the training examples, whose number is public.
        noise_multiplier: noise over sensitivity.
        seed: of the noise.
    """
    total = np.zeros(features.shape[1])
    for start in range(0, len(features), _CHUNK):
        part = features[start : start + _CHUNK].astype(np.float64)
        total += _bounded_sum(part, 1.0)
    noise = np.random.default_rng(seed).normal(scale=noise_multiplier, size=total.shape)
    return (total + noise) / len(features)


def normalised(features: Features, by: Statistics) -> Features:
    """Return features less their mean, over their standard deviation."""
    found = np.empty(features.shape, np.float16)
    for start in range(0, len(features), _CHUNK):
        part = slice(start, start + _CHUNK)
        found[part] = (np.float32(features[part]) - by.mean) / np.sqrt(by.variance + EPSILON)
    return found


@functools.cache
def public_bounds(image_shape: tuple[int, int, int]) -> tuple[float, float]:
    """Return the median lengths of what `release` bounds, of synthetic images' scattering.

    Dead leaves, and for grey images as many strokes: see `synthetic_images`.

    Raises:
        DataError: kymatio is missing.
    """
    scenes = "both" if image_shape[-1] == 1 else "dead-leaves"
    pixels = synthetic_images.draw(scenes, 0, _SYNTHETIC, image_shape)
    found = scattering_features.transform_of(image_shape)(pixels)
    means, squares = (
        float(np.median(np.linalg.norm(vectors, axis=1))) for vectors in _of_examples(found)
    )
    return means, squares


def _of_examples(features: Features) -> tuple[Vectors, Vectors]:
    flat = features.reshape(len(features), -1, features.shape[-1]).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return flat.mean(1), np.square(flat).mean(1)
