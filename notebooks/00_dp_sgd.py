# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # DP-SGD in twelve lines
#
# A network that is trained on photos of patients may give away who was among them. Differentially
# private SGD {cite}`abadi2016deep` bounds how much it can give away, whatever an attacker knows:
# each example's gradient is cut to a length, and noise is added to their sum. All else in this book
# is about what the cut and the noise cost.
#
# **In short**
#
# - **Clip.** No example may move the sum by more than $C$.
# - **Add noise**, σ times as wide as $C$.
# - **Sample.** Each example takes part by the toss of its own coin.
# - **Account.** From σ, the coin and the number of steps follows ε, a bound on what leaks. It is
#   known before anything is trained.
#
# **Do** run the cell below with another $C$: a small one shortens the steps, a large one drowns
# them in noise.

# %% tags=["parameters", "remove-input"]
profile = "stored"  # any profile: the run below takes seconds

# %% tags=["remove-input"]
from under_the_clip.introduction import figures as page

page.arrows()

# %% [markdown]
# ## The step
#
# Here it is, for a linear classifier of handwritten digits, with nothing but JAX. Each line has one
# job. The last divides by the *expected* batch: how many examples were drawn is private too.

# %%
import jax
import jax.numpy as jnp


def loss(weights, image, label):
    return -jax.nn.log_softmax(image @ weights)[label]


@jax.jit
def private_step(weights, key, C, sigma, rate=2.0):
    coin, blur = jax.random.split(key)
    chosen = jax.random.bernoulli(coin, q, labels.shape)
    gradient_of_each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))
    gradients = gradient_of_each(weights, images, labels)
    norms = jnp.sqrt(jnp.sum(gradients**2, axis=(1, 2)))
    shares = chosen * jnp.minimum(1, C / norms)
    total = jnp.einsum("n,nij->ij", shares, gradients)
    noise = sigma * C * jax.random.normal(blur, total.shape)
    return weights - rate * (total + noise) / (q * len(labels))


# %% [markdown]
# The package comes with 5,000 digits of MNIST, so that this needs no download. They are shrunk to
# 14 by 14 pixels here. One more pixel is always one, and its weight is the bias.

# %%
from dpstudy.parts.data.dataset import Images

data = Images("mnist-5k").load()


def small(photos):
    pixels = jnp.asarray(photos / 255.0).reshape(-1, 14, 2, 14, 2)
    means = pixels.mean((2, 4)).reshape(-1, 196)
    return jnp.pad(means, ((0, 0), (0, 1)), constant_values=1)


images, labels = small(data.train_images), jnp.asarray(data.train_labels)
q, steps = 0.1, 100  # a step draws about 400 of the 4,000 digits

# %% [markdown]
# ## The privacy
#
# How much noise does ε = 3 take? An accountant knows, from the coin $q$ and the number of steps
# alone. It never sees an image.

# %%
from dpstudy.privacy.accounting import noise_multiplier_for

sigma = noise_multiplier_for(
    3.0, sampling_probability=q, steps=steps, delta=1e-5
)
print(f"σ = {sigma:.2f}")

# %% [markdown]
# ε = 3 means: whoever knows all other photos, and sees every step of the training, may bet on
# whether one photo was there. What is seen shifts the odds by a factor of 20 at most, which is
# $e^3$, but for δ: the chance of whatever may be seen may exceed that by one in 100,000. [Chapter
# 1](01_accounting.ipynb) says what ε depends on besides σ, and [chapter 7](07_audits.ipynb) lets an
# attacker try.
#
# ## The run
#
# Change $C$, and run it again. Before you do: what happens at 0.1, and what at 30?

# %% tags=["nbval-check-output"]
C = 3.0  # change me

weights = jnp.zeros((197, 10))
keys = jax.random.split(jax.random.key(0), steps)
for step in range(steps):
    weights = private_step(weights, keys[step], C, sigma)

guesses = jnp.argmax(small(data.test_images) @ weights, axis=1)
share = jnp.mean(guesses == jnp.asarray(data.test_labels))
print(f"{share:.0%} of the test digits are right, at ε = 3")

# %% [markdown]
# ## What you pay: short steps or noise
#
# A small $C$ cuts every gradient, so that only their directions count and the steps get short. A
# large one leaves them whole, and the noise grows with it. Move the slider: either end costs
# accuracy.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
import numpy as np
import pandas as pd

from dpstudy.page.sliders import Sliders

CLIPS = 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0
RELATIVE = "noise, in lengths of the summed gradient"
RIGHT = "test digits that are right, after the run"


