"""Read and write stored results: one small JSON file a run, `results/runs/IDENTITY.json`.

A file is there whole or not at all, under a checksum. What cannot be trusted is named and left out,
never repaired and never overwritten unasked.
"""

import contextlib
import datetime
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from dpstudy import files
from dpstudy.errors import UserError
from dpstudy.files import results_folder
from dpstudy.lab.forms import problem_of
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run

Read = TypeVar("Read")

FORMAT = 2
# The accuracy of a run that diverged: that of a network which guesses one of the ten classes.
CHANCE = 0.1


class StoreError(UserError):
    """A result that cannot be read or written: the message names the file and says why."""


class DamagedError(StoreError):
    """A file, at `path`, under a result's name that for a `reason` is not that result."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True)
class Result:
    """What is kept of one run; in a file beside its format and checksum, in this order.

    Attributes:
        curve: columns by epoch, as in `loop.Epoch.row`: `epoch`, `step`, `test_accuracy`, ...; a
            measure's, such as `norms.gradient`, hold numbers or nested lists of them. From before
            the first step (epoch 0) on, but for runs stored before that was recorded.
        class_accuracy: test accuracy of each class at the last epoch.
        diverged_at: the step at which the loss or a parameter ceased to be finite.
        stopped: why the run was given up before its last epoch.
        epsilon: by accountant, at each epoch of the curve; empty without privacy, and until
            `with_epsilon` has filled it in.
        provenance: versions, device, commit, wall time, dataset fingerprint.
    """

    run: Run
    curve: dict[str, list[float]]
    class_accuracy: list[float]
    diverged_at: int | None = None
    stopped: str | None = None
    epsilon: dict[str, list[float]] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The result's file name."""
        return f"{self.run.identity}.json"

    @property
    def last_accuracy(self) -> float:
        """The test accuracy after the last epoch; of a run that diverged, `CHANCE`."""
        return CHANCE if self.diverged_at is not None else self.curve["test_accuracy"][-1]


def runs_folder(profile: str = "full") -> Path:
    """Return the folder of stored runs."""
    return results_folder(profile) / "runs"


def provenance(wall_seconds: float, device: str, **more: Any) -> dict[str, Any]:
    """Return where and with what a result was computed, and what more is to be said."""
    packages = ("jax", "jaxlib", "flax", "optax", "numpy")
    return {
        "packages": {name: importlib.metadata.version(name) for name in packages},
        "python": platform.python_version(),
        "device": device,
        "commit": commit(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "wall_seconds": round(wall_seconds, 1),
        **more,
    }


_PROCESS = Path("/proc/self")


def forget_peak() -> None:
    """Have Linux count the peak of this process' memory anew, where it can: proc(5), clear_refs."""
    with contextlib.suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")


def peak_megabytes() -> int | None:
    """Return the largest resident size since `forget_peak`, in 10^6 bytes; None if not on Linux."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return round(kibibytes[0] * 1024 / 1e6) if kibibytes else None


@functools.cache
def commit() -> str:
    """Return the package's git commit, marked if the tree has changes; "unknown" outside git."""
    if (checkout := files.checkout()) is None:
        return "unknown"  # Installed elsewhere: the repository around it would be another's.
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def write(folder: Path, result: Result, replace: bool = True) -> Path:
    """Store a result in `folder` under its run's identity, atomically.

    Raises:
        StoreError: the disk is full, the folder cannot be written, or a value is not a finite
            number; nothing is left behind.
        FileExistsError: something is at its place that it is not to replace.

    >>> from tempfile import mkdtemp
    >>> curve = {"epoch": [1], "step": [117], "test_accuracy": [0.93]}
    >>> path = write(Path(mkdtemp()), Result(Run(), curve, class_accuracy=[0.93] * 10))
    >>> path.name, read(path).curve["test_accuracy"]
    ('44136fa355b3678a.json', [0.93])
    """
    path = folder / result.name
    columns = {name: value for name, value in vars(result).items() if name != "run"}
    content = {"format": FORMAT, "run": result.run.to_dict(), **columns}
    if problem := problem_of(columns, result.run):
        raise StoreError(f"could not store {path}: {problem}")
    write_sealed(path, content, replace)
    return path


def check_writable(folder: Path) -> None:
    """Raise StoreError where results cannot be stored in a folder, before they are computed."""
    try:
        files.try_writing(folder)
    except OSError as error:
        raise StoreError(f"could not store in {folder}: {error.strerror or error}") from error


def write_sealed(path: Path, content: dict[str, Any], replace: bool = True) -> None:
    """Write `content` as JSON with a checksum over all of it, atomically; errors as `write`."""
    try:
        lines = [  # One key a line: small, and a change shows in a diff.
            f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'), allow_nan=False)}"
            for key, value in (content | {"checksum": _checksum(content)}).items()
        ]
    except ValueError as error:
        raise StoreError(f"could not store {path}: a value is not a finite number") from error
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode(), replace)


def write_atomically(path: Path, content: bytes, replace: bool = True) -> None:
    """Write all of `content` to `path`, or change nothing; errors as `write`."""
    try:
        with files.written_whole(path, replace) as file:
            file.write(content)
    except OSError as error:
        if not replace and os.path.lexists(path):
            raise
        raise StoreError(f"could not store {path}: {error.strerror or error}") from error


