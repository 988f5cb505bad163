"""How to compute fastest on the machine at hand: measured once, and remembered.

The choice changes how long a run takes and how its sums round, nothing else. Checkpoints and
results say which was used.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy import sampling
from dpstudy.gradients import devices
from dpstudy.lab import store
from dpstudy.parts import files as data
from dpstudy.spec import IMAGE_SHAPE
from dpstudy.training import loop as training
from dpstudy.training import shares
from dpstudy.training.loop import Method

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jax.sharding import Mesh

    from dpstudy.spec import Run

CPU_CANDIDATES = tuple(Method(size) for size in (8, 16, 32, 64, 128))
ACCELERATOR_CANDIDATES = tuple(
    Method(size, rules) for rules in (True, False) for size in (64, 256, 1024)
)
# Examples a campaign sees before measuring for half a minute, two on CIFAR-10, is worth it.
WORTHWHILE = 3_000_000
# Seconds of timing after which a step is not timed again: long ones suffer less from interruptions.
LONG = 2.0
# The part of an accelerator's memory that a cohort may take. The rest is the dataset, the
# evaluation, and what the estimate leaves out.
MEMORY_SHARE = 0.5


def method_for(run: Run) -> Method:
    """Return the method remembered for such runs on this machine, else one that is never bad."""
    known = _remembered().get(_key(run))
    if known is not None:
        return Method(**known["method"])
    if jax.default_backend() == "cpu":
        return Method(16 if run.dataset == "cifar-10" else 32)
    return Method(256)


def cohort_size(run: Run, wanted: int) -> int:
    """Return how many runs like this one to train at once: at least 1, at most `wanted`.

    On a CPU one: its cores are shared out among processes. On an accelerator
    what its memory holds, by the memory that one run was measured to need.
    """
    memory = memory_bytes()
    known = _remembered().get(_key(run))
    if memory is None or known is None:
        return 1
    fits = int(MEMORY_SHARE * memory / known["bytes"]) * jax.local_device_count()
    return max(1, min(wanted, fits))


def memory_bytes() -> int | None:
    """Return the memory of one accelerator; None on a CPU."""
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return None
    return (device.memory_stats() or {}).get("bytes_limit")


def worthwhile(runs: Iterable[Run]) -> list[Run]:
    """Return one run of each kind that has enough before it and is not measured yet."""
    known, seen = _remembered(), {}
    for run in runs:
        like = seen.setdefault(_key(run), [])
        like.append(run)
    return [
        like[0]
        for key, like in seen.items()
        if key not in known and sum(run.epochs * run.examples for run in like) >= WORTHWHILE
    ]


def measure(run: Run, candidates: tuple[Method, ...] | None = None) -> Method:
    """Time the candidates on random images, remember the fastest, and return it.

    Raises:
        StoreError: the choice cannot be written to the user's cache.
    """
    if candidates is None:
        cpu = jax.default_backend() == "cpu"
        candidates = CPU_CANDIDATES if cpu else ACCELERATOR_CANDIDATES
    timed: dict[Method, tuple[float, int]] = {}
    for method in candidates:
        if method.microbatch <= run.batch and not _out_of_the_running(method, timed):
            timed[method] = _cost(run, method, devices.mesh_for(1))
    best = min(timed, key=lambda method: timed[method][0])
    choice = {"method": best._asdict(), "bytes": timed[best][1]}
    _remember({**_remembered(), _key(run): choice})
    return best


def _out_of_the_running(method: Method, timed: dict[Method, tuple[float, int]]) -> bool:
    """Whether the next smaller microbatch was already half as slow again as the best."""
    smaller = [m for m in timed if m.rules == method.rules and m.microbatch < method.microbatch]
    if not smaller:
        return False
    best = min(seconds for seconds, _ in timed.values())
    return timed[max(smaller)][0] > 1.5 * best


def _cost(run: Run, method: Method, mesh: Mesh) -> tuple[float, int]:
    """Return the seconds for one batch's sum of gradients, and the bytes of its intermediates."""
    shape = run.shape
    draw = sampling.Draw(jnp.arange(run.batch), jnp.int32(run.batch), jnp.bool_(False))

    def one(numbers: Any, params: Any, images: Any, labels: Any) -> Any:
        mine = shares.mine(draw, mesh)
        return shares.flat(training.sum_over(shape, method, numbers, params, mine, images, labels))

    arguments = (
        training.stack([training.traced_numbers(run)]),
        training.stack([training.start(run).params]),
        *_random_images(run),
    )
    mapped = devices.over_runs(one, mesh, data=2, out=devices.EACH_SHARE)
    program = jax.jit(mapped).lower(*arguments).compile()
    seconds = _shortest(program, arguments)
    memory = program.memory_analysis()
    return seconds, max(1, memory.temp_size_in_bytes + memory.output_size_in_bytes)


def _shortest(program: Any, arguments: tuple[Any, ...]) -> float:
    """Return the shortest of five runs in seconds, of two if they are long."""
    taken: list[float] = []
    while len(taken) < 2 or (len(taken) < 5 and sum(taken) < LONG):
        start = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        taken.append(time.perf_counter() - start)
    return min(taken)


def _random_images(run: Run) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (run.batch, *IMAGE_SHAPE[run.dataset]), dtype=np.uint8)
    return jnp.asarray(images), jnp.asarray(draw.integers(0, 10, run.batch), jnp.int32)


def _key(run: Run) -> str:
    """Name what a measurement holds for: this device and version, and this kind of run."""
    model = run.model if run.width == 1 else f"{run.model} x {run.width:g}"
    cores = f" x {devices.available_cores()}" if jax.default_backend() == "cpu" else ""
    return f"{devices.kind()}{cores}, jax {jax.__version__}, {model}, {run.mechanism}"


def _file() -> Path:
    return data.cache_folder() / "methods.json"


def _remembered() -> dict[str, Any]:
    try:
        known = json.loads(_file().read_text())
        return {key: value for key, value in known.items() if Method(**value["method"])}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        # A cache: what cannot be read is measured again.
        return {}


def _remember(known: dict[str, Any]) -> None:
    store.write_atomically(_file(), json.dumps(known, indent=1))
