"""The leaderboard: the code that it shows is the recipe; what is said of it elsewhere holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from prose import CIFAR, FASHION, MNIST, ROOT, percent, said_by, variant
from results_for_tests import figures_in

from dpstudy.lab import records
from dpstudy.parts.data import images
from dpstudy.recipe import patch_features
from under_the_clip.recipe import figures as recipe

pytestmark = pytest.mark.usefixtures("of_the_study")

# Medians of five seeds that the recipe was built to reach.
FLOORS = {
    (CIFAR, 3.0): 0.76,
    (CIFAR, 1.0): 0.70,
    (FASHION, 3.0): 0.905,
    (MNIST, 3.0): 0.988,
}


@pytest.mark.parametrize(("dataset", "epsilon"), FLOORS)
def test_the_recipe_reaches_its_floors(dataset, epsilon):
    accuracy = variant("recipe-search", dataset, f"epsilon {epsilon:g}").accuracy
    assert len(accuracy) == 5
    assert accuracy.median() >= FLOORS[dataset, epsilon]


@pytest.fixture(scope="module")
def shown():
    """What the page's cells of the recipe's own code define, once run."""
    script = (ROOT / "notebooks/08_leaderboard.py").read_text()
    known = {}
    for cell in script.split("\n# %%"):
        if cell.startswith("\n") and ("def features" in cell or "def train" in cell):
            exec(cell, known)
    return known


def test_the_features_in_the_text_are_the_recipe_s(shown):
    pixels = images.load("mnist-5k").test_images[:3]
    known = {"mirrored": False, "deslanted": False}
    theirs = patch_features.features(pixels, (shown["filters"],), 0.6, grids=(4,), **known)
    ours = np.stack([shown["features"](one) for one in pixels])
    # By region, side and filter, as theirs.
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_clip_in_the_text_clips_an_example_s_gradient(shown):
    head = jax.random.normal(jax.random.key(1), (500, 10))
    x, labels = jnp.asarray(shown["x"]), shown["labels"]
    kept = shown["clipped"](x, head)
    for one in range(3):

        def loss(head, one=one):
            return -jnp.sum(labels[one] * jax.nn.log_softmax(x[one] @ head))

        gradient = jax.grad(loss)(head)
        wanted = gradient * jnp.minimum(1, 0.25 / jnp.linalg.norm(gradient))
        np.testing.assert_allclose(jnp.outer(x[one], kept[one]), wanted, atol=1e-5)


def test_whitening_lifts_components_above_the_noise(shown):
    sizes = np.sqrt(shown["variance"])
    assert 70 < sizes[0] / sizes[-1] < 140
    noise = shown["sigma"] * shown["clip"] * (10 * shown["steps"]) ** 0.5
    plain, whitened = ((pull > noise).mean() for pull in shown["pulls"].values())
    assert plain < 0.75 and whitened > 0.95


def test_a_seed_trained_twice_differs_by_as_much_as_is_said():
    [cost] = recipe.cost().data.to_dict("records")
    assert cost["dataset"] == "CIFAR-10"
    stored, _ = records.read_all(ROOT / "results" / "recipes", "recipes")
    one = variant("recipe-search", CIFAR, "epsilon 3").accuracy[0]
    two = stored["cifar-10"]["test_accuracy"]
    told = said_by("book/how_to_rerun.md")
    told(f"a training on one core and one on two reached {percent(one)} and {percent(two)} % on")


def test_a_row_of_the_board_is_of_five_seeds_that_ended():
    board = figures_in("08_leaderboard").board
    for dataset in (FASHION, MNIST):
        for table in board(variant(f"leaderboard-{dataset}", dataset, "").reading).parts:
            assert (table.data.seeds == 5).all()
            assert table.caption.endswith("Runs that diverged: 0.")
