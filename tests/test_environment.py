"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

import os
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LOCK = (ROOT / "requirements.lock").read_text()
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
# The lock is for every machine. The GPU libraries are chosen by the installed JAX itself.
LOCKED_EXTRAS = ("book", "test", "build")


@cache
def locked() -> list[tuple[Requirement, list[str]]]:
    """Each entry of the lock, with its hashes."""
    text = re.sub(r"^\s*#.*\n", "", LOCK, flags=re.MULTILINE).replace("\\\n", " ")
    entries = []
    for line in filter(str.strip, text.splitlines()):
        requirement, *options = re.split(r"\s+--hash=", line.strip())
        entries.append((Requirement(requirement), options))
    return entries


def direct() -> list[Requirement]:
    """What pyproject.toml asks for by name, to run and to build."""
    extras = PROJECT["optional-dependencies"]
    asked = (PROJECT["dependencies"], *map(extras.get, LOCKED_EXTRAS))
    lines = dict.fromkeys(
        line for of in (*asked, PYPROJECT["build-system"]["requires"]) for line in of
    )
    return [Requirement(line) for line in lines]


def held(name: str) -> list[Requirement]:
    """What the lock holds for a name: more than one entry if markers tell them apart."""
    return [r for r, _ in locked() if canonicalize_name(r.name) == canonicalize_name(name)]


@pytest.mark.parametrize("requirement", direct(), ids=lambda r: r.name)
def test_direct_dependency_is_locked_for_every_machine_at_a_version_it_accepts(requirement):
    found = held(requirement.name)
    assert found, f"{requirement.name} is not in requirements.lock: make lock"
    for one in found:
        version = Version(str(one.specifier).removeprefix("=="))
        assert requirement.specifier.contains(version), f"lock has {version}: make lock"
        assert one.marker is None, f"{one} is not for every machine"


def test_every_entry_is_pinned_and_has_hashes():
    entries = locked()
    assert len(entries) > 100
    for requirement, hashes in entries:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), str(requirement)
        assert hashes, f"{requirement.name} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), requirement.name


def test_cuda_extra_follows_the_locked_jax():
    (cuda,) = [Requirement(line) for line in PROJECT["optional-dependencies"]["cuda"]]
    assert cuda.name == "jax"
    assert cuda.extras
    assert not str(cuda.specifier), "the version is the lock's"


def test_conda_environment_installs_python_and_the_lock_and_nothing_else():
    *conda, pip = CONDA["dependencies"]
    assert pip == {"pip": ["-r requirements.lock"]}
    python = next(line for line in conda if line.startswith("python="))
    assert {*conda} == {python, "pip"}
    version = python.removeprefix("python=")
    accepted = SpecifierSet(PROJECT["requires-python"])
    assert accepted.contains(version)
    assert f"--python-version {version}" in LOCK, "the lock was resolved for another Python"


@pytest.mark.parametrize("name", ["torch", "torchvision", "opacus", "tensorflow"])
def test_heavy_peers_stay_out(name):
    assert not held(name)
    assert name not in {r.name for r in direct()}


@pytest.mark.parametrize(
    "name",
    [
        "pyproject.toml",
        "requirements.lock",
        "environment.yml",
        "Makefile",
        *(f"benchmarks/{name}" for name in ("requirements.in", "uv.toml", "lock.py")),
    ],
)
def test_no_file_names_an_index(name):
    text = (ROOT / name).read_text()
    assert not re.search(r"index-url|find-links|trusted-host|/simple\b|file://", text)
    assert name == "pyproject.toml" or not re.search(r"https?://", text)


def test_the_two_commands_are_the_same_everywhere():
    head = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    steps = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for target in ("book", "test"):
        assert f"make {target}" in head
        assert f"make {target}" in steps
        assert target in targets
    slow = "make ${{ matrix.target }}"
    assert [step for step in steps if step] == ["make test", slow, "make book"]
    assert workflow["jobs"]["slow"]["strategy"]["matrix"] == {"target": ["smoke", "faults"]}


def test_ci_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make test")


def test_git_ignores_what_the_commands_of_the_docs_write(tmp_path):
    """A saved model holds the seed that its noise is drawn by."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*.py")]
    text = "\n".join(path.read_text() for path in pages)
    scripts = "\n".join(path.read_text() for path in ROOT.glob("book/*.py"))
    written = {
        *re.findall(r"--(?:save|scheduler-file) ([\w.-]+)", text),
        *re.findall(r"papermill \S+\.ipynb ([\w.-]+)", text),
        *re.findall(r"Path\(\"([\w.-]+)\"\)", scripts),
    }
    assert written >= {"digits.npz", "dask.json", "out.ipynb", "own-results", "first-private-runs"}
    asked = "".join(f"{name}{'' if '.' in name else '/'}\n" for name in sorted(written))
    # A repository of its own: a release's archive is none.
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    command = ["git", "-C", str(tmp_path), "check-ignore", "--stdin"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True)
    assert done.stdout == asked, done.stderr
