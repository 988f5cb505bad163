"""What a command answered, said again for as long as nothing that it hangs on has changed.

`dpstudy list` and `dpstudy claims` read thousands of files, and load JAX, pandas and SciPy first.
"""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dpstudy
import under_the_clip
from dpstudy import files
from dpstudy.errors import UserError

# Seconds in which a file may change twice, and have the same time.
_YOUNG = 2


def kept(question: str, answer: Callable[[], Any]) -> Any:
    """Return `answer`, as plain JSON values; where it is known, what it was.

    It is known until a file of the results, of this code or of what is installed beside it has
    another size, time or place. What cannot be kept is computed each time.
    """
    # With JAX it is a test or a notebook, which may have changed what it has loaded.
    if "jax" in sys.modules or (state := _state()) is None:
        return answer()
    name = hashlib.sha256(str(files.results_folder()).encode()).hexdigest()[:16]
    try:
        path = files.cache_folder() / "answers" / f"{name}.json"
        known = files.found_in_cache(path, _read) or {}
    except UserError:
        return answer()
    if known.get("state") != state:
        known = {"state": state}
    if question not in known:
        known[question] = answer()
        if _state() == state:
            with contextlib.suppress(UserError), files.kept_in_cache(path) as stream:
                stream.write(json.dumps(known).encode() + b"\n")
                files.seal(stream)
    return known[question]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes().partition(b"\n")[0])


def _state() -> str | None:
    """Return a digest of how all files are that answers hang on; None where it cannot tell."""
    seen = hashlib.sha256(sys.version.encode())
    try:
        for path in _paths():
            at = os.stat(path)
            if max(at.st_ctime, at.st_mtime) > time.time() - _YOUNG:
                return None
            times = at.st_mtime_ns, at.st_ctime_ns
            seen.update(repr((path, at.st_dev, at.st_ino, at.st_mode, at.st_size, *times)).encode())
    except OSError:
        return None
    return seen.hexdigest()


def _paths() -> Iterator[str]:
    """Yield the files of the results and of this code; of the packages beside it, the folders."""

    def unreadable(error: OSError) -> None:
        raise error

    yield from filter(os.path.exists, sys.path)
    for top in (files.results_folder(), *dpstudy.__path__, *under_the_clip.__path__):
        for folder, folders, names in os.walk(top, onerror=unreadable, followlinks=True):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            yield from (os.path.join(folder, name) for name in sorted(names))
