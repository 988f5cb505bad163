"""How training is laid over this machine's devices.

Each device trains its own runs of a cohort; a run that is alone has its examples spread instead
(`training/accumulate.py`). On a CPU all cores are one device, but for `one_device_a_core`.
"""

import contextlib
import os
import platform
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from dpstudy.errors import UserError

# Products in float32 on an accelerator too, as on a CPU: by default it rounds their factors to ten
# bits, and with them the norm that clipping bounds a gradient by.
jax.config.update("jax_default_matmul_precision", "highest")

ASKED = "JAX_PLATFORMS", "JAX_PLATFORM_NAME"
"""What the environment asks JAX to start on."""
RUNS, EXAMPLES = "runs", "examples"
EACH_RUN = PartitionSpec(RUNS)
EACH_SHARE = PartitionSpec(RUNS, EXAMPLES)
"""What each device that shares a run's examples has of it, one after the other."""
EVERYWHERE = PartitionSpec()


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def backend() -> str:
    """Start JAX, and return what it computes on: "cpu", "gpu" or "tpu".

    Raises:
        UserError: it does not start, on what the environment asks for or at all.
    """
    try:
        return jax.default_backend()
    except (AssertionError, RuntimeError) as error:  # for CUDA without its plugin the first, bare
        asked = [f"{name}={os.environ[name]}" for name in ASKED if os.environ.get(name)]
        where = f" with {' and '.join(asked)}" if asked else ""
        why = " ".join(str(error).split("\n")) or "it has no such device"
        raise UserError(f"JAX does not start{where}: {why}") from error


def name() -> str:
    """Return what this process computes on, in words; errors as `backend`."""
    if backend() == "cpu":
        return f"{available_cores()} x CPU core ({kind()})"
    return f"{jax.device_count()} x {kind()} ({backend()})"


def kind() -> str:
    """Return the model of the accelerator, or of the processor where the system names it."""
    if backend() != "cpu":
        return jax.devices()[0].device_kind
    info = Path("/proc/cpuinfo")
    named = re.search(r"(?m)^model name\s*:(.*)", info.read_text() if info.exists() else "")
    return named[1].strip() if named else platform.processor() or platform.machine()


def core_each() -> bool:
    """Whether each device of this process is a CPU core of its own, and computes on one thread."""
    return backend() == "cpu" and available_cores() <= jax.local_device_count()


def one_device_a_core() -> None:
    """Have JAX take each core of this process as a device; without effect once JAX has started.

    >>> one_device_a_core()  # before JAX starts; then
    >>> jax.local_device_count() >= 1
    True
    """
    if jax.config.jax_num_cpu_devices < 1:
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", available_cores())


def mesh_for(runs: int, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Return the devices (by default all local ones) as a grid of runs x examples.

    >>> dict(mesh_for(1, jax.devices()[:1]).shape)
    {'runs': 1, 'examples': 1}
    """
    devices = jax.local_devices() if devices is None else devices
    if runs == 1:
        return Mesh(np.array(devices)[None], (RUNS, EXAMPLES))
    # The most devices that share the runs evenly.
    count = max(n for n in range(1, len(devices) + 1) if runs % n == 0)
    return Mesh(np.array(devices[:count])[:, None], (RUNS, EXAMPLES))


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """Return the arrays, whole on each device of the mesh.

    >>> everywhere(np.arange(3), mesh_for(1)).is_fully_replicated
    True
    """
    return jax.device_put(tree, jax.NamedSharding(mesh, EVERYWHERE))


def of_each_run(tree: Any, mesh: Mesh) -> Any:
    """Return arrays that have a leading axis of runs, each run's part where it is trained."""
    return jax.device_put(tree, jax.NamedSharding(mesh, EACH_RUN))


def on_each(
    function: Callable[..., Any], mesh: Mesh, out: PartitionSpec = EVERYWHERE
) -> Callable[..., Any]:
    """Return `function`, compiled, as each device computes it; results are laid as `out` says."""
    mapped = partial(jax.shard_map, mesh=mesh, in_specs=EVERYWHERE, check_vma=False)
    return jax.jit(mapped(function, out_specs=out))


def over_runs(
    function: Callable[..., Any],
    mesh: Mesh,
    *,
    data_in: PartitionSpec = EVERYWHERE,
    out: PartitionSpec = EACH_RUN,
) -> Callable[..., Any]:
    """Return `function`, of one run, for a cohort laid over `mesh`.

    The last argument is the same for all runs, and lies on the devices as `data_in` says. All
    others, and all results, get a leading axis of runs.
    """

    def share(*arguments: Any) -> Any:
        *mine, common = arguments
        if len(jax.tree.leaves(mine)[0]) > 1:
            return jax.vmap(lambda *one: function(*one, common))(*mine)
        # Not by vmap: batched products and conditionals of one are slower than plain ones.
        alone = jax.tree.map(lambda x: x[0], mine)
        return jax.tree.map(lambda x: x[None], function(*alone, common))

    def cohort(*arguments: Any) -> Any:
        specs = (*[EACH_RUN] * (len(arguments) - 1), data_in)
        mapped = partial(jax.shard_map, mesh=mesh, out_specs=out, check_vma=False)
        return mapped(share, in_specs=specs)(*arguments)

    return cohort
