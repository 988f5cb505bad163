"""The benchmark on an accelerator, tried on a CPU: what it checks, plans, times and stores."""

import importlib
import sys
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from dpstudy.errors import UserError
from dpstudy.lab.forms import decoded
from under_the_clip.forms import Measurement

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def gpu():
    """The script and what it imports, which are no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        patch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        before = set(sys.modules)
        yield importlib.import_module("gpu")
        for name in set(sys.modules) - before:
            if (BENCHMARKS / f"{name.split('.')[0]}.py").exists() or name.startswith("peers"):
                del sys.modules[name]


def peer(name):
    return importlib.import_module(f"peers.{name}")


@pytest.fixture(scope="module")
def small(gpu):
    return gpu.Problem("mnist", 8, examples=16, noise_multiplier=0.0)


def test_our_step_is_that_of_float64_and_norms_come_in_each_precision_that_there_is(gpu):
    found = gpu.errors("mnist", batch=8)
    assert found["sum"] < 1e-5
    # A CPU takes the coarse ones, computes them in float32, and has no TF32.
    assert found.keys() == {"sum", "float32", "bf16 x 6", "bf16 x 3", "bf16"}
    assert max(found.values()) < 1e-5


def test_a_sum_clipped_elsewhere_is_found_before_anything_is_timed(gpu, monkeypatch):
    right = peer("ours").private_gradient

    def wrong(*given, clip_norm, **options):
        return right(*given, clip_norm=1.001 * clip_norm, **options)

    monkeypatch.setattr(peer("ours"), "private_gradient", wrong)
    monkeypatch.setattr(gpu, "PRECISIONS", {})
    monkeypatch.setattr(gpu, "errors", partial(gpu.errors, batch=8))
    with pytest.raises(UserError, match=r"wrong here \(mnist, sum\): off by 0\.\d+"):
        gpu.check(("mnist",))


def test_runs_of_a_cohort_take_the_steps_that_one_takes_alone(gpu, small):
    first, second = small.batches()
    alone, together = peer("ours").build(small, "8"), peer("ours_cohort").build(small, "3")
    for made in (alone, together):
        made.step(first)
        made.step(second)
        made.wait()
    assert all(len(leaf) == 3 for leaf in jax.tree.leaves(together.state))
    for one, other in zip(together.weights(), alone.weights(), strict=True):
        np.testing.assert_allclose(one["kernel"], other["kernel"], rtol=1e-4, atol=1e-6)


@pytest.mark.smoke
@pytest.mark.filterwarnings("error")
def test_a_change_changes_the_time_and_not_the_step(gpu):
    changed, problem = peer("ours_changed"), gpu.Problem("cifar-10", 4, examples=8)
    convolution = changed.convolution

    def stepped(change):
        with pytest.MonkeyPatch.context() as patch:
            for where, name in (  # Put back what a change sets for its own process.
                (jax, "default_matmul_precision"),
                (convolution, "kernel_gradients"),
                (convolution, "as_products"),
                (convolution.Window, "direct_gradients"),
                (convolution.Window, "direct"),
            ):
                patch.setattr(where, name, getattr(where, name))
            made = changed.build(problem, change)
            made.step(problem.batches()[0])
            made.wait()
        return made.weights()

    wanted = stepped(changed.CHANGES[0])
    for change in changed.CHANGES[1:]:
        if change.endswith("TF32"):  # which a CPU has not
            continue
        for one, other in zip(stepped(change), wanted, strict=True):
            np.testing.assert_allclose(one["kernel"], other["kernel"], rtol=1e-4, atol=1e-6)


def test_what_tells_most_comes_first_and_nothing_is_forgotten(gpu):
    parts = gpu.plan(gpu.NETWORKS_FIRST, quick=False)
    assert [part.stored_in for part in parts[:3]] == ["products", "comparisons", "comparisons"]
    compared = {(p.problem.name, p.problem.batch) for p in parts if p.stored_in == "comparisons"}
    assert compared == {(n, b) for n in ("mnist", "cifar-10") for b in (256, 1024, 4096, 8192)}
    together = [e.variant for p in parts if p.stored_in == "cohorts" for e in p.entries]
    assert together == ["1", "2", "4", "8", "16", "32"] * 2
    assert all(len(e.problem.batches()[0]) == e.problem.batch for p in parts for e in p.entries)
    assert all((BENCHMARKS / f"peers/{e.peer}.py").exists() for p in parts for e in p.entries)


def test_a_trial_of_products_and_of_our_step_is_what_the_chapter_reads(gpu):
    parts = [gpu.products(8), gpu.Part("cohorts", gpu.cohorts("mnist", 8, (2,)).entries)]
    content = {"machine": gpu.machine(), "settings": {"rounds": 2, "burst_seconds": 0.001}}
    content |= {"comparisons": []}
    for part, outcome in gpu.measured(parts, time.monotonic() + 600, rounds=2, seconds=0.001):
        content[part.stored_in] = gpu.record(part, outcome)
    found = decoded(Measurement, content)
    assert {one.precision for one in found.products} == {"float32", "bf16 x 6", "bf16 x 3", "bf16"}
    assert {one.flops for one in found.products} == {2 * 8**3}
    [pair] = found.cohorts
    assert pair.runs == 2 and pair.flops == 2 * gpu.flops(gpu.Problem("mnist", 8).network, 8)
    assert found.machine.accelerator == "", "a CPU"


def test_when_time_is_up_nobody_is_started_and_all_are_named(gpu):
    entries = [*gpu.comparison("mnist", 8).entries]
    past = time.monotonic() - 1
    outcome = gpu.contest.hold(
        entries, rounds=2, seconds=1, report=lambda *_: None, deadline=past, same_loss=True
    )
    assert outcome.finished == []
    assert set(outcome.failed.values()) == {"no time was left"}
    assert len(outcome.failed) == len(entries)
    assert list(gpu.measured([gpu.products(8)], past, rounds=2, seconds=1)) == []


def test_without_an_accelerator_it_says_so_in_a_line(gpu):
    done = CliRunner().invoke(gpu.main, [])
    assert done.exit_code == 1
    assert done.output.startswith("Error: JAX finds no accelerator here")
