"""What the tests compare with: the papers' networks in stock `lax` operations, and tests of chance.

Nothing here uses the package's convolutions, pooling, layers or rules. Gradients come from
`jax.vmap(jax.grad(...))` over plain functions of plain dictionaries, in double precision.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from scipy import stats

# What a test runs once need not be fast. Without these, compiling takes five times as long.
quick_jit = partial(
    jax.jit,
    compiler_options={"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
)

# A test of chance at a fixed seed fails where its p-value is smaller: right code rarely does.
SUSPICIOUS = 1e-3


# --- networks ---------------------------------------------------------------------------------


def conv(x, layer, strides, padding):
    y = lax.conv_general_dilated(
        x, layer["kernel"], strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y + layer["bias"] if "bias" in layer else y


def dense(x, layer):
    y = x @ layer["kernel"]
    return y + layer["bias"] if "bias" in layer else y


def max_pool(x, stride):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, stride, stride, 1), "VALID")


def average_pool(x, stride=2):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, stride, stride, 1), "VALID") / 4


def dense_layers(params, x, activation, before):
    """Outputs of all dense layers, and what stands before each activation, of those before too."""
    x = x.reshape(len(x), -1)
    for name in sorted(name for name in params if name.startswith("dense")):
        before[name,] = dense(x, params[name])
        x = activation(before[name,])
    return before[name,], before


def mnist_network(params, x, activation, first_padding, second=((2, 2), "VALID"), pool_first=False):
    def pooled(x):
        return activation(max_pool(x, 1)) if pool_first else max_pool(activation(x), 1)

    before = {}
    before["conv1",] = conv(x, params["conv1"], (2, 2), first_padding)
    before["conv2",] = conv(pooled(before["conv1",]), params["conv2"], *second)
    return dense_layers(params, pooled(before["conv2",]), activation, before)


def tempered_cifar_network(params, x, activation):
    before = {}
    for index in range(7):
        before["convs", index] = conv(x, params["convs"][index], (1, 1), ((1, 1), (1, 1)))
        x = activation(before["convs", index])
        if index in (1, 3, 5):
            x = average_pool(x)
    before["convs", 7] = conv(x, params["convs"][7], (1, 1), ((1, 1), (1, 1)))
    return before["convs", 7].mean(axis=(1, 2)), before


def backprop_cifar_network(params, x, activation):
    before = {}
    for index in range(8):
        before["convs", index] = conv(x, params["convs"][index], (1, 1), "VALID")
        x = activation(before["convs", index])
        if index in (1, 3, 5):
            x = average_pool(x, stride=1)
    return dense_layers(params, x, activation, before)


def cifar_network(params, x, activation, convs):
    before = {}
    for index in range(convs):
        before["convs", index] = conv(x, params["convs"][index], (1, 1), ((1, 1), (1, 1)))
        x = activation(before["convs", index])
        if index % 2:
            x = max_pool(x, 2)
    return dense_layers(params, x, activation, before)


def head(params, x, activation):
    return dense_layers(params, x, activation, {})


NETWORKS = {
    # TensorFlow's "SAME" for 28 pixels, stride 2 and a kernel of 8: 6 more in all, evenly split.
    "tempered-mnist": partial(mnist_network, first_padding=((3, 3), (3, 3))),
    "losing-less-mnist": partial(mnist_network, first_padding=((2, 2), (2, 2))),
    "backprop-mnist": partial(mnist_network, first_padding=((0, 0), (0, 0))),
    "tempered-cifar": tempered_cifar_network,
    "backprop-cifar": backprop_cifar_network,
    "losing-less-cifar": partial(cifar_network, convs=6),
    "scattering-mnist": partial(
        mnist_network, first_padding=((1, 1), (1, 1)), second=((1, 1), ((1, 1), (1, 1)))
    ),
    "scattering-cifar": partial(cifar_network, convs=4),
    **dict.fromkeys(("scattering-linear-mnist", "scattering-linear-cifar"), head),
    **dict.fromkeys(("linear-head", "hidden-head"), head),
}


def cross_entropy(logits, label):
    return jax.nn.logsumexp(logits) - logits[label]


def per_example(network, activation):
    """From params, images in [0, 1] and labels to each example's own loss and gradient."""

    def loss(params, image, label):
        return cross_entropy(network(params, image[None], activation)[0][0], label)

    return jax.vmap(jax.value_and_grad(loss), (None, 0, 0))


def in_double_precision(function):
    """Compile `function` with all its floating point arguments and results in float64."""
    compiled = quick_jit(function)

    def double(x):
        x = np.asarray(x)
        return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x

    def run(*arguments):
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, compiled(*jax.tree.map(double, arguments)))

    return run


