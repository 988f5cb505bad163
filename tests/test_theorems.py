"""The search behind each statement can fail: a false version of the statement is refuted.

For every statement there is a twin, the same check of a claim made false on purpose. The
statements themselves are searched anew, and their verdicts and the stored ones held to those
expected. Beside them, the mathematics that the checks rely on is compared with closed forms.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from click.testing import CliRunner
from scipy import integrate, optimize

from dpstudy.errors import UserError
from dpstudy.lab import records
from dpstudy.lab.published import DELTA
from dpstudy.privacy import conversions
from dpstudy.propositions import search
from dpstudy.propositions.statement import LOOSE_BELOW, ROUNDING, Outcome
from under_the_clip import cli
from under_the_clip.backpropagation_clipping.propositions import (
    concentrated,
    convolution_sensitivity,
    layer_sensitivity,
)
from under_the_clip.losing_less.propositions import convergence, mean_value
from under_the_clip.losing_less.propositions import equations as losing_less
from under_the_clip.statements import STATEMENTS, find
from under_the_clip.tanh_filter.propositions import sensitivity as tanh_filter
from under_the_clip.tempered_sigmoids.propositions import (
    clipped_fields,
    clipping_bias,
    family,
    group_privacy,
    multiclass_bias,
    never_clipped,
    printed_loss,
    temperature_and_bias,
)
from under_the_clip.tempered_sigmoids.propositions import gradient_norms as tempered_sigmoids
from under_the_clip.theorems import sampled_gaussian, shuffled_batches

ROOT = Path(__file__).parents[1]
BIBLIOGRAPHY = (ROOT / "book/references.bib").read_text()
STORED, DAMAGED = records.read_all(ROOT / "results" / "theorems", "theorems")


# --- the statements, and their twins ----------------------------------------------------------

EXPECTED = {
    "tanh-is-tempered": "holds",
    "scale-and-magnitude": "corrected",
    "relu-approximated": "holds",
    "loss-of-a-member": "holds",
    "gradient-norm-binary": "holds",
    "gradient-norm-class": "holds",
    "gradient-norm-longest-class": "holds, loose",
    "gradient-norm-multiclass": "holds, loose",
    "gradient-norm-multiclass-sharp": "holds",
    "linear-in-temperature": "holds",
    "never-clipped": "holds",
    "multiclass-loss-sign": "misprint",
    "surrogate-gradient": "holds",
    "surrogate-distance": "corrected",
    "clipping-bias": "holds, loose",
    "clipping-bias-negative-temperature": "misprint",
    "clipping-bias-sharp": "holds",
    "bias-falls-with-temperature": "corrected",
    "clipped-field-binary": "holds",
    "surrogate-convex": "holds",
    "clipped-field-multiclass": "holds",
    "clipping-bias-multiclass": "corrected",
    "group-privacy-pure": "holds",
    "group-privacy": "corrected",
    "pld-covers-delta": "holds",
    "rdp-covers-delta": "holds, loose",
    "pld-below-rdp": "holds, loose",
    "epsilon-monotone": "holds",
    "shuffled-as-if-sampled": "corrected",
    "backpropagation-equation": "misprint",
    "sse-as-a-norm": "misprint",
    "gradient-norm-sum": "corrected",
    "smoothness": "corrected",
    "change-of-gradient-integral": "misprint",
    "sse-exponential": "holds",
    "sse-to-zero": "corrected",
    "cross-entropy-rate": "holds",
    "zcdp-conversion": "holds",
    "zcdp-gaussian": "holds",
    "zcdp-composition": "holds",
    "parallel-composition": "holds",
    "parallel-composition-replacing": "corrected",
    "parallel-composition-cut": "corrected",
    "privacy-of-the-run": "holds",
    "corrected-code-targets": "refuted",
    "layer-sensitivity": "holds",
    "layer-sensitivity-mean-loss": "corrected",
    "dense-sensitivity": "holds",
    "dense-sensitivity-bias": "corrected",
    "convolution-norm": "holds",
    "convolution-norm-channels": "corrected",
    "convolution-sensitivity": "holds",
    "convolution-sensitivity-padding": "holds",
    "convolution-sensitivity-copying": "corrected",
    "convolution-sensitivity-bias": "corrected",
    "gaussian-mechanism-classical": "holds, loose",
    "tanh-equation": "misprint",
    "tanh-filter-root-n": "holds",
    "tanh-filter-sensitivity-one": "corrected",
}

with_a_jump = partial(clipped_fields.continued, steepness=1.01)

# The same checks of claims that are false by a little, or of another thing. Where the statement is
# itself false, the twin is the same search of what is true, which must find nothing.
TWINS = {
    "tanh-is-tempered": lambda: family.family_at((2.0, 2.001, 1.0)),
    "loss-of-a-member": lambda: tempered_sigmoids.log_of_a_member(offset=1e-9),
    "gradient-norm-binary": lambda: tempered_sigmoids.binary_gradient(0.99),
    "gradient-norm-class": lambda: tempered_sigmoids.class_gradient(0.99),
    "gradient-norm-multiclass": lambda: tempered_sigmoids.multiclass_gradient(lambda k: 1.4),
    "gradient-norm-multiclass-sharp": lambda: tempered_sigmoids.multiclass_gradient(
        lambda k: math.sqrt(2 - 1 / k)
    ),
    # The best without a bias is a straight line.
    "relu-approximated": lambda: family.as_relu(shifted=False),
    # Of the second longest it is false.
    "gradient-norm-longest-class": lambda: tempered_sigmoids.gradient_by_one_class(
        lambda norms: jnp.sort(norms)[-2]
    ),
    "linear-in-temperature": lambda: never_clipped.grows_linearly(0.99),
    "never-clipped": lambda: never_clipped.no_clipping(0.99),
    "surrogate-gradient": lambda: clipping_bias.surrogate_gradient(0.99),
    "clipping-bias": lambda: clipping_bias.bias(0.25),
    "clipping-bias-sharp": lambda: clipping_bias.bias(0.49),
    "clipped-field-binary": lambda: clipped_fields.is_gradient(3),
    # Still convex, but with a jump of its gradient by a hundredth.
    "surrogate-convex": lambda: clipped_fields.is_convex(with_a_jump),
    "clipped-field-multiclass": lambda: clipped_fields.is_no_gradient(None),
    "pld-covers-delta": lambda: sampled_gaussian.covers(
        lambda case: 0.95 * sampled_gaussian.by("pld")(case)
    ),
    "rdp-covers-delta": lambda: sampled_gaussian.covers(
        lambda case: 0.5 * sampled_gaussian.by("rdp")(case)
    ),
    "pld-below-rdp": lambda: sampled_gaussian.ordered("rdp", "pld"),
    "epsilon-monotone": lambda: sampled_gaussian.monotone({"noise_multiplier": 1.1}),
    "sse-exponential": lambda: convergence.sse_rate(convergence.FEW_FEATURES),
    "cross-entropy-rate": lambda: convergence.cross_entropy_rate(-0.5),
    "zcdp-conversion": lambda: concentrated.conversion(
        lambda rho, delta: rho + math.sqrt(2 * rho * math.log(1 / delta))
    ),
    "zcdp-gaussian": lambda: concentrated.gaussian_mechanism(
        lambda apart, rho: apart / math.sqrt(2.02 * rho)
    ),
    "group-privacy-pure": lambda: group_privacy.pure(0.9),
    "zcdp-composition": lambda: concentrated.composition(lambda rho: 0.99 * jnp.sum(rho)),
    "parallel-composition": lambda: concentrated.parallel(bound=0.99),
    "privacy-of-the-run": lambda: concentrated.whole_run(concentrated.EPOCHS),
    "layer-sensitivity": lambda: layer_sensitivity.layer_sensitivity(0.99),
    "dense-sensitivity": lambda: layer_sensitivity.dense(lambda a, b: 0.99 * a * b),
    "convolution-norm": lambda: convolution_sensitivity.convolution_norm(
        bound=lambda kernel: jnp.sqrt(jnp.sum(kernel**2))
    ),
    "convolution-sensitivity": lambda: convolution_sensitivity.conv(
        convolution_sensitivity.PLAIN[1:], convolution_sensitivity.l2
    ),
    "convolution-sensitivity-padding": lambda: convolution_sensitivity.conv(
        convolution_sensitivity.COPYING
    ),
    "gaussian-mechanism-classical": lambda: tanh_filter.classical_gaussian(
        {"epsilon": (10.0, 1000.0), "delta": (1e-10, 1e-2)}
    ),
    "tanh-filter-root-n": lambda: tanh_filter.root_bound(lambda n: 0.99 * math.sqrt(n)),
}


def above_the_gap(w):
    return jnp.clip(w, jnp.array([-1, losing_less.GAP]), 1)


def by_the_code_s_formula(code):
    """What the corrected code believes: a central limit over steps x layers, δ by integration."""
    draws = code.epochs * (code.examples // code.batch) * code.layers
    rate = code.batch / code.examples
    mu = rate * math.sqrt(draws * math.expm1(code.noise_multiplier**-2))

    def excess(epsilon):
        begin = epsilon / mu + mu / 2

        def beyond(x):
            densities = math.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon - x**2 / 2)
            return densities / math.sqrt(2 * math.pi)

        return integrate.quad(beyond, begin, begin + 12, epsabs=1e-16)[0] - DELTA

    return optimize.brentq(excess, 1e-3, 10, xtol=1e-13)


TRUE_TWINS = {
    "scale-and-magnitude": lambda: Outcome(family.smaller_scale(offset_too=True).ratio, "", ""),
    "multiclass-loss-sign": lambda: printed_loss.is_a_loss(tempered_sigmoids.multiclass_loss),
    "change-of-gradient-integral": lambda: mean_value.change_as_integral(mean_value.segment),
    "clipping-bias-negative-temperature": lambda: clipping_bias.bias_of_either_sign(1.0),
    # That a hundredth of the bound is none.
    "clipping-bias-multiclass": lambda: multiclass_bias.no_bound(0.01),
    "group-privacy": lambda: group_privacy.approximate(group_privacy.geometric),
    "bias-falls-with-temperature": lambda: Outcome(
        temperature_and_bias.falling(unclipped=True).ratio, "", ""
    ),
    # Of batches that were sampled it is true.
    "shuffled-as-if-sampled": lambda: shuffled_batches.as_if_sampled(sampled=True),
    "backpropagation-equation": lambda: losing_less.backpropagation(
        losing_less.corrected_backpropagation
    ),
    "sse-as-a-norm": lambda: losing_less.sum_of_squares(losing_less.half_squared_norm),
    "gradient-norm-sum": lambda: losing_less.gradient_bound(losing_less.product_of_norms),
    # Above the gap lies a convex set, in which the curvature's maximum does bound the change.
    "smoothness": lambda: Outcome(losing_less.on_a_set(above_the_gap).worst, "", ""),
    "surrogate-distance": lambda: Outcome(
        clipping_bias.surrogate_distance(shifted=True).ratio - 1, "", ""
    ),
    # With features enough it does fall to 0.
    "sse-to-zero": convergence.sse_rate,
    "parallel-composition-replacing": lambda: concentrated.parallel(concentrated.REPLACED, 4.0),
    "parallel-composition-cut": lambda: concentrated.parallel(concentrated.MOVED_UP, 9.0),
    "corrected-code-targets": lambda: concentrated.corrected_targets(by_the_code_s_formula),
    "layer-sensitivity-mean-loss": lambda: layer_sensitivity.layer_sensitivity(1.75, mean=True),
    "dense-sensitivity-bias": lambda: layer_sensitivity.dense_bias(layer_sensitivity.with_bias),
    "convolution-norm-channels": lambda: convolution_sensitivity.convolution_norm_of_channels(
        convolution_sensitivity.ONE_INPUT[:1]
    ),
    "convolution-sensitivity-copying": lambda: convolution_sensitivity.conv_copying(
        convolution_sensitivity.PLAIN[1:]
    ),
    "convolution-sensitivity-bias": lambda: convolution_sensitivity.conv_bias(math.sqrt(2)),
    "tanh-equation": lambda: tanh_filter.printed_formula(lambda x: jnp.tanh(x / 2)),
    "tanh-filter-sensitivity-one": lambda: tanh_filter.assumed_bound(10.0),
}


def test_every_statement_has_its_verdict_and_its_twin():
    assert set(EXPECTED) == set(STATEMENTS)
    assert set(TWINS) | set(TRUE_TWINS) == set(STATEMENTS)
    assert not set(TWINS) & set(TRUE_TWINS)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_search_comes_to_the_verdict_again(name):
    assert find(name).verdict(find(name).check()) == EXPECTED[name]


def test_every_statement_s_outcome_is_stored_with_its_verdict():
    assert not DAMAGED
    assert {name: outcome["verdict"] for name, outcome in STORED.items()} == EXPECTED
    for name, outcome in STORED.items():
        assert any(character.isdigit() for character in outcome["finding"])
        assert any(character.isdigit() for character in outcome["looked"])
        assert outcome["provenance"]["commit"][-6:] != "-dirty"
        assert (outcome["verdict"] in ("corrected", "misprint")) == (find(name).instead is not None)


@pytest.mark.parametrize("name", TWINS)
def test_the_search_refutes_a_false_twin(name):
    assert EXPECTED[name].startswith("holds")
    found = TWINS[name]()
    assert found.verdict in ("refuted", "corrected"), found


@pytest.mark.parametrize("name", TRUE_TWINS)
def test_the_search_does_not_refute_what_holds_instead(name):
    assert EXPECTED[name] in ("refuted", "corrected", "misprint")
    found = TRUE_TWINS[name]()
    assert found.verdict.startswith("holds"), found


def test_the_targets_are_met_by_the_code_s_own_formula_and_by_no_larger_epsilon():
    found = concentrated.corrected_targets(by_the_code_s_formula)
    assert found.worst == pytest.approx(0, abs=1e-8)
    assert found.tightness == pytest.approx(1, abs=1e-7)
    larger = concentrated.corrected_targets(lambda code: 1.001 * by_the_code_s_formula(code))
    assert larger.verdict == "refuted"


def test_the_careless_readings_of_relu_and_of_one_class_are_refuted():
    assert family.as_relu(low=-1.0).verdict == "refuted"
    assert tempered_sigmoids.gradient_by_one_class(jnp.min).worst > 1e6


def test_no_clipping_norm_serves_relu_and_growth_is_not_linear_where_all_is_right():
    assert never_clipped.no_clipping(activation=jax.nn.relu).worst > 10
    assert never_clipped.grows_linearly(sign=1.0).worst > 10


def test_the_integral_of_a_cube_s_curvature_is_its_change_of_slope_on_the_segment_alone():
    """L(w) = w³ from 0 to 1: 3 is the change of 3 w², and 6 (1 + t) integrates to 9."""
    assert mean_value.cube(mean_value.segment) == pytest.approx(3)
    assert mean_value.cube(mean_value.printed_path) == pytest.approx(9)


def test_a_surrogate_with_a_jump_is_seen_to_jump_and_one_with_a_dent_to_fall():
    """The line that continues the loss: steeper it is convex still, flatter it is not."""
    flatter = partial(clipped_fields.continued, steepness=0.99)
    assert clipped_fields.falling_along(with_a_jump).ratio <= ROUNDING
    assert clipped_fields.steepest_turn(with_a_jump).ratio > 2
    assert clipped_fields.falling_along(flatter).ratio > 1e-3


def test_the_sharp_constant_is_reached_by_a_search():
    assert clipping_bias.camps().ratio > 0.498
    assert clipping_bias.bias(0.498).verdict == "refuted"


def test_a_kernel_of_one_pixel_is_found_and_breaks_any_smaller_bound():
    shapes = convolution_sensitivity.TWO_INPUTS
    found = convolution_sensitivity.convolution_norm_of_channels(shapes)
    assert 0.99 * math.sqrt(2) < found.tightness <= math.sqrt(2) + ROUNDING
    assert found.verdict == "corrected"
    smaller = convolution_sensitivity.convolution_norm(
        shapes, lambda kernel: 0.99 * convolution_sensitivity.all_inputs(kernel)
    )
    assert smaller.verdict == "refuted"


def test_a_divergence_is_integrated_over_all_outputs_of_a_sequence():
    """Of fixed means it is α|v|²/2; of means that follow, that of SciPy's double integral."""
    outputs = concentrated._OUTPUTS
    fixed = np.repeat([[0.3], [0.5], [0.7]], len(outputs), axis=1)
    found = search.in_double(concentrated.joint_divergence)(3.0, fixed)
    assert found == pytest.approx(3 * (0.09 + 0.25 + 0.49) / 2)

    def density(second, first):
        means = 0.6, math.tanh(first)
        logs = sum(
            -(2 * (x - m) ** 2 - x**2) / 2 for x, m in zip((first, second), means, strict=True)
        )
        return math.exp(logs) / (2 * math.pi)

    expected = math.log(integrate.dblquad(density, -10, 12, -10, 12)[0])
    means = np.stack([np.full(len(outputs), 0.6), np.tanh(outputs)])
    assert search.in_double(concentrated.joint_divergence)(2.0, means) == pytest.approx(expected)


