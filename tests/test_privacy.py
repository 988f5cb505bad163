"""A run's epsilon is the accountants' for what was sampled, and says when it is only a claim."""

import math
from dataclasses import replace

import pytest
from results_for_tests import RUN, result_of

from dpstudy.lab.store import with_epsilon
from dpstudy.parts.data.scattering import Scattering
from dpstudy.parts.mechanism import FlatClipping, NoPrivacy
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Shuffled
from dpstudy.privacy import accounting, shuffling
from dpstudy.privacy import run_epsilon as privacy
from dpstudy.privacy.conversions import gdp_epsilon
from dpstudy.privacy.run_epsilon import LABELS, epsilon_curve
from under_the_clip.networks import ScatteringMnist

STEPS = [2, 4, 6]
SHUFFLED = replace(RUN, sampling=Shuffled(2000))
COMMON = {"noise_multiplier": RUN.mechanism.noise_multiplier, "delta": RUN.delta}


@pytest.mark.parametrize("accountant", accounting.ACCOUNTANTS)
def test_a_poisson_run_costs_what_the_accountants_say(accountant):
    curve = epsilon_curve(RUN, STEPS)[accountant]
    assert tuple(epsilon_curve(RUN, [1])) == accounting.ACCOUNTANTS == tuple(LABELS)[:3]
    for spent, steps in zip(curve, STEPS, strict=True):
        of = {"sampling_probability": 2000 / 4000, "steps": steps, "accountant": accountant}
        alone = accounting.epsilon(**COMMON, **of)
        assert spent == pytest.approx(alone, rel=2e-6)


def test_delta_and_noise_are_the_run_s_own():
    plain = epsilon_curve(RUN, [2])["rdp"]
    assert epsilon_curve(vary(RUN, delta=1e-3), [2])["rdp"] < plain
    assert epsilon_curve(vary(RUN, noise_multiplier=2.0), [2])["rdp"] < plain
    # What the accountants do not look at does not change the epsilon.
    assert epsilon_curve(vary(RUN, clip_norm=3.0, seed=7), [2])["rdp"] == plain


def test_what_the_dataset_releases_is_paid_for_from_the_start():
    released = Scattering("mnist-5k", groups=0, released=8.0)
    run = replace(RUN, dataset=released, network=ScatteringMnist())
    assert released.examples == RUN.dataset.examples
    for accountant, plain in epsilon_curve(RUN, [0, *STEPS]).items():
        curve = epsilon_curve(run, [0, *STEPS])[accountant]
        assert all(more > less for more, less in zip(curve, plain, strict=True))
    # Two releases with noise multiplier 8 are one Gaussian with 8/√2: `gdp_epsilon` is exact.
    exact = gdp_epsilon(math.sqrt(2) / 8, run.delta)
    assert epsilon_curve(run, [0])["pld"][0] == pytest.approx(exact, rel=1e-3)


def test_a_shuffled_run_never_carries_a_plain_epsilon():
    curve = epsilon_curve(SHUFFLED, STEPS)
    assert set(curve) == {"claimed-rdp-2019", "shuffled-at-least", "shuffled-pld"}
    assert not set(curve) & set(accounting.ACCOUNTANTS)
    # It claims what the formula for Poisson sampling says.
    assert curve["claimed-rdp-2019"] == epsilon_curve(RUN, STEPS)["rdp-2019"]
    run = Run(sampling=Shuffled())
    whole = epsilon_curve(run, [run.epochs * run.steps_per_epoch])
    assert whole["shuffled-pld"][0] > 5 * whole["claimed-rdp-2019"][0]
    assert "claimed" in LABELS["claimed-rdp-2019"]
    assert "shuffled" in LABELS["shuffled-pld"]


def test_what_holds_for_a_shuffled_run_is_one_unsampled_step_an_epoch():
    """2 steps an epoch: within and at the end of an epoch an example was in one batch of it."""
    holds = epsilon_curve(SHUFFLED, [1, 2, 3, 4])["shuffled-pld"]
    steps = (1, 1, 2, 2)
    unsampled = accounting.epsilon_curve(**COMMON, sampling_probability=1.0, steps=steps)
    assert holds == pytest.approx(unsampled, rel=2e-6)


def test_a_shuffled_run_costs_at_least_what_its_finished_epochs_give_away():
    """2 steps an epoch: within one it is not known whether the example was already in a batch."""
    run = vary(SHUFFLED, batch=1_900)  # 200 of 4,000 are left over
    bound = epsilon_curve(run, [1, 2, 3, 4])["shuffled-at-least"]
    alone = shuffling.least_epsilon_curve(examples=4_000, batch=1_900, epochs=[0, 1, 2], **COMMON)
    assert bound == pytest.approx([alone[0], alone[1], alone[1], alone[2]], rel=1e-5)
    assert all(shown <= value for shown, value in zip(bound[1:], alone[1:], strict=False))
    proven = epsilon_curve(run, [1, 2, 3, 4])["shuffled-pld"]
    assert all(low < high for low, high in zip(bound, proven, strict=True))


def test_a_run_without_privacy_has_no_epsilon():
    run = Run(mechanism=NoPrivacy())
    assert epsilon_curve(run, [1, 2]) == {}
    assert with_epsilon(result_of(run)).epsilon == {}


def test_a_result_is_completed_at_the_steps_of_its_curve_and_nowhere_else_changed():
    bare = result_of(epsilon={})
    done = with_epsilon(bare)
    assert done.epsilon == epsilon_curve(RUN, STEPS)
    assert replace(done, epsilon={}) == bare


def test_a_run_that_diverged_has_the_epsilon_of_the_epochs_it_finished():
    assert with_epsilon(result_of(epochs=1)).epsilon == epsilon_curve(RUN, STEPS[:1])
    assert with_epsilon(result_of(epochs=0)).epsilon == {n: [] for n in accounting.ACCOUNTANTS}


def test_what_is_not_finite_is_none(monkeypatch):
    """Results are JSON, which has no infinity."""
    monkeypatch.setattr(privacy.accounting, "epsilon_curve", lambda **_: (1.0, float("inf")))
    assert epsilon_curve(RUN, [1, 2])["pld"] == [1.0, None]


class HalfAsSensitive(FlatClipping):
    """Whose step's sensitivity is proven to be C / 2."""

    @property
    def noise_over_sensitivity(self):
        return 2 * self.noise_multiplier


def test_epsilon_follows_from_the_noise_over_the_sensitivity_that_the_mechanism_has_proven():
    proven = vary(RUN, noise_multiplier=2 * RUN.mechanism.noise_multiplier)
    half = replace(RUN, mechanism=HalfAsSensitive())
    assert epsilon_curve(half, [2]) == epsilon_curve(proven, [2])
