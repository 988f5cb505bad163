"""Scattering features are computed once, kept whole or not at all, and normalised: by example, or
by released statistics, whose sums an example moves by its bound at most, with noise as stated."""

import builtins
import errno
import hashlib
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpstudy.errors import DataError
from dpstudy.parts.data import released_statistics as released
from dpstudy.parts.data import scattering
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.images import Dataset
from dpstudy.parts.data.scattering import COEFFICIENTS, Scattering, features, file_of

pytestmark = pytest.mark.usefixtures("compiled_in_haste")

# Images to train and to test on whose scattering is compiled once.
FEW = (4, 4)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dpstudy"


def dataset(colours=1, train=5, test=3):
    draw = np.random.default_rng(0)
    size = 28 if colours == 1 else 32
    pixels = draw.integers(0, 256, (train + test, size, size, colours), dtype=np.uint8)
    labels = np.arange(train + test, dtype=np.uint8) % 10
    fingerprint = hashlib.sha256(pixels).hexdigest()
    return Dataset(
        "noise", pixels[:train], labels[:train], pixels[train:], labels[train:], fingerprint
    )


@pytest.fixture
def counted(monkeypatch):
    """Instead of scattering, the mean of an image in every channel; and how often that was done."""
    calls = []

    def transform(image_shape):
        shape = scattering.shape_of(image_shape)

        def of(pixels):
            calls.append(len(pixels))
            mean = pixels.mean((1, 2, 3)).astype(np.float16)
            return np.broadcast_to(mean[:, None, None, None], (len(pixels), *shape))

        return of

    monkeypatch.setattr(scattering, "transform_of", transform)
    return calls


def refusal(act) -> str:
    with pytest.raises(DataError) as caught:
        act()
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(("colours", "shape"), [(1, (7, 7, 81)), (3, (8, 8, 243))])
def test_features_are_those_of_kymatio_in_numpy_colour_by_colour(colours, shape):
    from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D

    data = dataset(colours, *FEW)
    train, test = features(data)
    assert (train.shape, test.shape) == ((4, *shape), (4, *shape))
    assert train.dtype == test.dtype == np.float16
    pixels = np.concatenate([data.train_images, data.test_images]) / 255
    by_hand = ScatteringNumPy2D(J=2, shape=pixels.shape[1:3], L=8)
    for colour in range(colours):
        expected = np.moveaxis(by_hand(np.ascontiguousarray(pixels[..., colour])), 1, -1)
        found = np.concatenate([train, test])[..., COEFFICIENTS * colour :][..., :COEFFICIENTS]
        np.testing.assert_allclose(found, expected, rtol=2**-10, atol=1e-5)


def test_features_are_computed_once_a_dataset_and_are_read_only(counted, cache, capsys):
    for data in (dataset(), dataset(), dataset(3), dataset()):
        for found, pixels in zip(
            features(data), (data.train_images, data.test_images), strict=True
        ):
            np.testing.assert_array_equal(found[:, 3, 3, 80], np.float16(pixels.mean((1, 2, 3))))
            with pytest.raises(ValueError, match="read-only"):
                found[0, 0, 0, 0] = 1
    assert counted == [5, 3, 5, 3]
    assert "scattering of noise" in capsys.readouterr().err
    assert len(list(cache.rglob("*.*"))) == 2


