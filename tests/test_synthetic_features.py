"""Synthetic images, the features that are made of their patches, and the basis fitted to them."""

import shutil
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpstudy.gradients import devices
from dpstudy.parts.data import images, released_statistics, synthetic_images
from dpstudy.parts.data.scattering import Scattering, transform_of
from dpstudy.parts.mechanism import FlatClipping
from dpstudy.parts.networks.network import LinearHead
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run, stream, vary
from dpstudy.privacy.run_epsilon import epsilon_curve
from dpstudy.recipe import basis as synthetic_basis
from dpstudy.recipe import patch_features, whitened
from dpstudy.recipe.features import SyntheticFeatures, WhitenedScattering
from dpstudy.recipe.patch_features import deskewed
from dpstudy.recipe.views import View
from dpstudy.recipe.whitened import OWN

pytestmark = pytest.mark.usefixtures("compiled_in_haste")

SMALL = SyntheticFeatures("mnist-5k", "both", 120, 40, small=12, large=6)
GREY, COLOUR = (28, 28, 1), (32, 32, 3)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dpstudy" / "synthetic"


@pytest.fixture(scope="module", autouse=True)
def few_patches():
    """To choose filters among: as few as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patch_features, "PATCHES", 10_000)
        yield


@pytest.fixture(scope="module", autouse=True)
def few_digits():
    """A tenth of them: 400 to train on, 100 others."""
    whole = images.load("mnist-5k")
    names = ("train_images", "train_labels", "test_images", "test_labels")
    few = replace(whole, **{name: getattr(whole, name)[::10] for name in names})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "load", lambda _: few)
        yield


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The cache of a process that loaded `SMALL`."""
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        SMALL.load()
    return folder / "dpstudy" / "synthetic"


@pytest.fixture
def kept(cache, fitted):
    """A copy of it, in the place of the empty one."""
    return shutil.copytree(fitted, cache)


@pytest.mark.parametrize(
    ("scenes", "shape"), [("both", GREY), ("dead-leaves", COLOUR), ("noise", COLOUR)]
)
def test_images_follow_from_their_seed_and_differ(scenes, shape):
    one = synthetic_images.draw(scenes, 3, 60, shape)
    same, other = (synthetic_images.draw(scenes, seed, 5, shape) for seed in (3, 4))
    assert one.shape == (60, *shape) and one.dtype == np.uint8
    np.testing.assert_array_equal(one[:5], same)
    everything = np.concatenate([one, other]).reshape(65, -1)
    assert len(np.unique(everything, axis=0)) == 65


def spectrum_slope(found):
    """The exponent of power against frequency, over directions and images."""
    grey = found.mean(-1) - found.mean()
    power = np.abs(np.fft.fft2(grey)).mean(0) ** 2
    frequency = np.hypot(*np.meshgrid(*[np.fft.fftfreq(len(power))] * 2))
    among = (frequency > 0.05) & (frequency < 0.4)
    return np.polyfit(np.log(frequency[among]), np.log(power[among]), 1)[0]


def test_dead_leaves_have_the_spectrum_of_photographs_and_noise_has_none():
    leaves, noise = (
        spectrum_slope(synthetic_images.draw(name, 0, 200, COLOUR).astype(float))
        for name in ("dead-leaves", "noise")
    )
    assert -2.5 < leaves < -1.2
    assert abs(noise) < 0.2


def leaves(count=100, shape=GREY):
    return synthetic_images.draw("dead-leaves", 0, count, shape)


def test_filters_are_whitened_and_no_two_are_alike():
    found = np.asarray(patch_features.choose_filters(leaves(), 5, 20, np.random.default_rng(0)))
    assert found.shape == (5, 5, 1, 20)
    # Contrast normalisation takes the mean of a patch away: a filter has none to answer to.
    np.testing.assert_allclose(found.sum((0, 1, 2)), 0, atol=1e-3)


def test_more_filters_than_differ_are_refused():
    flat = np.zeros((10, 28, 28, 1), np.uint8)
    flat[:, :14] = 255
    with pytest.raises(SpecError, match=r"have \d+ filters of 5 x 5 .* and 5000 are wanted"):
        patch_features.choose_filters(flat, 5, 5000, np.random.default_rng(0))


