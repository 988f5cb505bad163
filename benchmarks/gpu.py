"""Time DP-SGD steps on an accelerator, ours and others', and store them beside the CPU's record.

`python benchmarks/gpu.py`, with JAX for the accelerator; other libraries take part where they are
installed. Our step is checked against `vmap(grad)` in float64 before anything is timed. What tells
most comes first, and what is timed is stored as it comes: a budget may end it anywhere.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

# Each contestant is a process, and JAX would give the first of them most of the memory.
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"

import click
import contest
import jax
import numpy as np
import run as bench
from contest import Entry
from flax import nnx
from peers import ours, vmap_grad
from peers.jax_training import weights_of, with_weights
from peers.ours_changed import CHANGES
from peers.products_jax import PRECISIONS
from problem import Problem, flops
from roster import OURS, PEERS

from dpstudy.errors import UserError
from dpstudy.gradients import convolution, devices, per_example
from dpstudy.lab import records

NETWORKS_FIRST = ("cifar-10", "mnist")
BATCH, BATCHES = 1024, (256, 4096, 8192)
COHORTS = (1, 2, 4, 8, 16, 32)
PRODUCT_SIZE = 8192
# Of a sum without noise, an example, and of an example's norm: more is wrong, and not rounded. What
# convolutions round there is larger than on a CPU, and stored.
TOLERANCE = 1e-4
# Which of the contestants' variants take part; "a device a core" is for CPUs.
VARIANTS = {
    OURS: ("256", "1024"),
    "ours, with sampling": ("256",),
    "ours, not private": ("256", "whole batch"),
    "vmap(grad)": ("",),
    "JAX, not private": ("",),
    "jax-privacy": ("whole batch",),
    "PyTorch, not private": ("channels first", "channels last"),
    "Opacus, hooks": ("",),
    "Opacus, ghost clipping": ("",),
    "torch.func": ("whole batch",),
}


@dataclass(frozen=True)
class Part:
    """Entries that are timed in turn, and the field of the record that they are stored in."""

    stored_in: str
    entries: tuple[Entry, ...]

    @property
    def problem(self) -> Problem:
        """What the entries compute; of a series, what the first does."""
        return self.entries[0].problem


def problem_of(network: str, batch: int) -> Problem:
    """Return a step of so many examples out of at least twice as many."""
    return Problem(network, batch, examples=max(4096, 2 * batch))


def products(size: int) -> Part:
    """Return the products of large matrices, from the most exact to the least."""
    return Part(
        "products",
        tuple(
            Entry(f"JAX, {precision}", "products_jax", Problem("mnist", 1), f"{size}, {precision}")
            for precision in PRECISIONS
        ),
    )


def comparison(network: str, batch: int) -> Part:
    """Return everyone's step."""
    problem = problem_of(network, batch)
    entries = (
        Entry(name, PEERS[name].module, problem, variant)
        for name, variants in VARIANTS.items()
        for variant in variants
    )
    return Part("comparisons", tuple(entries))


def cohorts(network: str, batch: int, sizes: tuple[int, ...]) -> Part:
    """Return our step of several runs, as one program."""
    problem = problem_of(network, batch)
    entries = (Entry(f"{runs} runs", "ours_cohort", problem, f"{runs}") for runs in sizes)
    return Part("cohorts", tuple(entries))


def changes(network: str, batch: int) -> Part:
    """Return our step with one thing changed that may make it faster there."""
    problem = problem_of(network, batch)
    return Part(
        "undone", tuple(Entry(change, "ours_changed", problem, change) for change in CHANGES)
    )


def by_batch(network: str, batches: tuple[int, ...]) -> Part:
    """Return our step at several batch sizes."""
    entries = (
        Entry(f"batch {batch}", PEERS[OURS].module, problem_of(network, batch), "256")
        for batch in batches
    )
    return Part("by_batch", tuple(entries))


def plan(networks: tuple[str, ...], quick: bool) -> list[Part]:
    """Return what is timed, in the order of what it tells."""
    if quick:
        return [
            products(64),
            *(part(networks[0], 32) for part in (comparison, changes)),
            cohorts(networks[0], 32, (1, 2)),
            by_batch(networks[0], (32, 64)),
        ]
    return [
        products(PRODUCT_SIZE),
        *(comparison(network, BATCH) for network in networks),
        *(cohorts(network, BATCH, COHORTS) for network in networks),
        *(changes(network, BATCH) for network in networks),
        *(by_batch(network, (BATCH, *BATCHES)) for network in networks),
        *(comparison(network, batch) for batch in BATCHES for network in networks),
    ]


