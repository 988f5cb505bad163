"""Means and variances of private features, released with noise once, before the first step.

`release_mean` is for vectors of norm 1. The rest is as Tramèr and Boneh (2021) normalise scattering
coefficients. Of an example two vectors count: the mean of each channel over positions, and that of
its square. A vector longer than a bound is scaled down to it, so that one example more or less
moves the sum of either by at most its bound, and Gaussian noise of σ times the bound is added to
each sum: two releases with noise multiplier σ, which together cost what one with σ/√2 does.

Their code takes the medians of the private vectors' lengths for bounds, "technically a small
privacy leak". Here they are the medians of synthetic images, which are nobody's.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float16

from dpstudy.parts.part import SpecError

Features = Float16[np.ndarray, "n h w c"]
Vectors = Float[np.ndarray, "n c"]
VectorsOf = Callable[[np.ndarray], Sequence[Vectors]]

# The least noise multiplier of what is released.
_LEAST_NOISE = 1.0
# Added to a variance: that of PyTorch's normalisations.
EPSILON = 1e-5
_CHUNK = 1_000


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
    """Release the statistics of examples' features, with `noise_multiplier` on each of two sums.

    `bounds` are on the length of an example's means, and of its mean squares.
    """
    mean, square = _noisy_means(features, means_and_squares, bounds, noise_multiplier, seed)
    return Statistics(mean, np.maximum(square - mean**2, 0))


def release_mean(
    features: Float16[np.ndarray, "n k"],
    noise_multiplier: float,
    seed: int | np.random.SeedSequence,
) -> Float[np.ndarray, "k"]:
    """Release the mean of vectors of norm 1, with Gaussian noise of that multiplier on their sum.

    One example more or less moves the sum by at most 1: what rounding makes longer is scaled down.

        >>> features = np.float16([[1, 0], [0, 1], [0, 2], [np.inf, 0]])
        >>> release_mean(features, 0.0, seed=0)  # the third counts as [0, 1], the last not at all
        array([0.25, 0.5 ])
    """
    [mean] = _noisy_means(features, lambda part: [np.float64(part)], [1.0], noise_multiplier, seed)
    return mean


def _noisy_means(
    features: np.ndarray, vectors_of: VectorsOf, bounds: Sequence[float], noise: float, seed: Any
) -> list[Float[np.ndarray, "c"]]:
    draw, totals = np.random.default_rng(seed), bounded_sums(features, vectors_of, bounds)
    return [
        (total + draw.normal(scale=noise * bound, size=total.shape)) / len(features)
        for total, bound in zip(totals, bounds, strict=True)
    ]


def bounded_sums(
    features: Float16[np.ndarray, "n *shape"], vectors_of: VectorsOf, bounds: Sequence[float]
) -> Float[np.ndarray, "bounds c"]:
    """Return the sums of examples' vectors, those longer than a bound scaled down to it.

    A vector whose length is not finite counts as 0: it would show through any noise.
    """
    totals = np.zeros((len(bounds), features.shape[-1]))
    for start in range(0, len(features), _CHUNK):
        for at, vectors in enumerate(vectors_of(features[start : start + _CHUNK])):
            with np.errstate(over="ignore", invalid="ignore"):
                lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            finite = np.isfinite(lengths[:, 0])
            totals[at] += (vectors[finite] / np.maximum(lengths[finite] / bounds[at], 1)).sum(0)
    return totals


def means_and_squares(features: Features) -> tuple[Vectors, Vectors]:
    """Return of each example the mean of each channel over positions, and that of its square."""
    flat = features.reshape(len(features), -1, features.shape[-1]).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return flat.mean(1), np.square(flat).mean(1)


def normalised(features: Features, by: Statistics) -> Features:
    """Return features less their mean, over their standard deviation."""
    found = np.empty(features.shape, np.float16)
    for start in range(0, len(features), _CHUNK):
        part = slice(start, start + _CHUNK)
        found[part] = (np.float32(features[part]) - by.mean) / np.sqrt(by.variance + EPSILON)
    return found
