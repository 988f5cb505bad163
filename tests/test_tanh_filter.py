"""The tanh filter, as published and made sound, against vmap(grad) number by number."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from results_for_tests import NARROW, TINY, figures_in, spent_by, sum_by
from test_backpropagation_clipping import images

from dpstudy.gradients import per_example
from dpstudy.parts.measure import BoundedNorms, Examples
from dpstudy.parts.mechanism import AutomaticClipping, FlatClipping
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run, vary
from dpstudy.privacy.run_epsilon import epsilon_curve
from dpstudy.training import loop
from under_the_clip.tanh_filter.experiments import AT_EQUAL_EPSILON, MECHANISMS, PARAMETERS
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped, FilteredToNorm, TanhFilter

RUN = vary(Run(mechanism=TanhFilter()), **TINY)
MASK = jnp.array([1.0, 0.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def step():
    """A network whose gradients are long enough to be filtered, and four examples."""
    params = jax.tree.map(lambda x: 3 * x, RUN.network.initial(jax.random.key(0)))
    return params, *images(4)


@pytest.fixture(scope="module")
def each(step):
    """The examples' gradients, flat, by vmap(grad)."""
    network = RUN.network.graph(), RUN.losses(jnp.float32(1))
    written = oracles.quick_jit(
        lambda *step: per_example.by_vmap(*network, *step)[1].written_out()
    )(*step)
    return oracles.flat(written)


def test_norms_of_what_examples_add_are_counted(step, each):
    params, pixels, labels = step
    snapshot = RUN.snapshot(params, jnp.float32(0), Examples(pixels, labels))
    found = oracles.quick_jit(lambda: BoundedNorms()(snapshot))()
    norms = np.linalg.norm(np.tanh(each), axis=1)
    expected, _ = np.histogram(norms, np.logspace(-3, 3, 61))
    assert found["counts"].tolist() == expected.tolist()
    assert found["largest"] == pytest.approx(norms.max(), rel=1e-4)
    assert norms.max() > 1


def to_norm(rows):
    return 2 * rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 0.3)


CASES = {
    TanhFilter(): np.tanh,
    TanhFilter(output_range=3.0, active_range=0.5): lambda g: 3 * np.tanh(g / 0.5),
    FilteredThenClipped(active_range=0.5, clip_norm=2.0): lambda g: oracles.clipped(
        np.tanh(g / 0.5), 2.0
    ),
    FilteredToNorm(active_range=0.5, clip_norm=2.0, stability=0.3): lambda g: to_norm(
        np.tanh(g / 0.5)
    ),
    AutomaticClipping(clip_norm=2.0, stability=0.3): to_norm,
}


@pytest.mark.parametrize("mechanism", CASES, ids=lambda m: f"{m.kind}")
def test_a_sum_is_that_of_each_example_filtered_by_itself(step, each, mechanism):
    total, seen = sum_by(RUN)(mechanism, *step, MASK)
    expected = MASK @ CASES[mechanism](each)
    np.testing.assert_allclose(oracles.flat_sum(total), expected, rtol=2e-4, atol=2e-5)
    assert float(seen.examples) == 3


@pytest.mark.usefixtures("of_the_study")
def test_the_code_in_the_chapter_is_what_was_trained(step, each):
    page = figures_in("05_tanh_filter")
    shown = {
        FlatClipping(clip_norm=0.5): lambda g: page.clip(g, C=0.5),
        TanhFilter(output_range=3.0, active_range=0.5): lambda g: page.tanh_filter(g, 3.0, 0.5),
        FilteredThenClipped(active_range=0.5, clip_norm=2.0): lambda g: page.clip(
            page.tanh_filter(g, k=0.5), 2.0
        ),
    }
    counted = jnp.asarray(each)[MASK == 1]
    for mechanism, bounded in shown.items():
        total, _ = sum_by(RUN)(mechanism, *step, MASK)
        ours = page.noisy_sum(counted, bounded, 0.0, jax.random.key(0))
        np.testing.assert_allclose(oracles.flat_sum(total), ours, rtol=2e-4, atol=2e-5)


def test_the_published_filter_claims_1_and_is_proven_for_root_n(step):
    published = TanhFilter(output_range=2.0)
    assert published.claimed_noise_over_sensitivity == 1.1
    assert published.noise_over_sensitivity == pytest.approx(1.1 / (2 * 26_010**0.5))
    assert {float(s) for s in jax.tree.leaves(published.noise(step[0]))} == {1.1}
    with pytest.raises(SpecError, match="the network has 26010 parameters, and the filter 7"):
        replace(published, parameters=7).noise(step[0])


def test_the_claimed_epsilon_is_that_of_dp_sgd_with_the_same_noise():
    run = vary(Run(mechanism=TanhFilter()), batch=256, epochs=10)
    spent = {k: v[0] for k, v in epsilon_curve(run, [10 * run.steps_per_epoch]).items()}
    claimed = spent_by(vary(run, mechanism=FlatClipping(noise_multiplier=1.1)), "rdp-2019")
    assert spent["claimed-rdp-2019"] == pytest.approx(claimed, rel=1e-5)
    assert spent["pld"] is None or spent["pld"] > 1000 * claimed


@pytest.mark.smoke
def test_it_trains():
    run = vary(RUN, mechanism=FilteredThenClipped(noise_multiplier=0.5), width=NARROW)
    looks = [look[0] for look, _ in loop.train([run], run.dataset.load(), 100)]
    assert looks[-1].row["test_loss"] != looks[0].row["test_loss"]


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_point_of_the_search_truly_costs_an_epsilon_of_3(name):
    for number in ("01", "16"):
        [run] = AT_EQUAL_EPSILON.variants[f"{name}, {number}"]
        assert 0.999 * 3 < spent_by(run) <= 3.0001


@pytest.mark.parametrize("network", PARAMETERS, ids=repr)
def test_the_networks_have_the_parameters_that_the_filter_counts(network):
    assert PARAMETERS[network] == sum(leaf.size for leaf in jax.tree.leaves(network.shapes()))
