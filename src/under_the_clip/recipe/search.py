"""The recipe's settings, searched on each dataset, what it reaches at four ε, and what carries it.

Seven exponents of whitening, from none to all, at three learning rates each, with 10,000 training
examples held out, with the noise of ε = 3; without whitening the largest of the three is the best,
so that two larger ones are tried. At the other ε the three exponents in the middle are searched, at
rates in proportion to ε, as noise is in inverse proportion. Where the best has the smallest rate,
smaller ones are tried. The best at each ε is trained on all examples with five seeds, of synthetic
images, filters, sampling and noise together.

The recipe was changed twice after its test accuracy had been seen: a first version, with one rate
for every ε and one grid of regions for three, was tested on CIFAR-10 at four ε (`FIRST_TESTED`),
and on MNIST digits as they lean were tested at four ε and missed the floor of 98.8 % at ε = 3, with
98.67 %, before they were made upright and tested again; all that had been searched on them is kept
as a search of its own. Each choice itself was made by examples held out, and from now on a changed
recipe is chosen by these alone and tested once.
"""

from dataclasses import replace
from functools import partial
from itertools import product

from dpstudy.lab.experiment import Experiment
from dpstudy.lab.search import FollowUp, Search
from dpstudy.parts.mechanism import AutomaticClipping
from dpstudy.parts.networks.activation import TANH, Relu
from dpstudy.parts.networks.network import HiddenHead, LinearHead
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.features import WhitenedScattering
from dpstudy.recipe.run import EPSILONS, recipe, recipe_at
from dpstudy.recipe.whitened import OWN
from under_the_clip.designs import BEYOND, EPSILON, MULTIPLES, on_all, rate_search, with_rate
from under_the_clip.leaderboard.experiments import BEST_TEMPERED
from under_the_clip.losing_less.experiments import COMPOSITE_ON_FEATURES
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped

DATASETS = ("cifar-10", "fashion-mnist", "mnist")
EXPONENTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0)
# Test accuracy on CIFAR-10 of the first version that was tested, seed 0, by ε. Its runs were taken
# out of the store when the recipe changed: they are in the repository's history, at 0ad2513.
FIRST_TESTED = {1.0: 0.6779, 2.0: 0.7410, EPSILON: 0.7595, 8.0: 0.7789}
# Those tried at an ε other than `EPSILON`.
_MIDDLE = (0.3, 0.4, 0.5)


def label_of(exponent: float, multiple: float, epsilon: float = EPSILON) -> str:
    """Return the label of a setting, its rate as a multiple of the recipe's at that ε."""
    setting = f"exponent {exponent:g}, rate x {multiple:g}"
    return setting if epsilon == EPSILON else f"epsilon {epsilon:g}, {setting}"


def multiples_of(exponent: float) -> tuple[float, ...]:
    """Return the multiples of the recipe's rate that are tried with an exponent."""
    return (*MULTIPLES, 4.0, 8.0) if exponent == 0 else MULTIPLES


# By ε and label, exponent, multiple of the recipe's rate, and ε, of what is searched there.
_SEARCHED = {
    epsilon: {
        label_of(*setting): setting
        for exponent in (EXPONENTS if epsilon == EPSILON else _MIDDLE)
        for setting in product((exponent,), multiples_of(exponent), (epsilon,))
    }
    for epsilon in EPSILONS
}
SETTINGS = _SEARCHED[EPSILON]


def _search(name: str, title: str, starts: dict[str, Run]) -> Search:
    """Return the search from a run on each dataset, before exponent and rate are set."""
    return Search(
        name=name,
        title=title,
        variants={
            label: tuple(
                with_rate(vary(start, exponent=exponent), multiple * epsilon / EPSILON, epsilon)
                for start in starts.values()
            )
            for settings in _SEARCHED.values()
            for label, (exponent, multiple, epsilon) in settings.items()
        },
        seeds=dict.fromkeys(starts, 1),
        groups={
            f"best at epsilon {epsilon:g}": tuple(settings)
            for epsilon, settings in _SEARCHED.items()
        },
        best_seeds=0,
        beyond=BEYOND,
        then={
            f"epsilon {epsilon:g}": FollowUp(
                f"best at epsilon {epsilon:g}", partial(on_all, epsilon), seeds=5
            )
            for epsilon in EPSILONS
        },
        in_smoke=(label_of(0.4, 1.0),),
    )


RECIPE_SEARCH = _search(
    "recipe-search",
    "The recipe: exponents of whitening and learning rates, and the best at four epsilons",
    {dataset: recipe(dataset) for dataset in DATASETS},
)
RECIPE_SLANTED = _search(
    "recipe-slanted",
    "The recipe on digits as they lean: the same search",
    {"mnist": vary(recipe("mnist"), deslanted=False)},
)

# --- What carries it, one change at a time; and whether the papers' remedies still help -----------

# Each change is tried at three learning rates with 10,000 training examples held out, with the
# noise of ε = 3, and at rates beyond them until the best is not the outermost; where C is smaller,
# the rate is as much larger. The best of each remedy, and of the recipe, is trained with four
# further seeds, which had no part in the choice, and that of the parts in `AGAIN` with three.
#
# Backpropagation clipping is no remedy of the linear head: one layer whose inputs have norm 1 is
# clipped flat.
PLAIN = "the recipe"
PRIVATE = "the private images in place of synthetic ones (not private)"
AGAIN = (
    PLAIN,
    PRIVATE,
    "white noise for images",
    "a quarter of the filters",
    "2,000 components",
    "no mirror images",
    "scattering, whitened",
)
# Below most numbers of a gradient of these features, or there would be nothing to filter.
ACTIVE_RANGE = 0.001
# A hidden layer learns at smaller rates than the recipe's, by so much: about which they are tried.
HIDDEN_SLOWER = 8.0


