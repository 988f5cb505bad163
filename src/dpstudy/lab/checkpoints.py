"""How far a cohort of runs is, kept beside the results while it is not finished."""

import contextlib
import dataclasses
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from dpstudy.lab import store
from dpstudy.parts.data.images import Dataset
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run
from dpstudy.training import loop
from dpstudy.training.loop import Epoch, State

# Examples that tell a dataset from others.
_WITNESSES = 100
_NOTES = ("microbatch", "epochs", "ended", "data", "seconds", "sittings")


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
    """Yield the cohorts of several runs that were stopped."""
    for path in sorted((folder / ".checkpoints").glob("cohort-*.npz")):
        with contextlib.suppress(ValueError, KeyError, TypeError, SpecError):
            runs = json.loads(str(_unsealed(path)["runs"]))
            yield [Run.from_dict(fields) for fields in runs]


def save(path: Path, begun: Checkpoint) -> None:
    """Keep a cohort's states and curves so far, atomically."""
    leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(begun.states))}
    notes = {name: getattr(begun, name) for name in _NOTES} | {
        "runs": [run.to_dict() for run in begun.runs],
        "epochs": [[dataclasses.asdict(epoch) for epoch in epochs] for epochs in begun.epochs],
    }
    buffer = io.BytesIO()
    np.savez(buffer, **{name: json.dumps(value) for name, value in notes.items()}, **leaves)
    sealed = buffer.getvalue()
    store.write_atomically(path, hashlib.sha256(sealed).digest() + sealed)


def load(path: Path, runs: Sequence[Run], data: str) -> Checkpoint:
    """Return how far a cohort is: at its beginning, where there is no usable checkpoint.

    A checkpoint is a cache: one that is damaged, is of other examples, or was written by a version
    whose state has another shape, only costs the time to train again.
    """
    if not (content := _unsealed(path)):
        return Checkpoint.fresh(runs, data)
    # Not by jax.eval_shape: the compiler options of `Network.initial` forbid tracing through it.
    shapes, tree = jax.tree.flatten(loop.stack([loop.start(run) for run in runs]))
    try:
        leaves = [content[f"leaf{i}"] for i in range(len(shapes))]
        notes = {name: json.loads(str(content[name])) for name in _NOTES}
        notes["epochs"] = [
            [Epoch(epoch["row"], tuple(epoch["class_accuracy"])) for epoch in epochs]
            for epochs in notes["epochs"]
        ]
        states = jax.tree.unflatten(tree, [jax.numpy.asarray(leaf) for leaf in leaves])
        begun = Checkpoint(list(runs), **notes, states=states)
    except (ValueError, KeyError, TypeError):
        return Checkpoint.fresh(runs, data)
    same = [leaf.shape for leaf in leaves] == [shape.shape for shape in shapes]
    return begun if same and begun.data == data else Checkpoint.fresh(runs, data)


def _unsealed(path: Path) -> dict[str, np.ndarray]:
    """Return what a file holds: nothing, if it is damaged."""
    with contextlib.suppress(OSError, ValueError):
        sealed = path.read_bytes()
        if hashlib.sha256(sealed[32:]).digest() == sealed[:32]:
            with np.load(io.BytesIO(sealed[32:])) as saved:
                return dict(saved)
    return {}
