"""Contestants in processes of their own, timed in turn.

All processes of a contest stay alive and idle; each round asks every one for a short burst of
steps, in an order drawn anew. What slows the machine down for a while then slows down everyone, and
ratios within a round hardly notice.
"""

from __future__ import annotations

import json
import math
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from problem import Problem

HERE = Path(__file__).parent
# Read by XLA and OpenMP before they start threads; the same as in the study's campaigns.
SINGLE_THREADED = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
}
# An idle contestant must not take a core from the one being timed.
IDLE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
# Or the last line of an error, which is what is said of it, is about the traceback.
UNFILTERED = {"JAX_TRACEBACK_FILTERING": "off"}
START_TIMEOUT, BURST_TIMEOUT = 600, 300
# Rough shares of the time, for the progress bar: importing and compiling is what takes long.
START, BURST = 10, 1
# After so many rounds a variant half as slow again as its contestant's best need not go on.
HEATS, OUT = 2, 1.5


class Failed(Exception):
    """A contestant that cannot go on, with the reason in a line."""


@dataclass(frozen=True)
class Entry:
    """Who takes part: a peer on a problem, perhaps as several pinned processes at once."""

    name: str
    peer: str
    problem: Problem
    variant: str = ""
    cores: tuple[int | None, ...] = (None,)
    """One process each; pinned to that core, or free to use all."""

    @property
    def label(self) -> str:
        """The name, with the variant where there is one; no two entries share it."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


class Process:
    """A running worker."""

    def __init__(self, entry: Entry, core: int | None):
        """Start it; `receive` its first answer to know that it runs."""
        given = {"peer": entry.peer, "problem": asdict(entry.problem), "variant": entry.variant}
        env = os.environ | IDLE | UNFILTERED | (SINGLE_THREADED if core is not None else {})
        self._popen = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), json.dumps(given | {"core": core})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        os.set_blocking(self._popen.stderr.fileno(), False)
        self._log = b""

    def send(self, steps: int) -> None:
        """Ask for a burst."""
        try:
            self._popen.stdin.write(json.dumps({"steps": steps}).encode() + b"\n")
            self._popen.stdin.flush()
        except BrokenPipeError as error:
            raise Failed(self._last_words()) from error

    def receive(self, timeout: float) -> dict[str, Any]:
        """Return the next answer."""
        deadline, streams = time.monotonic() + timeout, [self._popen.stdout, self._popen.stderr]
        while True:
            ready = select.select(streams, [], [], max(0, deadline - time.monotonic()))[0]
            if not ready:
                raise Failed(f"no answer for {timeout:.0f} s")
            if self._popen.stderr in ready:
                # Read as it comes: a full pipe would stop the worker.
                chunk = self._popen.stderr.read() or b""
                self._log = (self._log + chunk)[-10_000:]
                if not chunk:
                    streams.remove(self._popen.stderr)
            if self._popen.stdout in ready:
                line = self._popen.stdout.readline()
                if not line:
                    raise Failed(self._last_words())
                return json.loads(line)

    def _last_words(self) -> str:
        code = self._popen.wait()
        self._log += self._popen.stderr.read() or b""
        lines = [line for line in self._log.decode(errors="replace").splitlines() if line.strip()]
        return f"{lines[-1] if lines else 'said nothing'} (exit status {code})"

    def stop(self) -> None:
        """End the process and wait for it."""
        self._popen.kill()
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            stream.close()


@dataclass
class Running:
    """An entry's processes, and what they have shown."""

    entry: Entry
    processes: list[Process] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)
    bursts: list[list[float]] = field(default_factory=list)
    """Seconds a step: by round, by process."""
    peak: int = 0
    """Of all processes together while they train, in bytes."""
    loss: float | None = None
    idle: float = 0
    """Processor seconds spent while others were being timed: must stay next to nothing."""

    def start(self) -> None:
        """Start the processes together."""
        self.processes = [Process(self.entry, core) for core in self.entry.cores]
        self.started = [process.receive(START_TIMEOUT) for process in self.processes]
        self.burst(1)  # A first estimate; not counted.
        self.bursts.clear()

    def burst(self, steps: int) -> float:
        """Have every process train that many steps at once; return the slowest's time a step."""
        for process in self.processes:
            process.send(steps)
        answers = [process.receive(BURST_TIMEOUT) for process in self.processes]
        self.bursts.append([answer["seconds"] for answer in answers])
        self.peak = sum(answer["peak"] for answer in answers)
        self.idle = sum(answer["idle"] for answer in answers)
        self.last = max(self.bursts[-1])
        return self.last

    @property
    def fastest(self) -> float:
        """Seconds a step in the fastest burst."""
        return min(max(burst) for burst in self.bursts)

    def ask_loss(self) -> None:
        """Learn the loss of the first batch under the weights that all started from."""
        self.processes[0].send(0)
        self.loss = self.processes[0].receive(START_TIMEOUT)["loss"]

    def stop(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.stop()

    def record(self) -> dict[str, Any]:
        """Return what is stored of it, times in seconds and memory in bytes."""
        return {
            "name": self.entry.name,
            "batch": self.entry.problem.batch,
            "width": self.entry.problem.width,
            "variant": self.entry.variant,
            "processes": len(self.processes),
            "pinned": self.entry.cores != (None,),
            "first_step": _short(max(started["first_step"] for started in self.started)),
            "baseline": sum(started["baseline"] for started in self.started),
            "start_peak": sum(started["peak"] for started in self.started),
            "peak": self.peak,
            "idle": _short(self.idle),
            "rounds": [[_short(seconds) for seconds in burst] for burst in self.bursts],
        } | ({} if self.loss is None else {"loss": round(self.loss, 6)})


def _short(seconds: float) -> float:
    return float(f"{seconds:.4g}")


@dataclass
class Outcome:
    """The entries that came to the end, and why the others did not."""

    finished: list[Running]
    failed: dict[str, str]


def hold(
    entries: list[Entry],
    *,
    rounds: int,
    seconds: float,
    report: Callable[[str, int], None],
    same_loss: bool = False,
    deadline: float = math.inf,
) -> Outcome:
    """Start every entry, then time all in turn, `rounds` times over.

    Variants that are out of the running after the heats are recorded with the rounds they had.

    Args:
        entries: who takes part.
        rounds: bursts of each.
        seconds: length of a burst; at least one step.
        report: told what was done, and its share of the time, after each start and each burst.
        same_loss: whether all must agree on the first batch's loss.
        deadline: of `time.monotonic`: nobody is started after it, and no second round is begun.
    """
    running: list[Running] = []
    failed: dict[str, str] = {}
    rng = random.Random(0)

    def attempt(one: Running, action: Callable[[], Any]) -> bool:
        try:
            action()
        except Failed as error:
            failed[one.entry.label] = str(error)
            one.stop()
        return one.entry.label not in failed

    try:
        for entry in entries:
            one = Running(entry)
            running.append(one)
            if time.monotonic() > deadline:
                failed[entry.label] = "no time was left"
            else:
                attempt(one, one.start)
            report(entry.label, START)
        for number in range(rounds):
            if number > 0 and time.monotonic() > deadline:
                break
            for one in rng.sample(running, len(running)):
                if one.entry.label not in failed and not _beaten(one, running):
                    attempt(one, lambda one=one: one.burst(math.ceil(seconds / one.last)))
                report(one.entry.label, BURST)
        if same_loss:
            for one in running:
                if one.entry.label not in failed:
                    attempt(one, one.ask_loss)
            _compare_losses(running, failed)
    finally:
        for one in running:
            one.stop()
    return Outcome([one for one in running if one.entry.label not in failed], failed)


def _beaten(one: Running, running: list[Running]) -> bool:
    """Whether another variant of the same contestant was much faster in all of the heats."""
    if len(one.bursts) < HEATS:
        return False
    variants = [other for other in running if other.entry.name == one.entry.name and other.bursts]
    return one.fastest > OUT * min(other.fastest for other in variants)


def _compare_losses(running: list[Running], failed: dict[str, str]) -> None:
    """Take out whoever computes something else than the first."""
    going = [one for one in running if one.entry.label not in failed]
    for one in going:
        first = going[0].loss
        if not abs(one.loss - first) <= 1e-4 * abs(first):
            failed[one.entry.label] = f"starts at the loss {one.loss:.6f}, not {first:.6f}"