def clipped_at(run: Run, clip: float) -> Run:
    """Return a run clipped otherwise, at a rate that is as much larger as the clip is smaller."""
    by = run.mechanism.clip_norm / clip
    return vary(run, clip_norm=clip, learning_rate=by * run.optimizer.learning_rate)


def _of(run: Run, components: int) -> Run:
    return vary(run, components=components, network=LinearHead(inputs=components))


def _on_scattering(run: Run, exponent: float) -> Run:
    features = run.dataset
    # Grey images have fewer coefficients than the recipe has components.
    count = min(features.components, WhitenedScattering(features.name).features - 1)
    whitened = WhitenedScattering(
        features.name, features.scenes, features.synthetic, count, released=features.released
    )
    run = vary(run, dataset=whitened, network=LinearHead(inputs=count))
    return vary(run, exponent=exponent)


def parts(dataset: str) -> dict[str, Run]:
    """Return the recipe on a dataset with each of its parts changed, before rates are tried."""
    plain = recipe(dataset)
    return {
        PLAIN: plain,
        "4,000 components": _of(plain, 4_000),
        "2,000 components": _of(plain, 2_000),
        "4,500 synthetic images, 4,000 components": vary(_of(plain, 4_000), synthetic=4_500),
        "a quarter of the filters": vary(_of(plain, 4_000), small=200, large=50),
        "white noise for images": vary(plain, scenes="noise"),
        PRIVATE: vary(plain, scenes=OWN),
        "the mean stays": vary(plain, released=0.0),
        "no mirror images": vary(plain, mirrored=False),
        "clipped at 0.1": clipped_at(plain, 0.1),
        "clipped at 1": clipped_at(plain, 1.0),
        "scattering, not whitened": _on_scattering(plain, 0.0),
        "scattering, whitened": _on_scattering(plain, plain.dataset.exponent),
    }


def remedies(dataset: str, plain: Run) -> dict[str, Run]:
    """Return a recipe, and with each of the papers' remedies, before rates are tried."""
    hidden = vary(plain, network=HiddenHead(inputs=plain.network.inputs))
    hidden = vary(hidden, learning_rate=plain.optimizer.learning_rate / HIDDEN_SLOWER)
    composite = COMPOSITE_ON_FEATURES[dataset]
    tempered = BEST_TEMPERED["fashion-mnist"]
    clip = plain.mechanism.clip_norm
    return {
        PLAIN: plain,
        "composite loss": vary(plain, loss=composite),
        "squared error, then cross-entropy": vary(plain, loss=replace(composite, focusing=0.0)),
        "tanh filter, then clipped": vary(
            plain, mechanism=FilteredThenClipped(active_range=ACTIVE_RANGE, clip_norm=clip)
        ),
        "automatic clipping": vary(plain, mechanism=AutomaticClipping(clip_norm=clip)),
        "a hidden layer, relu": vary(hidden, activation=Relu()),
        "a hidden layer, tanh": vary(hidden, activation=TANH),
        "a hidden layer, tempered": vary(hidden, activation=tempered),
    }


def changed(name: str, title: str, seeds: int, changes: dict[str, dict[str, Run]]) -> Search:
    """Return the search of the best rate of each change, trained with so many further `seeds`.

    The `changes` are by dataset and label; a dataset may have some that others have not.
    """
    labels = dict.fromkeys(label for of_one in changes.values() for label in of_one)
    return rate_search(
        {
            label: tuple(
                with_rate(of_one[label], 1.0) for of_one in changes.values() if label in of_one
            )
            for label in labels
        },
        name=name,
        title=title,
        best_seeds=seeds,
        in_smoke=(f"{PLAIN}, rate x 1",),
    )


RECIPE_PARTS = changed(
    "recipe-parts",
    "The recipe with one part changed, each at its best rate, ε = 3",
    0,
    {dataset: parts(dataset) for dataset in DATASETS[:2]},
)
RECIPE_PARTS_AGAIN = changed(
    "recipe-parts-again",
    "Parts of the recipe changed once more, with three seeds that chose no rate, ε = 3",
    3,
    {dataset: {label: parts(dataset)[label] for label in AGAIN} for dataset in DATASETS[:2]},
)
RECIPE_REMEDIES = changed(
    "recipe-remedies",
    "The papers' remedies on the recipe's features, each at its best rate, ε = 3",
    4,
    {dataset: remedies(dataset, recipe(dataset)) for dataset in DATASETS[:2]},
)


def of_exponent(exponent: float) -> Experiment:
    """Return the experiment of a reader's own exponent, beside no whitening; ε is 3 with either."""
    small = recipe_at("mnist-5k", EPSILON)
    return Experiment(
        name="recipe-own-exponent",
        title="An exponent of the reader's own",
        variants={
            "not whitened": (vary(small, exponent=0.0),),
            f"exponent {exponent:g}": (vary(small, exponent=exponent),),
        },
        seeds={"mnist-5k": 1},
    )


EXPERIMENTS = (
    RECIPE_SEARCH,
    RECIPE_SLANTED,
    RECIPE_PARTS,
    RECIPE_PARTS_AGAIN,
    RECIPE_REMEDIES,
)
