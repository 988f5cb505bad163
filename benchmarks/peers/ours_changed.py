"""Our step with one thing changed that may make it faster on an accelerator."""

from __future__ import annotations

import jax
from problem import Problem

from dpstudy.gradients import convolution
from peers.jax_training import JaxContestant
from peers.ours import clipping, fixed, network_of
from peers.products_jax import PRECISIONS

MICROBATCH = 256


def by_products() -> None:
    """Have all convolutions be products of patches, whose precision can be chosen."""
    convolution.as_products = lambda: True
    convolution.Window.direct = False


def grouped(images: jax.Array, gradients: jax.Array, window: convolution.Window) -> jax.Array:
    """Return each example's gradient of a kernel of stride 1, by one convolution in groups."""

    def of_one(image: jax.Array, gradient: jax.Array) -> jax.Array:
        channels = image.transpose(2, 0, 1)[..., None]
        return convolution._direct(channels, gradient[:, :, None], window.padding)

    return jax.vmap(of_one)(images, gradients)


def in_groups() -> None:
    """Take kernels' gradients by convolutions in groups, where strides are 1."""
    convolution.Window.direct_gradients = lambda window, extent: window.strides == (1, 1)
    convolution.kernel_gradients = grouped


def multiplied_as(precision: str) -> None:
    """Have products be of a precision, whatever the engine asks for: its ε is then no ε."""
    wanted = jax.default_matmul_precision
    jax.default_matmul_precision = lambda _: wanted(precision)


CHANGES = (
    "nothing changed",
    "microbatches of 64",
    "microbatches of 1024",
    "the whole batch in one pass",
    "products for all convolutions",
    "convolutions in groups",
    *(f"products in {name}" for name in PRECISIONS if name != "float32"),
)


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, with the change `variant`."""
    microbatch = MICROBATCH
    kind, _, which = variant.rpartition(" ")
    if kind == "microbatches of":
        microbatch = int(which)
    elif variant == "the whole batch in one pass":
        microbatch = problem.batch
    elif variant == "convolutions in groups":
        in_groups()
    elif variant.startswith("products"):
        by_products()
        if (name := variant.removeprefix("products in ")) in PRECISIONS:
            multiplied_as(PRECISIONS[name])
    return clipping(problem, network_of(problem), fixed, min(microbatch, problem.batch))
