"""The best of a random number of trials costs what the theorems say, and no less than it does.

Three oracles: the theorems written out from the paper; mechanisms of which the best's distribution
is known in closed form, integrated; and draws of the best of K.
"""

import math

import dp_accounting
import numpy as np
import pytest
from scipy import stats

from dpstudy.errors import UserError
from dpstudy.privacy import accounting, private_selection
from dpstudy.privacy.conversions import gdp_delta, gdp_epsilon
from dpstudy.privacy.private_selection import LAWS, Trials

RECIPE = {"sampling_probability": 8192 / 50_000, "steps": 366, "delta": 1e-5}
ONE = {"noise_multiplier": 4.48}
MEANS = (1.5, 10.0, 72.0)
TRUNCATED = ("logarithmic", "geometric")


# --- the law of the number of trials --------------------------------------------------------------


def probabilities(trials: Trials, most: int = 200_000) -> np.ndarray:
    """Definition 1 and Section 3.2 of the paper, from its formulas, for K = 0, 1, ..."""
    k = np.arange(1.0, most)
    if trials.law == "poisson":
        return stats.poisson.pmf(np.arange(most), trials.mean)
    odds = 1 - trials.stop
    if trials.law == "geometric":
        return np.append(0, odds ** (k - 1) * trials.stop)
    return np.append(0, odds**k / (k * math.log(1 / trials.stop)))


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("law", LAWS)
def test_a_law_has_its_mean_and_tries_a_share_as_often_as_it_sums_to(law, mean):
    trials = Trials(mean, law)
    chances = probabilities(trials)
    k = np.arange(len(chances))
    assert chances.sum() == pytest.approx(1, abs=1e-9)
    assert chances @ k == pytest.approx(mean, rel=1e-6)
    for share in (0.01, 0.3):
        tried = chances @ (1 - (1 - share) ** k)
        assert trials.chance_of_trying(share) == pytest.approx(tried, rel=1e-6)
    drawn = np.array([trials.draw(np.random.default_rng(seed)) for seed in range(4_000)])
    spread = math.sqrt(chances @ (k - mean) ** 2 / len(drawn))
    assert abs(drawn.mean() - mean) < 4 * spread


@pytest.mark.parametrize("law", TRUNCATED)
def test_one_trial_for_certain_costs_what_one_run_does(law):
    trials = Trials(1, law)
    assert trials.stop == 1 and trials.chance_of_trying(0.2) == 0.2
    assert trials.draw(np.random.default_rng(0)) == 1
    one = accounting.epsilon(**RECIPE, **ONE)
    assert accounting.epsilon(**RECIPE, **ONE, search=trials) == pytest.approx(one, abs=1e-6)


# --- the theorems, written out --------------------------------------------------------------------

ORDERS = np.array(dp_accounting.rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS)


def theorem_2(orders, divergence, trials, shape):
    """For every order and every other one: the least of all that the theorem allows."""
    log_stop = math.log(1 / trials.stop)
    other = (1 + shape) * ((1 - 1 / orders) * divergence + log_stop / orders)
    best = divergence + other.min() + math.log(trials.mean) / (orders - 1)
    return np.array([best[orders >= order].min() for order in orders])


def theorem_6(orders, divergence, mean):
    selected = []
    for order, of_one in zip(orders, divergence, strict=True):
        at = math.log(1 + 1 / (order - 1))
        # From Rényi to δ: Canonne, Kamath and Steinke 2020, Proposition 12.
        lost = (
            np.exp(np.minimum((orders - 1) * (divergence - at), 99))
            * (1 - 1 / orders) ** orders
            / (orders - 1)
        )
        selected.append(of_one + mean * min(lost.min(), 1) + math.log(mean) / (order - 1))
    return np.array(selected)


