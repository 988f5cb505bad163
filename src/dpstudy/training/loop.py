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
import numpy as np
import optax
from flax import nnx

from dpstudy import diagnostics, mechanisms, models, sampling
from dpstudy.gradients import devices, per_example
from dpstudy.objectives import objective
from dpstudy.training import accumulate, evaluation, shares

if TYPE_CHECKING:
    from jax.sharding import Mesh
    from jaxtyping import Array, Bool, Int

    from dpstudy.objectives import Numbers
    from dpstudy.parts.images import Dataset
    from dpstudy.spec import Run


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
    """The first step with a loss or a parameter that was not finite; -1 while there is none."""
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
    """The end of a run whose training loss or parameters ceased to be finite."""

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
    one_epoch = train_epoch if mesh.shape[devices.EXAMPLES] == 1 else train_epoch_in_shares
    for epoch in range(int(states.step[0]) // shape.steps_per_epoch + 1, epochs + 1):
        states, seen = one_epoch(shape, mesh, method, numbers, keys, states, *train_set)
        if states.overflow.any():
            raise TrainingError(f"a Poisson draw exceeded its capacity in epoch {epoch}")
        networks = shape, mesh, numbers, states.params
        test = evaluation.evaluate(*networks, *test_set)
        norms = evaluation.measure_norms(*networks, *probe) if record else None
        # One transfer each: indexing device arrays would be one for each number.
        left = jax.device_get((states._replace(params=None, optimizer=None), seen, test, norms))
        ends, *_ = left
        yield [_summary(epoch, data.test_labels, *item(i, left)) for i in range(len(runs))], states
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
    params = initial_params(run.model, run.width, run.init, _stream(key, "initial"))
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
    test_labels: np.ndarray,
    state: State,
    seen: mechanisms.Seen,
    test: evaluation.Scores,
    norms: diagnostics.Norms | None,
) -> Epoch | Divergence:
    if state.diverged_at >= 0:
        return Divergence(int(state.diverged_at))
    examples = float(seen.examples)
    correct = test.correct.reshape(-1)
    of_class = np.bincount(test_labels, minlength=10)
    return Epoch(
        epoch=epoch,
        step=int(state.step),
        test_accuracy=float(correct.mean()),
        test_loss=float(test.losses.mean(dtype=np.float64)),
        train_loss=float(seen.loss) / examples,
        gradient_norm=float(seen.norm) / examples if norms is None else float(norms.gradient),
        clipped_fraction=float(seen.clipped) / examples,
        class_accuracy=tuple((np.bincount(test_labels, correct, minlength=10) / of_class).tolist()),
        activation_norm=None if norms is None else float(norms.activation),
    )


# Compiled without optimisation: it runs once, and drawing normals takes seconds to optimise.
@partial(
    jax.jit,
    static_argnames=("model", "width", "init"),
    compiler_options={"xla_backend_optimization_level": 0},
)
def initial_params(model: str, width: float, init: str, key: Array) -> nnx.State:
    """Draw a network's initial weights."""
    return nnx.state(models.build(model, key, width, init), nnx.Param)


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
    """Take one epoch of steps of each run, and sum what they saw: one program."""

    def one(
        numbers: Numbers, key: Array, state: State, images: Array, labels: Array
    ) -> tuple[State, mechanisms.Seen]:
        order = order_of_epoch(shape, key, state.step)

        def step(
            carry: tuple[State, mechanisms.Seen], _: None
        ) -> tuple[tuple[State, mechanisms.Seen], None]:
            state, so_far = carry
            draw = draw_examples(shape, key, order, state.step)
            total, seen = sum_over(shape, method, numbers, state.params, draw, images, labels)
            state = updated(shape, numbers, key, state, draw.overflow, total, seen)
            return (state, jax.tree.map(jnp.add, so_far, seen)), None

        carry = (state, mechanisms.nothing_seen())
        return jax.lax.scan(step, carry, None, length=shape.steps_per_epoch)[0]

    return devices.over_runs(one, mesh, data=2)(numbers, keys, states, images, labels)


def train_epoch_in_shares(
    shape: Run,
    mesh: Mesh,
    method: Method,
    numbers: Numbers,
    keys: Array,
    states: State,
    images: Array,
    labels: Array,
) -> tuple[State, mechanisms.Seen]:
    """Do as `train_epoch`, with the examples of a run that is alone shared out among devices.

    The devices are sent off step by step, and exchange their sums in between (see `shares`).
    """
    order = _order(shape, mesh, keys, states)
    seen = devices.of_each_run(stack([mechanisms.nothing_seen()]), mesh)
    for _ in range(shape.steps_per_epoch):
        parts = _share(shape, mesh, method, numbers, keys, order, states, images, labels)
        parts = shares.exchanged(parts, mesh)
        states, seen = _finish(shape, mesh, numbers, keys, states, seen, parts)
    return states, seen


@partial(jax.jit, static_argnames=("shape", "mesh"))
def _order(shape: Run, mesh: Mesh, keys: Array, states: State) -> Array | None:
    """Return the order of an epoch's examples."""

    def one(key: Array, step: Array, _: None) -> Array | None:
        return order_of_epoch(shape, key, step)

    return devices.over_runs(one, mesh, data=1)(keys, states.step, None)


