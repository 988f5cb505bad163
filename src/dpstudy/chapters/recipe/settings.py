"""What the recipe is made of, dataset by dataset."""

from __future__ import annotations

from dpstudy.parts.feature_networks import LinearHead
from dpstudy.parts.images import IMAGE_SHAPE
from dpstudy.parts.mechanism import FlatClipping
from dpstudy.parts.optimizer import Sgd
from dpstudy.parts.part import checked, choose
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson
from dpstudy.parts.synthetic_features import SyntheticFeatures
from dpstudy.privacy import accounting

# Small ones for the images that come with the package: features and head take half a minute.
_SMALL = {"synthetic": 2_000, "small": 250, "large": 60, "components": 1_000}


def recipe(dataset: str, epsilon: float, seed: int = 0) -> Run:
    """Return the recipe's run on a dataset, with the noise that the epsilon needs by PLD.

    Args:
        dataset: of private images, one of `images.DATASETS`.
        epsilon: to spend at delta = 1e-5, above 0.
        seed: of synthetic images, filters, sampling and noise together.

    Raises:
        SpecError: an unknown dataset, or a negative seed.
        UserError: an epsilon that no noise gives.
    """
    choose("dataset", dataset, IMAGE_SHAPE)
    embedded = dataset == "mnist-5k"
    grey = IMAGE_SHAPE[dataset][-1] == 1
    features = SyntheticFeatures(
        name=dataset,
        scenes="both" if grey else "dead-leaves",
        mirrored=dataset in ("fashion-mnist", "cifar-10"),  # a mirrored digit is none
        exponent=0.3,
        drawn=seed,
        **(_SMALL if embedded else {}),
    )
    run = Run(
        dataset=features,
        network=LinearHead(inputs=features.components),
        mechanism=FlatClipping(clip_norm=0.25),
        sampling=Poisson(1_024 if embedded else 8_192),
        # The noise of a step, σ C times the rate over the batch, grows as the batch shrinks.
        optimizer=Sgd(4.0 if embedded else 40.0, momentum=0.9),
        epochs=60,
        seed=seed,
    )
    noise = accounting.noise_multiplier_for(
        epsilon,
        sampling_probability=run.sampling_probability,
        steps=run.epochs * run.steps_per_epoch,
        delta=run.delta,
    )
    return checked(vary(run, noise_multiplier=noise))
