"""The rule that sets the recipe's head, beside a search of its rate, on few images and on many.

The first so many training images of each dataset, at ε = 3, with 10,000 others held out to score
by; no test image is looked at. Features are an eighth of the recipe's, so that a run takes seconds.
Batch, epochs, noise and rate are those of `dpstudy.recipe.settings`, typed in as a test holds them
to it: machines that train have no accounting. Unlike the estimator's, a released mean is not scaled
towards 0.
"""

from dpstudy.lab.experiment import Experiment
from dpstudy.parts.networks.network import LinearHead
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.run import RELEASED, recipe
from under_the_clip.designs import EPSILON, HELD_OUT, at_epsilon
from under_the_clip.recipe.search import DATASETS

# By how many images there are: batch, epochs, noise of the mean, and rate.
RULE = {
    200: (200, 100, 0.0, 0.575),
    1_000: (1_000, 100, 0.0, 2.88),
    5_000: (5_000, 100, RELEASED, 14.3),
    20_000: (8_192, 60, RELEASED, 47.0),
    40_000: (8_192, 60, RELEASED, 37.4),
    50_000: (8_192, 60, RELEASED, 38.8),
}
# Of the first so many images, 0 being all; and multiples of the rule's rate.
IMAGES, TRIED = (200, 1_000, 5_000, 20_000, 0), (0.25, 0.5, 1.0, 2.0, 4.0)
_SMALL = {"synthetic": 2_000, "small": 100, "large": 25, "components": 1_000}


def label_of(images: int, by: float) -> str:
    """Return the label of so many images, at so many times the rule's rate."""
    return f"{f'{images:,}' if images else 'all'} images, rate x {by:g}"


def by_the_rule(dataset: str, images: int) -> Run:
    """Return the run of the first so many images, as the rule has it."""
    run = vary(recipe(dataset), **_SMALL, held_out=HELD_OUT, only=images)
    batch, epochs, released, rate = RULE[run.dataset.examples]
    run = vary(run, batch=batch, epochs=epochs, released=released, learning_rate=rate)
    return at_epsilon(EPSILON, vary(run, network=LinearHead(inputs=run.dataset.components)))


def _at(by: float, run: Run) -> Run:
    return vary(run, learning_rate=by * run.optimizer.learning_rate)


RECIPE_RULE = Experiment(
    name="recipe-rule",
    title="The recipe's rule beside a search of its rate, from 200 images to all, ε = 3",
    variants={
        label_of(images, by): tuple(_at(by, by_the_rule(name, images)) for name in DATASETS)
        for images in IMAGES
        for by in TRIED
    },
    seeds=dict.fromkeys(reversed(DATASETS), 1),
    in_smoke=(label_of(IMAGES[0], 1.0),),
)
EXPERIMENTS = (RECIPE_RULE,)