# --- What is checked before anything is timed ----------------------------------------------------


def errors(network: str, batch: int = 64) -> dict[str, float]:
    """Return how far our step is from `vmap(grad)` in float64, by what is compared.

    "sum": the l2 distance of the clipped sums, without noise, over the examples and the clipping
    norm. For each of `PRECISIONS` that there is here: the largest relative error of an example's
    gradient norm.
    """
    problem = problem_of(network, batch)
    indices = jax.numpy.asarray(problem.batches()[0])
    total, norms = _exact(problem, indices)
    apart = np.linalg.norm(_clipped(problem, indices) - total)
    found = {"sum": float(apart / (batch * problem.clip_norm))}
    # What a backend raises of a precision that it has not; float32 has to be there.
    missing = (ValueError, jax.errors.JaxRuntimeError)
    for name, precision in PRECISIONS.items():
        with contextlib.suppress(*(() if name == "float32" else missing)):
            computed = _norms(problem, indices, precision)
            found[name] = float(np.max(np.abs(computed / norms - 1)))
    return found


def _exact(problem: Problem, indices: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the clipped sum, flat, and each example's norm, by vmap(grad) in float64."""
    with jax.enable_x64(True):
        made = vmap_grad.build(problem, "")
        params = jax.tree.map(lambda x: x.astype("float64"), made.state[0])
        graph = nnx.split(vmap_grad.stock_network(problem), nnx.Param)[0]
        batch = (array[indices] for array in made.set)
        _, each = per_example.by_vmap(graph, vmap_grad.each_loss, params, *batch)
        written_out = _arrays(each.written_out())
    rows = np.concatenate([one.reshape(len(indices), -1) for one in written_out], axis=1)
    norms = np.linalg.norm(rows, axis=1)
    return (problem.clip_norm / np.maximum(norms, problem.clip_norm)) @ rows, norms


def _clipped(problem: Problem, indices: jax.Array) -> np.ndarray:
    """Return our clipped sum, flat."""
    made = ours.build(problem, "whole batch")
    total = jax.jit(made.total)(made.state[0], indices, *made.set)
    return np.concatenate([one.ravel() for one in _arrays(total)])


def _arrays(params: nnx.State) -> list[np.ndarray]:
    """Return the values layer by layer, alike for all networks that compute the same."""
    return [layer[name] for layer in weights_of(params) for name in ("kernel", "bias")]


def _norms(problem: Problem, indices: jax.Array, precision: str) -> np.ndarray:
    """Return each example's norm by our rules, all products of that precision."""
    graph, params = nnx.split(ours.network_of(problem), nnx.Param)
    params = with_weights(params, problem.weights())
    batch = (array[indices] for array in problem.data())

    @jax.jit
    def norms(params: nnx.State, images: jax.Array, labels: jax.Array) -> jax.Array:
        return per_example.by_rules(graph, ours.losses, params, images, labels)[1].norms()

    as_products = mock.patch.object(convolution, "as_products", lambda: True)
    with as_products, jax.default_matmul_precision(precision):
        return np.asarray(norms(params, *batch), np.float64)


def check(networks: tuple[str, ...]) -> dict[str, float]:
    """Return the errors of all networks, named; UserError where those in float32 are too large."""
    found = {f"{n}, {what}": error for n in networks for what, error in errors(n).items()}
    for name, error in found.items():
        exact = name.endswith((", sum", ", float32"))
        if exact and not error <= TOLERANCE:
            raise UserError(f"wrong here ({name}): off by {error:.2g} from vmap(grad) in float64")
    return found


# --- The session ---------------------------------------------------------------------------------


def measured(
    parts: list[Part], deadline: float, **settings: Any
) -> Iterator[tuple[Part, contest.Outcome]]:
    """Yield each part, and who came to its end, until the deadline."""
    for part in parts:
        if time.monotonic() > deadline:
            return
        what = f"{part.problem.name}, {part.stored_in}"

        def tell(label: str, share: int, what: str = what) -> None:
            if share == contest.START:
                left = max(0, deadline - time.monotonic())
                click.echo(f"{left:4.0f} s left   {what}: {label}", err=True)

        compared = part.stored_in == "comparisons"
        outcome = contest.hold(
            [*part.entries], deadline=deadline, report=tell, same_loss=compared, **settings
        )
        yield part, outcome


def record(part: Part, outcome: contest.Outcome) -> list[dict[str, Any]]:
    """Return what is stored of a part: a comparison, or the entries of a series or of products."""
    problem = part.problem
    if part.stored_in == "comparisons":
        return [
            {
                "network": problem.name,
                "batch": problem.batch,
                "parameters": problem.network.parameters,
                "flops": flops(problem.network, problem.batch),
                "contestants": [
                    one.record() | {"private": PEERS[one.entry.name].private}
                    for one in outcome.finished
                ],
                "failed": outcome.failed,
            }
        ]
    if part.stored_in == "products":
        return [_product(one) for one in outcome.finished]
    return [_point(one) for one in outcome.finished]


def _product(one: contest.Running) -> dict[str, Any]:
    size, precision = one.entry.variant.split(", ")
    return one.record() | {"flops": 2 * int(size) ** 3, "precision": precision}


def _point(one: contest.Running) -> dict[str, Any]:
    problem = one.entry.problem
    runs = int(one.entry.variant) if one.entry.peer == "ours_cohort" else 1
    work = runs * flops(problem.network, problem.batch)
    return one.record() | {"network": problem.name, "flops": work, "runs": runs}


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    accelerator = f"{jax.device_count()} x {devices.kind()}" if devices.backend() != "cpu" else ""
    return bench.machine() | {"accelerator": accelerator}


def store(content: dict[str, Any]) -> Path:
    """Store the measurement under the accelerator's and the day's name; return where."""
    kind = content["machine"]["accelerator"].split(" x ", 1)[-1].replace(" ", "-").lower()
    path = records.folder("benchmarks") / f"{kind}-{content['machine']['date']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, "benchmarks", content)
    return path


@click.command(context_settings={"show_default": True})
@click.option("--budget", type=click.FloatRange(0), default=8.0, help="Minutes, all in all.")
@click.option("--rounds", type=click.IntRange(2), default=4, help="Bursts of each contestant.")
@click.option("--seconds", type=click.FloatRange(0.001), default=0.2, help="Length of a burst.")
@click.option("--quick", is_flag=True, help="A trial of all parts, on a CPU too; nothing stored.")
def main(budget: float, rounds: int, seconds: float, quick: bool) -> None:
    """Time DP-SGD steps on an accelerator, ours and others', and store them as they come.

    $DPSTUDY_RESULTS says where. Contestants that fail, or that no time is left for, are named.
    """
    deadline = time.monotonic() + 60 * budget
    networks = NETWORKS_FIRST[-1:] if quick else NETWORKS_FIRST
    try:
        where = machine()
        if not where["accelerator"] and not quick:
            raise UserError("JAX finds no accelerator here: --quick tries the script on a CPU")
        found = check(networks)
        for name, error in found.items():
            click.echo(f"{error:10.1e}  {name}, off by")
        content = {
            "machine": where,
            "settings": {"rounds": rounds, "burst_seconds": seconds},
            "errors": found,
            "products": [],
            "comparisons": [],
        }
        timed = measured(plan(networks, quick), deadline, rounds=rounds, seconds=seconds)
        for part, outcome in timed:
            content[part.stored_in] = content.get(part.stored_in, []) + record(part, outcome)
            told(part, outcome)
            if not quick:
                click.echo(f"Stored {store(content)}")
    except UserError as error:
        raise click.ClickException(str(error)) from error


def told(part: Part, outcome: contest.Outcome) -> None:
    """Print each entry's fastest burst, and who failed."""
    click.echo(f"{part.stored_in}, {part.problem.name}, batch {part.problem.batch}: ms a step, MB")
    for one in outcome.finished:
        click.echo(f"{one.fastest * 1e3:9.2f} {one.peak / 1e6:8.0f}  {one.entry.label}")
    for name, reason in outcome.failed.items():
        click.echo(f"{name} did not take part: {reason}", err=True)


if __name__ == "__main__":
    main()
