"""The recipe on one of the study's datasets, whose settings were searched and are a run's."""

import warnings

import numpy as np

from dpstudy.parts.data import images
from dpstudy.parts.data.images import CLASSES
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run
from dpstudy.privacy import statement
from dpstudy.recipe import head
from dpstudy.recipe.classifier import (
    LEAKS,
    PrivacyWarning,
    PrivateImageClassifier,
    check_seed,
    noise_is_known,
)
from dpstudy.recipe.model import Model
from dpstudy.recipe.settings import Settings
from dpstudy.recipe.spent import statement_of


def train(
    run: Run, *, seed: int | None = None, secure: bool = False
) -> tuple[PrivateImageClassifier, float]:
    """Return the classifier that a run of `recipe_at` describes, and its test accuracy.

    Batches and noise, of the mean too, are drawn by `seed`, or by a secret one that is not kept;
    features by the run's own, which the model names. The labels are numbers, as the dataset has
    them. The accuracy is by exact norms; by those that a model estimates (see `folded`) a label in
    a hundred may differ. A PrivacyWarning where there is a `seed`.

    Raises:
        SpecError: features that are fitted to private images, or drawn by the seed of the noise.
        DataError: the dataset is not on this machine, or a basis cannot be kept in the cache.
    """
    features, how = run.dataset, settings_of(run)
    if features.leaks:
        raise SpecError(LEAKS)
    check_seed(seed, features)
    if seed is not None:
        warnings.warn(noise_is_known("seed", seed), PrivacyWarning, stacklevel=2)
    whole = images.load(features.name)
    found = features.vectors_of(whole)
    train, test = found[: how.examples], found[how.examples :]
    randomness = head.Secure() if secure else head.Seeded(seed)
    count = len(CLASSES[features.name])
    labels = whole.train_labels.astype(np.int32)
    kernel, mean = head.fit(train, labels, count, how, randomness)
    right = (np.float32(head.centred(test, mean)) @ kernel).argmax(1) == whole.test_labels
    spent = statement_of(
        how, searched=statement.UNCOUNTED, read_off=[], seeded=seed is not None, secure=secure
    )
    model = Model.of_head(features, kernel, mean, tuple(range(count)), spent)
    return PrivateImageClassifier.of(model), float(right.mean())


def settings_of(run: Run) -> Settings:
    """Return the settings of a run's head."""
    return Settings(
        examples=run.dataset.examples,
        batch=run.sampling.batch,
        steps=run.epochs * run.steps_per_epoch,
        delta=run.delta,
        noise_multiplier=run.mechanism.noise_multiplier,
        learning_rate=run.optimizer.learning_rate,
        release_noise=run.dataset.release_noise,
        clip_norm=run.mechanism.clip_norm,
        momentum=run.optimizer.momentum,
    )
