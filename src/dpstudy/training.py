"""The one training loop, for a cohort: runs that differ only in numbers, trained together.

`train` is a generator: it yields after every epoch what was seen and the states from which the runs
go on, so that its caller can show progress, store checkpoints, and stop at any epoch. The same
run on the same devices always gives the same numbers, resumed or not: all randomness comes from
the seed and the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from dpstudy import (
    accumulate,
    activations,
    devices,
    diagnostics,
    mechanisms,
    models,
    per_example,
    sampling,
)
from dpstudy.losses import LOSSES

if TYPE_CHECKING:
    from jax.sharding import Mesh
    from jaxtyping import Array, Bool, Float, Int

    from dpstudy.data import Dataset
    from dpstudy.spec import Run

    Numbers = dict[str, Float[Array, ""]]

EVALUATION_BATCH = 500


class Method(NamedTuple):
    """How a sum of gradients is computed. It changes the time it takes, and no more than rounding.

    Attributes:
        microbatch: examples in one pass of the inner loop, whose intermediates should stay in
            cache.
        rules: whether per-example gradients come from the layers' rules, or by vmap.
    """

    microbatch: int
    rules: bool = True


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
    """What one epoch left behind. The training columns look at private data, without noise.

    `gradient_norm` is the mean over the examples drawn in the epoch, 0 without clipping; in a run
    that records norms, the mean over `diagnostics.EXAMPLES` fixed examples after the epoch.
    """

    epoch: int
    step: int
    test_accuracy: float
    test_loss: float
    train_loss: float
    gradient_norm: float
    clipped_fraction: float
    class_accuracy: tuple[float, ...]
    activation_norm: float | None = None
    """Mean norm of the first layer's activations over the same; None unless norms are recorded."""


@dataclass(frozen=True)
class Divergence:
    """The end of a run whose parameters ceased to be finite."""

    step: int


