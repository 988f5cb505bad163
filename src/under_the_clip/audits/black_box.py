"""Black box: who sees the trained model alone, and asks it for one example's loss.

Models are trained with a poisoned example or with a blank one in its place, by a fair coin each:
the first training image with a wrong label. A blank image adds nothing in a network without biases,
so the neighbour is the dataset without the example for sampled batches, and with it blanked for
shuffled ones. All start from the same weights, which the other examples are fitted at: epsilon
holds for any start, and from there the poisoned example stands out (Annamalai and De Cristofaro
2024, "Nearly tight black-box auditing of differentially private machine learning").
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from dpstudy.parts.data.images import Dataset
from dpstudy.parts.run import Run
from dpstudy.privacy import auditing
from dpstudy.privacy.worst_example import CLASSES, bounded_sum
from under_the_clip.audits.white_box import Audited, trained_weights


@dataclass(frozen=True, kw_only=True)
class BlackBoxAudit(Audited):
    """Models with and without a poisoned example, told by its loss.

    As many `models` of seeds from 0 on begin where `start` ends, which lacks the poisoned example.
    """

    start: Run
    models: int

    def carry_out(self) -> dict[str, Any]:
        """Return what the record of the audit holds, but for its provenance."""
        inside = np.random.default_rng(0).integers(0, 2, self.models).astype(bool)
        scores = -np.array(list(self._losses(inside)))
        found = auditing.of_many_runs(inside, scores, self.run.delta)
        coins = {"in": True, "out": False}
        mean = {name: float(-scores[inside == coin].mean()) for name, coin in coins.items()}
        return self.record("black box", found, self.models) | {"models": self.models, "loss": mean}

    def _losses(self, inside: np.ndarray) -> Iterator[float]:
        data = self.run.dataset.load()
        image, label = data.train_images[0], (int(data.train_labels[0]) + 1) % CLASSES
        poisoned, blanked = _first(data, image, label), _first(data, 0 * image, label)
        weights = trained_weights(self.start, blanked)
        for seed, coin in enumerate(inside):
            run = replace(self.run, seed=seed)
            trained = trained_weights(run, poisoned if coin else blanked, weights)
            yield float(_loss(run.of_a_step(), trained, jnp.asarray(image), jnp.int32(label)))


def _first(data: Dataset, image: np.ndarray, label: int) -> Dataset:
    images, labels = np.array(data.train_images), np.array(data.train_labels)
    images[0], labels[0] = image, label
    return replace(data, train_images=images, train_labels=labels)


@jax.jit
def _loss(run: Run, params: nnx.State, image: Array, label: Array) -> Float[Array, ""]:
    """Return an example's loss as training has it: with the mechanism's clips of its inputs."""
    return bounded_sum(run, params, image[None], label[None])[1].loss
