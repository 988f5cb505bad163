"""The workflows are valid, run actions by their commit, and may do no more than they must."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parents[1] / ".github/workflows").glob("*.yml"))
# What a job may do beyond reading the repository.
MAY = {
    "pages": {"pages": "write", "id-token": "write"},
    "publish": {"actions": "read", "contents": "write"},
}


def actionlint(path: Path) -> subprocess.CompletedProcess:
    """Check a workflow, the same on every machine: without the programs that it may find there."""
    program = Path(sys.executable).with_name("actionlint")
    alone = ["-shellcheck=", "-pyflakes=", "-no-color"]
    return subprocess.run([program, *alone, path], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actionlint_finds_nothing(path):
    done = actionlint(path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_a_mistake(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    assert actionlint(wrong).returncode == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_name_their_version(path):
    for used in re.findall(r"uses: (.*)", path.read_text()):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_read_and_few_jobs_write(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", {}) == MAY.get(name, {})
