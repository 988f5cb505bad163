"""The one training loop, for a cohort: runs that differ only in numbers, trained together.

`train` is a generator: it yields after every epoch what was seen and the states from which the runs
go on. The same run on the same devices always gives the same numbers, resumed or not: all
randomness comes from the seed and the step.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from dpstudy.errors import UserError
from dpstudy.gradients import devices
from dpstudy.parts.data.dataset import AT_ONCE
from dpstudy.parts.data.images import Dataset
from dpstudy.parts.measure import Examples, probe
from dpstudy.parts.mechanism import Microbatch, Seen, nothing_seen
from dpstudy.parts.run import Run, cohort_of, stream
from dpstudy.parts.sampling import Draw
from dpstudy.training import accumulate

# JAX's settings that a run's numbers depend on: stored under one identity, they must be one.
_WANTED = {
    "jax_enable_x64": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_default_matmul_precision": "highest",  # as importing `devices` sets it
}


class TrainingError(RuntimeError):
    """A run that is void: its sampling did not do what the accounting assumes."""


class State(NamedTuple):
    """All that changes while a run goes on."""

    params: nnx.State
    optimizer: optax.OptState
    step: Int[Array, ""]
    diverged_at: Int[Array, ""]
    """The first step after which a parameter was not finite, or in which no example's gradient was;
    -1 while there is none."""
    overflow: Bool[Array, ""]


class Scores(NamedTuple):
    """A network on the test set, in batches."""

    losses: Float[Array, "*runs batches batch"]
    correct: Bool[Array, "*runs batches batch"]


@dataclass(frozen=True)
class Epoch:
    """What one epoch left behind; epoch 0 is before the first step.

    `row` is of the curve: `epoch`, `step`, `test_accuracy`, `test_loss`, then means over the drawn
    examples, None before the first step, then the run's measures. All but the first four look at
    private data, without noise; these do too where the test set is held out of the training set.
    `class_accuracy` is the test accuracy of each class.
    """

    row: dict[str, Any]
    class_accuracy: tuple[float, ...]

    @property
    def number(self) -> int:
        """Of epochs done."""
        return self.row["epoch"]


@dataclass(frozen=True)
class Divergence:
    """The end of a run: its parameters, or all its gradients, were not finite after `step`."""

    step: int


def train(
    runs: Sequence[Run],
    data: Dataset,
    microbatch: int,
    states: State | None = None,
    mesh: Mesh | None = None,
) -> Iterator[tuple[list[Epoch | Divergence], State]]:
    """Train, yielding before the first step and after each epoch what was seen, and the states.

    The yielded states' memory is used again for the next epoch: copy what is to be kept of them
    before going on. Ends after the runs' epochs, or after the one in which the last run diverged.

    `microbatch` examples are in one pass: it changes the time and rounding. Goes on from `states`
    yielded before, if given, on the devices of `mesh`, by default all of this machine.

    Raises:
        ValueError: the runs are no cohort.
        UserError: JAX is set so that the runs would have other numbers; see `check_flags`.
        TrainingError: a Poisson draw exceeded the sampler's capacity (probability below 1e-15).
    """
    check_flags()
    if len({cohort_of(run) for run in runs}) != 1:
        raise ValueError("runs of one cohort differ in more than numbers")
    mesh = devices.mesh_for(len(runs)) if mesh is None else mesh
    train_set = Examples(data.train_images, data.train_labels)
    train_set, *others = devices.everywhere(
        (train_set, probe(train_set), Examples(data.test_images, data.test_labels)), mesh
    )
    keys = jnp.stack([run.key for run in runs])
    fresh = states is None
    states = stack([start(run) for run in runs]) if fresh else states
    # Laid out as an epoch leaves them, or the second epoch would be compiled anew.
    cohort, keys, states = devices.of_each_run((stack(runs), keys, states), mesh)
    if fresh:
        yield _look(mesh, cohort, states, None, *others), states
    one_epoch = train_epoch if mesh.shape[devices.EXAMPLES] == 1 else train_epoch_in_shares
    done = int(states.step[0]) // runs[0].steps_per_epoch
    for _ in range(done, runs[0].epochs):
        states, seen = one_epoch(mesh, microbatch, cohort.of_a_step(), keys, states, train_set)
        if states.overflow.any():
            raise TrainingError(f"a Poisson draw exceeded its capacity by step {states.step[0]}")
        yield _look(mesh, cohort, states, seen, *others), states
        if (states.diverged_at >= 0).all():
            return


def check_flags() -> None:
    """Refuse to train a run where it would have other numbers than on other machines.

    >>> with jax.enable_x64(True):
    ...     check_flags()
    Traceback (most recent call last):
    dpstudy.errors.UserError: runs are trained with jax_enable_x64 = False, got True: ...

    Raises:
        UserError: a setting of JAX, of the environment or of the program, is another, or it does
            not start.
    """
    devices.backend()
    for name, wanted in _WANTED.items():
        if (found := getattr(jax.config, name)) != wanted:
            raise UserError(
                f"runs are trained with {name} = {wanted}, got {found}: their numbers depend on it"
            )


def stack(trees: Sequence[Any]) -> Any:
    """Return one tree whose leaves have a leading axis of runs."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def item(index: int, tree: Any) -> Any:
    """Return one run's part of a stacked tree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def start(run: Run) -> State:
    """Return the state before a run's first step."""
    params = run.network.initial(stream(run.key, "initial"))
    optimizer = run.update_rule(params, run.key).init(params)
    return State(params, optimizer, jnp.int32(0), diverged_at=jnp.int32(-1), overflow=jnp.bool_(0))


