"""How training is laid over this machine's devices.

The runs of a cohort are spread over the devices, each device training its share; a run that is
alone has its examples spread instead. On a CPU all cores are one device, unless each is made one
(`one_device_a_core`).
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

if TYPE_CHECKING:
    from dpstudy.sampling import Draw

RUNS, EXAMPLES = "runs", "examples"
EACH_RUN = PartitionSpec(RUNS)
EVERYWHERE = PartitionSpec()


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def name() -> str:
    """Return what this process computes on, in words."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return f"{available_cores()} x CPU core ({kind()})"
    return f"{jax.device_count()} x {kind()} ({device.platform})"


def kind() -> str:
    """Return the model of the accelerator, or of the processor where the system names it."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def core_each() -> bool:
    """Whether each device of this process is a CPU core of its own, and computes on one thread."""
    return jax.default_backend() == "cpu" and available_cores() <= jax.local_device_count()


def one_device_a_core() -> None:
    """Have JAX take each core of this process as a device; only before JAX starts.

    Sharp edge: the devices of a CPU wait for each other on the threads that they compute with, and
    where small steps were sent off one by one XLA (jaxlib 0.10) was seen to wait for ever, with as
    many threads as devices and with one more, and then to abort. With four threads a device, and
    with steps looped within one program, 5,000 steps went through, which is no proof: the study's
    own runs do not use it.
    """
    os.environ.setdefault("NPROC", str(4 * available_cores()))
    if jax.config.jax_num_cpu_devices < 1:
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", available_cores())


def mesh_for(runs: int, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Return the devices (by default all local ones) as a grid of runs x examples."""
    devices = jax.local_devices() if devices is None else devices
    if runs == 1:
        return Mesh(np.array(devices)[None], (RUNS, EXAMPLES))
    # The most devices that share the runs evenly.
    count = max(n for n in range(1, len(devices) + 1) if runs % n == 0)
    return Mesh(np.array(devices[:count])[:, None], (RUNS, EXAMPLES))


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """Return the arrays, whole on each device of the mesh."""
    return jax.device_put(tree, jax.NamedSharding(mesh, EVERYWHERE))


def of_each_run(tree: Any, mesh: Mesh) -> Any:
    """Return arrays that have a leading axis of runs, each run's part where it is trained."""
    return jax.device_put(tree, jax.NamedSharding(mesh, EACH_RUN))


def over_runs(function: Callable[..., Any], mesh: Mesh, data: int) -> Callable[..., Any]:
    """Return `function`, of one run, for a cohort laid over `mesh`.

    All arguments but the last `data` ones, and all results, get a leading axis of runs. The last
    ones are the same for all runs, and whole on each device.
    """

    def share(*arguments: Any) -> Any:
        mine, common = arguments[:-data], arguments[-data:]
        if len(jax.tree.leaves(mine)[0]) > 1:
            return jax.vmap(lambda *one: function(*one, *common))(*mine)
        # Not by vmap: batched products and conditionals of one are slower than plain ones.
        alone = jax.tree.map(lambda x: x[0], mine)
        return jax.tree.map(lambda x: x[None], function(*alone, *common))

    def cohort(*arguments: Any) -> Any:
        specs = (*[EACH_RUN] * (len(arguments) - data), *[EVERYWHERE] * data)
        mapped = partial(jax.shard_map, mesh=mesh, out_specs=EACH_RUN, check_vma=False)
        return mapped(share, in_specs=specs)(*arguments)

    return cohort


def my_share(draw: Draw, mesh: Mesh) -> Draw:
    """Return every n-th drawn example, for the n devices that share a run's examples.

    Only within a function that `over_runs` maps.
    """
    shares = mesh.shape[EXAMPLES]
    if shares == 1:
        return draw
    mine = jax.lax.axis_index(EXAMPLES)
    indices = jax.numpy.pad(draw.indices, (0, -len(draw.indices) % shares)).reshape(-1, shares)
    indices = jax.lax.dynamic_index_in_dim(indices, mine, axis=1, keepdims=False)
    return draw._replace(indices=indices, count=(draw.count - mine + shares - 1) // shares)


def sum_of_shares(total: Any, mesh: Mesh) -> Any:
    """Return the sum over the devices that share a run's examples."""
    return total if mesh.shape[EXAMPLES] == 1 else jax.lax.psum(total, EXAMPLES)


def map_shared(function: Callable[[Any], Any], batches: Any, mesh: Mesh) -> Any:
    """Return `jax.lax.map(function, batches)`, spread over the devices that share a run."""
    shares, count = mesh.shape[EXAMPLES], len(jax.tree.leaves(batches)[0])
    if shares == 1 or count % shares:
        return jax.lax.map(function, batches)
    size = count // shares
    first = jax.lax.axis_index(EXAMPLES) * size
    mine = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, first, size), batches)
    gather = partial(jax.lax.all_gather, axis_name=EXAMPLES, tiled=True)
    return jax.tree.map(gather, jax.lax.map(function, mine))
