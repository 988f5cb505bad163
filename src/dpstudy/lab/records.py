"""Stored records, `results/KIND/NAME.json`: outcomes of benchmarks, checks, audits and searches."""

import importlib.metadata
from pathlib import Path
from typing import Any

from dpstudy.errors import check_known
from dpstudy.gradients import devices
from dpstudy.kinds import RECORDS, form_of
from dpstudy.lab import store
from dpstudy.lab.forms import decoded
from dpstudy.lab.store import DamagedError

FORMAT = 1


def folder(kind: str) -> Path:
    """Return where records of that kind are stored, or raise UserError."""
    check_known("kind of record", kind, sorted((*RECORDS, "searches")))
    return store.results_folder() / kind


def provenance(seconds: float, *packages: str) -> dict[str, Any]:
    """Return where and with what a record was computed, further packages' versions included."""
    found = store.provenance(seconds, devices.name())
    found["packages"] |= {name: importlib.metadata.version(name) for name in packages}
    return found


def write(path: Path, kind: str, content: dict[str, Any]) -> None:
    """Store a record, atomically and with its checksum; errors as `store.write_sealed`."""
    store.write_sealed(path, {"format": FORMAT, "record": kind, **content})


def read(path: Path, kind: str, stored: bytes | None = None) -> dict[str, Any]:
    """Read one record, if need be from what is stored in its file; DamagedError if not sound."""
    stored = store.content_of(path) if stored is None else stored
    content = store.unsealed(path, stored, "record", FORMAT)
    if content["record"] != kind:
        raise DamagedError(path, f"a record of {content['record']}, not of {kind}")
    content = {k: v for k, v in content.items() if k not in ("format", "record", "checksum")}
    try:
        if kind in RECORDS:
            decoded(form_of(kind), content)
    except ValueError as error:
        raise DamagedError(path, str(error)) from error
    return content


def read_all(folder: Path, kind: str) -> tuple[dict[str, dict[str, Any]], list[DamagedError]]:
    """Return the records in `folder` by name, and what is wrong with the other files."""
    return store.read_each(store.stored_files(folder), lambda path: read(path, kind))
