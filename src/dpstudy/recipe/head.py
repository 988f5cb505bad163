"""A linear head trained by DP-SGD on features of norm 1, and the mean that is released first."""

import secrets
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float, Float16, Int

from dpstudy.gradients import devices
from dpstudy.parts import mechanism, sampling
from dpstudy.parts.data.released_statistics import bounded_sums
from dpstudy.parts.networks.network import DenseOnly
from dpstudy.parts.sampling import Draw
from dpstudy.privacy import secure
from dpstudy.recipe.settings import Settings
from dpstudy.recipe.whitened import centre
from dpstudy.training.own_network import private_gradient

Features = Float16[np.ndarray, "n k"]


class Randomness(Protocol):
    """Where noise and batches come from."""

    def normal(self, count: int) -> Float[np.ndarray, "count"]:
        """Draw so many standard normals."""

    def poisson(self, step: int, examples: int, batch: int) -> Draw:
        """Draw the examples of a step, the first being 0."""

    def noise(self, standard_deviation: float) -> optax.GradientTransformation:
        """Return what adds noise to a sum, other at each step."""


class Seeded(Randomness):
    """JAX's and NumPy's generators, from one seed: secret, of 128 bits, unless it is given."""

    def __init__(self, seed: int | None = None):
        # Of 128 bits; a key of JAX's threefry has 64.
        source = np.random.SeedSequence(secrets.randbits(128) if seed is None else seed)
        mean, batches, noise = source.spawn(3)
        self._mean = np.random.default_rng(mean)
        self._batches, self._noise = _key(batches), _key(noise)
        self._poisson = jax.jit(sampling.poisson, static_argnums=(1, 2))

    def normal(self, count: int) -> Float[np.ndarray, "count"]:
        return self._mean.normal(size=count)

    def poisson(self, step: int, examples: int, batch: int) -> Draw:
        return self._poisson(jax.random.fold_in(self._batches, step), examples, batch)

    def noise(self, standard_deviation: float) -> optax.GradientTransformation:
        return mechanism.gaussian_noise(standard_deviation, self._noise)


class Secure(Randomness):
    """The operating system's generator; see `secure`."""

    def normal(self, count: int) -> Float[np.ndarray, "count"]:
        return secure.normal((count,))

    def poisson(self, step: int, examples: int, batch: int) -> Draw:
        del step
        return secure.poisson(examples, batch)

    def noise(self, standard_deviation: float) -> optax.GradientTransformation:
        return secure.gaussian_noise(standard_deviation)


def _key(source: np.random.SeedSequence) -> Array:
    return jax.random.wrap_key_data(source.generate_state(2, np.uint32), impl="threefry2x32")


def fit(
    found: Features,
    labels: Int[np.ndarray, "n"],
    classes: int,
    settings: Settings,
    randomness: Randomness,
) -> tuple[Float[np.ndarray, "k classes"], Float[np.ndarray, "k"]]:
    """Return a head's weights and the released mean, or 0, which is taken from `found` in place."""
    mean = np.zeros(found.shape[1])
    if settings.release_noise:
        mean = released_mean(found, settings.release_noise, randomness)
    return train(centred(found, mean), labels, classes, settings, randomness), mean


def centred(vectors: Features, mean: Float[np.ndarray, "k"]) -> Features:
    """Take a mean from vectors, in place, each of norm 1 again; nothing where the mean is 0."""
    if mean.any():
        centre(vectors, mean)
    return vectors


def released_mean(
    found: Features, noise_multiplier: float, randomness: Randomness
) -> Float[np.ndarray, "k"]:
    """Release the mean of vectors of norm 1, with noise of that multiplier on their sum.

    As `released_statistics.release_mean`; then it is scaled towards 0 by as much as its noise is
    of its length (James and Stein 1961), which looks at nothing but what is released.
    """
    [total] = bounded_sums(found, lambda part: [np.float64(part)], [1.0])
    count, features = found.shape
    mean = (total + noise_multiplier * randomness.normal(features)) / count
    expected = features * (noise_multiplier / count) ** 2
    return mean * max(0.0, 1 - expected / max(mean @ mean, expected))


def train(
    found: Features,
    labels: Int[np.ndarray, "n"],
    classes: int,
    settings: Settings,
    randomness: Randomness,
) -> Float[np.ndarray, "k classes"]:
    """Return the weights of a head without bias, trained from zeros, with a bar over the steps.

    Raises:
        RuntimeError: a Poisson draw exceeded its capacity (probability below 1e-15).
    """
    from dpstudy.progress import tqdm

    microbatch = DenseOnly.microbatch["cores" if devices.backend() == "cpu" else "accelerator"]
    zeros = nnx.initializers.zeros
    head = nnx.Linear(found.shape[1], classes, use_bias=False, kernel_init=zeros, rngs=nnx.Rngs(0))
    gradient, params = private_gradient(
        head, _losses, clip_norm=settings.clip_norm, microbatch=microbatch
    )
    # The number of examples, and so the expected batch, is public.
    mean = optax.scale(1 / settings.batch)
    rule = optax.chain(mean, optax.sgd(settings.learning_rate, momentum=settings.momentum))
    noise = randomness.noise(settings.noise_multiplier * gradient.sensitivity)
    summed = jax.jit(gradient)

    @jax.jit
    def updated(params: nnx.State, noisy: nnx.State, state: optax.OptState) -> tuple:
        updates, state = rule.update(noisy, state)
        return optax.apply_updates(params, updates), state

    examples, labels = jnp.asarray(found), jnp.asarray(labels)
    state, counted = rule.init(params), noise.init(params)
    for step in tqdm(range(settings.steps), desc="private steps", unit="step"):
        draw = randomness.poisson(step, settings.examples, settings.batch)
        if draw.overflow:
            raise RuntimeError(f"a Poisson draw exceeded its capacity in step {step + 1}")
        total = summed(params, examples, labels, draw)
        noisy, counted = noise.update(total, counted)
        params, state = updated(params, noisy, state)
    return np.asarray(params["kernel"][...])


def _losses(
    network: nnx.Module, x: Float16[Array, "batch k"], y: Int[Array, "batch"]
) -> Float[Array, "batch"]:
    logits = network(x.astype(jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(logits, y)
