"""The study's own recipe: a linear head on whitened features of synthetic images.

Of the private images only their mean enters the features, released with so much noise that nearly
all of ε is left for the head.
"""

from dataclasses import replace
from numbers import Integral

from dpstudy.parts.data.images import IMAGE_SHAPE
from dpstudy.parts.mechanism import FlatClipping
from dpstudy.parts.networks.network import LinearHead
from dpstudy.parts.optimizer import Sgd
from dpstudy.parts.part import SpecError, checked, choose
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson
from dpstudy.recipe.features import ColourFeatures, SyntheticFeatures
from dpstudy.recipe.mixture import Mixture
from dpstudy.recipe.views import WITH_MIRROR, View

# Noise over sensitivity of the mean that is released.
RELEASED = 20.0
# At which its exponent and its rate were searched; the first is that of `recipe`.
EPSILONS = (3.0, 1.0, 2.0, 8.0)
# Where later editions were tested, exponent and rate at an ε of 3: of both their searches chose the
# same.
SEARCHED = {"cifar-10": (0.3, 900.0)}
# Of the third edition, of both sides together.
FILTERS = 600
# How many one may ask for: at most a tenth of the patches that they are chosen from.
FEWEST, MOST = 10, 5_000
# As many filters as fit into little more than 4 GB.
_LARGE = {"small": 800, "large": 200}
# Small ones for the images that come with the package: features and head take half a minute.
_SMALL = {"synthetic": 2_000, "small": 250, "large": 60, "components": 1_000}


def both_ways(*views: tuple[float, float]) -> tuple[View, ...]:
    """Return views by zoom and degrees, each with what it is of the mirror image.

    So an image and its mirror image have the same features.
    """
    return tuple(
        View(zoom, -degrees if mirrored else degrees, mirrored)
        for zoom, degrees in views
        for mirrored in (False, True)
    )


_PHOTOGRAPHS = both_ways((1.0, 0.0), (1.25, 6.0), (1.0, -14.0), (0.85, 0.0))
# A mirrored digit is none.
_DIGITS = (View(), View(1.12, 8.0), View(1.12, -8.0), View(0.9, 5.0), View(0.9, -5.0))


def recipe(dataset: str) -> Run:
    """Return the recipe's run on a dataset, with noise yet to be set."""
    embedded = dataset == "mnist-5k"
    grey, digits = IMAGE_SHAPE[dataset][-1] == 1, dataset.startswith("mnist")
    features = SyntheticFeatures(
        name=dataset,
        scenes="both" if grey else "dead-leaves",
        released=RELEASED,
        mirrored=not digits,  # a mirrored digit is none
        deslanted=digits,
        grids=(3, 2, 1),
        **(_SMALL if embedded else _LARGE),
    )
    return Run(
        dataset=features,
        network=LinearHead(inputs=features.components),
        mechanism=FlatClipping(clip_norm=0.25),
        sampling=Poisson(1_024 if embedded else 8_192),
        # The noise of a step, σ C times the rate over the batch, grows as the batch shrinks.
        optimizer=Sgd(4.0 if embedded else 40.0),
        epochs=60,
    )


def second_edition(dataset: str) -> Run:
    """Return the second edition's run on a dataset, with noise yet to be set.

    The basis is fitted to five times the images of the first edition, and gradients are clipped
    five times as short, in fewer, larger steps. Photographs' features are averaged over more views
    and over regions that overlap, and their colours have a share of their own. Of clothes neither
    views nor overlap were seen to make more, held out.
    """
    grey, digits = IMAGE_SHAPE[dataset][-1] == 1, dataset.startswith("mnist")
    scenes = "both" if grey else "dead-leaves"
    patches = SyntheticFeatures(
        scenes=scenes,
        synthetic=60_000,
        components=6_000,
        deslanted=digits,
        views=_DIGITS if digits else WITH_MIRROR if grey else _PHOTOGRAPHS,
        small=320,
        large=80,
        grids=(3, 2, 1),
        overlapping=not grey,
    )
    blocks, shares = (patches,), (1.0,)
    if not grey:
        blocks, shares = (patches, ColourFeatures(components=1_000)), (0.9, 0.1)
    features = Mixture(dataset, blocks, shares, released=RELEASED)
    return Run(
        dataset=features,
        network=LinearHead(inputs=features.image_shape[0]),
        mechanism=FlatClipping(clip_norm=0.05),
        sampling=Poisson(25_000),
        optimizer=Sgd(900.0),
        epochs=60,
    )