DAMAGES = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[:-7],
    "cut in its header": lambda content: content[:9],
    "another format": lambda content: b"PK\x03\x04" + content,
    "a bit of its header flipped": lambda content: content.replace(b"), }", b"), |"),
    "its shape enlarged": lambda content: content.replace(b"(8, 7, 7, 81)", b"(8, 7, 9**9 ,"),
    "a number altered": lambda content: content[:3_000] + b"\xff\xff" + content[3_002:],
    "of another shape": lambda content: content.replace(b"(8, 7, 7, 81)", b"(7, 8, 7, 81)"),
    "of another type": lambda content: content.replace(b"'<f2'", b"'<i2'"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_computed_again(counted, damage):
    whole = [np.array(part) for part in features(dataset())]
    path = file_of(dataset())
    content = path.read_bytes()
    assert damage(content) != content
    path.write_bytes(damage(content))
    for found, expected in zip(features(dataset()), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert path.read_bytes() == content
    assert counted == [5, 3] * 2


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), DataError),
    ],
)
def test_what_stops_the_computation_leaves_no_file_behind(
    failure, raised, counted, monkeypatch, cache
):
    whole = scattering.of_each_image

    def stopping(*how):
        yield next(whole(*how))
        raise failure

    monkeypatch.setattr(scattering, "of_each_image", stopping)
    with pytest.raises(raised) as caught:
        features(dataset())
    assert not list(cache.rglob("*.*"))
    if raised is DataError:
        line = f"{file_of(dataset())}: cannot be written (No space left on device); make room, or"
        assert str(caught.value).startswith(line)


def test_a_file_that_cannot_be_read_is_one_line_that_names_it(counted):
    path = file_of(dataset())
    path.mkdir(parents=True)
    line = refusal(lambda: features(dataset()))
    assert line.startswith(str(path)) and "delete it" in line


def test_without_kymatio_one_line_says_what_to_install(monkeypatch, cache):
    within = builtins.__import__

    def without(name, *rest):
        if name.startswith("kymatio"):
            raise ImportError(f"No module named {name!r}")
        return within(name, *rest)

    scattering.transform_of.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    line = refusal(lambda: features(dataset()))
    assert "pip install kymatio" in line and str(cache) in line
    assert not list(cache.rglob("*.*"))


@pytest.mark.parametrize(("colours", "groups"), [(1, 27), (3, 27), (3, 9), (1, 81)])
def test_each_example_is_normalised_in_groups_of_neighbouring_channels(colours, groups):
    x = np.random.default_rng(0).uniform(0, 0.01, (2, 4, 5, 81 * colours)).astype(np.float16)
    x[0, ..., :6] = 0.25  # a flat group stays finite
    found = np.asarray(Scattering(groups=groups).prepare(jnp.asarray(x)))
    assert found.dtype == np.float32
    size = 81 // groups
    for example in range(2):
        for first in range(0, 81 * colours, size):
            group = np.float64(x[example, ..., first : first + size])
            expected = (group - group.mean()) / np.sqrt(group.var() + 1e-5)
            np.testing.assert_allclose(
                found[example, ..., first : first + size], expected, atol=1e-5
            )


def test_without_groups_features_are_as_stored():
    x = np.random.default_rng(0).uniform(size=(2, 7, 7, 81)).astype(np.float16)
    np.testing.assert_array_equal(Scattering(groups=0).prepare(jnp.asarray(x)), np.float32(x))


def test_the_dataset_has_the_labels_of_its_images_and_the_same_held_out(counted):
    for held_out in (0, 1_000):
        pixels, found = (part("mnist-5k", held_out=held_out) for part in (Images, Scattering))
        assert found.examples == pixels.examples
        expected, loaded = pixels.load(), found.load()
        assert loaded.fingerprint == expected.fingerprint
        for one, other in (
            (loaded.train_labels, expected.train_labels),
            (loaded.test_labels, expected.test_labels),
            (loaded.train_images[:, 0, 0, 0], np.float16(expected.train_images.mean((1, 2, 3)))),
            (loaded.test_images[:, 0, 0, 0], np.float16(expected.test_images.mean((1, 2, 3)))),
        ):
            np.testing.assert_array_equal(one, other)
        assert loaded.train_images.shape[1:] == found.image_shape
    assert sum(counted) == 5_000