def _look(
    mesh: Mesh, cohort: Run, states: State, seen: Seen | None, probed: Examples, test: Examples
) -> list[Epoch | Divergence]:
    epochs = (states.step // cohort.steps_per_epoch).astype(jnp.float32)
    scores = evaluate(mesh, cohort.of_a_step(), states.params, epochs, test)
    measured = measure(mesh, cohort, states.params, epochs, probed) if cohort.measures else {}
    # One transfer each: indexing device arrays would be one for each number.
    left = states._replace(params=None, optimizer=None)
    left, *rest = jax.device_get((left, epochs, seen, scores, measured))
    if seen is not None and (count := rest[1].not_finite[left.diverged_at < 0].sum()) > 0:
        message = f"{int(count)} times an example's gradient was not finite, and counted as 0"
        warnings.warn(message, stacklevel=2)
    labels = np.asarray(test.labels)
    return [
        _summary(labels, *item(index, (left, *rest)))
        if left.diverged_at[index] < 0
        else Divergence(int(left.diverged_at[index]))
        for index in range(len(left.step))
    ]


def _summary(
    test_labels: np.ndarray,
    state: State,
    epoch: np.ndarray,
    seen: Seen | None,
    test: Scores,
    measured: dict[str, np.ndarray],
) -> Epoch:
    correct, means = test.correct.reshape(-1), [None] * 3
    if seen is not None:
        means = [float(total) / float(seen.examples) for total in seen[:3]]
    row = {
        "epoch": int(epoch),
        "step": int(state.step),
        "test_accuracy": float(correct.mean()),
        "test_loss": float(test.losses.mean(dtype=np.float64)),
        **dict(zip(("train_loss", "gradient_norm", "clipped_fraction"), means, strict=True)),
        **{name: array.tolist() for name, array in measured.items()},
    }
    of_class = np.bincount(test_labels, minlength=10)
    of_classes = np.bincount(test_labels, correct, minlength=10) / of_class
    return Epoch(row, tuple(of_classes.tolist()))


@partial(jax.jit, static_argnames="mesh")
def evaluate(
    mesh: Mesh, runs: Run, params: nnx.State, epochs: Float[Array, "runs"], test: Examples
) -> Scores:
    """Evaluate each run, after so many epochs, on the test set: a multiple of `AT_ONCE`.

    Devices that share a run share the test set, where it can be shared evenly in batches.
    """

    def one(run: Run, params: nnx.State, epoch: Array, test: Examples) -> Scores:
        module = nnx.merge(run.network.graph(), params)

        def of_batch(batch: Examples) -> Scores:
            logits, hidden = run.network.outputs(module, run.dataset.prepare(batch.images))
            losses = run.loss(logits, hidden, batch.labels, epoch)
            return Scores(losses, logits.argmax(axis=1) == batch.labels)

        return jax.lax.map(of_batch, test)

    batches = jax.tree.map(lambda x: x.reshape(-1, AT_ONCE, *x.shape[1:]), test)
    even = len(batches.labels) % mesh.shape[devices.EXAMPLES] == 0
    spread = {"data_in": PartitionSpec(devices.EXAMPLES), "out": devices.EACH_SHARE} if even else {}
    return devices.over_runs(one, mesh, **spread)(runs, params, epochs, batches)


@partial(jax.jit, static_argnames="mesh")
def measure(
    mesh: Mesh, runs: Run, params: nnx.State, epochs: Float[Array, "runs"], train: Examples
) -> dict[str, Array]:
    """Take each run's measures; named "norms.gradient" and so on, by the measure's kind."""

    def one(run: Run, params: nnx.State, epoch: Array, train: Examples) -> dict[str, Array]:
        taken = [(each.kind, each(run.snapshot(params, epoch, train))) for each in run.measures]
        return {f"{kind}.{name}": x for kind, found in taken for name, x in found.items()}

    return devices.over_runs(one, mesh)(runs, params, epochs, train)


@partial(jax.jit, static_argnames=("mesh", "microbatch"), donate_argnames="states")
def train_epoch(
    mesh: Mesh, microbatch: int, runs: Run, keys: Array, states: State, train: Examples
) -> tuple[State, Seen]:
    """Take one epoch of steps of each run, and sum what they saw: one program."""

    def one(run: Run, key: Array, state: State, train: Examples) -> tuple[State, Seen]:
        order = order_of_epoch(run, key, state.step)

        def step(carry: tuple[State, Seen], _: None) -> tuple[tuple[State, Seen], None]:
            state, so_far = carry
            draw = draw_examples(run, key, order, state.step)
            total, seen = sum_over(run, microbatch, state, draw, train)
            state = updated(run, key, state, draw.overflow, total, seen)
            return (state, jax.tree.map(jnp.add, so_far, seen)), None

        return jax.lax.scan(step, (state, nothing_seen()), None, length=run.steps_per_epoch)[0]

    return devices.over_runs(one, mesh)(runs, keys, states, train)


def train_epoch_in_shares(
    mesh: Mesh, microbatch: int, runs: Run, keys: Array, states: State, train: Examples
) -> tuple[State, Seen]:
    """Do as `train_epoch`, with the examples of a run that is alone shared out among devices."""
    order = _order(mesh, runs, keys, states)
    seen = devices.of_each_run(stack([nothing_seen()]), mesh)
    for _ in range(runs.steps_per_epoch):
        parts = _share(mesh, microbatch, runs, keys, order, states, train)
        parts = accumulate.exchanged(parts, mesh)
        states, seen = _finish(mesh, runs, keys, states, seen, parts)
    return states, seen


@partial(jax.jit, static_argnames="mesh")
def _order(mesh: Mesh, runs: Run, keys: Array, states: State) -> Array | None:
    def one(run: Run, key: Array, step: Array, _: None) -> Array | None:
        return order_of_epoch(run, key, step)

    return devices.over_runs(one, mesh)(runs, keys, states.step, None)


@partial(jax.jit, static_argnames=("mesh", "microbatch"))
def _share(
    mesh: Mesh, microbatch: int, runs: Run, keys: Array, order: Any, states: State, train: Examples
) -> Array:
    """Return what each device contributes to a step, flat: sums, what was seen, overflow."""

    def one(run: Run, key: Array, order: Array, state: State, train: Examples) -> Array:
        draw = draw_examples(run, key, order, state.step)
        sums = sum_over(run, microbatch, state, accumulate.mine(draw, mesh), train)
        return accumulate.flat((*sums, draw.overflow.astype(jnp.float32)))

    mapped = devices.over_runs(one, mesh, out=devices.EACH_SHARE)
    return mapped(runs, keys, order, states, train)


@partial(jax.jit, static_argnames="mesh", donate_argnames=("states", "so_far"))
def _finish(
    mesh: Mesh, runs: Run, keys: Array, states: State, so_far: Seen, parts: tuple[Array, ...]
) -> tuple[State, Seen]:
    """Add up what the devices contributed to a step, and update: each device for itself."""

    def one(run: Run, key: Array, state: State, so_far: Seen, parts: Any) -> tuple[State, Seen]:
        total, seen, overflow = accumulate.added(parts, (state.params, so_far, jnp.float32(0)))
        state = updated(run, key, state, overflow > 0, total, seen)
        return state, jax.tree.map(jnp.add, so_far, seen)

    return devices.over_runs(one, mesh)(runs, keys, states, so_far, parts)


def updated(
    run: Run, key: Array, state: State, overflow: Bool[Array, ""], total: nnx.State, seen: Seen
) -> State:
    """Return the state after a step, from its sum of (clipped) gradients: add noise, update."""
    rule = run.update_rule(state.params, stream(key, "noise"))
    updates, optimizer_state = rule.update(total, state.optimizer, state.params)
    params = optax.apply_updates(state.params, updates)
    none_left = (seen.examples > 0) & (seen.not_finite >= seen.examples)
    finite = jnp.isfinite(optax.tree.norm(params)) & ~none_left
    first = (state.diverged_at < 0) & ~finite
    return State(
        params,
        optimizer_state,
        step=state.step + 1,
        diverged_at=jnp.where(first, state.step + 1, state.diverged_at),
        overflow=state.overflow | overflow,
    )


def order_of_epoch(run: Run, key: Array, step: Int[Array, ""]) -> Int[Array, "examples"] | None:
    """Return the permutation that the epoch of a step goes by; None if it draws at every step."""
    epoch = step // run.steps_per_epoch
    return run.sampling.order(stream(key, "sampling"), run.dataset.examples, epoch)


def draw_examples(
    run: Run, key: Array, order: Int[Array, "examples"] | None, step: Int[Array, ""]
) -> Draw:
    """Draw the examples of one step, in an epoch of that order."""
    return run.sampling.draw(stream(key, "sampling"), run.dataset.examples, order, step)


def sum_over(
    run: Run, microbatch: int, state: State, draw: Draw, train: Examples
) -> tuple[nnx.State, Seen]:
    """Sum the (clipped) gradients of the drawn examples, one microbatch after the other."""
    graph, losses = run.network.graph(), run.losses(run.epoch_of(state.step))

    def part(images: Array, labels: Array, mask: Array) -> Any:
        batch = Microbatch(graph, losses, state.params, images, labels)
        return run.mechanism.sum(batch, mask)

    nothing = (jax.tree.map(jnp.zeros_like, state.params), nothing_seen())
    return accumulate.over_examples(part, nothing, draw, train, microbatch)