def test_statements_say_what_they_must():
    for name, statement in STATEMENTS.items():
        assert statement.name == name
        assert f"{{{statement.paper}," in BIBLIOGRAPHY
        assert statement.says.endswith(".")
        assert statement.refuted_by.endswith(".")


# --- the rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome(0.0, "", ""), "holds"),
        (Outcome(ROUNDING, "", "", tightness=LOOSE_BELOW), "holds"),
        (Outcome(-1.0, "", "", tightness=LOOSE_BELOW - 1e-6), "holds, loose"),
        (Outcome(2 * ROUNDING, "", "", tightness=0.1), "refuted"),
        (Outcome(1e-3, "", "", tolerance=1e-2), "holds"),
        (Outcome(1.0, "", "", corrected=-1.0), "corrected"),
        (Outcome(1.0, "", "", corrected=1e-3), "refuted"),
        (Outcome(float("nan"), "", ""), "refuted"),
    ],
)
def test_the_verdict_follows_from_the_numbers(outcome, verdict):
    assert outcome.verdict == verdict


# --- the search -------------------------------------------------------------------------------


def test_the_search_climbs_to_a_maximum_that_no_draw_reaches():
    def sides(x):
        return jnp.exp(-jnp.sum((x - 3.0) ** 2)), jnp.ones(())

    def draw(rng, n):
        return rng.uniform(0, 1, (n, 4))

    drawn = search.search(sides, draw, climbers=4, steps=0)
    climbed = search.search(sides, draw, climbers=4, steps=300)
    assert drawn.ratio < 1e-6
    assert climbed.ratio == pytest.approx(1, abs=1e-4)
    assert climbed.case == pytest.approx(np.full(4, 3.0), abs=0.01)
    assert climbed.worst == pytest.approx(climbed.ratio - 1)


