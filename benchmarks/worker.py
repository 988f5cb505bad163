"""One contestant in a process of its own: `python worker.py '{"peer": ..., "problem": ...}'`.

Answers on standard output, one line of JSON each: first when the contestant has trained its first
step, then to each line of the standard input, `{"steps": n}`. If n is 0, it tells the loss that it
started from. Between lines it does nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any


def peak_memory() -> int:
    """Return the largest resident set of this process, in bytes, since `forget_peak`."""
    status = Path("/proc/self/status")
    if status.exists():
        # What getrusage reports on Linux includes the process that this one was forked from.
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_on_accelerator() -> int | None:
    """Return the most memory that this process has taken of an accelerator; None on a CPU."""
    if (torch := sys.modules.get("torch")) and torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    if jax := sys.modules.get("jax"):
        return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return None


def forget_peak() -> None:
    """Have the next peak be that of what comes next, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def serve(peer: str, problem: dict[str, Any], variant: str) -> None:
    """Build the contestant, and train as many steps as each line asks for."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is not an answer.

    def answer(**content: Any) -> None:
        print(json.dumps(content), file=answers, flush=True)

    from problem import Problem

    module = importlib.import_module(f"peers.{peer}")
    given = Problem(**problem)
    batches = given.batches()
    baseline = peak_memory()
    made = module.build(given, variant)
    start = time.perf_counter()
    made.step(batches[0])
    made.wait()
    first = time.perf_counter() - start
    if (taken := peak_on_accelerator()) is not None:
        baseline = 0  # no library lies there

    def peak() -> int:
        return peak_memory() if taken is None else peak_on_accelerator()

    answer(first_step=first, baseline=baseline, peak=peak())
    forget_peak()
    turns, idle, before = itertools.cycle(batches), 0.0, time.process_time()
    for line in sys.stdin:
        idle += time.process_time() - before
        steps = json.loads(line)["steps"]
        if not steps:
            # Asked last, since it takes memory that training does not.
            answer(loss=module.build(given, variant).loss(batches[0]))
            continue
        start = time.perf_counter()
        for _ in range(steps):
            made.step(next(turns))
        made.wait()
        seconds = time.perf_counter() - start
        answer(seconds=seconds / steps, peak=peak(), idle=idle)
        before = time.process_time()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given["core"] is not None:
        os.sched_setaffinity(0, {given["core"]})
    serve(given["peer"], given["problem"], given["variant"])
