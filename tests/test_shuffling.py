"""What shuffled batches cost at least, against closed forms and draws that know no accounting."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpstudy.errors import UserError
from dpstudy.privacy import conversions
from dpstudy.privacy.shuffling import largest_batch, least_epsilon_curve, one_epoch, summed_ratios
from under_the_clip.losing_less.published import END_TO_END, SCATTERNET
from under_the_clip.published import DELTA

COMMON = {"examples": 6, "batch": 2, "noise_multiplier": 1.0, "delta": 1e-3, "epochs": [1]}


def least(**changed):
    *_, value = least_epsilon_curve(**COMMON | changed)
    return value


def drawn_loss(rng, draws, batches, taking_part, sigma):
    """Draw log P/Q of one epoch with the example in it, by densities over that of noise alone."""
    seen = sigma * rng.standard_normal((draws, batches))
    seen[:, 0] += 2 * (rng.random(draws) < taking_part)

    def density(shift):
        # One batch has the example, the others do not.
        here = shift * (2 * seen - shift) / (2 * sigma**2)  # of both densities' logarithms
        log = special.logsumexp(here, axis=1) - math.log(batches) + math.log(taking_part)
        return np.logaddexp(log, math.log1p(-taking_part) if taking_part < 1 else -np.inf)

    return density(2) - density(1)


def drawn_delta(at, *, epochs, draws=100_000, **epoch):
    """Estimate delta at an epsilon, and its standard error."""
    rng = np.random.default_rng(0)
    loss = sum(drawn_loss(rng, draws, **epoch) for _ in range(epochs))
    excess = np.maximum(-np.expm1(at - loss), 0)
    return excess.mean(), excess.std() / math.sqrt(draws)


@pytest.mark.parametrize(("sigma", "epochs"), [(0.7, 1), (1.23, 10), (4.0, 10)])
def test_a_single_batch_is_a_gaussian(sigma, epochs):
    """With one batch an epoch there is nothing to shuffle, and the bound is nearly exact."""
    found = least(batch=6, noise_multiplier=sigma, epochs=[epochs])
    exact = conversions.gdp_epsilon(math.sqrt(epochs) / sigma, COMMON["delta"])
    assert 0.99 * exact < found <= exact


def test_a_delta_beyond_the_rounding_of_composition_has_no_larger_bound():
    """Composition leaves an infinite loss with a probability of 1e-15 a time."""
    found = least(batch=6, epochs=range(1, 11), delta=1e-14)
    assert found < conversions.gdp_epsilon(math.sqrt(10), 1e-14)


@pytest.mark.parametrize(
    ("examples", "batch", "sigma", "epochs", "delta", "draws"),
    [
        (6, 2, 0.8, 3, 1e-2, 100_000),
        (6, 2, 2.0, 4, 3e-3, 100_000),
        (7, 2, 1.0, 1, 1e-2, 100_000),
        (7, 2, 0.45, 2, 0.1, 100_000),
        (50, 1, 0.3, 3, 0.05, 20_000),
        # The most batches and the fewest of the settings of losing less, whose delta is too rare.
        (60_000, 512, 1.23, 40, 0.05, 3_000),
        (60_000, 2048, 2.15, 40, 0.02, 6_000),
    ],
)
def test_the_bound_lies_just_below_what_draws_show(examples, batch, sigma, epochs, delta, draws):
    """At a lower bound on epsilon the true delta is no smaller than the one asked for."""
    run = {"examples": examples, "batch": batch, "noise_multiplier": sigma}
    found = least(**run, epochs=[epochs], delta=delta)
    batches = examples // batch
    epoch = {"batches": batches, "taking_part": batches * batch / examples, "sigma": sigma}
    seen, error = drawn_delta(found, epochs=epochs, draws=draws, **epoch)
    assert delta - 4 * error < seen < 1.2 * delta + 4 * error


@pytest.mark.parametrize("look", [largest_batch, summed_ratios])
def test_neither_look_alone_shows_more_than_there_is(look):
    """Each is what it says, and near all that there is to see."""
    found = one_epoch(look, 3, 6 / 7, 1.0).get_epsilon_for_delta(0.02)
    seen, error = drawn_delta(found, epochs=1, batches=3, taking_part=6 / 7, sigma=1.0)
    assert 0.02 - 4 * error < seen < 1.2 * 0.02 + 4 * error


@pytest.mark.parametrize(("sigma", "batches"), [(0.5, 1000), (0.6, 100), (1.23, 117)])
def test_it_is_no_worse_than_the_largest_batch_alone(sigma, batches):
    """Chua et al. 2024: the best threshold on the largest batch of one epoch."""
    thresholds = np.linspace(-2, 8, 20_001)[:, None]
    means = np.array([2.0, 1.0])
    below = stats.norm.logcdf((thresholds - means) / sigma)
    others = (batches - 1) * stats.norm.logcdf(thresholds / sigma)
    above = -np.expm1(below + others)

    def excess(epsilon):
        return (above[:, 0] - math.exp(epsilon) * above[:, 1]).max() - 1e-5

    theirs = optimize.brentq(excess, 0, 40)
    found = least(examples=batches, batch=1, noise_multiplier=sigma, delta=1e-5)
    assert found > 0.98 * theirs


def test_the_settings_of_losing_less_cost_more_than_they_claim():
    """The finding, as the first chapter words it: with all settings but the noisiest."""
    noisiest = max(SCATTERNET, key=lambda setting: setting.noise_multiplier)
    for setting in dict.fromkeys((END_TO_END[0], *SCATTERNET)):
        sigma, epochs = setting.noise_multiplier, setting.epochs
        run = {"examples": setting.examples, "batch": setting.batch, "noise_multiplier": sigma}
        found = least(**run, epochs=[epochs], delta=DELTA)
        proven = conversions.gdp_epsilon(math.sqrt(epochs) / sigma, DELTA)
        assert found < proven
        assert (found > setting.claimed_epsilon) == (setting != noisiest)


def test_epochs_may_come_in_any_order_and_cost_more_and_more():
    curve = least_epsilon_curve(**COMMON | {"epochs": [5, 0, 1, 5, 2]})
    assert curve[1] == 0
    assert curve[0] == curve[3] > curve[4] > curve[2] > 0
    assert curve[2] == pytest.approx(least())


def test_with_next_to_no_noise_it_stays_finite_and_grows():
    # After 30 epochs a quotient in the accountant overflows.
    found = least_epsilon_curve(
        examples=60_000, batch=4096, noise_multiplier=0.008674412, epochs=range(28, 33), delta=1e-5
    )
    assert np.isfinite(found).all() and (np.diff(found) >= 0).all()
    assert found[2] == found[1] < found[3]


# Seven examples leave one out of three batches of two.
@pytest.mark.parametrize("change", [{"noise_multiplier": 2.0}, {"examples": 7}, {"delta": 1e-2}])
def test_noise_and_fewer_passes_through_full_batches_take_off(change):
    assert least(**change) < least()


@pytest.mark.parametrize("sigma", [1e-6, 0.1, 0.49, 0.5, 1e4])
def test_any_noise_has_a_bound_below_what_is_proven(sigma):
    found = least(noise_multiplier=sigma, epochs=[3])
    assert 0 <= found <= conversions.gdp_epsilon(math.sqrt(3) / sigma, COMMON["delta"])
    assert found > 20 or sigma > 0.3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"batch": 7}, "batch must be at most the 6 examples"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"noise_multiplier": 0.0}, "noise multiplier must be > 0"),
        ({"noise_multiplier": math.nan}, "noise multiplier must be > 0"),
        ({"delta": 1.0}, "delta must be in"),
        ({"epochs": [-1]}, "epochs must be at least 0"),
        ({"epochs": [0.5]}, "epochs must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(changed, said):
    with pytest.raises(UserError, match=said):
        least(**changed)