def test_the_search_repeats_itself_and_leaves_single_precision_alone():
    def sides(x):
        return jnp.sum(x**2), 1 + jnp.sum(jnp.abs(x))

    once, again = (
        search.search(sides, lambda rng, n: rng.normal(size=(n, 2)), cases=16, climbers=2, steps=5)
        for _ in range(2)
    )
    assert once.ratio == again.ratio
    assert once.case.dtype == np.float64
    assert jnp.ones(()).dtype == jnp.float32


def test_what_is_not_a_number_is_no_counterexample():
    def sides(x):
        return jnp.where(x > 0, jnp.nan, 0.5), jnp.ones(())

    found = search.search(sides, lambda rng, n: rng.normal(size=n), climbers=4, steps=3)
    assert found.ratio == 0.5
    assert found.worst == -0.5


def test_the_box_search_stays_in_its_box_and_refines():
    seen = []

    def sides(x, y):
        seen.append((x, y))
        return math.exp(-((math.log(x) - 1) ** 2) - math.log(y) ** 2), 1.0

    box = {"x": (1.0, 10.0), "y": (0.5, 5.0)}
    few = search.search_box(sides, box, cases=20, refinements=0)
    more = search.search_box(sides, box, cases=20, refinements=80)
    assert few.ratio < more.ratio <= 1
    assert more.ratio == pytest.approx(1, abs=1e-6)
    assert all(1 <= x <= 10 + 1e-9 and 0.5 - 1e-9 <= y <= 5 + 1e-9 for x, y in seen)


