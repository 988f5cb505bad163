"""What carries the recipe, one change at a time; and whether the papers' remedies still help it.

Each change is tried at three learning rates with 10,000 training examples held out, with the noise
of ε = 3, and at rates beyond them until the best is not the outermost; where C is smaller, the rate
is as much larger. The best of each remedy, and of the recipe, is trained with four further seeds,
which had no part in the choice.

Backpropagation clipping is no remedy of the linear head: one layer whose inputs have norm 1 is
clipped flat.
"""

from dataclasses import replace

from dpstudy.lab.search import Search
from dpstudy.parts.mechanism import AutomaticClipping
from dpstudy.parts.networks.activation import TANH, Relu
from dpstudy.parts.networks.network import HiddenHead, LinearHead
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.features import OWN, WhitenedScattering
from dpstudy.recipe.run import recipe
from under_the_clip.designs import rate_search, with_rate
from under_the_clip.leaderboard.experiments import BEST_TEMPERED
from under_the_clip.losing_less.experiments import COMPOSITE_ON_FEATURES
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped

DATASETS = ("cifar-10", "fashion-mnist")
PLAIN = "the recipe"
# Below most numbers of a gradient of these features, or there would be nothing to filter.
ACTIVE_RANGE = 0.001
# A hidden layer learns at smaller rates than the recipe's: about which they are tried.
HIDDEN_RATE = 5.0


def _clipped_at(run: Run, clip: float) -> Run:
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
        "the private images in place of synthetic ones (not private)": vary(plain, scenes=OWN),
        "the mean stays": vary(plain, released=0.0),
        "no mirror images": vary(plain, mirrored=False),
        "clipped at 0.1": _clipped_at(plain, 0.1),
        "clipped at 1": _clipped_at(plain, 1.0),
        "scattering, not whitened": _on_scattering(plain, 0.0),
        "scattering, whitened": _on_scattering(plain, plain.dataset.exponent),
    }


def remedies(dataset: str) -> dict[str, Run]:
    """Return the recipe, and with each of the papers' remedies, before rates are tried."""
    plain = recipe(dataset)
    hidden = vary(plain, network=HiddenHead(inputs=plain.dataset.components))
    hidden = vary(hidden, learning_rate=HIDDEN_RATE)
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


def _search(name: str, title: str, seeds: int, changes: dict[str, dict[str, Run]]) -> Search:
    """Return the search of the best rate of each change, trained with so many further `seeds`."""
    return rate_search(
        {
            label: tuple(with_rate(changes[dataset][label], 1.0) for dataset in DATASETS)
            for label in changes[DATASETS[0]]
        },
        name=name,
        title=title,
        best_seeds=seeds,
        in_smoke=(f"{PLAIN}, rate x 1",),
    )


RECIPE_PARTS = _search(
    "recipe-parts",
    "The recipe with one part changed, each at its best rate, ε = 3",
    0,
    {dataset: parts(dataset) for dataset in DATASETS},
)
RECIPE_REMEDIES = _search(
    "recipe-remedies",
    "The papers' remedies on the recipe's features, each at its best rate, ε = 3",
    4,
    {dataset: remedies(dataset) for dataset in DATASETS},
)
EXPERIMENTS = (RECIPE_PARTS, RECIPE_REMEDIES)
