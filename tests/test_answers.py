"""`dpstudy list` and `claims` say again what they said only while nothing has changed."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from results_for_tests import environment

import under_the_clip
from dpstudy import files
from under_the_clip.commands import answers


@pytest.fixture
def asked(results, tmp_path, monkeypatch):
    """A question asked once, by a process without JAX; each further answer counts one more."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "rule.py").write_text("1")
    (results / "runs").mkdir(parents=True)
    (results / "runs" / "one.json").write_text("{}")
    monkeypatch.setattr(under_the_clip, "__path__", [str(tmp_path / "code")])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr(answers, "_YOUNG", -1e9)
    count = itertools.count(1)

    def ask(question="how many"):
        return answers.kept(question, lambda: next(count))

    assert ask() == 1
    return ask


def test_an_answer_is_kept_by_its_question(asked):
    assert [asked(), asked("where"), asked(), asked("where")] == [1, 2, 1, 2]


def edited(path: Path):
    """Change a file but for its size and its time."""
    at = path.stat()
    path.write_bytes(bytes(reversed(path.read_bytes())))
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: edited(folder / "results/runs/one.json"),
        lambda folder: (folder / "results/runs/one.json").unlink(),
        lambda folder: (folder / "results/runs/two.json").write_text("{}"),
        lambda folder: (folder / "code/rule.py").write_text("2"),
        lambda folder: [edited(path) for path in (folder / "cache").rglob("*.json")],
        lambda folder: [path.unlink() for path in (folder / "cache").rglob("*.json")],
    ],
    ids=["edited", "removed", "added", "other code", "damaged", "forgotten"],
)
def test_what_has_changed_is_answered_anew_and_kept_again(change, asked, results):
    change(results.parent)
    assert [asked(), asked()] == [2, 2]


def test_what_may_still_change_unseen_is_not_kept(asked, monkeypatch):
    monkeypatch.setattr(answers, "_YOUNG", 60)
    assert [asked(), asked()] == [2, 3]


def test_a_process_that_has_loaded_the_study_answers_itself(asked, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", object())
    assert [asked(), asked()] == [2, 3]


def test_without_a_cache_there_are_answers(asked, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(files.Path, "home", lambda: Path(os.devnull))
    assert [asked(), asked()] == [2, 3]


def test_a_list_that_is_known_and_an_epsilon_take_no_jax(results):
    results.mkdir(exist_ok=True)
    code = "import sys; from under_the_clip import cli; cli.answers._YOUNG = -1e9\n"
    code += "for words in sys.argv[1:]: cli.main(words.split(), standalone_mode=False)\n"
    code += "print('jax' in sys.modules)"

    def lines(*words):
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        return done.stdout.splitlines()

    *first, loaded = lines("list")
    assert loaded == "True" and first
    again = lines("list", "epsilon --examples 60000 --batch 512 --epochs 40 --noise 1.23")
    assert again == [*first, *again[-4:-1], "False"] and "PLD" in again[-4]