def read(path: Path) -> Result:
    """Read one stored result.

    Raises:
        DamagedError: the file is cut short, altered, foreign, or named for another run.

    >>> read(Path("nowhere/44136fa355b3678a.json"))
    Traceback (most recent call last):
    dpstudy.lab.store.DamagedError: ...: cannot be read: No such file or directory
    """
    return _read(path, content_of(path))


@functools.lru_cache(maxsize=4096)  # pages ask for the same runs again: 2 ms each to check
def _read(path: Path, stored: bytes) -> Result:
    content = unsealed(path, stored, "run", FORMAT)
    columns = {name: content[name] for name in content if name not in ("format", "run", "checksum")}
    try:
        run = Run.from_dict(content["run"])
    except (SpecError, TypeError) as error:
        raise DamagedError(path, f"not a run of this version: {error}") from error
    if path.stem != run.identity:
        raise DamagedError(path, f"holds the run {run.identity}, which its name does not say")
    if problem := problem_of(columns, run, stored):
        raise DamagedError(path, problem)
    return Result(run=run, **columns)


def completed(result: Result) -> Result:
    """Return the result with its epsilon; StoreError where this machine cannot state it."""
    if not result.run.private or result.epsilon:
        return result
    try:
        return with_epsilon(result)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the result {result.name} came without its epsilon, which cannot be stated here: "
            f"{error.name} is not installed"
        ) from None


def with_epsilon(result: Result) -> Result:
    """Return the result with its epsilon at each epoch; ModuleNotFoundError without dp-accounting.

    >>> curve = {"epoch": [40], "step": [40 * 117], "test_accuracy": [0.98]}
    >>> spent = with_epsilon(Result(Run(), curve, class_accuracy=[])).epsilon
    >>> {accountant: round(values[0], 2) for accountant, values in spent.items()}
    {'pld': 2.36, 'rdp': 2.58, 'rdp-2019': 2.99}
    """
    from dpstudy.privacy.run_epsilon import epsilon_curve  # only here: it takes a second

    return replace(result, epsilon=epsilon_curve(result.run, result.curve["step"]))


def unsealed(path: Path, stored: bytes, mark: str, form: int) -> dict[str, Any]:
    """Return what `write_sealed` wrote to a file, known by a `mark`, or raise DamagedError."""
    whole = _whole if _LONG in stored.translate(_DIGITS) else None
    try:
        content = json.loads(stored.decode(), object_pairs_hook=_without_twins, parse_int=whole)
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, "not intact JSON (cut short or damaged)") from error
    if not isinstance(content, dict) or "checksum" not in content or mark not in content:
        raise DamagedError(path, "not a result of this study")
    if content.get("format") != form:
        raise DamagedError(path, f"format {content.get('format')!r}; this version reads {form}")
    try:
        intact = content["checksum"] == _checksum(content)
    except (ValueError, RecursionError):
        # Python reads NaN, and 1e999 as infinity, as `_whole` does; neither was ever stored.
        intact = False
    if not intact:
        raise DamagedError(path, "changed after it was stored (its checksum does not match)")
    return content


def content_of(path: Path) -> bytes:
    """Return what is in a stored file, or raise DamagedError."""
    try:
        return files.content_of(path)
    except OSError as error:
        raise DamagedError(path, f"cannot be read: {error.strerror or error}") from error


# Found as one digit repeated: a pattern takes as long as all of the JSON.
_DIGITS, _LONG = bytes.maketrans(b"123456789", b"0" * 9), b"0" * 20


def _whole(digits: str) -> float:
    return int(digits) if len(digits) < 20 else math.inf


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key given twice: a reader would see the first, JSON keeps the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is given twice")
    return content


def read_all(
    folder: Path, wanted: Iterable[str] | None = None
) -> tuple[dict[str, Result], list[DamagedError]]:
    """Return the results in `folder`, or those `wanted`, by identity, and what is wrong."""
    names = None if wanted is None else {f"{name}.json" for name in wanted}
    return read_each(stored_files(folder, names), read)


def read_each(
    paths: Iterable[Path], read_one: Callable[[Path], Read]
) -> tuple[dict[str, Read], list[DamagedError]]:
    """Return what `read_one` makes of files, by name, and what is wrong with the others."""
    found, errors = {}, []
    for path in paths:
        try:
            found[path.stem] = read_one(path)
        except DamagedError as error:
            errors.append(error)
    return found, errors


def stored_files(
    folder: Path, wanted: Collection[str] | None = None, start: str = ""
) -> list[Path]:
    """Return the files in `folder` that should be results, sorted by name.

    Or of them those `wanted`, or those whose names have that `start`.
    """
    try:
        names = os.listdir(folder) if wanted is None else {*wanted}.intersection(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{folder}: cannot be read: {error.strerror or error}") from error
    shown = (one for one in sorted(names) if one.startswith(start) and one.endswith(".json"))
    return [folder / one for one in shown if not one.startswith(".")]


def _checksum(content: dict[str, Any]) -> str:
    content = {name: value for name, value in content.items() if name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
