"""Train your own network on your own arrays to epsilon = 3, with DP-SGD from jax-privacy."""

import jax
import jax.numpy as jnp
import jax_privacy
import optax
from flax import nnx

from dpstudy import gaussian_noise, poisson
from dpstudy.parts.data import images
from dpstudy.privacy.accounting import noise_multiplier_for

mnist = images.load("mnist-5k")  # your arrays here
x, y = jnp.asarray(mnist.train_images / 255.0, jnp.float32), jnp.asarray(mnist.train_labels)
conv, dense = nnx.Conv(1, 16, (8, 8), 4, rngs=nnx.Rngs(0)), nnx.Linear(784, 10, rngs=nnx.Rngs(1))
model = nnx.Sequential(conv, jnp.tanh, lambda h: h.reshape(len(h), -1), dense)  # your network here
graph, params = nnx.split(model, nnx.Param)


def loss(params, x, y):
    logits = nnx.merge(graph, params)(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


batch, steps = 200, 200
clipped = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2))
sigma = noise_multiplier_for(3.0, sampling_probability=batch / len(x), steps=steps, delta=1e-5)
noise = gaussian_noise(sigma * clipped.sensitivity(), jax.random.key(2))
optimizer = optax.chain(noise, optax.scale(1 / batch), optax.sgd(0.5, momentum=0.9))


@jax.jit
def step(state, key):
    params, optimizer_state = state
    draw = poisson(key, len(x), batch)
    padding = jnp.arange(len(draw.indices)) >= draw.count
    total = clipped(params, x[draw.indices], y[draw.indices], is_padding_example=padding)
    updates, optimizer_state = optimizer.update(total, optimizer_state)
    return (optax.apply_updates(params, updates), optimizer_state), None


keys = jax.random.split(jax.random.key(3), steps)
(params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), keys)
logits = nnx.merge(graph, params)(jnp.asarray(mnist.test_images / 255.0, jnp.float32))
print(f"test accuracy {(logits.argmax(1) == mnist.test_labels).mean():.3f} at epsilon 3")
