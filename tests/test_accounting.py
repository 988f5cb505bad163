"""Accounting against other people's numbers, closed forms, integration and simulation."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import fft, optimize, stats

from dpstudy.errors import UserError
from dpstudy.privacy import accounting
from dpstudy.privacy.accounting import ACCOUNTANTS, epsilon, epsilon_curve, noise_multiplier_for
from dpstudy.privacy.conversions import gdp_delta, gdp_epsilon, gdp_mu, zcdp_epsilon, zcdp_rho
from under_the_clip.losing_less.published import END_TO_END, SCATTERNET

MNIST = {"sampling_probability": 512 / 60_000, "noise_multiplier": 1.23, "delta": 1e-5}


def spent(q, sigma, steps, accountant="pld", delta=1e-5, release=None):
    run = {"sampling_probability": q, "noise_multiplier": sigma, "steps": steps, "delta": delta}
    return epsilon(**run, accountant=accountant, release_noise=release)


def least(q, sigma, steps, delta=1e-5):
    return accounting.least_epsilon(
        sampling_probability=q, noise_multiplier=sigma, steps=steps, delta=delta
    )


def log_phi_delta(mu, eps):
    """Balle & Wang 2018, Theorem 8, written out: delta of Gaussians with sensitivity/noise = mu."""
    more, less = stats.norm.logcdf(mu / 2 - eps / mu), stats.norm.logcdf(-mu / 2 - eps / mu)
    return more + math.log(-math.expm1(eps + less - more))


def phi_epsilon(mu, delta):
    most = mu**2 / 2 + 60 * mu  # where so rare a loss ends
    return optimize.brentq(
        lambda eps: log_phi_delta(mu, eps) - math.log(delta), 1e-9, most, xtol=1e-12
    )


# --- values published by others ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("examples", "batch", "sigma", "epochs", "expected"),
    [
        # tensorflow/privacy, tutorials/README.md: the table of 2019 and that of the first version.
        (60_000, 256, 1.3, 15, 1.19),
        (60_000, 256, 1.1, 60, 3.01),
        (60_000, 256, 0.7, 45, 7.10),
        (60_000, 256, 1.12, 60, 2.92),
        (60_000, 256, 1.2, 10, 1.20),
        # Bu, Dong, Long & Su 2020, Figure 5: moments accountant after 70 epochs.
        (60_000, 256, 0.7, 70, 8.68),
        # Abadi et al. 2016, Section 5.1 and Figure 2: 10,000 steps.
        (60_000, 600, 4.0, 100, 1.26),
    ],
)
def test_rdp_2019_gives_the_numbers_of_its_time(examples, batch, sigma, epochs, expected):
    steps = math.ceil(epochs * examples / batch)
    assert round(spent(batch / examples, sigma, steps, "rdp-2019"), 2) == expected


def test_rdp_2019_gives_losing_less_its_three():
    """With the batches an epoch rounded down, as in the code that tuned those settings.

    All but CIFAR-10 on ScatterNet features, whose noise is for less.
    """
    for setting in (*END_TO_END, *SCATTERNET[:2]):
        steps = setting.epochs * (setting.examples // setting.batch)
        q, sigma = setting.sampling_probability, setting.noise_multiplier
        assert spent(q, sigma, steps, "rdp-2019") == pytest.approx(3.0, abs=0.01)


def test_two_releases_and_the_training_give_tramer_and_boneh_their_three():
    """On scattering features: github.com/ftramer/Handcrafted-DP, `--bn_noise_multiplier=8`."""
    for examples, batch, sigma, epochs in ((50_000, 8192, 5.67, 60), (60_000, 4096, 3.04, 40)):
        steps, release = epochs * (examples // batch), 8 / math.sqrt(2)
        found = spent(batch / examples, sigma, steps, "rdp-2019", release=release)
        assert found == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize(
    ("accountant", "expected", "tolerance"),
    # opacus/tests/accountants_test.py; its PRV accountant is accurate to 0.01, from above.
    [("rdp", 7.32911117143, 5e-4), ("pld", 6.777395712150674, 1e-2)],
)
def test_today_s_accountants_give_the_values_of_opacus(accountant, expected, tolerance):
    assert spent(0.04, 1.5, 2_250, accountant) == pytest.approx(expected, abs=tolerance)


def test_central_limit_gives_the_values_of_opacus_and_bu_et_al():
    mu = gdp_mu(sampling_probability=0.04, noise_multiplier=1.5, steps=2_249)
    assert 6.59 < gdp_epsilon(mu, 1e-5) < 6.6
    # Bu et al. 2020, Figure 5: 70 epochs at sigma = 0.638 have mu = 1.78 and epsilon = 8.68.
    steps = 70 * 60_000 // 256
    mu = gdp_mu(sampling_probability=256 / 60_000, noise_multiplier=0.638, steps=steps)
    assert mu == pytest.approx(1.78, abs=0.005)
    assert gdp_epsilon(1.78, 1e-5) == pytest.approx(8.68, abs=0.02)


# --- closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "steps", "delta"),
    [
        *((sigma, steps, 1e-5) for sigma, steps in ((0.1, 1), (1, 10), (50, 1_000))),
        # At the ends of the range.
        (1e-3, 1_000, 1e-5),
        (2e5, 4_000, 1e-6),
        *((60.0, 3_000, delta) for delta in (3e-10, 1e-60)),
        *((0.7, 4, delta) for delta in (3e-10, 1e-17)),
    ],
)
def test_without_sampling_all_bounds_are_the_analytic_gaussian(sigma, steps, delta):
    mu = math.sqrt(steps) / sigma
    exact = phi_epsilon(mu, delta)
    for ours in (spent(1.0, sigma, steps, delta=delta), least(1.0, sigma, steps, delta)):
        assert ours == pytest.approx(exact, rel=1e-6)
    assert gdp_epsilon(mu, delta) == pytest.approx(exact, rel=1e-6)


def test_with_enough_noise_delta_allows_for_all_and_no_epsilon_is_spent():
    assert spent(1.0, 1e6, 1) == 0


@pytest.mark.parametrize(("sigma", "release"), [(1.0, 1.0), (5.0, 4.0), (4.0, 40.0), (8.0, 1.0)])
def test_a_release_and_unsampled_steps_are_one_gaussian(sigma, release):
    counts = [0, 1, 7]
    run = {"sampling_probability": 1.0, "noise_multiplier": sigma, "delta": 1e-5}
    curve = epsilon_curve(**run, steps=counts, release_noise=release)
    for ours, steps in zip(curve, counts, strict=True):
        exact = phi_epsilon(math.sqrt(steps / sigma**2 + 1 / release**2), 1e-5)
        assert ours == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_a_release_composes_with_sampled_steps_as_in_dp_accounting(accountant):
    q, sigma, steps, release = 0.02, 1.5, 100, 3.0
    accounts = {"pld": PLDAccountant(value_discretization_interval=1e-3), "rdp": RdpAccountant()}
    account = accounts[accountant]
    account.compose(dp_accounting.GaussianDpEvent(release))
    step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    account.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    ours = spent(q, sigma, steps, accountant, release=release)
    assert ours == pytest.approx(account.get_epsilon(1e-5), rel=2e-3)


def test_gdp_delta_is_the_closed_form_and_survives_a_large_epsilon():
    for mu, eps in ((0.3, 0.1), (1.0, 1.0), (5.0, 0.1), (5.0, 4.0)):
        assert gdp_delta(mu, eps) == pytest.approx(math.exp(log_phi_delta(mu, eps)), rel=1e-9)
    assert gdp_delta(60.0, gdp_epsilon(60.0, 1e-5)) == pytest.approx(1e-5, rel=1e-6)


def test_rdp_2019_without_sampling_is_mironov_s_formula():
    """Gaussian: alpha / (2 sigma^2) a step, minimised over the orders by hand."""
    sigma, steps = 5.0, 30
    orders = np.array([1 + x / 10 for x in range(1, 100)] + list(range(12, 64)))
    by_hand = min(steps * orders / (2 * sigma**2) + math.log(1e5) / (orders - 1))
    assert spent(1.0, sigma, steps, "rdp-2019") == pytest.approx(by_hand, rel=1e-12)


def test_zcdp_is_bun_and_steinke_and_its_own_inverse():
    assert zcdp_epsilon(0.25, 1e-5) == pytest.approx(0.25 + math.sqrt(math.log(1e5)))
    assert zcdp_epsilon(0.0, 1e-5) == 0
    for eps in (0.07, 0.87, 3.64):
        assert zcdp_epsilon(zcdp_rho(eps, 1e-5), 1e-5) == pytest.approx(eps, rel=1e-12)
    for rho in (1e-4, 0.01, 0.25, 10.0):  # above what a Gaussian costs that is rho-zCDP
        assert zcdp_epsilon(rho, 1e-5) > gdp_epsilon(math.sqrt(2 * rho), 1e-5)


# --- the sampled Gaussian from its definition ---------------------------------------------------


def delta_of_one_step(q, sigma, eps, removed):
    """In closed form, from where the losses above epsilon lie."""
    sign = 1 if removed else -1
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (np.exp(sign * eps) - (1 - q)) / q
        at = np.where(ratio > 0, 0.5 + sigma**2 * np.log(ratio), -np.inf)
    without, included = (stats.norm.sf((at - mean) / sigma) for mean in (0, 1))
    if removed:
        return (1 - q) * without + q * included - np.exp(eps) * without
    below, included_below = (stats.norm.cdf((at - mean) / sigma) for mean in (0, 1))
    return below - np.exp(eps) * ((1 - q) * below + q * included_below)


def delta_of_two_steps(q, sigma, eps):
    """The second step's delta at what the first step's loss leaves of epsilon, integrated."""
    x = np.linspace(-15 * sigma, 1 + 15 * sigma, 6_001)
    without, included = (stats.norm.pdf(x, mean, sigma) for mean in (0, 1))
    mixed = (1 - q) * without + q * included
    loss = np.log1p(q * np.expm1((2 * x - 1) / (2 * sigma**2)))
    removed = np.trapezoid(mixed * delta_of_one_step(q, sigma, eps - loss, True), x)
    added = np.trapezoid(without * delta_of_one_step(q, sigma, eps + loss, False), x)
    return max(removed, added)


@pytest.mark.parametrize(
    ("q", "sigma", "delta"), [(512 / 60_000, 1.23, 1e-4), (0.1, 0.8, 1e-5), (0.5, 2.0, 1e-3)]
)
def test_one_sampled_step_by_its_closed_form(q, sigma, delta):
    def worst(eps):
        return max(delta_of_one_step(q, sigma, eps, removed) for removed in (True, False))

    exact = optimize.brentq(lambda eps: worst(eps) - delta, 0, 20, xtol=1e-6)
    assert spent(q, sigma, 1, delta=delta) == pytest.approx(exact, rel=2e-3, abs=1e-5)


def test_many_sampled_steps_by_simulation():
    """Delta at the epsilon computed for it, estimated from simulated privacy losses."""
    q, sigma, steps, delta, runs = 0.02, 1.0, 100, 0.01, 100_000
    rng = np.random.default_rng(0)
    loss = np.zeros(runs)
    for _ in range(steps):
        x = sigma * rng.standard_normal(runs) + (rng.random(runs) < q)
        loss += np.log1p(q * np.expm1((2 * x - 1) / (2 * sigma**2)))
    excess = np.maximum(-np.expm1(spent(q, sigma, steps, delta=delta) - loss), 0)
    error = excess.std() / math.sqrt(runs)
    assert error < 0.02 * delta
    assert excess.mean() == pytest.approx(delta, abs=4 * error)


# --- order --------------------------------------------------------------------------------------

PROBABILITIES = st.floats(1e-3, 0.2)
NOISE = st.floats(0.7, 6.0)
STEPS = st.integers(1, 1_000)
DELTAS = st.floats(1e-8, 1e-2)
MORE = st.floats(1.05, 2.0)
# Without shrinking: one example is telling enough, and each takes a while.
PHASES = (Phase.explicit, Phase.generate)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@settings(max_examples=2, deadline=None, derandomize=True, phases=PHASES)
@given(q=PROBABILITIES, sigma=NOISE, steps=STEPS, delta=DELTAS, more=MORE)
def test_more_costs_more(accountant, q, sigma, steps, delta, more):
    case = {"q": q, "sigma": sigma, "steps": steps, "delta": delta}
    worse = {"q": q * more, "sigma": sigma / more, "steps": math.ceil(steps * more)}
    base = spent(**case, accountant=accountant)
    for name, value in (worse | {"delta": delta / more}).items():
        after = spent(**case | {name: value}, accountant=accountant)
        # Strictly, but where delta alone already allows for all that happens.
        assert after > base or after == base == 0


@settings(max_examples=3, deadline=None, derandomize=True, phases=PHASES)
@given(q=PROBABILITIES, sigma=NOISE, steps=STEPS, delta=DELTAS)
def test_pld_is_at_most_rdp_is_at_most_rdp_2019(q, sigma, steps, delta):
    tight, loose, old = (spent(q, sigma, steps, name, delta) for name in ACCOUNTANTS)
    assert ACCOUNTANTS == ("pld", "rdp", "rdp-2019")
    assert tight <= loose * (1 + 1e-3) + 1e-4
    assert loose <= old * (1 + 1e-9)


def test_an_epsilon_as_small_as_what_losses_are_rounded_to_is_that_of_rdp():
    case = {"q": 4.18e-05, "sigma": 15.9, "steps": 226_992, "delta": 4e-4}
    assert 0 < spent(**case) == spent(**case, accountant="rdp") < 1e-3


# --- curves and calibration ---------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_a_curve_is_its_points_in_the_order_asked_for(accountant):
    steps = (351, 0, 117, 117, 240)
    curve = epsilon_curve(steps=steps, accountant=accountant, **MNIST)
    points = [epsilon(steps=count, accountant=accountant, **MNIST) for count in steps]
    assert curve == pytest.approx(points, abs=1e-6)
    assert curve[1] == points[1] == least(0.01, 1.0, 0) == 0.0


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(("wanted", "q", "steps"), [(3.0, 0.02, 300), (30.0, 0.01, 100)])
def test_calibrated_noise_spends_what_was_wanted_and_no_more(
    accountant, wanted, q, steps, losses_rounded
):
    losses_rounded(5)
    run = {"sampling_probability": q, "steps": steps, "delta": 1e-5}
    sigma = noise_multiplier_for(wanted, **run, accountant=accountant)
    assert spent(q, sigma, steps, accountant) <= wanted
    assert spent(q, sigma * 0.9995, steps, accountant) > wanted


def test_the_size_of_the_discretisation_does_not_matter(losses_rounded):
    """From little noise to much, a quarter of the interval moves epsilon by under one per cent."""
    cases = [(0.0043, 0.0068, 500), (0.0085, 1.5, 500), (0.001, 10.0, 10_000), (1.0, 300.0, 25)]
    coarse = [spent(*case) for case in cases]
    losses_rounded(1 / 4)
    fine = [spent(*case) for case in cases]
    assert coarse == pytest.approx(fine, rel=0.01)
    assert all(a >= b * (1 - 1e-6) for a, b in zip(coarse, fine, strict=True))


# --- deltas next to nothing ----------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-3, 1e-12, 1e-18])
def test_two_sampled_steps_by_integration_are_between_both_bounds(delta, losses_rounded):
    losses_rounded(20)
    q, sigma = 0.05, 0.9
    exact = optimize.brentq(
        lambda eps: math.log(delta_of_two_steps(q, sigma, eps) / delta), 1e-3, 40
    )
    low, high = least(q, sigma, 2, delta), spent(q, sigma, 2, delta=delta)
    assert low <= exact * (1 + 1e-6) and exact <= high * (1 + 1e-6)
    assert (low, high) == pytest.approx((exact, exact), rel=5e-3, abs=1e-3)


def test_of_many_sampled_steps_at_least_is_below_at_most_and_close_to_it(losses_rounded):
    losses_rounded(20)
    low, high = least(0.2, 3.0, 90, 1e-16), spent(0.2, 3.0, 90, delta=1e-16)
    assert 0.99 * high < low < high


@pytest.mark.parametrize("delta", [1e-4, 1e-11, 1e-20])
@pytest.mark.parametrize(("q", "sigma"), [(0.4, 0.02), (0.003, 0.1)])
def test_both_bounds_of_a_step_with_little_noise_hold_at_losses_beyond_exp(
    q, sigma, delta, losses_rounded
):
    """From a loss of 745 on exp(-loss) is 0. Without it all are close to log(q x ratio)."""
    losses_rounded(4)

    def log_delta(eps):
        at = 0.5 + sigma**2 * (eps - math.log(q) + math.log1p(-(1 - q) * math.exp(-eps)))
        more, less = stats.norm.logsf((at - 1) / sigma), stats.norm.logsf(at / sigma)
        less += eps - math.log(q) + math.log1p(-(1 - q) * math.exp(-eps))
        return math.log(q) + more + math.log(-math.expm1(less - more))

    top = (0.5 + 15 * sigma) / sigma**2
    exact = optimize.brentq(lambda eps: log_delta(eps) - math.log(delta), 5.0, top)
    low, high = least(q, sigma, 1, delta), spent(q, sigma, 1, delta=delta)
    assert low <= exact * (1 + 1e-9) and exact <= high * (1 + 1e-9)
    assert (low, high) == pytest.approx((exact, exact), rel=3e-3)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision here")
@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta"), [(0.0085, 1.2, 4_000, 2e-12), (2e-6, 0.9, 800_000, 1e-9)]
)
def test_many_sampled_steps_by_a_transform_of_extended_precision(q, sigma, steps, delta):
    """Of double precision the error is a share of delta, to either side."""
    grid = {"value_discretization_interval": accounting.discretization(sigma)}
    step = pld.from_gaussian_mechanism(sigma, sampling_prob=q, **grid)
    eps = spent(q, sigma, steps, delta=delta)
    found = [delta_by_extension(pmf, steps, eps) for pmf in (step._pmf_remove, step._pmf_add)]
    assert 0.99 * delta < max(found) < delta * (1 + 2e-3)


def delta_by_extension(pmf, steps, eps):
    dense = pmf.to_dense_pmf()
    size = 2**18
    transform, power = fft.fft(dense._probs.astype(np.longdouble), size), 1
    for bit in bin(steps)[2:]:
        power = power**2 * (transform if bit == "1" else 1)
    losses = np.arange(size)
    middle = round(float(dense._probs @ np.arange(dense.size)) * steps)
    losses += size * np.round((middle - losses) / size).astype(int)  # what the transform wrapped
    above = (dense._lower_loss * steps + losses) * np.longdouble(dense._discretization) - eps
    return float(np.sum(np.where(above > 0, -np.expm1(-above), 0) * fft.ifft(power).real))


MANY = [(0.02, 1.1, 700), (2e-5, 0.5, 10**6), (0.004, 15.0, 400_000)]


@pytest.mark.parametrize("delta", [1e-12, 1e-300])
@pytest.mark.parametrize(("q", "sigma", "steps"), MANY)
def test_no_delta_is_too_small_for_pld_which_is_at_most_rdp(q, sigma, steps, delta, losses_rounded):
    losses_rounded(4)
    tight, loose = spent(q, sigma, steps, delta=delta), spent(q, sigma, steps, "rdp", delta)
    assert 0 < tight <= loose < math.inf
    assert tight > spent(q, sigma, steps, delta=3 * delta)


def test_an_ordinary_delta_has_the_value_of_the_library_to_the_last_bit():
    for q, sigma, steps in [(0.0085, 1.2, 4_000), (0.1, 4.0, 500)]:
        grid = {"value_discretization_interval": accounting.discretization(sigma)}
        step = pld.from_gaussian_mechanism(sigma, sampling_prob=q, **grid)
        theirs = step.self_compose(steps).get_epsilon_for_delta(1e-5)
        assert spent(q, sigma, steps) == theirs


def test_a_curve_with_little_noise_has_no_holes():
    """Quotients of nearly nothing overflow now and then, at an ordinary delta too."""
    sigma, counts = 0.08380665397322766, range(1, 10)
    curve = epsilon_curve(
        sampling_probability=1.0, noise_multiplier=sigma, steps=counts, delta=1e-5
    )
    exact = [gdp_epsilon(math.sqrt(count) / sigma, 1e-5) for count in counts]
    assert curve == pytest.approx(exact, rel=0.01)
    assert all(a >= b * (1 - 1e-6) for a, b in zip(curve, exact, strict=True))


def test_calibrated_noise_at_a_delta_next_to_nothing_is_less_than_rdp_s_and_enough(losses_rounded):
    losses_rounded(20)
    run = {"sampling_probability": 0.2, "steps": 10, "delta": 1e-17}
    sigma, loose = (noise_multiplier_for(2.5, **run, accountant=name) for name in ("pld", "rdp"))
    assert 0.8 * loose < sigma < loose
    assert spent(0.2, sigma, 10, delta=1e-17) <= 2.5


def test_a_release_is_paid_for_at_a_delta_next_to_nothing(losses_rounded):
    losses_rounded(10)
    sigma, release, delta = 1.4, 5.0, 1e-17
    run = {"noise_multiplier": sigma, "steps": [0, 50, 200], "delta": delta}
    sampled = {**run, "sampling_probability": 0.02}
    alone, both = epsilon_curve(**sampled), epsilon_curve(**sampled, release_noise=release)
    rdp = epsilon_curve(**sampled, release_noise=release, accountant="rdp")
    whole = epsilon_curve(**run, sampling_probability=1.0, release_noise=release)
    # Known exactly: the release alone, and of what all steps without sampling cost, an upper bound.
    assert both[0] == pytest.approx(gdp_epsilon(1 / release, delta), rel=1e-3)
    assert whole[2] == pytest.approx(
        gdp_epsilon(math.sqrt(200 / sigma**2 + 1 / release**2), delta), rel=1e-3
    )
    for apart, together, loose, unsampled in zip(alone, both, rdp, whole, strict=True):
        assert max(apart, both[0]) <= together < loose
        assert together <= unsampled


# --- small things -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_multiplier": -1.0}, "noise multiplier must be > 0, got -1.0"),
        ({"noise_multiplier": 0.0}, "noise multiplier must be > 0, got 0.0"),
        ({"noise_multiplier": math.nan}, "noise multiplier must be > 0, got nan"),
        ({"noise_multiplier": math.inf}, "noise multiplier must be finite, got inf"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\), got 1.0"),
        ({"sampling_probability": 0.0}, r"sampling probability must be in \(0, 1\], got 0.0"),
        ({"sampling_probability": 1.5}, r"sampling probability must be in \(0, 1\], got 1.5"),
        ({"steps": -1}, "steps must be at least [01], got -1"),
        ({"steps": 1.5}, "steps must be a whole number, got 1.5"),
        ({"accountant": "rpd"}, "unknown accountant 'rpd'; the nearest is 'rdp'"),
        ({"release_noise": 0.0}, "release noise must be > 0, got 0.0"),
        ({"release_noise": -4.0}, "release noise must be > 0, got -4.0"),
        # Beyond the range, at once.
        *(
            ({"noise_multiplier": sigma}, f"noise multiplier must be between {between} to .* {got}")
            for between, sigma, got in (
                ("0.001 and 1,000,000", 1e-300, "1e-300"),
                ("0.001 and 1,000,000", 9e-4, "0.0009"),
                ("0.001 and 1,000,000", 1e300, r"1e\+300"),
            )
        ),
        ({"steps": 10**11}, "steps must be at most 1,000,000 to .*, got 100,000,000,000"),
        ({"sampling_probability": 0.5, "steps": 10**6}, "passes over .* most 5,000 .* got 500,000"),
        (
            {"noise_multiplier": 0.09, "sampling_probability": 1.0, "steps": 1001},
            "passes over the data must be at most 1,000 .* noise multiplier below 0.1, got 1,001",
        ),
    ],
)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_bad_input_names_the_field_and_the_value(accountant, change, message):
    given = {**MNIST, "steps": 10, "accountant": accountant, **change}
    with pytest.raises(UserError, match=f"^{message}$"):
        epsilon(**given)
    with pytest.raises(UserError, match=f"^{message}$"):
        epsilon_curve(**given | {"steps": [10, given["steps"]]})
    if "noise_multiplier" not in change:
        del given["noise_multiplier"]
        with pytest.raises(UserError, match=f"^{message}$"):
            noise_multiplier_for(3.0, **given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accounting.sampling_probability_of(examples=9, batch=10), "most the 9 examples"),
        (lambda: accounting.sampling_probability_of(examples=9, batch=0), "at least 1, got 0"),
        (lambda: accounting.whole("epochs", 0, least=1), "epochs must be at least 1, got 0"),
        (lambda: accounting.effective_noise_multiplier(1.0, 0.0), "sensitivity must be > 0, got 0"),
        (lambda: zcdp_epsilon(-1.0, 1e-5), "rho must be >= 0"),
        (lambda: gdp_epsilon(-1.0, 1e-5), "mu must be >= 0"),
        (lambda: calibrated(0.0), "epsilon must be > 0 and finite, got 0.0"),
        (lambda: calibrated(3.0, steps=0), "steps must be at least 1, got 0"),
        (lambda: calibrated(0.1, accountant="rdp-2019"), "0.1 cannot be certified by rdp-2019"),
        (lambda: calibrated(1e15, accountant="rdp"), "too large to calibrate noise for"),
        (lambda: calibrated(1e15), "epsilon 1000000000000000.0 is too large to calibrate noise"),
        (lambda: calibrated(1e-300), "epsilon 1e-300 cannot be certified by pld with any noise"),
    ],
)
def test_other_bad_input_is_one_line(call, message):
    with pytest.raises(UserError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def calibrated(wanted, steps=100, accountant="pld"):
    return noise_multiplier_for(
        wanted, sampling_probability=0.01, steps=steps, delta=1e-5, accountant=accountant
    )


def test_noise_for_training_after_a_release_spends_the_epsilon_together_with_it(losses_rounded):
    losses_rounded(10)
    run = {"sampling_probability": 0.15, "steps": 60, "delta": 1e-5}
    sigma = noise_multiplier_for(3.0, **run, release_noise=4.0)
    assert sigma > 1.02 * noise_multiplier_for(3.0, **run)
    alone, together = (spent(0.15, sigma, count, release=4.0) for count in (0, 60))
    assert 0 < alone < 2.995 < together <= 3