# --- helper mathematics against closed forms --------------------------------------------------


def test_the_nearest_to_relu_is_a_straight_line_a_quarter_away():
    """By symmetry no member is nearer on [-1, 1]; scipy finds none either, o and bias included."""
    x = np.linspace(-1, 1, 201)

    def distance(point, shifted):
        log_scale, log_temperature, offset, bias = point
        z = np.exp(log_temperature) * (x + bias * shifted)
        return np.abs(np.exp(log_scale) / (1 + np.exp(-z)) - offset - np.maximum(x, 0)).max()

    for shifted in (False, True):
        starts = np.random.default_rng(0).normal([2, 0, 0, 0], size=(8, 4))
        best = min(
            optimize.minimize(distance, start, (shifted,), method="Nelder-Mead").fun
            for start in starts
        )
        found = 1 / family.nearest_to_relu(-1.0, shifted=shifted).ratio
        assert found <= best + 1e-6
        assert (found >= 0.25 - 1e-9) is (not shifted)


def test_a_bias_can_fall_as_the_temperature_rises_in_one_dimension():
    """The counterexample without the machinery: three points, a clipped optimum by a fine grid."""
    points, shares = np.array([0.0675, -0.2451, 0.426]), np.array([0.115, 0.489, 0.396])
    theta = np.linspace(-2.9, 2.9, 200_001)

    def bias(temperature, clip=0.184):
        margins = temperature * np.outer(points, theta)
        slopes = temperature / (1 + np.exp(margins))
        clipped = np.minimum(slopes * np.abs(points)[:, None], clip) * np.sign(points)[:, None]
        loss = shares @ np.logaddexp(0, -margins)
        end = np.searchsorted(-(shares @ clipped), 0)
        return loss[min(end, len(theta) - 1)] - loss.min()

    assert bias(3.5) > 5 * bias(4.9) > 0


