"""Black-box audits on models that train in a tenth of a second."""

from dataclasses import replace

import jax
import pytest
from results_for_tests import TINY

from dpstudy.lab import records
from dpstudy.parts.mechanism import FlatClipping
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.part import part
from dpstudy.parts.run import Run
from dpstudy.parts.sampling import Poisson
from under_the_clip.audits.black_box import BlackBoxAudit
from under_the_clip.networks import BackpropMnist


@part()
class Broken(FlatClipping):
    """Says sigma, and scales noise and gradients behind its back."""

    noise_scale: float = 1.0
    gradient_scale: float = 1.0

    def noise(self, params):
        return jax.tree.map(lambda s: s * self.noise_scale, super().noise(params))

    def sum(self, *arguments):
        total, seen = super().sum(*arguments)
        return jax.tree.map(lambda x: x * self.gradient_scale, total), seen


def audit(models, **scales):
    run = Run(
        dataset=TINY["dataset"],
        network=BackpropMnist(Relu(), width=0.125),
        mechanism=Broken(noise_multiplier=100.0, **scales),
        sampling=Poisson(4000),
        epochs=1,
    )
    start = replace(run, mechanism=Broken(noise_scale=0.0), epochs=10)  # the same program
    return BlackBoxAudit(
        name="small",
        mechanism="flat clipping",
        setting="a small network",
        run=run,
        claimed_by="pld",
        start=start,
        models=models,
    )


def test_hardly_any_noise_behind_its_back_is_found():
    record = audit(64, noise_scale=0.001).carry_out()
    assert record["claimed"] == record["proven"] < 0.1 < record["lower_bound"]
    assert record["loss"]["in"] < record["loss"]["out"]
    assert record["box"] == "black box" and record["models"] == record["trials"] == 64


def test_of_a_mechanism_that_ignores_its_examples_nothing_is_found(tmp_path):
    record = audit(40, gradient_scale=0.0).carry_out()
    assert record["lower_bound"] <= record["proven"]
    assert record["bounds"]["clopper-pearson"] == pytest.approx(0, abs=0.05)
    records.write(tmp_path / "small.json", "audits", record | {"provenance": {}})
    assert records.read(tmp_path / "small.json", "audits")["models"] == 40