def by_hand(image, banks, threshold, grids):
    """The features of one view, patch by patch."""
    found = []
    for bank in banks:
        side = bank.shape[0]
        height, width = (size - side + 1 for size in image.shape[:2])
        responses = np.empty((height, width, bank.shape[-1]))
        for i in range(height):
            for j in range(width):
                patch = image[i : i + side, j : j + side]
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + 10 / 255**2)
                responses[i, j] = np.tensordot(patch, bank, 3)
        for grid in grids:
            cuts = [[round(k * n / grid) for k in range(grid + 1)] for n in (height, width)]
            for top, bottom in pairwise(cuts[0]):
                for left, right in pairwise(cuts[1]):
                    region = responses[top:bottom, left:right]
                    for sign in (1, -1):
                        found.append(np.maximum(sign * region - threshold, 0).mean((0, 1)))
    return np.concatenate(found)


def test_the_weight_of_a_place_falls_to_nothing_at_the_middles_of_the_neighbours_of_its_region():
    [one, *four] = patch_features.regions((5, 4), (1, 2), overlapping=True)
    np.testing.assert_allclose(one, np.full(20, 1 / 20))
    # Middles at 1.25 and 3.75 of five rows, at 1 and 3 of four columns; places at halves.
    rows = np.array([0.7, 0.9, 0.5, 0.1, 0.0]), np.array([0.0, 0.1, 0.5, 0.9, 0.7])
    columns = np.array([0.75, 0.75, 0.25, 0.0]), np.array([0.0, 0.25, 0.75, 0.75])
    for found, (row, column) in zip(four, product(rows, columns), strict=True):
        weights = np.outer(row, column).ravel()
        np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "views", "grids"),
    [
        (GREY, (View(),), (3, 1)),
        (COLOUR, (View(), View(mirrored=True)), (3,)),
        # Only two are mirror images of each other.
        (GREY, (View(1.2, 9.0, mirrored=True), View(0.8), View(1.2, 9.0)), (2,)),
    ],
)
def test_features_are_those_computed_patch_by_patch(shape, views, grids):
    draw = np.random.default_rng(0)
    pixels = leaves(2, shape)
    banks = [draw.normal(size=(side, side, shape[-1], 4)).astype(np.float32) for side in (5, 8)]
    how = {"views": views, "grids": grids, "deslanted": False}
    found = patch_features.features(pixels, tuple(banks), 0.6, **how)
    for image, features in zip(np.float32(pixels) / 255, np.asarray(found), strict=True):
        seen = [np.asarray(view.of(image)) for view in views]
        expected = np.sqrt(np.mean([by_hand(one, banks, 0.6, grids) for one in seen], axis=0))
        np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-3)


def slant(image):
    """The slope of the line that predicts the column of light from its row, by least squares."""
    light = image.mean(-1)
    rows, columns = np.indices(light.shape)
    return np.polyfit(rows.ravel(), columns.ravel(), 1, w=np.sqrt(light.ravel()))[0]


def leaning(by, colours=1):
    """A bar that leans by so many columns a row."""
    row, column = np.indices((28, 28))
    bar = np.exp(-((column - 14 - by * (row - 13)) ** 2) / 4) * (abs(row - 13) < 8)
    return np.repeat(bar[..., None], colours, -1).astype(np.float32)


@pytest.mark.parametrize("by", [-0.7, 0.0, 0.4])
def test_a_leaning_digit_is_made_upright_and_stays_where_it_is(by):
    found = np.asarray(deskewed(leaning(by, colours=2)))
    assert slant(leaning(by)) == pytest.approx(by, abs=0.02)
    assert slant(found) == pytest.approx(0, abs=0.02)
    np.testing.assert_allclose(found, leaning(0.0, colours=2), atol=0.1)


def test_a_slant_is_each_image_s_own_and_at_most_45_degrees():
    flat = np.swapaxes(leaning(0.0), 0, 1)  # a bar that lies: hardly any row to lean by
    tilted = np.asarray(deskewed(leaning(1.5)))
    assert slant(tilted) == pytest.approx(0.5, abs=0.05)
    for image in (flat, np.zeros((28, 28, 1), np.float32)):
        np.testing.assert_allclose(deskewed(image), image, atol=1e-4)


