"""The one training loop.

`train` is a generator: it yields after every epoch what was seen and the state from which the run
goes on, so that its caller can show progress, store checkpoints, and stop at any epoch. The same
run on the same backend always gives the same numbers, resumed or not: all randomness comes from
the seed and the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from dpstudy import accumulate, activations, mechanisms, models, per_example, sampling
from dpstudy.losses import LOSSES

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

    from dpstudy.data import Dataset
    from dpstudy.spec import Run

    Numbers = dict[str, Float[Array, ""]]

# Images in one pass of the inner loop: its patches and per-example gradients stay in cache.
MICROBATCH = {(28, 28, 1): 32, (32, 32, 3): 16}
EVALUATION_BATCH = 500


class TrainingError(RuntimeError):
    """A run that is void: its sampling did not do what the accounting assumes."""


class State(NamedTuple):
    """All that changes while a run goes on."""

    params: nnx.State
    optimizer: optax.OptState
    step: Int[Array, ""]
    diverged_at: Int[Array, ""]
    """The first step after which a parameter was not finite; -1 while there is none."""
    overflow: Bool[Array, ""]


@dataclass(frozen=True)
class Epoch:
    """What one epoch left behind. The training columns look at private data, without noise."""

    epoch: int
    step: int
    test_accuracy: float
    test_loss: float
    train_loss: float
    gradient_norm: float
    clipped_fraction: float
    class_accuracy: tuple[float, ...]


@dataclass(frozen=True)
class Divergence:
    """The end of a run whose parameters ceased to be finite."""

    step: int


def train(
    run: Run, data: Dataset, state: State | None = None
) -> Iterator[tuple[Epoch | Divergence, State]]:
    """Train, yielding after each epoch; `state` is one yielded before, to go on from.

    A yielded state's memory is used again for the next epoch: copy what is to be kept of it
    before going on.

    Ends after `run.epochs` epochs, or after the one in which the run diverged.

    Raises:
        TrainingError: a Poisson draw exceeded the sampler's capacity (probability below 1e-15).
    """
    train_set = jnp.asarray(data.train_images), jnp.asarray(data.train_labels)
    test_set = jnp.asarray(data.test_images), jnp.asarray(data.test_labels)
    numbers, key = traced_numbers(run), jax.random.key(run.seed)
    if state is None:
        state = start(run)
    for epoch in range(int(state.step) // run.steps_per_epoch + 1, run.epochs + 1):
        state, seen = train_epoch(run.shape, numbers, key, state, *train_set)
        if state.overflow:
            raise TrainingError(f"a Poisson draw exceeded its capacity in epoch {epoch}")
        if state.diverged_at >= 0:
            yield Divergence(int(state.diverged_at)), state
            return
        yield (
            _summary(epoch, state, seen, evaluate(run.shape, numbers, state.params, *test_set)),
            state,
        )


def start(run: Run) -> State:
    """Return the state before a run's first step."""
    key = jax.random.key(run.seed)
    params = initial_params(run.model, _stream(key, "initial"))
    return State(
        params,
        optimizer(run.shape, traced_numbers(run), key).init(params),
        step=jnp.int32(0),
        diverged_at=jnp.int32(-1),
        overflow=jnp.bool_(False),
    )


def traced_numbers(run: Run) -> Numbers:
    """Return the run's numbers as the compiled programs take them; the seed becomes the key."""
    return {name: jnp.float32(value) for name, value in run.numbers.items() if name != "seed"}


def _summary(epoch: int, state: State, seen: mechanisms.Seen, test: Evaluation) -> Epoch:
    examples = float(seen.examples)
    return Epoch(
        epoch=epoch,
        step=int(state.step),
        test_accuracy=float(test.accuracy),
        test_loss=float(test.loss),
        train_loss=float(seen.loss) / examples,
        gradient_norm=float(seen.norm) / examples,
        clipped_fraction=float(seen.clipped) / examples,
        class_accuracy=tuple(float(value) for value in test.class_accuracy),
    )


# Compiled without optimisation: it runs once, and drawing normals takes seconds to optimise.
@partial(jax.jit, static_argnames="model", compiler_options={"xla_backend_optimization_level": 0})
def initial_params(model: str, key: Array) -> nnx.State:
    """Draw a network's initial weights."""
    return nnx.state(models.build(model, key), nnx.Param)


@partial(jax.jit, static_argnames="shape", donate_argnames="state")
def train_epoch(
    shape: Run,
    numbers: Numbers,
    key: Array,
    state: State,
    images: Array,
    labels: Array,
) -> tuple[State, mechanisms.Seen]:
    """Take one epoch of steps, and sum what they saw."""

    def step(
        carry: tuple[State, mechanisms.Seen], _: None
    ) -> tuple[tuple[State, mechanisms.Seen], None]:
        state, so_far = carry
        state, seen = train_step(shape, numbers, key, state, images, labels)
        return (state, jax.tree.map(jnp.add, so_far, seen)), None

    carry = (state, mechanisms.nothing_seen())
    return jax.lax.scan(step, carry, None, length=shape.steps_per_epoch)[0]


