"""Train the recipe's linear head on images of your own to epsilon = 3, with DP-SGD."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from dpstudy import gaussian_noise, poisson, private_gradient
from dpstudy.parts.data import images
from dpstudy.parts.data.released_statistics import release_mean
from dpstudy.parts.sampling import steps_per_epoch
from dpstudy.privacy.accounting import noise_multiplier_for
from dpstudy.recipe.features import centre
from dpstudy.recipe.run import recipe

data = images.load("mnist-5k")  # your arrays in place of its four
# For tens of thousands: "cifar-10" for 32 x 32 colours, "mnist" for digits, which it makes upright,
# "fashion-mnist" for other 28 x 28 greys.
like = recipe("mnist-5k")
features, batch = like.dataset, like.sampling.batch
basis = features.basis()


def whitened(pixels):
    parts = np.split(pixels, range(250, len(pixels), 250))
    found = np.concatenate([features.components_of(basis, part) for part in parts])
    return features.scaled(found, basis.variances)


def losses(network, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(network(x.astype(jnp.float32)), y)


x, test = whitened(data.train_images), whitened(data.test_images)
# Seeds draw the noise, here 1, 2 and 3: put secret ones of your own in their place.
mean = release_mean(x, features.released, 1)
for of in (x, test):
    centre(of, mean)
x, y = jnp.asarray(x), jnp.asarray(data.train_labels)
steps = like.epochs * steps_per_epoch(len(x), batch)
spent = {"sampling_probability": batch / len(x), "steps": steps, "delta": 1e-5}
sigma = noise_multiplier_for(3.0, release_noise=features.released, **spent)
zeros = nnx.initializers.zeros
head = nnx.Linear(x.shape[1], 10, use_bias=False, kernel_init=zeros, rngs=nnx.Rngs(0))
gradient, params = private_gradient(head, losses, clip_norm=0.25, microbatch=128)
noise = gaussian_noise(sigma * gradient.sensitivity, jax.random.key(2))
sgd = optax.sgd(like.optimizer.learning_rate, momentum=0.9)
optimizer = optax.chain(noise, optax.scale(1 / batch), sgd)


@jax.jit
def step(state, key):
    total = gradient(state[0], x, y, poisson(key, len(x), batch))
    updates, optimizer_state = optimizer.update(total, state[1])
    return (optax.apply_updates(state[0], updates), optimizer_state), None


keys = jax.random.split(jax.random.key(3), steps)
(params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), keys)
logits = nnx.merge(gradient.graph, params)(jnp.asarray(test, jnp.float32))
print(f"test accuracy {(logits.argmax(1) == data.test_labels).mean():.3f} at epsilon 3")
