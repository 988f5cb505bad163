"""How far a cohort of runs is, kept beside the results while it is not finished."""

import contextlib
import dataclasses
import hashlib
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from dpstudy import files
from dpstudy.lab import store
from dpstudy.lab.forms import problem_of
from dpstudy.parts.data.images import Dataset
from dpstudy.parts.run import Run, cohort_of
from dpstudy.training import loop
from dpstudy.training.loop import Epoch, State

# Examples that tell a dataset from others.
_WITNESSES = 100
_NOTES = ("microbatch", "epochs", "ended", "data", "seconds", "sittings")
_GOING_ON = {"diverged_at": None, "stopped": None}


@dataclass
class Checkpoint:
    """A cohort that is not finished: its curves so far, and from where to go on."""

    runs: list[Run]
    microbatch: int  # examples in one pass of the inner loop
    epochs: list[list[Epoch]]  # by run
    # By run the fields `diverged_at` and `stopped` of its result; None while it goes on. One that
    # diverged or is given up ends before the others.
    ended: list[dict[str, Any] | None]
    data: str  # see `witness_of`
    seconds: float = 0.0  # over all sittings, each run's share of the cohort's time
    # Commit and device of each that had another than the one before.
    sittings: list[dict[str, str]] = field(default_factory=list)
    states: State | None = None  # stacked; None before the first step

    @classmethod
    def fresh(cls, runs: Sequence[Run], data: str) -> Self:
        """Return a cohort at its beginning."""
        microbatch = runs[0].network.examples_at_once()
        return cls(list(runs), microbatch, [[] for _ in runs], [None] * len(runs), data)

    def columns(self, index: int) -> dict[str, Any]:
        """Return what a run came to so far: fields of its result."""
        epochs, ended = self.epochs[index], self.ended[index] or _GOING_ON
        curve = {name: [_plain(epoch.row[name]) for epoch in epochs] for name in epochs[0].row}
        return {"curve": curve, "class_accuracy": _plain([*epochs[-1].class_accuracy]), **ended}


def _plain(value: Any) -> Any:
    """Round to what float32 holds; JSON has no infinity, and a loss can reach it."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None


def witness_of(dataset: Dataset) -> str:
    """Return what tells a dataset's examples from others."""
    # Features of the same images differ by the machine that they are fitted on: weights learned on
    # the one are nothing on the other.
    first = np.ascontiguousarray(dataset.train_images[:_WITNESSES])
    return hashlib.sha256(first).hexdigest()[:16]


def path_of(folder: Path, runs: Sequence[Run]) -> Path:
    """Return where the state of a cohort is kept while it is not finished."""
    name = runs[0].identity
    if len(runs) > 1:
        identities = " ".join(run.identity for run in runs)
        name = f"cohort-{hashlib.sha256(identities.encode()).hexdigest()[:16]}"
    return folder / ".checkpoints" / f"{name}.npz"


def stopped_cohorts(folder: Path) -> Iterator[list[Run]]:
    """Yield the cohorts that were stopped."""
    files.clean(folder / ".checkpoints")
    for path in sorted((folder / ".checkpoints").glob("*.npz")):
        with contextlib.suppress(Exception):  # whatever it holds
            runs = [Run.from_dict(of) for of in json.loads(str(_unsealed(path)["runs"]))]
            if path == path_of(folder, runs) and len(set(map(cohort_of, runs))) == 1:
                yield runs


def save(path: Path, begun: Checkpoint) -> None:
    """Keep a cohort's states and curves so far, atomically."""
    leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(begun.states))}
    notes = {name: getattr(begun, name) for name in _NOTES} | {
        "runs": [run.to_dict() for run in begun.runs],
        "epochs": [[dataclasses.asdict(epoch) for epoch in epochs] for epochs in begun.epochs],
    }
    buffer = io.BytesIO()
    np.savez(buffer, **{name: json.dumps(value) for name, value in notes.items()}, **leaves)
    files.seal(buffer)
    store.write_atomically(path, buffer.getvalue())


def load(path: Path, runs: Sequence[Run], data: str) -> Checkpoint:
    """Return how far a cohort is: at its beginning, where there is no usable checkpoint.

    A checkpoint is a cache: one that is damaged, is of other runs or examples, or was written by a
    version whose state has another shape, only costs the time to train again.
    """
    with contextlib.suppress(Exception):  # whatever it holds
        content = _unsealed(path)
        # Not by jax.eval_shape: the options of `Network.initial` forbid tracing through it.
        start, tree = jax.tree.flatten(loop.stack([loop.start(run) for run in runs]))
        leaves = [content[f"leaf{i}"] for i in range(len(start))]
        notes = {name: json.loads(str(content[name])) for name in _NOTES}
        notes["epochs"] = [[Epoch(**epoch) for epoch in epochs] for epochs in notes["epochs"]]
        states = jax.tree.unflatten(tree, [jax.numpy.asarray(leaf) for leaf in leaves])
        begun = Checkpoint(list(runs), **notes, states=states)
        same = json.loads(str(content["runs"])) == [run.to_dict() for run in runs]
        same &= [(x.shape, x.dtype) for x in leaves] == [(x.shape, x.dtype) for x in start]
        if same and begun.data == data and _sound(begun, leaves):
            return begun
    return Checkpoint.fresh(runs, data)


def _sound(begun: Checkpoint, leaves: Sequence[np.ndarray]) -> bool:
    """Whether a cohort can have come so far, each run as its state says; or raise any error."""
    going = [index for index, end in enumerate(begun.ended) if end is None]
    [last] = {begun.epochs[index][-1].number for index in going}
    said = {"sittings": begun.sittings, "wall_seconds": begun.seconds}
    rest = {"epsilon": {}, "provenance": said}
    columns = [begun.columns(index) | rest for index in range(len(begun.runs))]
    *_, step, diverged_at, overflow = leaves
    return (
        last < begun.runs[0].epochs
        and begun.microbatch in begun.runs[0].network.microbatch.values()
        and set(step.tolist()) == {last * begun.runs[0].steps_per_epoch}
        and all(np.isfinite(leaf[going]).all() for leaf in leaves)
        and not (overflow.any() or (diverged_at[going] >= 0).any())
        and not any(map(problem_of, columns, begun.runs))
    )


def _unsealed(path: Path) -> dict[str, np.ndarray]:
    """Return what a file holds, or raise any error."""
    files.check_seal(path)
    with np.load(path) as saved:
        return dict(saved)