def test_the_surrogate_is_the_integral_of_the_clipped_slope():
    """For one example the surrogate is what integrating min(σ(-m), C/|z|) over margins gives."""
    z, clip_norm = np.array([0.6, 0.8]), 0.3

    def slope(margin):
        return min(1 / (1 + math.exp(margin)), clip_norm)

    for margin in (-4.0, -1.0, 0.5, 3.0):
        expected = integrate.quad(slope, margin, 60, points=[math.log(1 / clip_norm - 1)])[0]
        found = search.in_double(clipped_fields.surrogate)(margin * z, z, clip_norm)
        assert found == pytest.approx(expected, abs=1e-7)


def test_circulation_and_asymmetry_of_a_rotation_and_of_a_gradient():
    loop = (np.zeros(2), np.array([2.0, 0.0]), np.array([0.0, 2.0]))
    rotation, radial, shear = (
        np.array(matrix) for matrix in ([[0, -1], [1, 0]], [[2, 0.5], [0.5, 1]], [[1, 1], [0, 1]])
    )

    @search.in_double
    def both(matrix):
        field = partial(jnp.matmul, matrix)
        return clipped_fields.circulation(field, *loop), clipped_fields.asymmetry(field, loop[0])

    assert both(rotation)[0] == pytest.approx(1)
    assert both(radial) == pytest.approx((0, 0), abs=1e-12)
    # |J - Jᵀ| = √2 and |J + Jᵀ| = √10.
    assert both(shear)[1] == pytest.approx(0.2**0.5)


