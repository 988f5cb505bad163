"""What a run's network computes: its activation, and from raw images to per-example losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from dpstudy import activations, models
from dpstudy.losses import LOSSES

if TYPE_CHECKING:
    from flax import nnx
    from jaxtyping import Array, Float

    from dpstudy.gradients.per_example import Losses
    from dpstudy.spec import Run

    Numbers = dict[str, Float[Array, ""]]

# Of red, green and blue, as torchvision's models take them.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


def objective(shape: Run, numbers: Numbers) -> Losses:
    """Return the function from network, raw images and labels to per-example losses."""
    activation = activation_of(shape, numbers)
    loss = LOSSES[shape.loss]

    def losses(network: nnx.Module, images: Array, labels: Array) -> Float[Array, "batch"]:
        return loss(network(normalized(images, shape.normalization), activation), labels)

    return losses


def activation_of(shape: Run, numbers: Numbers) -> models.Activation:
    """Return the hidden activation of a run, or those of its layers."""
    if shape.activation == "relu":
        return activations.relu
    if shape.activation == "none":
        return lambda x: x

    def tempered(layer: str = "") -> models.Elementwise:
        triplet = (f"{name}{layer}" for name in ("scale", "inverse_temperature", "offset"))
        scale, inverse_temperature, offset = (numbers[name] for name in triplet)
        return lambda x: activations.tempered_sigmoid(x, scale, inverse_temperature, offset)

    if shape.activation == "layer-wise":
        return tuple(tempered(layer) for layer in ("", "_2", "_3"))
    return tempered()


def normalized(images: Array, normalization: str) -> Array:
    """Return byte images as the floats that a network is given (`Run.normalization`)."""
    images = images.astype(jnp.float32) / 255
    if normalization == "imagenet":
        return (images - jnp.array(IMAGENET_MEAN)) / jnp.array(IMAGENET_DEVIATION)
    return images