@jax.jit
def right(C, sigma, images, labels, test_images, test_labels):
    """The run above. A linear classifier's gradients are products."""
    lengths = jnp.linalg.norm(images, axis=1)

    def step(weights, key):
        coin, blur = jax.random.split(key)
        chosen = jax.random.bernoulli(coin, q, labels.shape)
        given = jax.nn.softmax(images @ weights)
        errors = given - jax.nn.one_hot(labels, 10)
        norms = lengths * jnp.linalg.norm(errors, axis=1)
        shares = chosen * jnp.minimum(1, C / norms)
        total = images.T @ (shares[:, None] * errors)
        noise = sigma * C * jax.random.normal(blur, total.shape)
        return weights - 2.0 * (total + noise) / (q * len(labels)), None

    keys = jax.random.split(jax.random.key(0), steps)
    weights, _ = jax.lax.scan(step, jnp.zeros((197, 10)), keys)
    guesses = jnp.argmax(test_images @ weights, axis=1)
    return jnp.mean(guesses == test_labels)


def kept(loss, images, labels, q, sigma, tested):
    weights = jnp.zeros((images.shape[1], 10))
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(
        weights, images, labels
    )
    flat = np.asarray(gradients.reshape(len(labels), -1))
    norms = np.linalg.norm(flat, axis=1)
    rows = []
    for clip in CLIPS:
        shares = np.minimum(1, clip / norms)
        batch = q * np.linalg.norm(shares @ flat)
        rows.append(
            {
                "C": clip,
                "gradients that are cut": float((shares < 1).mean()),
                "length that is kept": float(
                    (shares * norms).sum() / norms.sum()
                ),
                RELATIVE: sigma * clip * flat.shape[1] ** 0.5 / batch,
                RIGHT: float(right(clip, sigma, images, labels, *tested)),
            }
        )
    return Sliders(
        name="dp-sgd-kept",
        caption="What a clip at C keeps of the gradients of 4,000 digits before the first step, "
        "and how large the noise is beside a batch's sum.",
        data=pd.DataFrame(rows),
        inputs={"C": 3.0},
        formats={
            "C": "{:g}",
            "gradients that are cut": "{:.0%}",
            "length that is kept": "{:.0%}",
            RELATIVE: "{:.2f}",
            RIGHT: "{:.0%}",
        },
    )


tested = small(data.test_images), jnp.asarray(data.test_labels)
kept(loss, images, labels, q, sigma, tested)

# %% [markdown]
# At C = 3 a step's noise is longer than its gradient, as the slider says. Why does that do so
# little harm? It is spread over 1,970 weights, points elsewhere at each step, and so cancels
# itself. The gradients agree.

# %% tags=["facts"]
from dpstudy.privacy.accounting import epsilon, noise_multiplier_for

run = {"sampling_probability": 0.1, "steps": 100, "delta": 1e-5}
halved = noise_multiplier_for(3.0, **run) / 2
assert epsilon(noise_multiplier=halved, **run) > 9

# %% [markdown]
# :::{exercise} Half the noise
# :label: dp-sgd-half-the-noise
#
# Predict: what does the same run cost with half the noise? Twice the ε?
# :::
#
# :::{solution-start} dp-sgd-half-the-noise
# :class: dropdown
# :::
#
# More than three times.

# %% tags=["nbval-check-output"]
from dpstudy.privacy.accounting import epsilon

for noise in (sigma, sigma / 2):
    spent = epsilon(
        sampling_probability=q,
        noise_multiplier=noise,
        steps=steps,
        delta=1e-5,
    )
    print(f"σ = {noise:.2f}: ε = {spent:.2f}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Noise without a clip
# :label: dp-sgd-no-clip
#
# Leave the noise at $\sigma C$ with $C = 3$, but do not clip. What does ε say then?
# :::
#
# :::{solution-start} dp-sgd-no-clip
# :class: dropdown
# :::
#
# Nothing. One photo can move the sum by as much as its gradient is long, and a brighter photo by
# more. No accountant can bound what that gives away, unless someone proves how long a gradient
# gets. Two of the four papers make mistakes of this kind: [one](05_tanh_filter.ipynb) takes a bound
# that is too small, [the other](04_backpropagation_clipping.ipynb) divides the noise by the batch.

# %% tags=["nbval-check-output"]
for brightness in (1, 10, 100):
    one = jax.grad(loss)(weights, brightness * images[0], labels[0] + 1)
    print(
        f"{brightness:>3} times as bright: {jnp.linalg.norm(one):.0f} long"
    )

# %% [markdown]
# :::{solution-end}
# :::
#
# ## Where the four papers come in
#
# Each changes one line of the step, or what it differentiates.
#
# - The network in `loss`: bounded activations, so that less is clipped
#   ([tempered sigmoids](02_tempered_sigmoids.ipynb)).
# - `loss`: one whose gradients are short to begin with ([losing less](03_losing_less.ipynb)).
# - `gradients`: clipped inside backpropagation, layer by layer
#   ([backpropagation clipping](04_backpropagation_clipping.ipynb)).
# - `shares`: each number through tanh in place of the clip
#   ([the tanh filter](05_tanh_filter.ipynb)).
#
# Which of them should you use? [The guide](guide.ipynb) says.