def converted(orders, divergence, delta):
    """Balle et al. 2020, Theorem 21, as Canonne et al. have it."""
    logs = math.log(1 / delta) + (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
    return (divergence + logs / (orders - 1)).min()


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sigma", [0.8, 4.0])
def test_divergences_are_those_of_the_paper_s_theorems(law, mean, sigma):
    """Of a Gaussian, whose divergence of order α is α/(2σ²)."""
    trials, divergence = Trials(mean, law), ORDERS / (2 * sigma**2)
    if law == "poisson":
        by_hand = theorem_6(ORDERS, divergence, mean)
    else:
        by_hand = theorem_2(ORDERS, divergence, trials, {"logarithmic": 0, "geometric": 1}[law])
    found = private_selection.by_divergence(trials, dp_accounting.GaussianDpEvent(sigma), 1e-5)
    assert found == pytest.approx(converted(ORDERS, by_hand, 1e-5), rel=1e-6)


# --- against what the best truly loses ------------------------------------------------------------


def best(trials: Trials, chances: np.ndarray) -> np.ndarray:
    """The distribution of the best, from that of one trial, outcomes from the worst on.

    P(best ≤ y) = f(P(one ≤ y)), f being the generating function of K: summed, not in closed form.
    """
    law = probabilities(trials, most=3_000)
    below = np.cumsum(chances)
    within = np.array([law @ one ** np.arange(len(law)) for one in np.minimum(below, 1)])
    return np.diff(within, prepend=law[0])  # without any trial nothing is released


def delta_of(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The exact δ of a pair of distributions, whichever is the first."""
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))


POINTS = np.linspace(-12, 14, 801)


@pytest.mark.parametrize("mean", MEANS[:2])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sigma", [0.7, 3.0])
def test_a_released_score_with_noise_loses_no_more_than_is_said(law, mean, sigma):
    """A trial releases its own score, an example moves it by 1: the best's loss, on a fine grid."""
    trials = Trials(mean, law)
    pair = [np.diff(stats.norm.cdf(POINTS, at, sigma), prepend=0) for at in (0, 1)]
    selected = [best(trials, one) for one in pair]
    said = accounting.epsilon(
        sampling_probability=1.0, steps=1, noise_multiplier=sigma, delta=1e-5, search=trials
    )
    assert delta_of(*selected, said) <= 1e-5
    # And not by far: what one run costs, in truth, is exceeded, and half of what is said too.
    if mean == 10:
        alone = gdp_epsilon(1 / sigma, 1e-5)
        assert delta_of(*selected, max(alone, said / 2)) > 1e-5


@pytest.mark.parametrize("law", TRUNCATED)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_randomised_response_comes_near_to_the_bound_by_its_profile(law, epsilon):
    """Of an ε-private trial: (2 + η) ε at most, and more than half of what is said."""
    trials = Trials(30, law)
    # A third answer, rare and above both, is what the best often shows.
    rare, wrong = 1e-3, 1 / (1 + math.exp(epsilon))
    pair = [
        np.array([1 - times * wrong, times * (wrong - rare), times * rare])
        for times in (1, math.exp(epsilon))
    ]
    selected = [best(trials, one) for one in pair]
    lost = np.abs(np.log(selected[0] / selected[1])).max()
    said = private_selection.by_profile(trials, lambda _: epsilon, lambda e: delta_of(*pair, e), 0)
    assert 0.5 * said < lost <= said <= (2 + LAWS[law]) * epsilon + 1e-9


@pytest.mark.parametrize("law", LAWS)
def test_draws_of_the_best_are_distributed_as_its_generating_function_says(law):
    """It is the best of K that the bounds are about: K drawn, trials drawn, the best kept."""
    rng, trials = np.random.default_rng(0), Trials(4, law)
    counts = [trials.draw(rng) for _ in range(20_000)]
    drawn = np.array([rng.normal(size=count).max() for count in counts if count])
    for at in (-0.5, 0.5, 1.5):
        below = np.diff(stats.norm.cdf([-np.inf, at, np.inf]))
        expected = best(trials, below)[0] / (1 - probabilities(trials)[0])
        error = math.sqrt(expected * (1 - expected) / len(drawn))
        assert abs((drawn <= at).mean() - expected) < 4 * error


# --- what the study says of its recipe ------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "by", "expected"),
    [
        ("logarithmic", "rdp", 5.29),
        ("geometric", "rdp", 6.18),
        ("logarithmic", "pld", 4.34),
        ("geometric", "pld", 4.63),
    ],
)
def test_three_becomes_more_by_ten_trials(law, by, expected):
    found = accounting.epsilon(**RECIPE, **ONE, accountant=by, search=Trials(10, law))
    assert found == pytest.approx(expected, abs=0.006)


def test_noise_for_a_search_spends_the_epsilon_with_it(losses_rounded):
    losses_rounded(10)
    search = Trials(10)
    for by, of_one in (("rdp", 1.61), ("pld", 2.04)):
        noise = accounting.noise_multiplier_for(3.0, **RECIPE, accountant=by, search=search)
        spent = accounting.epsilon(**RECIPE, noise_multiplier=noise, accountant=by, search=search)
        assert 2.99 < spent <= 3
        assert accounting.epsilon(**RECIPE, noise_multiplier=noise) == pytest.approx(
            of_one, abs=0.02
        )


@pytest.mark.parametrize("law", LAWS)
def test_more_trials_cost_more_and_pld_says_no_more_than_rdp(law, losses_rounded):
    losses_rounded(10)
    before = 0.0
    for mean in (2, 10, 40):
        pld, rdp = (
            accounting.epsilon(**RECIPE, **ONE, accountant=by, search=Trials(mean, law))
            for by in accounting.OF_A_SEARCH
        )
        assert before < pld <= rdp
        before = pld


def test_what_is_released_before_is_a_part_of_each_trial(losses_rounded):
    losses_rounded(10)
    release = {"release_noise": 4.0, "search": Trials(10)}
    for by in accounting.OF_A_SEARCH:
        with_it = accounting.epsilon(**RECIPE, **ONE, accountant=by, **release)
        assert with_it > accounting.epsilon(**RECIPE, **ONE, accountant=by, search=Trials(10))
    nothing = RECIPE | {"steps": 0}
    assert accounting.epsilon(**nothing, **ONE, search=Trials(10)) == 0
    alone = accounting.epsilon(**nothing, **ONE, **release)
    assert gdp_delta(1 / 4, alone) < 1e-5 < gdp_delta(1 / 4, alone / 2)


def test_a_tiny_delta_and_little_noise_have_an_answer_too():
    tiny = accounting.epsilon(**RECIPE | {"delta": 1e-20}, **ONE, search=Trials(10))
    assert tiny > accounting.epsilon(**RECIPE | {"delta": 1e-20}, **ONE)
    little = accounting.epsilon(**RECIPE | {"steps": 9}, noise_multiplier=0.5, search=Trials(10))
    assert math.isfinite(little)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Trials(0.5), "mean number of trials must be from 1 to 1,000,000, got 0.5"),
        (lambda: Trials(math.nan), "mean number of trials must be from 1 to 1,000,000, got nan"),
        (lambda: Trials(math.inf), "mean number of trials must be from 1 to 1,000,000, got inf"),
        (lambda: Trials(3, "normal"), "unknown law of the number of trials 'normal'; one of: log"),
        (
            lambda: accounting.epsilon(**RECIPE, **ONE, accountant="rdp-2019", search=Trials(3)),
            "rdp-2019 has no bound for a search: take pld or rdp",
        ),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(UserError, match=message):
        call()