def test_clipped_gradient_is_each_example_s_own_clipped():
    rng = np.random.default_rng(1)
    points, theta, shares = rng.normal(size=(5, 3)), rng.normal(size=3), np.full(5, 0.2)
    slopes = -2 / (1 + np.exp(2 * points @ theta))
    rows = oracles.clipped(slopes[:, None] * points, 0.4)
    problem = clipping_bias.Problem(points, shares, np.array(2.0), np.array(0.4))
    found = search.in_double(clipping_bias.clipped_gradient)(theta, problem)
    assert found == pytest.approx(rows.mean(axis=0))


def test_descent_and_root_end_at_the_minimum_of_the_surrogate():
    """In one dimension: where SciPy finds the least integral of the clipped gradients."""
    points = np.array([[1.0], [0.3], [-0.9]])
    shares, temperature, clip_norm = np.full(3, 1 / 3), np.array(3.0), np.array(0.5)
    problem = clipping_bias.Problem(points, shares, temperature, clip_norm)

    def slope(theta):
        scores = 3 / (1 + np.exp(3 * points[:, 0] * theta))
        return -np.mean(np.clip(scores * points[:, 0], -0.5, 0.5))

    expected = optimize.brentq(slope, -5, 5)
    centre, radius = np.zeros(1), np.array(5.0)
    end = search.in_double(clipping_bias.descend)(problem, centre, radius)
    assert end[0] == pytest.approx(expected, abs=1e-4)
    root = search.in_double(lambda p: clipping_bias._root(lambda u: _slope(5 * u, p)))(problem)
    assert 5 * root == pytest.approx(expected, abs=1e-6)


