"""Read and write stored results: one small JSON file a run, named by the run's identity.

A file holds the run's spec, its curve, its provenance, and a checksum over all of it. Files are
written under a temporary name, flushed, and renamed, so that a killed process or a full disk
leaves no partial file under a final name. What cannot be trusted is named and left out, never
repaired and never overwritten unasked.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpstudy.errors import UserError
from dpstudy.spec import Run, SpecError

FORMAT = 1


class StoreError(UserError):
    """A result that cannot be read or written: the message names the file and says why."""


@dataclass(frozen=True)
class Result:
    """What is kept of one run.

    Attributes:
        run: what was trained.
        curve: columns by epoch: `epoch`, `step`, `test_accuracy`, ...
        class_accuracy: test accuracy of each class at the last epoch.
        diverged_at: the step at which a parameter ceased to be finite, or None.
        epsilon: by accountant, the epsilon at each epoch of the curve; empty without privacy,
            and until `accounting` has filled it in.
        provenance: versions, device, commit, wall time, dataset fingerprint.
    """

    run: Run
    curve: dict[str, list[float]]
    class_accuracy: list[float]
    diverged_at: int | None = None
    epsilon: dict[str, list[float]] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The result's file name."""
        return f"{self.run.identity}.json"


def provenance(*, wall_seconds: float, fingerprint: str, device: str) -> dict[str, Any]:
    """Return where and with what a result was computed."""
    packages = ("jax", "jaxlib", "flax", "optax", "numpy")
    return {
        "packages": {name: importlib.metadata.version(name) for name in packages},
        "python": platform.python_version(),
        "device": device,
        "commit": _commit(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "wall_seconds": round(wall_seconds, 1),
        "dataset_fingerprint": fingerprint,
    }


def _commit() -> str:
    """Return the package's git commit, marked if the tree has changes; "unknown" outside git."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def write(folder: Path, result: Result) -> Path:
    """Store a result in `folder` under its run's identity, atomically.

    Raises:
        StoreError: the disk is full or the folder cannot be written; nothing is left behind.
    """
    content = {
        "format": FORMAT,
        "run": result.run.to_dict(),
        "curve": result.curve,
        "class_accuracy": result.class_accuracy,
        "diverged_at": result.diverged_at,
        "epsilon": result.epsilon,
        "provenance": result.provenance,
    }
    path = folder / result.name
    write_atomically(path, _dump(content | {"checksum": _checksum(content)}))
    return path


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `content` to `path`: either all of it is there under that name, or nothing changes.

    Raises:
        StoreError: the write failed.
    """
    if isinstance(content, str):
        content = content.encode()
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise StoreError(f"could not store {path}: {error.strerror}") from error


def read(path: Path) -> Result:
    """Read one stored result.

    Raises:
        StoreError: the file is cut short, altered, foreign, or named for another run.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path}: not complete JSON (cut short or damaged)") from error
    if not isinstance(content, dict) or "checksum" not in content or "run" not in content:
        raise StoreError(f"{path}: not a result of this study")
    if content.get("format") != FORMAT:
        raise StoreError(f"{path}: format {content.get('format')!r}; this version reads {FORMAT}")
    if content.pop("checksum") != _checksum(content):
        raise StoreError(f"{path}: changed after it was stored (its checksum does not match)")
    return _result(path, content)


def _result(path: Path, content: dict[str, Any]) -> Result:
    try:
        run = Run.from_dict(content["run"])
    except (SpecError, TypeError) as error:
        raise StoreError(f"{path}: not a run of this version: {error}") from error
    if path.stem != run.identity:
        raise StoreError(f"{path}: holds the run {run.identity}, which its name does not say")
    return Result(
        run=run,
        curve=content["curve"],
        class_accuracy=content["class_accuracy"],
        diverged_at=content["diverged_at"],
        epsilon=content["epsilon"],
        provenance=content["provenance"],
    )


def read_all(folder: Path) -> tuple[dict[str, Result], list[StoreError]]:
    """Return all results below `folder` by identity, and what is wrong with the other files."""
    results: dict[str, Result] = {}
    errors: list[StoreError] = []
    for path in stored_files(folder):
        try:
            result = read(path)
        except StoreError as error:
            errors.append(error)
        else:
            results[result.run.identity] = result
    return results, errors


def stored_files(folder: Path) -> Iterator[Path]:
    """Yield the files below `folder` that should be results, in a fixed order; none hidden."""
    for path in sorted(folder.glob("**/*.json")):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _checksum(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _dump(content: dict[str, Any]) -> str:
    """One key a line: small, and a change shows in a diff."""
    lines = (
        f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'), allow_nan=False)}"
        for key, value in content.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"