def train_step(
    shape: Run, numbers: Numbers, key: Array, state: State, images: Array, labels: Array
) -> tuple[State, mechanisms.Seen]:
    """Take one step: draw examples, sum their clipped gradients, add noise, update."""
    draw = draw_examples(shape, _stream(key, "sampling"), state.step)
    total, seen = sum_over(shape, numbers, state.params, draw, images, labels)
    updates, optimizer_state = optimizer(shape, numbers, key).update(total, state.optimizer)
    params = optax.apply_updates(state.params, updates)
    finite = jnp.isfinite(optax.tree.norm(params)) & jnp.isfinite(seen.loss)
    first = (state.diverged_at < 0) & ~finite
    return (
        State(
            params,
            optimizer_state,
            step=state.step + 1,
            diverged_at=jnp.where(first, state.step + 1, state.diverged_at),
            overflow=state.overflow | draw.overflow,
        ),
        seen,
    )


def draw_examples(shape: Run, key: Array, step: Int[Array, ""]) -> sampling.Draw:
    """Draw the examples of one step."""
    if shape.sampling == "poisson":
        return sampling.poisson(jax.random.fold_in(key, step), shape.examples, shape.batch)
    epoch, step_in_epoch = jnp.divmod(step, shape.steps_per_epoch)
    return sampling.shuffled(
        jax.random.fold_in(key, epoch), shape.examples, shape.batch, step_in_epoch
    )


def sum_over(
    shape: Run,
    numbers: Numbers,
    params: nnx.State,
    draw: sampling.Draw,
    images: Array,
    labels: Array,
) -> tuple[nnx.State, mechanisms.Seen]:
    """Sum the (clipped) gradients of the drawn examples, one microbatch after the other."""
    graph = models.structure(shape.model)
    losses = objective(shape, numbers)

    def part(images: Array, labels: Array, mask: Array) -> Any:
        if not shape.private:
            return mechanisms.plain_sum(graph, losses, params, images, labels, mask)
        each = per_example.gradients(graph, losses, params, images, labels)
        return mechanisms.clipped_sum(*each, mask, numbers["clip_norm"])

    nothing = (jax.tree.map(jnp.zeros_like, params), mechanisms.nothing_seen())
    size = MICROBATCH[images.shape[1:]]
    return accumulate.over_examples(part, nothing, draw, (images, labels), size)


def objective(shape: Run, numbers: Numbers) -> per_example.Losses:
    """Return the function from network, raw images and labels to per-example losses."""
    activation = activation_of(shape, numbers)
    loss = LOSSES[shape.loss]

    def losses(network: nnx.Module, images: Array, labels: Array) -> Float[Array, "batch"]:
        return loss(network(scaled(images), activation), labels)

    return losses


def activation_of(shape: Run, numbers: Numbers) -> models.Activation:
    """Return the hidden activation of a run."""
    if shape.activation == "relu":
        return activations.relu
    return partial(
        activations.tempered_sigmoid,
        scale=numbers["scale"],
        inverse_temperature=numbers["inverse_temperature"],
        offset=numbers["offset"],
    )


def scaled(images: Array) -> Array:
    """Return byte images as floats in [0, 1]."""
    return images.astype(jnp.float32) / 255


def optimizer(shape: Run, numbers: Numbers, key: Array) -> optax.GradientTransformation:
    """Return the update rule: noise on the sum, the expected batch size, then the optimiser."""
    rule = {
        "sgd": lambda: optax.sgd(numbers["learning_rate"], momentum=numbers["momentum"]),
        "adam": lambda: optax.adam(numbers["learning_rate"]),
    }[shape.optimizer]()
    mean = optax.scale(1 / shape.batch)
    if not shape.private:
        return optax.chain(mean, rule)
    deviation = numbers["noise_multiplier"] * numbers["clip_norm"]
    noise = mechanisms.gaussian_noise(deviation, _stream(key, "noise"))
    return optax.chain(noise, mean, rule)


class Evaluation(NamedTuple):
    """A network on the test set."""

    accuracy: Float[Array, ""]
    loss: Float[Array, ""]
    class_accuracy: Float[Array, "classes"]


@partial(jax.jit, static_argnames="shape")
def evaluate(
    shape: Run, numbers: Numbers, params: nnx.State, images: Array, labels: Array
) -> Evaluation:
    """Evaluate on the test set, which must be a multiple of the evaluation batch."""
    network = nnx.merge(models.structure(shape.model), params)
    activation = activation_of(shape, numbers)

    def one(batch: tuple[Array, Array]) -> tuple[Array, Array]:
        logits = network(scaled(batch[0]), activation)
        return LOSSES[shape.loss](logits, batch[1]), logits.argmax(axis=1) == batch[1]

    batches = [x.reshape(-1, EVALUATION_BATCH, *x.shape[1:]) for x in (images, labels)]
    losses, correct = jax.lax.map(one, tuple(batches))
    of_class = jax.nn.one_hot(labels, 10)
    per_class = (correct.reshape(-1) @ of_class) / of_class.sum(axis=0)
    return Evaluation(correct.mean(), losses.mean(), per_class)


def _stream(key: Array, name: str) -> Array:
    """Return one of the seed's independent streams of randomness."""
    return jax.random.fold_in(key, ("initial", "sampling", "noise").index(name))
