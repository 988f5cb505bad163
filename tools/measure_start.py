"""Measure stored runs before their first step: those trained before curves began at epoch 0.

    python tools/measure_start.py

Of each stored run that has measures and whose curve begins at epoch 1, the row of epoch 0 is what
the training loop yields first today, before any step. It is put in front of the curve, in the
curve's own columns, and where and with what it was measured goes into the provenance as `start`.
All else stays as it was stored.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from dpstudy.gradients import devices
from dpstudy.lab import store, workers
from dpstudy.lab.store import Result
from dpstudy.parts.images import Dataset
from dpstudy.privacy.run_epsilon import epsilon_curve
from dpstudy.training import loop


def began_late(result: Result) -> bool:
    """Whether a run has measures, and none from before its first step."""
    return bool(result.run.measures) and 0 not in result.curve["epoch"]


def from_the_start(result: Result, data: Dataset) -> Result:
    """Return a result whose curve begins before the first step."""
    run = result.run
    if result.provenance["dataset_fingerprint"] != data.fingerprint:
        raise SystemExit(f"{run.identity}: was trained on other data")
    ([seen], _), spent = next(loop.train([run], data, microbatch=1)), epsilon_curve(run, [0])
    return replace(
        result,
        curve={name: [plain(seen.row[name]), *rest] for name, rest in result.curve.items()},
        epsilon={name: [*spent[name], *rest] for name, rest in result.epsilon.items()},
        provenance=result.provenance | {"start": measured_by(data)},
    )


def plain(value: Any) -> Any:
    """Return a number as the store keeps it: with seven digits."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def measured_by(data: Dataset) -> dict[str, Any]:
    """Return where and with what epoch 0 is measured."""
    here = store.provenance(wall_seconds=0, fingerprint=data.fingerprint, device=devices.name())
    said = {name: here[name] for name in ("packages", "python", "device", "commit")}
    return said | {"date": here["finished"]}


def main() -> None:
    """Bring every such result up to date."""
    # On one thread, as they were trained.
    os.environ.update(workers.SINGLE_THREADED)
    folder = store.runs_folder()
    results, damaged = store.read_all(folder)
    if damaged:
        raise SystemExit("\n".join(map(str, damaged)))
    late = [result for result in results.values() if began_late(result)]
    data = {dataset: dataset.load() for dataset in {result.run.dataset for result in late}}
    for result in late:
        store.write(folder, from_the_start(result, data[result.run.dataset]))
        print(result.run.identity, flush=True)


if __name__ == "__main__":
    main()