@partial(jax.jit, static_argnames=("shape", "mesh", "method"))
def _share(
    shape: Run,
    mesh: Mesh,
    method: Method,
    numbers: Numbers,
    keys: Array,
    order: Array | None,
    states: State,
    images: Array,
    labels: Array,
) -> Array:
    """Return what each device contributes to a step, flat: sums, what was seen, overflow."""

    def one(
        numbers: Numbers, key: Array, order: Array, state: State, images: Array, labels: Array
    ) -> Array:
        draw = draw_examples(shape, key, order, state.step)
        mine = shares.mine(draw, mesh)
        sums = sum_over(shape, method, numbers, state.params, mine, images, labels)
        return shares.flat((*sums, draw.overflow.astype(jnp.float32)))

    mapped = devices.over_runs(one, mesh, data=2, out=devices.EACH_SHARE)
    return mapped(numbers, keys, order, states, images, labels)


@partial(jax.jit, static_argnames=("shape", "mesh"), donate_argnames=("states", "so_far"))
def _finish(
    shape: Run,
    mesh: Mesh,
    numbers: Numbers,
    keys: Array,
    states: State,
    so_far: mechanisms.Seen,
    parts: tuple[Array, ...],
) -> tuple[State, mechanisms.Seen]:
    """Add up what the devices contributed to a step, and update: each device for itself."""

    def one(
        numbers: Numbers, key: Array, state: State, so_far: mechanisms.Seen, parts: Any
    ) -> tuple[State, mechanisms.Seen]:
        like = (state.params, so_far, jnp.float32(0))
        total, seen, overflow = shares.added(parts, like)
        state = updated(shape, numbers, key, state, overflow > 0, total, seen)
        return state, jax.tree.map(jnp.add, so_far, seen)

    return devices.over_runs(one, mesh, data=1)(numbers, keys, states, so_far, parts)


def updated(
    shape: Run,
    numbers: Numbers,
    key: Array,
    state: State,
    overflow: Bool[Array, ""],
    total: nnx.State,
    seen: mechanisms.Seen,
) -> State:
    """Return the state after a step, from its sum of (clipped) gradients: add noise, update."""
    updates, optimizer_state = optimizer(shape, numbers, key).update(total, state.optimizer)
    params = optax.apply_updates(state.params, updates)
    finite = jnp.isfinite(optax.tree.norm(params)) & jnp.isfinite(seen.loss)
    first = (state.diverged_at < 0) & ~finite
    return State(
        params,
        optimizer_state,
        step=state.step + 1,
        diverged_at=jnp.where(first, state.step + 1, state.diverged_at),
        overflow=state.overflow | overflow,
    )


def order_of_epoch(shape: Run, key: Array, step: Int[Array, ""]) -> Int[Array, "examples"] | None:
    """Return the permutation that the epoch of a step goes by; None if it draws at every step.

    Once an epoch: a permutation of MNIST takes as long as the rest of a step.
    """
    if shape.sampling == "poisson":
        return None
    key = jax.random.fold_in(_stream(key, "sampling"), step // shape.steps_per_epoch)
    return jax.random.permutation(key, shape.examples)


def draw_examples(
    shape: Run, key: Array, order: Int[Array, "examples"] | None, step: Int[Array, ""]
) -> sampling.Draw:
    """Draw the examples of one step, in an epoch of that order."""
    if order is None:
        key = jax.random.fold_in(_stream(key, "sampling"), step)
        return sampling.poisson(key, shape.examples, shape.batch)
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
    mechanism = mechanism_of(shape, numbers)

    def part(images: Array, labels: Array, mask: Array) -> Any:
        if mechanism is None:
            return mechanisms.plain_sum(graph, losses, params, images, labels, mask)
        gradients = per_example.gradients if method.rules else per_example.by_vmap
        each = gradients(graph, losses, params, images, labels)
        return mechanism.sum(*each, mask)

    nothing = (jax.tree.map(jnp.zeros_like, params), mechanisms.nothing_seen())
    return accumulate.over_examples(part, nothing, draw, (images, labels), method.microbatch)


def mechanism_of(shape: Run, numbers: Numbers) -> mechanisms.FlatClipping | None:
    """Return what bounds the examples' gradients; None for a run without privacy."""
    return mechanisms.FlatClipping(numbers["clip_norm"]) if shape.private else None


def optimizer(shape: Run, numbers: Numbers, key: Array) -> optax.GradientTransformation:
    """Return the update rule: noise on the sum, the expected batch size, then the optimiser."""
    rule = {
        "sgd": lambda: optax.sgd(numbers["learning_rate"], momentum=numbers["momentum"]),
        "adam": lambda: optax.adam(numbers["learning_rate"]),
    }[shape.optimizer]()
    mean = optax.scale(1 / shape.batch)
    mechanism = mechanism_of(shape, numbers)
    if mechanism is None:
        return optax.chain(mean, rule)
    deviation = numbers["noise_multiplier"] * mechanism.sensitivity
    noise = mechanisms.gaussian_noise(deviation, _stream(key, "noise"))
    return optax.chain(noise, mean, rule)


def _stream(key: Array, name: str) -> Array:
    """Return one of the seed's independent streams of randomness."""
    return jax.random.fold_in(key, ("initial", "sampling", "noise").index(name))
