"""Noise and batches of the operating system: of the right distribution, and never the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpstudy.parts.sampling import capacity_for
from dpstudy.privacy import secure
from dpstudy.recipe import head


@pytest.fixture
def counted(monkeypatch):
    """Bytes that follow from a count, in the place of secret ones: no test fails by chance."""
    draw = np.random.default_rng(3)
    monkeypatch.setattr("os.urandom", lambda count: draw.bytes(count))


def test_normals_are_standard_and_independent(counted):
    found = secure.normal((200_000,))
    assert stats.kstest(found, "norm").pvalue > 0.01
    moments = [np.mean(found**k) for k in (1, 2, 3, 4, 6)]
    assert moments == pytest.approx([0, 1, 0, 3, 15], abs=0.4)
    assert moments[1] == pytest.approx(1, abs=0.01)
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.01
    # Beyond three deviations: what a generator with too few bits has none of.
    assert np.mean(abs(found) > 3) == pytest.approx(2 * stats.norm.sf(3), rel=0.15)


def test_a_normal_is_the_sum_of_four_over_two(monkeypatch):
    radii, angles = [0.5, 0.25, 0.125, 1.0], [1.0, 0.5, 0.25, 0.125]
    drawn = iter((np.array(radii), np.array(angles)))
    monkeypatch.setattr(secure, "uniform", lambda count: next(drawn))
    each = [np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v) for u, v in zip(radii, angles)]  # noqa: B905
    assert secure.normal((1,)) == pytest.approx([sum(each) / 2])


@pytest.mark.parametrize(("byte", "number"), [(b"\x00", 2.0**-53), (b"\xff", 1.0)])
def test_uniform_numbers_end_where_a_logarithm_still_is_one(byte, number, monkeypatch):
    monkeypatch.setattr("os.urandom", lambda count: byte * count)
    assert secure.uniform(2).tolist() == [number, number]


def test_each_example_is_kept_with_the_stated_probability(counted):
    draws = [secure.poisson(400, 100) for _ in range(2_000)]
    counts = np.array([int(draw.count) for draw in draws])
    kept = np.zeros(400)
    for draw in draws:
        np.add.at(kept, np.asarray(draw.indices)[: int(draw.count)], 1)
    assert counts.mean() == pytest.approx(100, abs=4 * np.sqrt(75 / 2_000))
    assert counts.var() == pytest.approx(75, rel=0.15)
    # Of 400 binomials none is far off.
    assert abs(kept / 2_000 - 0.25).max() < 5 * np.sqrt(0.1875 / 2_000)
    assert len(draws[0].indices) == capacity_for(400, 100)
    assert not any(bool(draw.overflow) for draw in draws)


def test_the_threshold_of_a_draw_is_rounded_down(monkeypatch):
    third = (1 << 64) // 3
    words = np.array([third - 1, third, third + 1], np.uint64)
    monkeypatch.setattr("os.urandom", lambda count: words.tobytes())
    assert int(secure.poisson(3, 1).count) == 1  # at most a third, never more


def test_a_draw_beyond_its_room_is_told(monkeypatch):
    monkeypatch.setattr("os.urandom", lambda count: bytes(count))
    assert bool(secure.poisson(10_000, 10).overflow)


def test_noise_is_added_to_each_number_in_double_precision_and_rounded_once(monkeypatch):
    exact = np.array([1 + 2.0**-30, 1e-9])
    monkeypatch.setattr(secure, "normal", lambda shape: exact)
    noise = secure.gaussian_noise(1.0)
    noisy, _ = noise.update(jnp.array([1.0, 1.0], jnp.float32), noise.init(None))
    assert noisy.dtype == jnp.float32
    assert noisy.tolist() == np.float32(1 + exact).tolist()


def test_secure_noise_is_not_compiled_into_a_constant():
    noise = secure.gaussian_noise(1.0)
    with pytest.raises(ValueError, match="drawn outside"):
        jax.jit(lambda x: noise.update(x, noise.init(None))[0])(jnp.zeros(2))


@pytest.mark.parametrize("make", [head.Seeded, head.Secure], ids=["seeded", "secure"])
def test_noise_and_batches_of_a_training_are_right_and_others_each_time(make):
    one, other = make(), make()
    std, total = 0.5, jnp.zeros((100, 100))
    drawn = []
    for randomness in (one, other):
        noise = randomness.noise(std)
        first, state = noise.update(total, noise.init(total))
        second, _ = noise.update(total, state)
        drawn += [np.ravel(first), np.ravel(second)]
        assert randomness.normal(5_000).std() == pytest.approx(1, abs=0.06)
    for found in drawn:
        # Whatever is drawn this fails once in a hundred million times.
        assert stats.kstest(found / std, "norm").pvalue > 1e-8
        assert found.std() == pytest.approx(std, rel=0.05)
    assert max(abs(np.corrcoef(drawn)[np.triu_indices(4, 1)])) < 0.06
    steps = [tuple(np.asarray(r.poisson(t, 200, 50).indices)) for r in (one, other) for t in (0, 1)]
    assert len(set(steps)) == 4


def test_a_seed_that_is_given_draws_the_same_again():
    def drawn(seed):
        randomness = head.Seeded(seed)
        noise = randomness.noise(1.0)
        total = jnp.zeros(3)
        noisy, _ = noise.update(total, noise.init(total))
        return [*randomness.normal(2).tolist(), *noisy.tolist()]

    assert drawn(7) == drawn(7) != drawn(8)
