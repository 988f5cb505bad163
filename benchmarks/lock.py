"""Resolve what `make bench` needs into requirements.lock, beside this file.

Torch is two builds. Outside Linux the package index has a CPU build, and its hashes go into the
lock. On Linux the index has the CUDA build alone, which asks for several GB of libraries that a
CPU has no use for; there the lock names the build 2.13.0+cpu, for every Python and processor that
PyTorch's own index has it for. Run by `make bench-lock` with a Python that has uv.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "requirements.lock"
STUDY = HERE.parent / "requirements.lock"
# dp-accounting accepts mpmath 1.2 and newer, but torch's sympy nothing from 1.4 on.
FREE = ("mpmath",)
TORCH = re.compile(r"^torch==([\w.]+)(\+cpu)?( ; [^\\]+)? \\\n((?: {4}--hash=.*\n)+)", re.MULTILINE)


def versions_of_study() -> str:
    """Return the versions in the study's own lock, to keep to."""
    lines = re.findall(r"^[a-z][^\\\n]*", STUDY.read_text(), re.MULTILINE)
    return "\n".join(line for line in lines if line.split("==")[0] not in FREE)


def compiled() -> str:
    """Resolve by uv, for every platform."""
    with tempfile.TemporaryDirectory() as folder:
        constraint, output = Path(folder, "versions.txt"), Path(folder, "lock.txt")
        constraint.write_text(versions_of_study())
        options = f"--quiet --universal --python-version 3.11 --fork-strategy fewest \
            --prerelease disallow --generate-hashes --no-header --no-annotate --extra build \
            --config-file {HERE / 'uv.toml'} --constraint {constraint} --output-file {output}"
        command = [sys.executable, "-m", "uv", "pip", "compile", *options.split()]
        sources = [HERE.parent / "pyproject.toml", HERE / "requirements.in"]
        subprocess.run([*command, *sources], check=True)
        return output.read_text()


def cpu_builds_found(version: str) -> set[str]:
    """Return the hashes of the CPU builds that uv finds: it knows where PyTorch keeps them."""
    options = "--quiet --no-deps --no-header --generate-hashes --torch-backend cpu"
    command = [sys.executable, "-m", "uv", "pip", "compile", *options.split(), "-"]
    wanted = f"torch=={version}+cpu"
    found = subprocess.run(command, input=wanted, check=False, capture_output=True, text=True)
    if found.returncode:
        print("No CPU build of torch found by uv here; those in the lock are kept.")
    return set(re.findall(r"--hash=\S+", found.stdout))


def cpu_builds_in(lock: str, version: str) -> set[str]:
    """Return the hashes of CPU builds that a lock already has."""
    entries = [m for m in TORCH.finditer(lock) if m[1] == version and m[2]]
    return {h for m in entries for h in re.findall(r"--hash=\S+", m[4])}


def with_cpu_builds(lock: str, hashes: set[str]) -> str:
    """Split the entry of torch: the index's build outside Linux, CPU builds on it."""
    (entry,) = TORCH.finditer(lock)
    listed = " \\\n".join(f"    {h}" for h in sorted(hashes))
    elsewhere = f"torch=={entry[1]} ; sys_platform != 'linux' \\\n{entry[4]}"
    linux = f"torch=={entry[1]}+cpu ; sys_platform == 'linux' \\\n{listed}\n"
    return lock.replace(entry[0], elsewhere + linux)


def main() -> None:
    """Write the lock."""
    before, after = LOCK.read_text() if LOCK.exists() else "", compiled()
    version = TORCH.search(after)[1]
    hashes = cpu_builds_in(before, version) | cpu_builds_found(version)
    if not hashes:
        sys.exit(f"No CPU build of torch {version}: let uv reach PyTorch's index, then again.")
    head = "# Made by `make bench-lock`, for `pip install --require-hashes`: see lock.py.\n"
    LOCK.write_text(head + with_cpu_builds(after, hashes))


if __name__ == "__main__":
    main()
