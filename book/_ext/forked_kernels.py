"""Kernels that are forks of one process, `warm_kernels`, for the book's pages and for nbval."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

try:  # what JAX packs what it compiled with
    from compression.zstd import ZstdError as NotWhole
    from compression.zstd import decompress
except ImportError:  # before Python 3.14
    from zlib import decompress
    from zlib import error as NotWhole

COMPILED = Path(__file__).parents[2] / "_build/compiled"
_ROOM = 1_000_000_000  # bytes
WARM = Path(__file__).parent / "warm_kernels.py"
ADDRESS = "DPSTUDY_KERNELS"  # what in the environment names the socket; other processes see it too
PATIENCE = 120  # seconds
_LITTLE_OPTIMISED = (
    "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_llvm_disable_expensive_passes=true"
)


@contextlib.contextmanager
def compiled_quickly() -> Iterator[None]:
    """Have the processes that start now optimise little, and find what was compiled before.

    A page, or a test, compiles much and computes little: without optimising most programs compile
    in half the time, and a second `make test` or `make book` compiles what has changed alone.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        clear_of_broken(COMPILED)
    wanted = {
        "JAX_COMPILATION_CACHE_DIR": str(COMPILED),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # by default, 1
        **os.environ,
        "XLA_FLAGS": f"{_LITTLE_OPTIMISED} {os.environ.get('XLA_FLAGS', '')}",
    }
    with mock.patch.dict(os.environ, wanted):
        yield


def clear_of_broken(folder: Path) -> None:
    """Remove what a process wrote half and was killed: JAX would warn of it for ever.

    All of it goes once there is more than `_ROOM`: programs of code that has changed stay.
    """
    entries = list(folder.glob("*-cache"))
    if sum(entry.stat().st_size for entry in entries) > _ROOM:
        shutil.rmtree(folder)
        return
    for entry in entries:
        try:
            decompress(entry.read_bytes())
        except NotWhole:
            entry.unlink(missing_ok=True)


@contextlib.contextmanager
def warm() -> Iterator[None]:
    """Have the process that kernels are forked from run, where a process can be forked."""
    if not hasattr(os, "fork"):
        yield
        return
    address = str(Path(tempfile.mkdtemp(prefix="kernels-")) / "socket")
    command = [sys.executable, str(WARM), "serve", address]
    with compiled_quickly():
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        os.environ[ADDRESS] = address
        try:
            yield
        finally:
            del os.environ[ADDRESS]
            process.stdin.close()
            if status := process.wait():  # under pytest what it said itself is captured, and lost
                said = f"{WARM.name} ended with {status}: kernels were started afresh, and slowly"
                print(said, file=sys.stderr, flush=True)


class Forked:
    """Makes a kernel manager of `jupyter_client` have its kernel forked, once that is ready.

    It talks to the kernel through files: kernels that start at once may be given one TCP port.
    """

    def __init__(self, **settings: Any) -> None:
        """Name the files' beginning: by default it is relative, and a kernel runs elsewhere."""
        beginning = Path(tempfile.gettempdir()) / f"kernel-{uuid4().hex[:8]}"
        super().__init__(transport="ipc", ip=str(beginning), **settings)

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        """Return the command that asks for a fork; that of a fresh kernel if none comes."""
        address = os.environ.get(ADDRESS)
        latest = time.monotonic() + PATIENCE
        while address and not os.path.exists(address):
            # The process that fails to import takes the folder with it.
            if time.monotonic() > latest or not os.path.isdir(os.path.dirname(address)):
                address = None
            time.sleep(0.1)
        if not address:
            return super().format_kernel_cmd(extra_arguments)
        # Without site-packages it starts in no time.
        relay = [sys.executable, "-I", "-S", str(WARM), "relay", address]
        return [*relay, str(Path(self.connection_file).resolve())]
