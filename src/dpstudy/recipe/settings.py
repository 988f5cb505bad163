"""What the recipe is made of at any ε: its run on a dataset, with the noise that the ε needs."""

from __future__ import annotations

from dpstudy.parts.data.images import IMAGE_SHAPE
from dpstudy.parts.part import checked, choose
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import accounting
from dpstudy.recipe.run import EPSILONS, recipe


def recipe_at(dataset: str, epsilon: float, seed: int = 0) -> Run:
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
    run = recipe(dataset).at_seed(seed)
    noise = accounting.noise_multiplier_for(
        epsilon,
        sampling_probability=run.sampling_probability,
        steps=run.epochs * run.steps_per_epoch,
        delta=run.delta,
        release_noise=run.dataset.release_noise,
    )
    # More noise, shorter steps: on photographs and clothes it is best so at each ε that was
    # searched, on digits at 1 and 3.
    rate = run.optimizer.learning_rate * min(epsilon, max(EPSILONS)) / EPSILONS[0]
    return checked(vary(run, noise_multiplier=noise, learning_rate=rate))
