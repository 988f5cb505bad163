"""The most memory that this process held, as Linux counts it; elsewhere nothing is known."""

from __future__ import annotations

from pathlib import Path

_PROCESS = Path("/proc/self")
# What makes the kernel count the peak anew; see proc(5), clear_refs.
_ANEW = "5"


def count_anew() -> None:
    """Forget the peak so far, where the system can."""
    try:
        (_PROCESS / "clear_refs").write_text(_ANEW)
    except OSError:
        return


def peak_megabytes() -> int | None:
    """Return the largest resident size since `count_anew`, in units of 10^6 bytes; or None."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return round(kibibytes[0] * 1024 / 1e6) if kibibytes else None