def random_images(model, count, seed=0):
    """Of the shape that the model takes; for features any numbers will do."""
    if model in ("linear-head", "hidden-head"):
        shape = (8_000,)
    elif "scattering" in model:
        shape = (7, 7, 81) if "mnist" in model else (8, 8, 243)
    else:
        shape = (28, 28, 1) if "mnist" in model else (32, 32, 3)
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (count, *shape), dtype=np.uint8), draw.integers(0, 10, count)


def random_like(params, seed=0):
    """Weights of a trained network's size, and biases that are not zero, unlike initial ones."""
    draw = np.random.default_rng(seed)

    def one(value):
        fan_in = np.prod(value.shape[:-1]) if value.ndim > 1 else 9
        return np.float32(draw.normal(size=value.shape) / np.sqrt(fan_in))

    return jax.tree.map(one, params)


# --- comparison -------------------------------------------------------------------------------


def plain(state: Any) -> Any:
    """A state of flax, or a tree of arrays, as nested dictionaries of numpy arrays in float64."""
    pure = nnx.to_pure_dict(state) if isinstance(state, nnx.State) else state
    return jax.tree.map(lambda x: np.asarray(x, np.float64), pure)


def distance(found: Any, expected: Any) -> float:
    """The largest relative l2 distance between two arrays at the same place of two trees."""
    found, expected = plain(found), plain(expected)
    assert jax.tree.structure(found) == jax.tree.structure(expected)

    def one(a, b):
        assert a.shape == b.shape, f"{a.shape} is not {b.shape}"
        difference = np.linalg.norm(a - b)
        # Not finite is never close.
        return difference / max(np.linalg.norm(b), 1e-30) if np.isfinite(difference) else np.inf

    return max(jax.tree.leaves(jax.tree.map(one, found, expected)))


def flat(per_example_gradients: Any) -> np.ndarray:
    """One row an example: all parameters end to end."""
    leaves = jax.tree.leaves(plain(per_example_gradients))
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def flat_sum(gradient: Any) -> np.ndarray:
    return np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(plain(gradient))])


def clipped(rows: np.ndarray, clip_norm: float) -> np.ndarray:
    """Each row scaled down to norm C where it is longer: Eq. 2 of tempered sigmoids, by hand."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > clip_norm, rows * (clip_norm / np.maximum(norms, 1e-300)), rows)


# --- tests of chance --------------------------------------------------------------------------


def two_sided_chi2(statistic, freedom):
    return 2 * min(stats.chi2.sf(statistic, freedom), stats.chi2.cdf(statistic, freedom))


def uncorrelated(columns: np.ndarray) -> float:
    """p-value of all pairs of columns being uncorrelated."""
    correlations = np.corrcoef(columns, rowvar=False)[np.triu_indices(columns.shape[1], 1)]
    statistic = len(columns) * np.sum(correlations**2)
    return float(stats.chi2.sf(statistic, len(correlations)))


def gaussian_p_values(draws: np.ndarray, deviation: float) -> dict[str, float]:
    """How plausible rows of independent N(0, deviation^2) are, by what might be wrong with them."""
    scaled = draws / deviation
    later, earlier = scaled[1:].ravel(), scaled[:-1].ravel()
    return {
        "mean": float(2 * stats.norm.sf(abs(scaled.sum()) / np.sqrt(scaled.size))),
        "means": float(stats.chi2.sf(np.sum(scaled.sum(0) ** 2) / len(scaled), scaled.shape[1])),
        "variance": two_sided_chi2(np.sum(scaled**2), scaled.size),
        "between coordinates": uncorrelated(scaled),
        "between steps": float(
            2 * stats.norm.sf(abs(later @ earlier) / np.sqrt(later.size)) if len(draws) > 1 else 1
        ),
        "shape": float(stats.kstest(scaled.ravel(), "norm").pvalue),
    }


def poisson_p_values(included: np.ndarray, probability: float) -> dict[str, float]:
    """How plausible it is that each example is in each draw (row) with `probability`, alone."""
    draws, examples = included.shape
    variance = probability * (1 - probability)
    standard = (included - probability) / np.sqrt(variance)
    counts = standard.sum(axis=1) / np.sqrt(examples)
    return {
        "rate": stats.binomtest(int(included.sum()), draws * examples, probability).pvalue,
        "rate of each": float(stats.chi2.sf(np.sum(standard.sum(axis=0) ** 2) / draws, examples)),
        "variance of the count": two_sided_chi2(np.sum(counts**2), draws),
        "pairs": uncorrelated(included),
    }


def suspicious(p_values: dict[str, float]) -> set[str]:
    """What a test of chance objects to."""
    return {name for name, p_value in p_values.items() if not p_value >= SUSPICIOUS}
