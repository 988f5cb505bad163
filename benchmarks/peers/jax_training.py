"""What the contestants in JAX share: weights in and out, and a jitted, blocking step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh
from problem import Problem

from dpstudy.gradients import devices
from dpstudy.parts.loss import CrossEntropy
from dpstudy.parts.mechanism import gaussian_noise
from dpstudy.parts.networks.network import Outputs


class FlaxNetwork(nnx.Module):
    """A described network in flax, from the layers and the pooling that one wants."""

    def __init__(self, problem: Problem, conv: Callable, dense: Callable, pool: Callable):
        """Build the layers."""
        network, rngs = problem.network, nnx.Rngs(0)
        self.convs = nnx.List(
            conv(fan, c.filters, (c.size, c.size), c.stride, padding=c.padding, rngs=rngs)
            for c, _, fan, _ in network.shapes()
        )
        (features, hidden), (_, classes) = network.kernels[-2:]
        self.dense1 = dense(features, hidden, rngs=rngs)
        self.dense2 = dense(hidden, classes, rngs=rngs)
        self.pools = tuple(c.pool for c in network.convs)
        self.pool = pool

    def __call__(self, images: jax.Array, activation: Callable) -> Outputs:
        """Return the logits, as the study's networks do."""
        x = images
        for conv, stride in zip(self.convs, self.pools, strict=True):
            x = conv(x)
            x = activation(self.pool(x, stride) if stride else x)
        x = activation(self.dense1(x.reshape(len(x), -1)))
        return Outputs(self.dense2(x), ())


def stock_network(problem: Problem) -> FlaxNetwork:
    """Return the network from flax as it comes, without weights: drawing them takes memory."""

    def pool(x: jax.Array, stride: int) -> jax.Array:
        return nnx.max_pool(x, (2, 2), strides=(stride, stride))

    return nnx.eval_shape(lambda: FlaxNetwork(problem, nnx.Conv, nnx.Linear, pool))


def loss_with(activation: Callable) -> Callable:
    """Return each example's loss, as a function of network, images as bytes, and labels."""

    def each_loss(network: nnx.Module, images: jax.Array, labels: jax.Array) -> jax.Array:
        made = network(images.astype(jnp.float32) / 255, activation)
        return CrossEntropy()(*made, labels, jnp.float32(1))

    return each_loss


each_loss = loss_with(jnp.tanh)


def with_weights(params: nnx.State, layers: list[dict[str, np.ndarray]]) -> nnx.State:
    """Return the parameters with their values replaced, layer by layer."""
    flat = dict(nnx.to_flat_state(params))
    places = list(dict.fromkeys(path[:-1] for path in flat))
    for place, layer in zip(places, layers, strict=True):
        for name, value in layer.items():
            assert flat[(*place, name)].shape == value.shape, (place, name)
            flat[(*place, name)] = flat[(*place, name)].replace(jnp.array(value))
    return nnx.from_flat_state(flat)


def weights_of(params: nnx.State) -> list[dict[str, np.ndarray]]:
    """Return the values of parameters, layer by layer."""
    layers: dict[tuple, dict[str, np.ndarray]] = {}
    for path, value in nnx.to_flat_state(params):
        layers.setdefault(path[:-1], {})[path[-1]] = np.asarray(value[...])
    return list(layers.values())


def optimizer(problem: Problem, private: bool) -> optax.GradientTransformation:
    """Return noise on the sum, the batch size, and SGD with momentum."""
    mean = optax.scale(1 / problem.batch)
    rule = optax.sgd(problem.learning_rate, momentum=problem.momentum)
    if not private:
        return optax.chain(mean, rule)
    deviation = problem.noise_multiplier * problem.clip_norm
    return optax.chain(gaussian_noise(deviation, jax.random.key(3)), mean, rule)


Sum = Callable[[nnx.State, jax.Array, jax.Array, jax.Array], nnx.State]
"""From parameters, indices, and the whole set to a sum of gradients."""


class JaxContestant:
    """A training loop around one way to sum gradients."""

    def __init__(
        self,
        problem: Problem,
        network: nnx.Module,
        total: Sum,
        update: optax.GradientTransformation,
        losses: Callable = each_loss,
        data: tuple[np.ndarray, np.ndarray] | None = None,
        mesh: Mesh | None = None,
    ):
        """Compile nothing yet: the first step does.

        With a mesh, `total` is called outside the compiled step: it sends off the devices itself.
        """
        graph, params = nnx.split(network, nnx.Param)
        params = with_weights(params, problem.weights())
        self.state: Any = params, update.init(params)
        self.set = tuple(jnp.asarray(array) for array in data or problem.data())

        def finish(state: Any, gradient: nnx.State) -> Any:
            updates, optimizer_state = update.update(gradient, state[1])
            return optax.apply_updates(state[0], updates), optimizer_state

        def of_one(state: Any, indices: jax.Array, *arrays: jax.Array) -> Any:
            return finish(state, total(state[0], indices, *arrays))

        step = jax.jit(of_one, donate_argnums=0)

        def step_in_shares(state: Any, indices: jax.Array, *arrays: jax.Array) -> Any:
            return apart(state, total(state[0], indices, *arrays))

        if mesh is not None:
            self.set, self.state = devices.everywhere((self.set, self.state), mesh)
            apart, step = devices.on_each(finish, mesh), step_in_shares

        @jax.jit
        def mean_loss(params: nnx.State, images: jax.Array, labels: jax.Array) -> jax.Array:
            return losses(nnx.merge(graph, params), images, labels).mean()

        self.total, self.step_of = total, of_one
        self._step, self._mean_loss = step, mean_loss

    def loss(self, indices: np.ndarray) -> float:
        return float(self._mean_loss(self.state[0], *(array[indices] for array in self.set)))

    def step(self, indices: np.ndarray) -> None:
        self.state = self._step(self.state, indices, *self.set)

    def wait(self) -> None:
        jax.block_until_ready(self.state)

    def weights(self) -> list[dict[str, np.ndarray]]:
        return weights_of(self.state[0])
