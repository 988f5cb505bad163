"""Runs small enough to train in a test, results that were never trained, and files to damage."""

import ast
import hashlib
import json
import os
from dataclasses import astuple, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import dpstudy as library
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.store import Result
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.mechanism import Microbatch
from dpstudy.parts.networks.network import LinearModule, OnMnist
from dpstudy.parts.part import part
from dpstudy.parts.run import Run, vary

# The one shape that tests train: what differs in numbers alone is compiled once.
TINY = {"dataset": Images("mnist-5k"), "batch": 2000, "epochs": 3}
NARROW = 0.25
RUN = vary(Run(), **TINY, width=NARROW)
DEVICE = "one abacus"


@part()
class OneDense(OnMnist):
    """One dense layer on pixels, which is compiled in no time."""

    hidden = 0

    def module(self, rngs):
        return LinearModule(self, rngs, use_bias=True)


# Its smoke profile is to be made of TINY runs: see `small_smoke_runs`.
EXPERIMENT = Experiment(
    name="tiny",
    title="Two runs that take a second each",
    variants={"tanh": (vary(Run(), width=NARROW),)},
    seeds={"mnist": 2},
)


def small_smoke_runs(monkeypatch):
    """Make every smoke profile one of TINY runs, and EXPERIMENT one that the package knows."""
    monkeypatch.setattr("dpstudy.lab.experiment.SMOKE", TINY)
    monkeypatch.setattr("under_the_clip.experiments.EXPERIMENTS", {EXPERIMENT.name: EXPERIMENT})


def seeds(count: int, run: Run = RUN) -> list[Run]:
    return [replace(run, seed=seed) for seed in range(count)]


def result_of(run: Run = RUN, *, accuracy: float = 0.9, epochs: int | None = None, **fields):
    """A result that was never trained: accuracy climbs by 0.01 an epoch and ends at `accuracy`.

    With fewer `epochs` than the run has, it is one that diverged in the next one.
    """
    count = run.epochs if epochs is None else epochs
    climb = range(count)
    curve = {
        "epoch": [epoch + 1 for epoch in climb],
        "step": [(epoch + 1) * run.steps_per_epoch for epoch in climb],
        "test_accuracy": [max(0.0, round(accuracy - 0.01 * (count - 1 - at), 6)) for at in climb],
        "gradient_norm": [2.0 + epoch for epoch in climb],
        "clipped_fraction": [0.5 for _ in climb],
    }
    spent = [round(0.1 * (epoch + 1), 6) for epoch in climb]
    epsilon = {"pld": spent, "rdp": spent, "rdp-2019": [2 * value for value in spent]}
    given = {
        "curve": curve,
        "class_accuracy": [accuracy] * 10,
        "diverged_at": None if count == run.epochs else count * run.steps_per_epoch + 1,
        "epsilon": epsilon if run.private else {},
        "provenance": {"device": DEVICE, "packages": {"jax": "1.2.3"}, "wall_seconds": 1.5},
    }
    return Result(run, **given | fields)


@cache
def sum_by(run):
    """A mechanism's sum over examples of the run's network and loss, compiled."""
    from oracles import quick_jit

    graph, losses = run.network.graph(), run.losses(np.float32(1))

    @quick_jit
    def summed(mechanism, params, pixels, labels, mask):
        return mechanism.sum(Microbatch(graph, losses, params, pixels, labels), mask)

    return summed


def triplet_of(run):
    """The run's (s, T, o)."""
    return astuple(run.network.activation)


def rewrite(path, change):
    """Change a stored file's content and seal it again, as another program could have."""
    content = json.loads(path.read_text())
    del content["checksum"]
    change(content)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(canonical.encode()).hexdigest()
    path.write_text(json.dumps(content))


def contents(folder):
    """Every file below a folder, hidden ones too, with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def dpstudy(*arguments, **more):
    """What the command line answers, in this process."""
    from click.testing import CliRunner

    from under_the_clip import cli

    return CliRunner().invoke(cli.main, arguments, prog_name="dpstudy", **more)


def spent_by(run, accountant="pld"):
    """The ε of a Poisson-sampled run, by the accountant itself."""
    from dpstudy.privacy import accounting

    return accounting.epsilon(
        sampling_probability=run.sampling_probability,
        noise_multiplier=run.mechanism.noise_over_sensitivity,
        steps=run.epochs * run.steps_per_epoch,
        delta=run.delta,
        release_noise=run.dataset.release_noise,
        accountant=accountant,
    )


def environment() -> dict[str, str]:
    """The environment of a process that is to import this package and this file."""
    package, tests = Path(library.__file__).parents[1], Path(__file__).parent
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(package), str(tests)))}


def figures_in(notebook):
    """Return what the cells of a notebook that make figures define, without running it."""
    found = {}
    path = Path(__file__).parents[1] / "notebooks" / f"{notebook}.py"
    for cell in path.read_text().split("\n# %%"):
        kinds = ast.Import | ast.ImportFrom | ast.FunctionDef
        if "@for_each_dataset" in cell:
            kinds |= ast.Assign
        defined = [node for node in ast.parse(f"# {cell}").body if isinstance(node, kinds)]
        exec(compile(ast.Module(defined, []), str(path), "exec"), found)
    return SimpleNamespace(**found)
