"""Train stored runs again: results must still be what the code gives.

    python tools/retrain.py [EXPERIMENT...] [--epochs N]

Of each experiment the stored run that took the least time is trained with the present code, on as
many cores and in the microbatches it was trained in; its curve is compared from epoch 1 on. Another
processor may round otherwise: the first epoch tells that from a mistake, since differences grow.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from itertools import islice

import jax

from dpstudy.gradients import devices
from dpstudy.lab import readings, workers
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.store import Result
from dpstudy.training import loop
from under_the_clip.experiments import EXPERIMENTS, find

Row = dict[str, float | None]


def quickest(experiment: Experiment) -> Result | None:
    """Return the stored run of an experiment that took the least time, if there is any."""
    found = readings.read(experiment).found
    return min((r for _, r in found if r.diverged_at is None), key=seconds, default=None)


def seconds(result: Result) -> float:
    """Return how long a stored run took."""
    return result.provenance["wall_seconds"]


def trained_again(result: Result) -> Iterator[Row]:
    """Yield the rows of a curve as the present code gives them, from epoch 1 on."""
    run, said = result.run, result.provenance
    known = said.get("microbatch") or (said.get("method") or {}).get("microbatch")
    microbatch = known or run.network.examples_at_once()
    # "2 x CPU core": so many shared its examples.
    mesh = devices.mesh_for(1, jax.local_devices()[: int(said["device"].split()[0])])
    for [seen], _ in loop.train([run], run.dataset.load(), microbatch, mesh=mesh):
        if isinstance(seen, loop.Epoch) and seen.number:
            yield seen.row


def stored(result: Result) -> list[Row]:
    """Return the rows of a stored curve from epoch 1 on."""
    columns = result.curve
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row for row in rows if row["epoch"]]


def off(pair: tuple[Row, Row], name: str = "test_accuracy") -> float:
    """Return how far a column is from the stored one."""
    return abs(pair[1][name] - pair[0][name])


def compared(pairs: list[tuple[Row, Row]]) -> str:
    """Say how rows differ, stored and new, in the columns that both have."""
    first, last, worst = pairs[0], pairs[-1], max(pairs, key=off)
    shared = [name for name in first[0] if name in first[1]]
    # The store keeps seven digits.
    if all(old[name] == float(f"{new[name]:.7g}") for old, new in pairs for name in shared):
        return "bit for bit"
    relative = max(off(first, name) / abs(first[0][name]) for name in shared if first[0][name])
    return (
        f"accuracy differs by at most {100 * off(worst):.2f} points (epoch {worst[0]['epoch']}), "
        f"at the last epoch by {100 * off(last):.2f}, at the first by {100 * off(first):.2f}; "
        f"any column there by at most {relative:.1e} of itself"
    )


def main() -> None:
    """Train again what the command line names, the quickest first."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT")
    parser.add_argument("--epochs", type=int, metavar="N", help="Only the first N of each run.")
    given = parser.parse_args()
    # As a worker trains: on one thread, of devices that are a core each.
    os.environ.update(workers.SINGLE_THREADED)
    devices.one_device_a_core()
    found = {e.name: quickest(e) for e in map(find, given.experiments or EXPERIMENTS)}
    for name in sorted(filter(found.get, found), key=lambda name: seconds(found[name])):
        result, start = found[name], time.monotonic()
        pairs = list(islice(zip(stored(result), trained_again(result), strict=False), given.epochs))
        where = f"{result.provenance['device']}, {time.monotonic() - start:.0f} s"
        said = f"{result.run.identity}, {len(pairs)} epochs, {where}"
        print(f"{name} ({said}): {compared(pairs)}", flush=True)


if __name__ == "__main__":
    main()
