"""The leaderboard: the code that it shows is the recipe; what is said of it elsewhere holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from prose import CIFAR, FASHION, MNIST, ROOT, percent, said_by, variant
from results_for_tests import figures_in

from dpstudy.privacy.accounting import epsilon
from under_the_clip.recipe import cost_figure
from under_the_clip.recipe.third_edition import edition_on

pytestmark = pytest.mark.usefixtures("of_the_study")

# Medians of five seeds that the recipe was built to reach.
FLOORS = {
    (CIFAR, 1.0): 0.75,
    (CIFAR, 2.0): 0.775,
    (CIFAR, 3.0): 0.79,
    (FASHION, 3.0): 0.905,
    (MNIST, 3.0): 0.988,
}


@pytest.mark.parametrize(("dataset", "epsilon"), FLOORS)
def test_the_recipe_reaches_its_floors(dataset, epsilon):
    accuracy = variant(edition_on(dataset).name, dataset, f"epsilon {epsilon:g}").accuracy
    assert len(accuracy) == 5
    assert accuracy.median() >= FLOORS[dataset, epsilon]


@pytest.fixture(scope="module")
def shown():
    """What the page's cells of the recipe's own code define, once run."""
    script = (ROOT / "notebooks/08_leaderboard.py").read_text()
    known = {}
    for cell in script.split("\n# %%"):
        tags, _, code = cell.partition("\n")
        if not tags or "Code: components" in tags:
            exec(code.replace("recipe.heard", "print"), known)
    return known


@pytest.mark.smoke
def test_the_clip_in_the_text_clips_an_example_s_gradient(shown):
    head = np.random.default_rng(1).normal(size=(300, 10))
    x, labels = jnp.asarray(shown["x"]), shown["labels"]
    kept = shown["clipped"](x, head)
    for one in range(3):

        def loss(head, one=one):
            return -jnp.sum(labels[one] * jax.nn.log_softmax(x[one] @ head))

        gradient = jax.grad(loss)(head)
        wanted = gradient * jnp.minimum(1, 0.25 / jnp.linalg.norm(gradient))
        np.testing.assert_allclose(jnp.outer(x[one], kept[one]), wanted, atol=1e-5)


@pytest.mark.smoke
def test_whitening_lifts_components_above_the_noise(shown):
    noise = shown["sigma"] * shown["clip"] * (10 * shown["steps"]) ** 0.5
    plain, whitened = ((pull > noise).mean() for pull in shown["pulls"].values())
    assert plain < 0.5 and whitened > 0.9


@pytest.mark.smoke
def test_steps_on_all_digits_cost_the_stated_epsilon(shown):
    spent = epsilon(
        sampling_probability=1.0,
        noise_multiplier=shown["sigma"],
        steps=shown["steps"],
        delta=1e-5,
    )
    assert 0.999 < spent <= 1.0005


def test_the_guide_to_re_running_says_what_the_timed_run_reached():
    [cost] = cost_figure.cost().data.to_dict("records")
    assert cost["dataset"] == "CIFAR-10"
    told = said_by("book/how_to_rerun.md")
    ends = percent(cost["accuracy"], 1)
    told(f"{round(cost['minutes'])} minutes of two cores the first time, for about {ends} %")
    median = percent(variant(edition_on(CIFAR).name, CIFAR, "epsilon 3").accuracy.median(), 1)
    told(f"the median of five seeds is {median} %")


def test_a_row_of_the_board_is_of_five_seeds_that_ended():
    board = figures_in("08_leaderboard").board
    for dataset in (FASHION, MNIST):
        for table in board(variant(f"leaderboard-{dataset}", dataset, "").reading).parts:
            assert (table.data.seeds == 5).all()
            assert table.caption.endswith("Runs that diverged: 0.")
