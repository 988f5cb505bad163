"""Train your own network on your own arrays to epsilon = 3, with DP-SGD."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from dpstudy import gaussian_noise, poisson, private_gradient
from dpstudy.parts.data import images
from dpstudy.privacy.accounting import noise_multiplier_for

data = images.load("mnist-5k")  # your arrays in place of its four
x, y = jnp.asarray(data.train_images / 255.0, jnp.float32), jnp.asarray(data.train_labels)
conv, dense = nnx.Conv(1, 16, (8, 8), 4, rngs=nnx.Rngs(0)), nnx.Linear(784, 10, rngs=nnx.Rngs(1))
model = nnx.Sequential(conv, jnp.tanh, lambda h: h.reshape(len(h), -1), dense)  # your network here


def losses(network, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(network(x), y)


batch, steps = 200, 200
gradient, params = private_gradient(model, losses, clip_norm=1.0)
sigma = noise_multiplier_for(3.0, sampling_probability=batch / len(x), steps=steps, delta=1e-5)
noise = gaussian_noise(sigma * gradient.sensitivity, jax.random.key(2))
optimizer = optax.chain(noise, optax.scale(1 / batch), optax.sgd(0.5, momentum=0.9))


@jax.jit
def step(state, key):
    total = gradient(state[0], x, y, poisson(key, len(x), batch))
    updates, optimizer_state = optimizer.update(total, state[1])
    return (optax.apply_updates(state[0], updates), optimizer_state), None


keys = jax.random.split(jax.random.key(3), steps)
(params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), keys)
logits = nnx.merge(gradient.graph, params)(jnp.asarray(data.test_images / 255.0, jnp.float32))
print(f"test accuracy {(logits.argmax(1) == data.test_labels).mean():.3f} at epsilon 3")