def test_deslanted_features_are_those_of_upright_images():
    pixels = np.stack([np.uint8(255 * leaning(by, colours=3)) for by in (0.5, -0.3)])
    straight = np.uint8(
        np.round(255 * np.stack([deskewed(one / np.float32(255)) for one in pixels]))
    )
    bank = np.random.default_rng(0).normal(size=(5, 5, 3, 4)).astype(np.float32)
    how = {"views": (View(), View(mirrored=True)), "grids": (2,)}
    plain, deslanted = (
        patch_features.features(of, (bank,), 0.6, **how, deslanted=of is pixels)
        for of in (straight, pixels)
    )
    np.testing.assert_allclose(deslanted, plain, atol=0.05)
    assert np.abs(plain - deslanted).mean() < 0.005


@pytest.mark.usefixtures("kept")
def test_components_of_the_synthetic_images_are_uncorrelated_with_the_stated_variances():
    basis = SMALL.basis()
    pixels = synthetic_images.draw(SMALL.scenes, SMALL.drawn, SMALL.synthetic, GREY)
    found = np.asarray(SMALL.components_of(basis, pixels))
    np.testing.assert_allclose(found.mean(0), 0, atol=2e-3)
    covariance = found.T @ found / len(found)
    scale = np.sqrt(np.outer(basis.variances, basis.variances))
    np.testing.assert_allclose(covariance / scale, np.eye(40), atol=2e-2)
    assert (np.diff(basis.variances) <= 0).all()


@pytest.mark.smoke
def test_small_components_too_have_the_stated_variance():
    """Single precision leaves them: a method that loses them cost the recipe six points."""
    many = SyntheticFeatures("mnist-5k", "both", 650, 640, small=30, large=10)
    basis = many.basis()
    assert basis.variances[0] > 5e5 * basis.variances[-1]
    pixels = synthetic_images.draw("both", 0, 650, GREY)
    found = np.asarray(many.components_of(basis, pixels))
    ratios = np.sort((found**2).mean(0) / basis.variances)
    # The smallest is twice the rounding of the largest: some come out doubled, or three times.
    assert ratios[-32] < 1.2 and 0.8 < ratios[0] < ratios[-1] < 10


# By products of images or of features, here and on an accelerator.
BOTH_WAYS = pytest.mark.parametrize(("images", "backend"), [*product((40, 500), ("cpu", "gpu"))])


@BOTH_WAYS
def test_components_are_those_of_a_singular_value_decomposition(images, backend, monkeypatch):
    monkeypatch.setattr(devices, "backend", lambda: backend)
    draw = np.random.default_rng(0)
    turn, _ = np.linalg.qr(draw.normal(size=(60, 60)))
    found = 3 + draw.normal(size=(images, 60)) @ (turn * np.geomspace(1, 0.1, 60)).T
    parts = [pixels.reshape(-1, 1, 1, 1) for pixels in np.array_split(np.arange(images), 7)]
    monkeypatch.setattr(synthetic_basis, "BATCH", len(parts[0]))
    pixels = np.concatenate(parts)
    basis = synthetic_basis.fit(pixels, (), lambda part: np.float32(found[part.ravel()]), 20)
    np.testing.assert_allclose(basis.mean, found.mean(0), rtol=1e-5)
    standard = (found - found.mean(0)) / found.std(0)
    _, values, axes = np.linalg.svd(standard, full_matrices=False)
    np.testing.assert_allclose(basis.variances, values[:20] ** 2 / images, rtol=1e-4)
    turned = axes[:20] @ (basis.directions * found.std(0)[:, None])
    np.testing.assert_allclose(np.abs(turned), np.eye(20), atol=1e-3)


@BOTH_WAYS
def test_features_that_depend_on_each_other_leave_no_component_of_rounding(
    images, backend, monkeypatch
):
    """Whitened, such a one would be all that is left of an image."""
    monkeypatch.setattr(devices, "backend", lambda: backend)
    draw = np.random.default_rng(0)
    found = np.float32(draw.normal(size=(images, 5)) @ draw.normal(size=(5, 200)))
    pixels, all_of_them = np.arange(images).reshape(-1, 1, 1, 1), min(images, 200) - 1
    basis = synthetic_basis.fit(pixels, (), lambda part: found[part.ravel()], all_of_them)
    whitened_squares = (basis.components(found) ** 2).mean(0) / basis.variances
    np.testing.assert_allclose(whitened_squares[:5], 1, rtol=1e-3)
    assert whitened_squares[5:].max() < 2


