"""The second edition's features: views, colours, a second layer, and their mixture."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from dpstudy.parts.data import images, synthetic_images
from dpstudy.parts.mechanism import FlatClipping
from dpstudy.parts.networks.network import LinearHead
from dpstudy.parts.part import SpecError, checked
from dpstudy.parts.run import Run, vary
from dpstudy.recipe import colour_features, patch_features, second_layer
from dpstudy.recipe.features import ColourFeatures, SecondLayerFeatures, SyntheticFeatures
from dpstudy.recipe.mixture import Mixture
from dpstudy.recipe.views import View
from dpstudy.recipe.whitened import OWN

COLOUR = (32, 32, 3)
SMALL = {"scenes": "both", "synthetic": 120}
PATCHES = SyntheticFeatures(**SMALL, components=20, small=8, large=4, views=(View(), View(1.3, 9)))
SECOND = SecondLayerFeatures(**SMALL, components=16, first=6, directions=20, seconds=9)
COLOURS = ColourFeatures(**SMALL, components=10, colours=7)
MIXED = Mixture("mnist-5k", (PATCHES, SECOND, COLOURS), (0.5, 0.3, 0.2), drawn=3, released=20.0)


@pytest.fixture(scope="module", autouse=True)
def small(tmp_path_factory):
    """One cache for all of these tests, and few patches for filters.

    As many images everywhere as there are synthetic ones: features are compiled for so many.
    """
    whole = images.load("mnist-5k")
    splits = ("train_images", "train_labels", "test_images", "test_labels")
    few = replace(whole, **{name: getattr(whole, name)[:120] for name in splits})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("mixture")))
        patch.setattr(images, "load", lambda _: few)
        patch.setattr(patch_features, "PATCHES", 10_000)
        yield


def picture(shape=COLOUR):
    [one] = synthetic_images.draw("dead-leaves", 0, 1, shape)
    return np.float32(one / 255)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (View(), lambda image: image),
        (View(mirrored=True), lambda image: image[:, ::-1]),
        (View(degrees=90.0), lambda image: np.rot90(image, -1)),
        (View(degrees=180.0, mirrored=True), lambda image: image[::-1]),
    ],
)
def test_views_that_move_whole_pixels_are_exact(view, expected):
    np.testing.assert_allclose(view.of(picture()), expected(picture()), atol=1e-4)


@pytest.mark.parametrize("view", [View(1.3, 9.0), View(0.8, -14.0), View(0.9, 5.0, mirrored=True)])
def test_a_view_is_scipy_s_affine_map(view):
    image = picture()
    turn = np.deg2rad(view.degrees)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) / view.zoom
    matrix = matrix @ np.diag([1, -1 if view.mirrored else 1])
    middle = np.full(2, 15.5)
    for colour in range(3):
        expected = ndimage.affine_transform(
            image[..., colour], matrix, middle - matrix @ middle, order=1, mode="nearest"
        )
        np.testing.assert_allclose(view.of(image)[..., colour], expected, atol=1e-4)


def means(found, grids):
    """Means of an array of rows, columns and maps over the regions of each grid."""
    every = []
    for grid in grids:
        cuts = [[round(k * n / grid) for k in range(grid + 1)] for n in found.shape[:2]]
        for i in range(grid):
            for j in range(grid):
                part = found[cuts[0][i] : cuts[0][i + 1], cuts[1][j] : cuts[1][j + 1]]
                every.append(part.mean((0, 1)))
    return np.array(every)


@pytest.mark.parametrize("mirrored", [True, False])
def test_colours_and_slopes_are_counted_pixel_by_pixel(mirrored):
    pixels = synthetic_images.draw("dead-leaves", 1, 2, COLOUR)
    colours = np.float32(np.random.default_rng(0).random((5, 3)))
    grids = (2, 1)
    found = colour_features.features(pixels, colours, mirrored=mirrored, grids=grids)
    for image, features in zip(pixels / 255, np.asarray(found), strict=True):
        of_views = []
        for view in (image, image[:, ::-1])[: 1 + mirrored]:
            near = np.exp(-((view[:, :, None] - colours) ** 2).sum(-1) / (2 * 0.18**2))
            near /= near.sum(-1, keepdims=True) + 1e-3
            slope = np.hypot(*np.gradient(view.mean(-1)))[..., None]
            apart = np.log(slope + 1e-3) - np.log([0.02, 0.05, 0.1, 0.2, 0.4])
            both = np.concatenate([near, np.exp(-(apart**2) / (2 * 0.5**2))], axis=-1)
            of_views.append(means(both, grids).ravel())
        np.testing.assert_allclose(features, np.sqrt(np.mean(of_views, 0)), atol=2e-3)


def test_the_second_layer_is_the_first_on_its_own_maps():
    pixels = synthetic_images.draw("dead-leaves", 1, 60, COLOUR)
    layer = second_layer.choose(pixels, 4, 10, 6, np.random.default_rng(0))
    how = {"views": (View(),), "grids": (2,), "deslanted": False}
    found = np.asarray(second_layer.features(pixels[:2], layer, **how))
    mean, whitening, filters = map(np.float64, (layer.mean, layer.whitening, layer.filters))
    for image, features in zip(pixels[:2] / 255, found, strict=True):
        first = np.asarray(patch_features.responses(np.float32(image), layer.first))
        sides = np.concatenate([np.maximum(s * first - 0.3, 0) for s in (1, -1)], axis=-1)
        maps = sides.reshape(14, 2, 14, 2, 8).mean((1, 3))
        answers = np.empty((12, 12, 6))
        for i in range(12):
            for j in range(12):
                patch = maps[i : i + 3, j : j + 3].ravel() - maps[i : i + 3, j : j + 3].mean()
                patch = patch / np.sqrt((patch**2).sum() + 1e-3)
                answers[i, j] = (patch - mean) @ whitening @ filters
        threshold = float(layer.threshold)
        expected = [means(np.maximum(s * answers - threshold, 0), (2,)) for s in (1, -1)]
        expected = np.sqrt(np.stack(expected, axis=1)).ravel()
        np.testing.assert_allclose(features, expected, atol=2e-3)


def test_a_tenth_of_the_second_layer_s_responses_is_active_on_each_side():
    pixels = synthetic_images.draw("dead-leaves", 1, 60, COLOUR)
    layer = second_layer.choose(pixels, 4, 10, 6, np.random.default_rng(0))
    how = {"views": (View(),), "grids": (1,), "deslanted": False}
    none = layer._replace(threshold=np.float32(1e9))
    assert not np.asarray(second_layer.features(pixels, none, **how)).any()
    np.testing.assert_allclose(np.linalg.norm(np.asarray(layer.filters), axis=0), 1, rtol=1e-5)
    assert 0 < float(layer.threshold) < 3


def test_each_block_has_its_share_and_kernels_add_up():
    pixels = images.load("mnist-5k").test_images
    found = np.float32(MIXED.vectors(pixels))
    parts = np.split(found, [20, 36], axis=1)
    for part, share in zip(parts, MIXED.shares, strict=True):
        np.testing.assert_allclose((part**2).sum(1), share, rtol=3e-3)
    alone = [np.float32(block.vectors(pixels)) for block in MIXED.own_blocks]
    expected = sum(s * one @ one.T for s, one in zip(MIXED.shares, alone, strict=True))
    np.testing.assert_allclose(found @ found.T, expected, atol=5e-3)


def test_what_is_loaded_is_what_is_computed_of_any_images_less_the_released_mean():
    data, mean = MIXED.load_with_mean()
    vectors = np.float32(MIXED.vectors(images.load("mnist-5k").test_images)) - mean
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(np.float32(data.test_images), vectors, atol=3e-3)
    assert data.train_images.shape == (120, 46)


def test_a_mixture_is_of_one_dataset_and_one_seed():
    run = Run(dataset=MIXED, network=LinearHead(inputs=46), mechanism=FlatClipping()).at_seed(7)
    assert run.dataset.drawn == 7 and {one.drawn for one in run.dataset.own_blocks} == {7}
    assert {one.name for one in run.dataset.own_blocks} == {"mnist-5k"}
    assert run.private and run.dataset.release_noise == 20
    assert Run.from_dict(run.to_dict()) == run
    assert vary(run.at_seed(3), held_out=40).dataset.load().test_images.shape == (40, 46)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shares": (0.5, 0.3, 0.1)}, "shares must be above 0, together 1"),
        ({"shares": (1.2, -0.4, 0.2)}, "shares must be above 0, together 1"),
        ({"blocks": (), "shares": ()}, "at least one"),
        ({"blocks": (replace(PATCHES, scenes=OWN), SECOND, COLOURS)}, "releases and holds out"),
        ({"blocks": (replace(PATCHES, released=9.0), SECOND, COLOURS)}, "releases and holds out"),
        ({"blocks": (replace(PATCHES, only=9), SECOND, COLOURS)}, "releases and holds out"),
        ({"name": "cifar"}, "unknown dataset 'cifar'"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(change, reason):
    with pytest.raises(SpecError, match=reason):
        checked(replace(MIXED, **change))
