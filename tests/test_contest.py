"""The benchmark's harness: what is asked of the machine, who fails, and what its lock installs."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dpstudy.lab.forms import decoded
from under_the_clip.forms import Product

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
HASHES = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@pytest.fixture
def module(monkeypatch):
    """Imports a file of the benchmark, which is no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("contest", "lock", "problem", "roster", "peers"):
            del sys.modules[name]


def versions(text):
    """Versions by name in a lock."""
    return dict(re.findall(r"^([a-z][\w.-]*)==([\w.+]+)", text, flags=re.MULTILINE))


def test_one_failure_loses_nobody_else(module):
    contest, problem = module("contest"), module("problem").Problem("mnist", 1)
    entries = [
        contest.Entry("missing", "no_such_peer", problem),
        contest.Entry("bad", "products_jax", problem, "not a size"),
        contest.Entry("good", "products_jax", problem, "8"),
    ]
    told = []
    outcome = contest.hold(
        entries, rounds=2, seconds=0.001, report=lambda what, share: told.append((what, share))
    )
    (good,) = outcome.finished
    assert outcome.failed.keys() == {"missing", "bad (not a size)"}
    assert "no_such_peer" in outcome.failed["missing"]
    assert "ValueError" in outcome.failed["bad (not a size)"]
    record = good.record()
    assert len(record["rounds"]) == 2
    assert all(0 < burst[0] < 1 for burst in record["rounds"])
    assert 1e7 < record["baseline"] <= record["start_peak"] < 1e10
    assert decoded(Product, record | {"flops": 1}).name == "good", "as the chapter reads it"
    # The bar ends where it was planned to, whoever fails.
    assert sum(share for _, share in told) == 3 * (contest.START + 2 * contest.BURST)
    assert all(process._popen.poll() is not None for process in good.processes)


def test_a_variant_out_of_the_running_is_not_timed_on(module):
    contest, problem = module("contest"), module("problem").Problem("mnist", 1)

    def ran(name, variant, *bursts):
        one = contest.Running(contest.Entry(name, "", problem, variant))
        one.bursts = [[seconds] for seconds in bursts]
        return one

    best = ran("a", "1", 1.1, 1.0)
    close, slow, early = ran("a", "2", 2, 1.4), ran("a", "3", 2, 1.6), ran("a", "4", 9)
    other = ran("b", "1", 50, 50)
    running = [best, close, slow, early, other]
    assert [contest._beaten(one, running) for one in running] == [False, False, True, False, False]


def test_who_computes_something_else_is_taken_out(module):
    contest, problem = module("contest"), module("problem").Problem("mnist", 1)
    running = [contest.Running(contest.Entry(name, "", problem)) for name in "abc"]
    for one, loss in zip(running, (2.0, 2.0001, 2.1), strict=True):
        one.loss = loss
    failed = {}
    contest._compare_losses(running, failed)
    assert failed == {"c": "starts at the loss 2.100000, not 2.000000"}


def test_floating_point_operations_of_the_mnist_network(module):
    problem = module("problem")
    # Positions x window x filters, twice for multiply and add: conv 14 x 14, 8 x 8 x 1, 16, and
    # so on. All three products each, but the first layer needs no gradient of its input.
    first, second = 14 * 14 * 64 * 16, 5 * 5 * 4 * 4 * 16 * 32
    expected = 2 * (2 * first + 3 * (second + 512 * 32 + 32 * 10))
    assert problem.flops(problem.NETWORKS["mnist"], 7) == 7 * expected


@pytest.mark.parametrize(("name", "parameters"), [("mnist", 26_010), ("cifar-10", 550_570)])
def test_networks_are_the_papers(module, name, parameters):
    network = module("problem").NETWORKS[name]
    assert network.parameters == parameters
    assert network.widened(1) == network
    assert network.widened(2).parameters > 3 * parameters


def test_every_batch_is_full_and_no_example_is_in_two(module):
    batches = module("problem").Problem("mnist", 512).batches()
    assert [len(batch) for batch in batches] == [512] * 8
    assert len({int(index) for batch in batches for index in batch}) == 4096


def test_every_peer_has_its_file(module):
    roster = module("roster")
    for peer in (*roster.PEERS.values(), *roster.PRODUCTS.values()):
        assert (BENCHMARKS / "peers" / f"{peer.module}.py").is_file()
        assert len(set(peer.variants)) == len(peer.variants) > 0


def test_the_chapter_knows_our_step_by_its_name(module):
    ours = importlib.import_module("under_the_clip.performance.timings").OURS
    assert ours in module("roster").PEERS


def test_lock_of_the_benchmark_has_cpu_builds_and_hashes_alone():
    lock = (BENCHMARKS / "requirements.lock").read_text()
    assert not re.search(r"https?:|index-url|find-links|file:", lock)
    assert not re.search(r"^(nvidia|cuda|triton)", lock, flags=re.MULTILINE)
    entries = re.findall(r"^(torch==.*?) \\\n((?: {4}--hash.*\n)+)", lock, flags=re.MULTILINE)
    assert [head for head, _ in entries] == [
        "torch==2.13.0 ; sys_platform != 'linux'",
        "torch==2.13.0+cpu ; sys_platform == 'linux'",
    ]
    assert all(HASHES.search(hashes) for _, hashes in entries)


def test_make_bench_installs_each_entry_of_its_lock_once_and_torch_by_itself():
    makefile = (ROOT / "Makefile").read_text().replace("$$", "$")
    commands = re.findall(r"@(sed .*benchmarks/requirements\.lock) >", makefile)
    parts = [
        subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True).stdout
        for command in commands
    ]
    lock = (BENCHMARKS / "requirements.lock").read_text()
    others, torch = parts
    assert sorted((others + torch).splitlines()) == sorted(lock.splitlines())
    assert versions(torch) == {"torch": "2.13.0+cpu"}
    assert len(HASHES.findall(torch)) >= 8, "two kinds of processor, four Pythons"
    assert "uv" in versions(others), "it knows where torch is"


def test_benchmark_has_the_study_s_versions(module):
    ours = versions((ROOT / "requirements.lock").read_text())
    theirs = versions((BENCHMARKS / "requirements.lock").read_text())
    differing = {name for name in ours.keys() & theirs if ours[name] != theirs[name]}
    assert differing <= set(module("lock").FREE)
    assert {"jax", "jaxlib", "flax", "optax", "opacus", "jax-privacy"} <= theirs.keys()


def test_relocking_keeps_the_builds_of_other_machines(module):
    lock = module("lock")
    fresh = "numpy==1 \\\n    --hash=sha256:0\ntorch==2.1 \\\n    --hash=sha256:1\nzipp==1\n"
    once = lock.with_cpu_builds(fresh, {"--hash=sha256:2"})
    assert lock.cpu_builds_in(once, "2.1") == {"--hash=sha256:2"}
    assert lock.cpu_builds_in(once, "2.2") == set()
    again = lock.with_cpu_builds(fresh, {"--hash=sha256:2", "--hash=sha256:3"})
    assert lock.cpu_builds_in(again, "2.1") == {"--hash=sha256:2", "--hash=sha256:3"}
    assert "torch==2.1 ; sys_platform != 'linux' \\\n    --hash=sha256:1\n" in again
    assert again.endswith("zipp==1\n")