def test_several_classes_descend_to_where_their_clipped_gradients_lead_out_of_the_ball():
    """Gradients by their formula in numpy, clipped by the oracle."""
    rng = np.random.default_rng(2)
    points, labels = rng.normal(size=(9, 2)), np.arange(9) % 3
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1)
    problem = multiclass_bias.Problem(
        points, np.array(3.0), np.array(0.3), np.zeros(6), np.array(1.0)
    )

    def clipped(theta):
        logits = 3 * points @ theta.T
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        rows = 3 * (shares - np.eye(3)[labels])[:, :, None] * points[:, None]
        return oracles.clipped(rows.reshape(9, -1), 0.3)

    start = rng.normal(size=6) / 10
    moved = search.in_double(multiclass_bias.step)(start, problem)
    assert moved == pytest.approx(start - 2 / 9 * clipped(start.reshape(3, 2)).mean(axis=0))
    end = search.in_double(multiclass_bias.descend)(problem)
    rows = clipped(end.reshape(3, 2))
    assert np.isclose(np.linalg.norm(rows, axis=1), 0.3).sum() == 8  # All but one are clipped.
    downhill = -rows.mean(axis=0)
    assert end == pytest.approx(downhill / np.linalg.norm(downhill), abs=1e-6)


def _slope(theta, problem):
    return clipping_bias.clipped_gradient(theta[None], problem)[0]


def test_drawn_delta_is_that_of_a_plain_gaussian():
    """Without sampling, δ(ε) is known (Corollary 2.13 of Gaussian differential privacy)."""
    case = sampled_gaussian.CASES[0]
    assert case.sampling_probability == 1
    estimate, error = sampled_gaussian.estimated_delta(case, 1.5)
    assert abs(estimate - conversions.gdp_delta(1 / case.noise_multiplier, 1.5)) < 5 * error
    assert error < 1e-3


@pytest.mark.parametrize("order", [1.5, 7.0])
def test_integrated_divergence_of_gaussians(order):
    assert concentrated._divergence(order, 0.7, 1.3) == pytest.approx(order * 0.49 / (2 * 1.69))


def test_cross_entropy_falls_like_one_over_t_and_sse_by_its_eigenvalues():
    """One example a class in orthogonal directions: SSE then has one rate for each eigenvalue."""
    data = np.diag([2.0, 1.0, 1.5, 1.0, 1.0, 1.0])
    found = search.in_double(lambda x: convergence.descend(convergence.sse, x, 8))(data)
    squares = np.diag(data) ** 2
    steps = np.arange(8)[:, None]
    expected = np.sum((1 - squares / squares.max()) ** (2 * steps), axis=1) / 12
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "shape", [*convolution_sensitivity.PADDED, *convolution_sensitivity.COPYING], ids=str
)
def test_kernel_gradient_is_the_sum_of_patches(shape):
    rng = np.random.default_rng(2)
    image = rng.normal(size=(shape.image, shape.image, shape.inputs))
    upstream = rng.normal(size=(shape.positions, shape.positions, shape.outputs))
    edge = (shape.padding, shape.padding)
    padded = np.pad(image, (edge, edge, (0, 0)), mode=shape.mode)
    expected = np.zeros((shape.kernel, shape.kernel, shape.inputs, shape.outputs))
    for i in range(shape.positions):
        for j in range(shape.positions):
            top, left = i * shape.stride, j * shape.stride
            patch = padded[top : top + shape.kernel, left : left + shape.kernel]
            expected += patch[..., None] * upstream[i, j]
    found = search.in_double(shape.kernel_gradient)(image, upstream)
    assert found == pytest.approx(expected)