def train(
    runs: Sequence[Run],
    data: Dataset,
    method: Method,
    states: State | None = None,
    mesh: Mesh | None = None,
) -> Iterator[tuple[list[Epoch | Divergence], State]]:
    """Train, yielding after each epoch what was seen of each run, and their states.

    The yielded states' memory is used again for the next epoch: copy what is to be kept of them
    before going on. Ends after the runs' epochs, or after the one in which the last run diverged.

    Args:
        runs: the cohort: runs that differ only in numbers, of as many epochs.
        data: their dataset.
        method: how sums of gradients are computed.
        states: states yielded before, to go on from.
        mesh: the devices to train on; by default all of this machine.

    Raises:
        ValueError: the runs are no cohort.
        TrainingError: a Poisson draw exceeded the sampler's capacity (probability below 1e-15).
    """
    shape, epochs, record = cohort_of(runs)
    mesh = devices.mesh_for(len(runs)) if mesh is None else mesh
    train_set = devices.everywhere((data.train_images, data.train_labels), mesh)
    test_set = devices.everywhere((data.test_images, data.test_labels), mesh)
    probe = devices.everywhere(
        (diagnostics.probe(data.train_images), diagnostics.probe(data.train_labels)), mesh
    )
    numbers = stack([traced_numbers(run) for run in runs])
    keys = jnp.stack([jax.random.key(run.seed) for run in runs])
    states = stack([start(run) for run in runs]) if states is None else states
    # Laid out as an epoch leaves them, or the second epoch would be compiled anew.
    numbers, keys, states = devices.of_each_run((numbers, keys, states), mesh)
    for epoch in range(int(states.step[0]) // shape.steps_per_epoch + 1, epochs + 1):
        states, seen = train_epoch(shape, mesh, method, numbers, keys, states, *train_set)
        if states.overflow.any():
            raise TrainingError(f"a Poisson draw exceeded its capacity in epoch {epoch}")
        test = evaluate(shape, mesh, numbers, states.params, *test_set)
        norms = measure_norms(shape, mesh, numbers, states.params, *probe) if record else None
        # One transfer each: indexing device arrays would be one for each number.
        left = jax.device_get((states._replace(params=None, optimizer=None), seen, test, norms))
        ends, *_ = left
        yield [_summary(epoch, *item(i, left)) for i in range(len(runs))], states
        if (ends.diverged_at >= 0).all():
            return


def cohort_of(runs: Sequence[Run]) -> tuple[Run, int, str]:
    """Return what the runs share: their shape, their epochs, and what they record.

    Raises:
        ValueError: they are no cohort.
    """
    common = {run.cohort for run in runs}
    if len(common) != 1:
        raise ValueError("runs of one cohort differ in more than numbers")
    return common.pop()


def stack(trees: Sequence[Any]) -> Any:
    """Return one tree whose leaves have a leading axis of runs."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def item(index: int, tree: Any) -> Any:
    """Return one run's part of a stacked tree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def start(run: Run) -> State:
    """Return the state before a run's first step."""
    key = jax.random.key(run.seed)
    params = initial_params(run.model, run.width, _stream(key, "initial"))
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


def _summary(
    epoch: int,
    state: State,
    seen: mechanisms.Seen,
    test: Evaluation,
    norms: diagnostics.Norms | None,
) -> Epoch | Divergence:
    if state.diverged_at >= 0:
        return Divergence(int(state.diverged_at))
    examples = float(seen.examples)
    return Epoch(
        epoch=epoch,
        step=int(state.step),
        test_accuracy=float(test.accuracy),
        test_loss=float(test.loss),
        train_loss=float(seen.loss) / examples,
        gradient_norm=float(seen.norm) / examples if norms is None else float(norms.gradient),
        clipped_fraction=float(seen.clipped) / examples,
        class_accuracy=tuple(float(value) for value in test.class_accuracy),
        activation_norm=None if norms is None else float(norms.activation),
    )


# Compiled without optimisation: it runs once, and drawing normals takes seconds to optimise.
@partial(
    jax.jit,
    static_argnames=("model", "width"),
    compiler_options={"xla_backend_optimization_level": 0},
)
def initial_params(model: str, width: float, key: Array) -> nnx.State:
    """Draw a network's initial weights."""
    return nnx.state(models.build(model, key, width), nnx.Param)


@partial(jax.jit, static_argnames=("shape", "mesh", "method"), donate_argnames="states")
def train_epoch(
    shape: Run,
    mesh: Mesh,
    method: Method,
    numbers: Numbers,
    keys: Array,
    states: State,
    images: Array,
    labels: Array,
) -> tuple[State, mechanisms.Seen]:
    """Take one epoch of steps of each run, and sum what they saw."""

    def one(
        numbers: Numbers, key: Array, state: State, images: Array, labels: Array
    ) -> tuple[State, mechanisms.Seen]:
        sampling_key = _stream(key, "sampling")
        order = order_of_epoch(shape, sampling_key, state.step)

        def step(
            carry: tuple[State, mechanisms.Seen], _: None
        ) -> tuple[tuple[State, mechanisms.Seen], None]:
            state, so_far = carry
            draw = draw_examples(shape, sampling_key, order, state.step)
            state, seen = train_step(shape, mesh, method, numbers, key, draw, state, images, labels)
            return (state, jax.tree.map(jnp.add, so_far, seen)), None

        carry = (state, mechanisms.nothing_seen())
        return jax.lax.scan(step, carry, None, length=shape.steps_per_epoch)[0]

    return devices.over_runs(one, mesh, data=2)(numbers, keys, states, images, labels)


def train_step(
    shape: Run,
    mesh: Mesh,
    method: Method,
    numbers: Numbers,
    key: Array,
    draw: sampling.Draw,
    state: State,
    images: Array,
    labels: Array,
) -> tuple[State, mechanisms.Seen]:
    """Take one step: sum the drawn examples' clipped gradients, add noise, update."""
    mine = devices.my_share(draw, mesh)
    part = sum_over(shape, method, numbers, state.params, mine, images, labels)
    total, seen = devices.sum_of_shares(part, mesh)
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


def order_of_epoch(shape: Run, key: Array, step: Int[Array, ""]) -> Int[Array, "examples"] | None:
    """Return the permutation that the epoch of a step goes by; None if it draws at every step.

    Once an epoch: a permutation of MNIST takes as long as the rest of a step.
    """
    if shape.sampling == "poisson":
        return None
    epoch = step // shape.steps_per_epoch
    return jax.random.permutation(jax.random.fold_in(key, epoch), shape.examples)


def draw_examples(
    shape: Run, key: Array, order: Int[Array, "examples"] | None, step: Int[Array, ""]
) -> sampling.Draw:
    """Draw the examples of one step, in an epoch of that order."""
    if order is None:
        return sampling.poisson(jax.random.fold_in(key, step), shape.examples, shape.batch)
    return sampling.shuffled(order, shape.batch, step % shape.steps_per_epoch)


def sum_over(
    shape: Run,
    method: Method,
    numbers: Numbers,
    params: nnx.State,
    draw: sampling.Draw,
    images: Array,
    labels: Array,
) -> tuple[nnx.State, mechanisms.Seen]:
    """Sum the (clipped) gradients of the drawn examples, one microbatch after the other."""
    graph = models.structure(shape.model, shape.width)
    losses = objective(shape, numbers)

    def part(images: Array, labels: Array, mask: Array) -> Any:
        if not shape.private:
            return mechanisms.plain_sum(graph, losses, params, images, labels, mask)
        gradients = per_example.gradients if method.rules else per_example.by_vmap
        each = gradients(graph, losses, params, images, labels)
        return mechanisms.clipped_sum(*each, mask, numbers["clip_norm"])

    nothing = (jax.tree.map(jnp.zeros_like, params), mechanisms.nothing_seen())
    return accumulate.over_examples(part, nothing, draw, (images, labels), method.microbatch)


def objective(shape: Run, numbers: Numbers) -> per_example.Losses:
    """Return the function from network, raw images and labels to per-example losses."""
    activation = activation_of(shape, numbers)
    loss = LOSSES[shape.loss]

    def losses(network: nnx.Module, images: Array, labels: Array) -> Float[Array, "batch"]:
        return loss(network(scaled(images), activation), labels)

    return losses


def activation_of(shape: Run, numbers: Numbers) -> models.Activation:
    """Return the hidden activation of a run, or those of its layers."""
    if shape.activation == "relu":
        return activations.relu

    def tempered(layer: str = "") -> models.Elementwise:
        triplet = (f"{name}{layer}" for name in ("scale", "inverse_temperature", "offset"))
        scale, inverse_temperature, offset = (numbers[name] for name in triplet)
        return lambda x: activations.tempered_sigmoid(x, scale, inverse_temperature, offset)

    if shape.activation == "layer-wise":
        return tuple(tempered(layer) for layer in ("", "_2", "_3"))
    return tempered()


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


@partial(jax.jit, static_argnames=("shape", "mesh"))
def evaluate(
    shape: Run, mesh: Mesh, numbers: Numbers, params: nnx.State, images: Array, labels: Array
) -> Evaluation:
    """Evaluate each run on the test set, which must be a multiple of the evaluation batch."""

    def one(numbers: Numbers, params: nnx.State, images: Array, labels: Array) -> Evaluation:
        network = nnx.merge(models.structure(shape.model, shape.width), params)
        activation = activation_of(shape, numbers)

        def of_batch(batch: tuple[Array, Array]) -> tuple[Array, Array]:
            logits = network(scaled(batch[0]), activation)
            return LOSSES[shape.loss](logits, batch[1]), logits.argmax(axis=1) == batch[1]

        batches = [x.reshape(-1, EVALUATION_BATCH, *x.shape[1:]) for x in (images, labels)]
        losses, correct = devices.map_shared(of_batch, tuple(batches), mesh)
        of_class = jax.nn.one_hot(labels, 10)
        per_class = (correct.reshape(-1) @ of_class) / of_class.sum(axis=0)
        return Evaluation(correct.mean(), losses.mean(), per_class)

    return devices.over_runs(one, mesh, data=2)(numbers, params, images, labels)


@partial(jax.jit, static_argnames=("shape", "mesh"))
def measure_norms(
    shape: Run, mesh: Mesh, numbers: Numbers, params: nnx.State, images: Array, labels: Array
) -> diagnostics.Norms:
    """Measure the norms inside each run's network on some examples."""

    def one(numbers: Numbers, params: nnx.State, images: Array, labels: Array) -> diagnostics.Norms:
        first, *_ = models.in_layers(activation_of(shape, numbers), 1)
        graph = models.structure(shape.model, shape.width)
        return diagnostics.norms(graph, objective(shape, numbers), first, params, images, labels)

    return devices.over_runs(one, mesh, data=2)(numbers, params, images, labels)


def _stream(key: Array, name: str) -> Array:
    """Return one of the seed's independent streams of randomness."""
    return jax.random.fold_in(key, ("initial", "sampling", "noise").index(name))