def test_nothing_of_the_private_images_is_in_the_basis(monkeypatch):
    """It is fitted without loading them: also for another dataset of the same shape."""
    monkeypatch.setattr(images, "load", lambda *_: pytest.fail("the private images were loaded"))
    one = SMALL.basis()
    other = replace(SMALL, name="fashion-mnist", exponent=0.1, held_out=0).basis()
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.usefixtures("kept")
def test_examples_have_norm_one_and_each_is_scaled_by_itself():
    data = SMALL.load()
    for found in (data.train_images, data.test_images):
        assert found.shape[1:] == SMALL.image_shape and found.dtype == np.float16
        np.testing.assert_allclose(np.linalg.norm(np.float32(found), axis=1), 1, atol=2e-3)
    pixels = images.load("mnist-5k")
    np.testing.assert_array_equal(data.train_labels, pixels.train_labels)
    basis = SMALL.basis()
    alone = SMALL.components_of(basis, pixels.test_images[7:8])
    alone = np.float16(alone) * basis.variances**-0.4
    np.testing.assert_allclose(
        np.float32(data.test_images[7]), (alone / np.linalg.norm(alone))[0], atol=2e-3
    )


def test_an_example_without_a_norm_is_left_out_of_all_sums():
    features = np.ones((3, 4), np.float16)
    features[0], features[1, 2] = 0, np.nan
    whitened.centre(features, np.zeros(4))
    np.testing.assert_array_equal(features, [[0] * 4, [0] * 4, [0.5] * 4])
    assert np.isfinite(released_statistics.release_mean(features, 1.0, seed=0)).all()


def test_exponent_and_held_out_take_what_is_kept(kept, monkeypatch):
    before = sorted(kept.iterdir())
    assert {path.suffix for path in before} == {".npz", ".npy"} and len(before) == 2
    monkeypatch.setattr(patch_features, "features", lambda *_, **__: pytest.fail("again"))
    whole = SMALL.load()
    other = replace(SMALL, exponent=0.0, held_out=100).load()
    assert len(other.train_images) == 300 and len(other.test_images) == 100
    assert not np.allclose(other.test_images[0], whole.train_images[3])
    few = replace(SMALL, exponent=0.0, held_out=100, only=30, released=2.0)
    data, mean = few.load_with_mean()
    assert few.examples == 30 == len(data.train_labels) and len(data.test_images) == 100
    np.testing.assert_array_equal(data.train_labels, other.train_labels[:30])
    # What is released is of those alone.
    centred = np.float32(other.train_images[:30]) - np.float32(mean)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(data.train_images, centred, atol=1e-3)
    [noise] = np.random.SeedSequence(few.drawn).spawn(1)
    of_them = released_statistics.release_mean(other.train_images[:30], 2.0, noise)
    np.testing.assert_array_equal(mean, of_them)
    assert sorted(kept.iterdir()) == before


def test_a_damaged_basis_is_fitted_again(kept):
    expected = SMALL.basis()
    [path] = kept.glob("*-basis.npz")
    content = path.read_bytes()
    path.write_bytes(content[:5000] + b"\xff" * 8 + content[5008:])
    jax.tree.map(np.testing.assert_array_equal, SMALL.basis(), expected)


