"""The statement of privacy: what it says of each kind of run, and that its numbers give its ε."""

import json
import math
from dataclasses import replace

import pytest
from scipy import optimize

import dpstudy
from dpstudy.parts.mechanism import FlatClipping, NoPrivacy
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Shuffled
from dpstudy.privacy import accounting
from dpstudy.privacy.conversions import gdp_delta
from dpstudy.privacy.statement import BESIDE, Statement, guarantee_of, statement
from dpstudy.recipe.features import SyntheticFeatures
from dpstudy.recipe.whitened import OWN
from under_the_clip.backpropagation_clipping.mechanism import BackpropagationClipping

SHORT = Run(epochs=2)


def test_a_run_states_its_guarantee_in_all_that_it_depends_on():
    said = dpstudy.statement(SHORT)
    assert said.epsilon == pytest.approx(accounting.epsilon(**said.numbers), rel=1e-5)
    assert said.steps == 2 * SHORT.steps_per_epoch
    text = " ".join(str(said).split())
    for part in (
        "-differential privacy",
        "one example: an image and its label",
        "adding or removing one example",
        "Poisson, truly performed: each of 60,000 examples",
        "clip_norm 0.1",
        "Gaussian, 1.23 times",
        "released besides: nothing",
        "no part of this epsilon counts them",
        "no cryptographic generator",
        "accuracies and losses",
    ):
        assert part in text
    assert max(map(len, str(said).splitlines())) <= 78


def test_it_is_the_same_read_back_from_json():
    said = statement(SHORT)
    assert Statement.from_dict(json.loads(said.to_json())) == said


def test_shuffled_batches_get_the_proven_epsilon_of_a_blanked_example():
    said = statement(replace(SHORT, sampling=Shuffled(512)))
    proven = accounting.epsilon(sampling_probability=1, noise_multiplier=1.23, steps=2, delta=1e-5)
    assert said.epsilon == pytest.approx(proven, rel=1e-5)
    assert "blanked" in said.neighbours and "shuffled anew" in said.sampling
    assert "RDP" not in said.accountant


def test_what_a_paper_claims_stands_beside_what_is_proven():
    clips = BackpropagationClipping(claimed_factor=10.0, claimed_accountant="zcdp")
    said = statement(replace(SHORT, mechanism=clips))
    assert "As published" in said.assumptions and "zCDP" in said.assumptions
    assert "claimed_factor 10" in said.bound


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (replace(SHORT, mechanism=NoPrivacy()), "no noise hides it"),
        (
            Run(dataset=SyntheticFeatures("mnist", scenes=OWN), mechanism=FlatClipping()),
            "fitted to private images",
        ),
    ],
)
def test_without_a_guarantee_it_says_so_and_why(run, why):
    said = statement(run)
    assert said.epsilon is None
    assert said.guarantee.startswith("none: ") and why in said.guarantee
    assert json.loads(said.to_json())["epsilon"] is None


def test_a_mean_that_is_released_is_said_and_counted():
    with_mean = replace(SHORT, dataset=SyntheticFeatures("mnist", "both", released=2.0))
    said = statement(with_mean)
    assert said.numbers["release_noise"] == 2.0
    assert said.epsilon == pytest.approx(accounting.epsilon(**said.numbers), rel=1e-5)
    assert said.epsilon > statement(SHORT).epsilon
    assert "noise of 2 times" in said.released_besides


def test_epsilon_is_rounded_up():
    assert guarantee_of(2.9994, 1e-5) == "(3, 1e-05)-differential privacy"
    assert guarantee_of(1.2341, 1e-5).startswith("(1.235,")
    assert guarantee_of(1000.0004, 1.2345649e-5).startswith("(1000.001, 1.2345649e-05)")
    assert guarantee_of(6e-10, 1e-5).startswith("(0.001,") and guarantee_of(0.0, 0.1)[:3] == "(0,"


@pytest.mark.parametrize("several", [2, 5])
def test_what_it_says_of_several_examples_holds_and_at_the_same_delta_would_not(several):
    assert BESIDE[-1].endswith("by a factor of (exp(k epsilon) - 1) / (exp(epsilon) - 1)")
    epsilon, delta = 1.0, 1e-5
    factor = math.expm1(several * epsilon) / math.expm1(epsilon)
    mu = optimize.brentq(lambda mu: gdp_delta(mu, epsilon) - delta, 0.01, 1.0)
    exact = gdp_delta(several * mu, several * epsilon)
    assert delta < exact <= factor * delta


def test_any_run_of_the_study_has_a_statement(monkeypatch):
    from under_the_clip.experiments import EXPERIMENTS

    monkeypatch.setattr(accounting, "epsilon_curve", lambda *, steps, **_: [1.0] * len(steps))
    monkeypatch.setattr("dpstudy.privacy.shuffling.least_epsilon_curve", lambda **_: [0.5])
    for experiment in EXPERIMENTS.values():
        for runs in experiment.variants.values():
            said = statement(vary(runs[0], epochs=1))
            assert (said.epsilon is None) == (not runs[0].private)