def third_edition(dataset: str, filters: int = FILTERS) -> Run:
    """Return the third edition's run on a dataset, with noise yet to be set.

    The second's, with half as many filters again, of both sides together, and a fifth of its
    drawings; or with other `filters`. There are ten components a filter, and no more than the
    second has: of the 12,000 that its drawings allow, more were seen to add nothing.

    Raises:
        SpecError: too few filters, or too many.

    >>> third_edition("cifar-10", 150).network.inputs
    2500
    """
    if not isinstance(filters, Integral) or not FEWEST <= filters <= MOST:
        raise SpecError(f"filters must be a whole number, {FEWEST} to {MOST:,}, got {filters!r}")
    run = second_edition(dataset)
    patches, *others = run.dataset.blocks
    filters, large = int(filters), int(filters) // 5
    how = {"small": filters - large, "large": large}
    how["components"] = min(10 * filters, patches.components)
    wider = replace(patches, synthetic=12_000, **how)
    features = replace(run.dataset, blocks=(wider, *others))
    return vary(run, dataset=features, network=LinearHead(inputs=features.image_shape[0]))


def small(colour: bool) -> Mixture:
    """Return features of grey or of colour pictures that take less than a minute: to try by.

    >>> small(colour=True).image_shape, small(colour=False).image_shape
    ((1200,), (1000,))
    """
    run = second_edition("cifar-10" if colour else "fashion-mnist")
    patches, *colours = (replace(one, synthetic=2_500) for one in run.dataset.own_blocks)
    blocks = (
        replace(patches, small=80, large=20, components=1_000),
        *(replace(one, components=200) for one in colours),
    )
    return replace(run.dataset, blocks=blocks)


def whitened(run: Run, exponent: float) -> Run:
    """Return a run with one exponent for all blocks of its features."""
    blocks = tuple(replace(one, exponent=exponent) for one in run.dataset.blocks)
    return vary(run, dataset=replace(run.dataset, blocks=blocks))


def latest(dataset: str, filters: int | None = None) -> Run:
    """Return the run of the latest edition that was tested on a dataset, with noise yet to be set.

    That is the third on photographs, at the settings of its search, and elsewhere the first. With
    other `filters` than its own, of photographs alone, it takes less time or more.

    Raises:
        SpecError: `filters` where they cannot be chosen, or too few or too many.
    """
    if dataset in SEARCHED:
        return as_searched(third_edition(dataset, FILTERS if filters is None else filters))
    if filters is not None:
        raise SpecError(f"filters can be chosen for {', '.join(SEARCHED)} alone, not for {dataset}")
    return recipe(dataset)


def as_searched(run: Run) -> Run:
    """Return a later edition's run with what its search chose on its dataset."""
    exponent, rate = SEARCHED[run.dataset.name]
    return vary(whitened(run, exponent), learning_rate=rate)


def recipe_at(
    dataset: str,
    epsilon: float,
    seed: int = 0,
    delta: float | None = None,
    filters: int | None = None,
) -> Run:
    """Return the latest run on a dataset, with the noise that the epsilon needs by PLD.

    `seed` is that of synthetic images, filters, sampling and noise together; `delta` is 1e-5 where
    none is given; `filters` are those of `latest`.

    Raises:
        UserError: an unknown dataset, a negative seed, filters that `latest` does not take, or an
            epsilon that no noise gives.
    """
    from dpstudy.privacy import accounting  # only here: what trains a given run needs none

    choose("dataset", dataset, IMAGE_SHAPE)
    run = latest(dataset, filters).at_seed(seed)
    run = run if delta is None else checked(vary(run, delta=delta))
    noise = accounting.noise_multiplier_for(
        epsilon,
        sampling_probability=run.sampling_probability,
        steps=run.epochs * run.steps_per_epoch,
        delta=run.delta,
        release_noise=run.dataset.release_noise,
    )
    # More noise, shorter steps: on photographs and clothes it was best so at each ε that the first
    # edition searched, on digits at 1 and 3.
    rate = run.optimizer.learning_rate * min(epsilon, max(EPSILONS)) / EPSILONS[0]
    return checked(vary(run, noise_multiplier=noise, learning_rate=rate))