def test_a_basis_that_was_cut_or_has_any_bit_flipped_is_not_read(tmp_path):
    path, few = tmp_path / "basis.npz", np.ones((2, 3), np.float32)
    synthetic_basis.write(path, synthetic_basis.Basis((few,), few[0], few, few[1]))
    whole = path.read_bytes()
    assert synthetic_basis.read(path) is not None
    for cut in (0, 1, 200, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert synthetic_basis.read(path) is None
    for position in range(0, len(whole), 7):
        content = bytearray(whole)
        content[position] ^= 1 << position % 8
        path.write_bytes(content)
        assert synthetic_basis.read(path) is None


def test_components_in_a_basis_that_is_gone_are_taken_again(kept):
    """A basis that another machine fitted is another: what is kept belongs to one of them."""
    images = SMALL.load().train_images
    [basis] = kept.glob("*-basis.npz")
    [components] = kept.glob("*.npy")
    written = components.stat().st_mtime_ns
    basis.unlink()
    np.testing.assert_array_equal(SMALL.load().train_images, images)
    assert components.stat().st_mtime_ns > written


@pytest.mark.usefixtures("kept")
def test_what_examples_have_in_common_is_released_and_taken_away():
    released = replace(SMALL, released=5.0)
    (plain, nothing), (centred, mean) = SMALL.load_with_mean(), released.load_with_mean()
    own = np.float32(plain.train_images).mean(0)
    assert not nothing.any()
    # Of 400 examples, with noise of 5: 0.0125 in each of 40 components.
    assert 0.7 < np.std(mean - own) / (5 / 400) < 1.4
    for before, after in (
        (plain.train_images, centred.train_images),
        (plain.test_images, centred.test_images),
    ):
        by_hand = np.float32(before) - mean
        by_hand /= np.linalg.norm(by_hand, axis=1, keepdims=True)
        np.testing.assert_allclose(np.float32(after), by_hand, atol=2e-3)
    assert np.linalg.norm(own) > 0.3 > np.linalg.norm(np.float32(centred.train_images).mean(0))


def test_features_fitted_to_private_images_have_no_epsilon():
    own = replace(SMALL, scenes=OWN)
    run = Run(dataset=own, network=LinearHead(inputs=40), mechanism=FlatClipping())
    assert vary(run, scenes="both").private and not run.private
    assert epsilon_curve(run, [1]) == {}
    assert len(np.unique([own.basis().variances, SMALL.basis().variances], axis=0)) == 2


@pytest.mark.smoke
def test_scattering_is_whitened_by_synthetic_images(monkeypatch):
    small = WhitenedScattering("mnist-5k", "both", 50, 20, exponent=0.5)
    pixels = synthetic_images.draw("both", 0, 50, GREY)
    plain = Scattering("mnist-5k")
    features = np.asarray(plain.prepare(transform_of(GREY)(pixels)).reshape(50, -1))
    standard = (features - features.mean(0)) / (features.std(0) + 1e-6)
    found = np.asarray(small.components_of(small.basis(), pixels))
    # Equal to principal components by another way, up to the sign of each.
    left, values, _ = np.linalg.svd(standard, full_matrices=False)
    np.testing.assert_allclose(np.abs(found), np.abs(left * values)[:, :20], atol=0.05)
    some = images.load("mnist-5k")
    names = ("train_images", "train_labels", "test_images", "test_labels")
    # As many as above: the transform is compiled for so many.
    few = {name: getattr(some, name)[:50] for name in names}
    monkeypatch.setattr(images, "load", lambda _: replace(some, **few))
    assert small.load().train_images.shape == (50, 20)


def test_training_draws_by_no_key_that_images_are_drawn_by():
    """Else the features tell the noise, and epsilon is not what it is said to be."""
    run = Run(dataset=SyntheticFeatures(drawn=7), network=LinearHead(), seed=7)
    of_seed = jax.random.key(run.seed)
    images = jax.vmap(partial(jax.random.fold_in, of_seed))(jnp.arange(run.dataset.synthetic))
    parts = jax.vmap(lambda key: jax.random.split(key, 8))(images).reshape(-1)
    streams = [stream(run.key, name) for name in ("initial", "sampling", "noise")]
    steps = jax.vmap(partial(jax.random.fold_in, streams[2]))(jnp.arange(1_000))
    draws = jax.vmap(partial(jax.random.fold_in, streams[1]))(jnp.arange(1_000))
    trained = jnp.concatenate([jnp.stack([*streams, run.key]), steps, draws])
    drawn = jnp.concatenate([of_seed[None], images, parts])
    trained, drawn = (set(map(bytes, np.asarray(jax.random.key_data(k)))) for k in (trained, drawn))
    assert len(trained) == 2_004 and not trained & drawn


@pytest.mark.usefixtures("kept")
def test_what_is_released_has_noise_that_filters_are_not_drawn_by(monkeypatch):
    by = []
    new = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: by.append(seed) or new(seed))
    seeded = replace(SMALL, released=50.0)
    seeded.filters(leaves(20, GREY))
    seeded.load_with_mean()
    first, *_, last = (new(seed).integers(2**63, size=8) for seed in by)
    assert not set(first) & set(last)