def test_the_norm_of_a_padding_is_the_root_of_how_often_a_pixel_is_copied():
    zeros, wrap = convolution_sensitivity.PADDED
    assert convolution_sensitivity.padding_norm(zeros) == pytest.approx(1)
    assert convolution_sensitivity.padding_norm(wrap) == pytest.approx(2)
    for shape in convolution_sensitivity.COPYING:
        assert convolution_sensitivity.padding_norm(shape) == pytest.approx(2)


def test_the_norm_of_a_wrapped_convolution_is_that_of_its_fourier_transform():
    shape = convolution_sensitivity.Shape(5, 3, 1, 1, 1, 1, "wrap")
    kernel = np.random.default_rng(3).normal(size=(3, 3, 1, 1))
    expected = np.abs(np.fft.fft2(kernel[..., 0, 0], (5, 5))).max()
    norm = search.in_double(partial(convolution_sensitivity.matrix_norm, shape))(kernel)
    assert norm == pytest.approx(expected)


def test_losing_less_gradient_is_that_of_finite_differences():
    case = jax.tree.map(lambda x: x[0], losing_less.small_network(np.random.default_rng(4), 1))
    found = search.in_double(losing_less.corrected_backpropagation)(case)

    def loss(matrix):
        logits = case["W"] @ np.tanh(matrix.reshape(3, 3) @ case["a"])
        return np.logaddexp.reduce(logits) - logits[0]

    expected = optimize.approx_fprime(case["V"].ravel(), loss, 1e-7).reshape(3, 3)
    assert found == pytest.approx(expected, abs=1e-5)


# --- on the command line ----------------------------------------------------------------------

QUICK = ("tanh-equation", "sse-as-a-norm")


def dpstudy(*arguments):
    return CliRunner().invoke(cli.main, ["theorems", *arguments], prog_name="dpstudy")


def test_names_of_statements_are_listed():
    assert dpstudy("--list").stdout.split() == list(STATEMENTS)


def test_the_command_prints_a_line_a_statement():
    done = dpstudy(*QUICK)
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()
    assert first.startswith("misprint") and "tanh-equation: The printed formula" in first
    assert second.startswith("misprint") and "sse-as-a-norm: The two sides" in second


def test_the_command_stores_what_it_found(results):
    done = dpstudy(*QUICK, "--json", "--store")
    assert done.exit_code == 0
    stored, errors = records.read_all(records.folder("theorems"), "theorems")
    assert not errors
    assert set(stored) == set(QUICK)
    for row in json.loads(done.stdout):
        kept = stored[row["statement"]]
        assert {"packages", "python", "device", "commit"} <= set(kept.pop("provenance"))
        assert kept == row
        assert row["verdict"] == EXPECTED[row["statement"]]


def test_what_cannot_be_stored_is_said_before_anything_is_searched(results):
    records.folder("theorems").parent.mkdir()
    records.folder("theorems").write_text("a file")
    done = dpstudy(*QUICK, "--store")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"dpstudy: could not store in {records.folder('theorems')}: File exists\n"


def test_an_unknown_name_is_one_line_that_lists_the_names():
    done = dpstudy("bogus")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("dpstudy: unknown statement 'bogus'; one of: t")
    with pytest.raises(UserError, match="smoothness"):
        find("bogus")


@pytest.mark.parametrize(("epsilon", "shift"), [(0.5, 0.3), (3.0, 0.74), (6.0, 1.5), (1.0, 4.0)])
def test_the_gaussian_mechanism_s_delta_is_an_integral(epsilon, shift):
    def beyond(x):
        density = math.exp(-((x - shift) ** 2) / 2) - math.exp(epsilon - x**2 / 2)
        return max(density, 0) / math.sqrt(2 * math.pi)

    # The first density is the larger from here on.
    begin = epsilon / shift + shift / 2
    expected, _ = integrate.quad(beyond, begin, begin + 40, epsabs=1e-14)
    found = conversions.gdp_delta(shift, epsilon)
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_delta_that_grows_by_the_number_of_records_alone_is_refuted():
    assert group_privacy.approximate(lambda epsilon, records: records).worst > 0.5
    sums = group_privacy.geometric(np.float64(2.0), 3)
    assert sums == pytest.approx(1 + math.exp(2) + math.exp(4))