def test_what_is_released_is_of_the_training_examples_alone(counted, monkeypatch):
    bounds = (100.0, 20_000.0)
    monkeypatch.setattr(scattering, "public_bounds", lambda shape: bounds)
    one = Scattering("mnist-5k", groups=0, released=8.0, held_out=1_000)
    raw, found = replace(one, released=0.0).load(), one.load()
    by = released.release(raw.train_images, 8.0, bounds)
    np.testing.assert_array_equal(found.train_images, released.normalised(raw.train_images, by))
    np.testing.assert_array_equal(found.test_images, released.normalised(raw.test_images, by))
    assert found.train_images.dtype == found.test_images.dtype == np.float16
    np.testing.assert_array_equal(one.prepare(found.test_images[:3]), found.test_images[:3])


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_the_bounds_of_what_is_released_are_those_of_synthetic_images(shape, monkeypatch):
    """Found with no dataset at hand; positive, and below what white pixels have: 1 a colour."""
    monkeypatch.setattr(scattering, "_SYNTHETIC", FEW[0])
    for bound in scattering.public_bounds.__wrapped__(shape):
        assert 0 < bound < np.sqrt(shape[-1])


BOUNDS = (0.5, 0.25)


def drawn_features(count=1_500, seed=0):
    draw = np.random.default_rng(seed)
    return draw.gamma(0.5, [0.1, 1.0, 3.0], (count, 2, 4, 3)).astype(np.float16)


def sums(few):
    return released.bounded_sums(few, released.means_and_squares, BOUNDS)


examples = hnp.arrays(
    np.float16,
    (2, 4, 3),
    elements=st.floats(-200, 200, width=16, allow_subnormal=False) | st.floats(width=16),
)


@settings(max_examples=200)
@given(one=examples)
def test_an_example_more_moves_each_sum_by_at_most_its_bound(one):
    few = drawn_features(20)
    before = sums(few)
    after = sums(np.concatenate([few, one[None]]))
    for old, new, bound in zip(before, after, BOUNDS, strict=True):
        assert np.linalg.norm(new - old) <= bound * (1 + 1e-9)


@settings(max_examples=100)
@given(one=hnp.arrays(np.float16, 6, elements=st.floats(width=16)))
def test_an_example_more_moves_the_sum_of_a_mean_by_at_most_one(one):
    few = np.float16(np.random.default_rng(0).normal(size=(9, 6)))
    before, after = few, np.concatenate([few, one[None]])
    sums = [len(some) * released.release_mean(some, 2.0, 0) for some in (before, after)]
    assert np.linalg.norm(sums[1] - sums[0]) <= 1 + 1e-9


def test_the_sensitivity_is_attained():
    none, one = np.zeros((0, 2, 4, 3), np.float16), np.full((1, 2, 4, 3), 9, np.float16)
    for total, bound in zip(sums(one), BOUNDS, strict=True):
        assert np.linalg.norm(total) == pytest.approx(bound)
    assert not np.any(sums(none))


def test_without_noise_and_bounds_they_are_mean_and_variance():
    found = released.release(drawn_features(), 0.0, (1e9, 1e9))
    flat = np.float64(drawn_features()).reshape(-1, 3)
    np.testing.assert_allclose(found.mean, flat.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.variance, flat.var(0), rtol=1e-7)


def test_the_noise_is_the_multiplier_times_the_bound_over_the_number_of_examples():
    few = drawn_features(100)
    exact = sums(few)
    drawn = [released.release(few, 8.0, BOUNDS, seed) for seed in range(2_000)]
    means = np.array([one.mean for one in drawn])
    np.testing.assert_allclose(means.std(0), 8.0 * BOUNDS[0] / 100, rtol=0.1)
    np.testing.assert_allclose(means.mean(0), exact[0] / 100, atol=0.004)
    # The noise of the squares is drawn apart from that of the means.
    squares = np.array([one.variance + one.mean**2 for one in drawn if one.variance.all()])
    np.testing.assert_allclose(squares[:, 2].std(), 8.0 * BOUNDS[1] / 100, rtol=0.15)
    assert all((one.variance >= 0).all() for one in drawn)


def test_features_are_normalised_by_what_was_released():
    by = released.Statistics(np.array([0.1, 0.5, 2.0]), np.array([0.0, 1.0, 4.0]))
    expected = (np.float64(drawn_features()) - by.mean) / np.sqrt(by.variance + 1e-5)
    np.testing.assert_allclose(
        released.normalised(drawn_features(), by), expected, rtol=2e-3, atol=1e-4
    )
