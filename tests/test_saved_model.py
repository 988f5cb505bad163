"""A saved model on another machine: without the trainer's cache, and with other threads."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.parts.data import images
from dpstudy.parts.run import Run
from dpstudy.privacy.statement import statement
from dpstudy.recipe import PrivateImageClassifier, load, patch_features
from dpstudy.recipe import basis as bases
from dpstudy.recipe.features import SecondLayerFeatures, SyntheticFeatures
from dpstudy.recipe.head import centred
from dpstudy.recipe.mixture import Mixture
from dpstudy.recipe.model import Model
from dpstudy.recipe.whitened import Whitened

# More components than norms are estimated in, and fewer.
MANY = SyntheticFeatures("mnist-5k", "both", 500, components=400, small=20, large=5)
FEW = SecondLayerFeatures("mnist-5k", "both", 120, 16, first=6, directions=20, seconds=9)
BOTH = Mixture("mnist-5k", (MANY, FEW), (0.7, 0.3), drawn=3)
PIXELS = images.load("mnist-5k").test_images[:120]


@pytest.fixture(scope="module", autouse=True)
def cache_of_tests(tmp_path_factory):
    """A cache for all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@cache
def modelled(features, length=0.35):
    """A model of a head that nobody trained, and the scores that it has over components."""
    vectors = features.vectors(PIXELS)
    mean = np.float32(vectors).mean(0)
    mean *= length / np.linalg.norm(mean)
    kernel = np.random.default_rng(0).normal(size=(features.image_shape[0], 10))
    about = tuple(range(10)), statement(Run(epochs=1))
    return Model.of_head(features, kernel, mean, *about), centred(vectors, mean) @ kernel


@pytest.fixture(params=[FEW, BOTH], ids=["one block", "a mixture"])
def model(request):
    return modelled(request.param)[0]


@pytest.fixture(scope="module", autouse=True)
def few_patches():
    """To choose filters among: as few as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patch_features, "PATCHES", 10_000)
        yield


@pytest.mark.parametrize("length", [0.0, 0.35])
def test_a_head_of_few_components_is_the_same_over_features(length):
    model, expected = modelled(FEW, length)
    np.testing.assert_allclose(model.scores(PIXELS), expected, atol=0.01)


@pytest.mark.smoke
def test_a_norm_that_is_estimated_moves_scores_by_little():
    model, expected = modelled(BOTH)
    apart = model.scores(PIXELS) - expected
    # The noise of privacy is about 1; by rounding alone scores would move by 0.003.
    assert expected.std() > 0.8 and 0.01 < apart.std() < 0.05 and np.abs(apart).max() < 0.3
    assert (model.scores(PIXELS).argmax(1) == expected.argmax(1)).mean() > 0.97


def test_of_one_block_without_a_mean_each_label_is_exact():
    model, expected = modelled(MANY, 0.0)
    assert (model.scores(PIXELS).argmax(1) == expected.argmax(1)).all()


ELSEWHERE = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from dpstudy.recipe import load
# Though nothing is trained here, and there may be a GPU.
import jax
assert jax.config.jax_default_matmul_precision == "highest"
import numpy as np
from dpstudy.parts.data import images
np.save(sys.argv[2], load(sys.argv[1]).predict_proba(images.load("mnist-5k").test_images[:120]))
"""
# One thread, and the instructions of an older processor.
ANOTHER = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false --xla_cpu_max_isa=AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")},
}


@pytest.mark.smoke
def test_another_processor_with_one_thread_and_no_cache_predicts_the_same(tmp_path):
    here = PrivateImageClassifier.of(modelled(BOTH)[0])
    here.save(tmp_path / "model.npz")
    there = {**os.environ, **ANOTHER, "XDG_CACHE_HOME": str(tmp_path / "empty")}
    command = [sys.executable, "-c", ELSEWHERE, tmp_path / "model.npz", tmp_path / "found.npy"]
    subprocess.run(command, env=there, check=True)
    found, expected = np.load(tmp_path / "found.npy"), here.predict_proba(PIXELS)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert (found.argmax(1) == expected.argmax(1)).mean() >= 0.99
    assert not (tmp_path / "empty").exists()


def turned(basis):
    """A basis as another machine may find it: near-equal components turned, signs by chance."""
    directions, variances = basis.directions.copy(), basis.variances
    for at in range(0, len(variances) - 1, 2):
        if variances[at + 1] > 0.95 * variances[at]:
            directions[:, at : at + 2] @= np.float32([[0.6, -0.8], [0.8, 0.6]])
    signs = np.random.default_rng(0).choice([-1, 1], len(variances))
    return basis._replace(directions=directions * np.float32(signs))


def test_a_basis_that_came_out_turned_changes_nothing(model, tmp_path, monkeypatch):
    here = PrivateImageClassifier.of(model)
    here.save(tmp_path / "model.npz")
    expected = here.predict_proba(PIXELS)
    found = [(block, turned(block.basis())) for block, _ in model.features.weighted_blocks]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    for block, basis in found:
        bases.write(block._file("basis", "npz"), basis)
    np.testing.assert_allclose(load(tmp_path / "model.npz").predict_proba(PIXELS), expected)


def test_filters_of_another_seed_are_refused_in_one_line(model):
    *others, (block, _) = model.features.weighted_blocks
    another = model.blocks[-1]._replace(filters=block.at_seed(9).basis().filters)
    other = replace(model, blocks=(*model.blocks[: len(others)], another))
    with pytest.raises(DataError, match=r"^the features computed here are not those[^\n]*$"):
        other.scores(PIXELS[:1])


def test_no_basis_is_asked_for(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model.npz")
    monkeypatch.delattr(Whitened, "basis")
    assert load(tmp_path / "model.npz").predict(PIXELS[:2]).shape == (2,)


def test_a_model_of_an_earlier_version_is_to_be_trained_again(tmp_path):
    about = {"features": MANY.to_dict(), "classes": [0, 1], "statement": {}}
    arrays = {"kernel": np.ones((400, 2)), "mean": np.ones(400), "witness": np.ones(400)}
    with (tmp_path / "old.npz").open("w+b") as stream:
        np.savez(stream, about=json.dumps(about), **arrays)
        files.seal(stream)
    with pytest.raises(DataError, match=r"^[^\n]*another version[^\n]*: train it again$"):
        load(tmp_path / "old.npz")
