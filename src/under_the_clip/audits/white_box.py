"""White box: who sees every noisy sum of the step that trains, and looks for a canary in them."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Bool, Float

from dpstudy.lab.wording import epsilon, rounded_down
from dpstudy.parts.data.images import Dataset
from dpstudy.parts.data.released_statistics import release_mean
from dpstudy.parts.run import Run
from dpstudy.privacy import auditing, worst_example
from dpstudy.privacy.auditing import Trials
from dpstudy.privacy.run_epsilon import epsilon_curve
from dpstudy.privacy.worst_example import Example

# Starts and steps of a search for the canary.
SEARCH = {"starts": 20, "steps": 300}
# Fields of mechanisms that no bounded gradient depends on, at the values that searches share.
_BESIDE_THE_BOUND = dict.fromkeys(("noise_multiplier", "noise_std", "claimed_factor"), 1.0)
_BESIDE_THE_BOUND["claimed_accountant"] = ""
# Layers' norms are sums of float32 squares.
_ROUNDING = 1e-4


@dataclass(frozen=True, kw_only=True)
class Audited:
    """A mechanism in its setting, whatever it is audited by.

    The `setting` says on what and with which canary; `epsilon_curve` names the epsilon that is
    claimed `claimed_by`.
    """

    name: str
    mechanism: str
    setting: str
    run: Run
    claimed_by: str

    kind: ClassVar[str] = "audits"

    def record(
        self, box: str, found: dict[str, tuple[float, auditing.Guesses]], trials: int
    ) -> dict[str, Any]:
        """Return what the records of all audits hold, `found` being bounds with their guesses."""
        run = self.run
        spent = epsilon_curve(run, [run.epochs * run.steps_per_epoch])
        [proven] = spent["pld" if "pld" in spent else "shuffled-pld"]
        lower_bound, guesses = found["clopper-pearson"]
        return {
            "audit": self.name,
            "box": box,
            "mechanism": self.mechanism,
            "setting": self.setting,
            "claimed": spent[self.claimed_by][0],
            "proven": proven,
            # As they are: what exceeds the proven epsilon by little does, too.
            "lower_bound": lower_bound,
            "bounds": {name: bound for name, (bound, _) in found.items()},
            "most_shown": rounded(auditing.most_shown(trials, run.delta)),
            "delta": run.delta,
            "confidence": auditing.CONFIDENCE,
            "trials": trials,
            "seen": f"{guesses}.",
        }

    def record_of_trials(
        self, found: dict[str, tuple[float, auditing.Guesses]], seen: Trials
    ) -> dict[str, Any]:
        """Return what the records of all white boxes hold; see `record`."""
        return self.record("white box", found, seen.inside.size) | {
            "runs": len(seen.inside),
            "strength": rounded(seen.strength),
            "attained": rounded(seen.strength * self.run.mechanism.noise_over_sensitivity),
        }

    @staticmethod
    def line(record: dict[str, Any]) -> str:
        """Return a record as one line."""
        return (
            f"{record['audit']}: claimed {record['claimed']:.3g}, "
            f"proven {epsilon(record['proven'])}, "
            f"at least {rounded_down(record['lower_bound'])} whatever the noise, "
            f"{rounded_down(record['bounds']['gaussian'])} if it is Gaussian "
            f"({record['confidence']:.0%}, {record['trials']:,} trials, {record['box']})"
        )

    @staticmethod
    def refuted(record: dict[str, Any]) -> bool:
        """Return whether a bound from many trials is above what is proven: code or proof err."""
        return max(record["bounds"][name] for name in auditing.MANY_RUNS) > record["proven"]


@dataclass(frozen=True, kw_only=True)
class Audit(Audited):
    """Canaries in simulated runs, told by the noisy sums of the step that trains.

    `canary` finds the first one, and the weights that stand still.
    """

    canary: Callable[[Run], Example]
    runs: int = 10
    canaries: int = 8192

    def carry_out(self) -> dict[str, Any]:
        """Return what the record of the audit holds, but for its provenance."""
        seen = self.trials()
        return self.record_of_trials(auditing.bounds(seen, self.run.delta), seen)

    def trials(self) -> Trials:
        """Simulate the runs."""
        from dpstudy.privacy import canaries  # only here: it trains

        canary = self.canary(self.run)
        return canaries.trials(self.run, canary, runs=self.runs, canaries=self.canaries)


@dataclass(frozen=True, kw_only=True)
class ReleasedAudit(Audit):
    """The mean that a run's features lack is seen too, which was released with noise.

    A canary is one example in both: features of norm 1 at right angles to those of all others, and
    a gradient likewise. There are at most as many canaries as features.
    """

    def trials(self) -> Trials:
        """See `Audit`."""
        seen = super().trials()
        noise = self.run.dataset.release_noise
        scores = [scores_of_the_mean(noise, one, seed) for seed, one in enumerate(seen.inside)]
        return replace(seen, scores=seen.scores + np.stack(scores))


def scores_of_the_mean(
    noise_multiplier: float, inside: Bool[np.ndarray, "canaries"], seed: int
) -> Float[np.ndarray, "canaries"]:
    """Return by how much a released mean speaks for each canary: logarithms of likelihood ratios.

    Canary k has feature k alone, and the other examples have none.
    """
    features = np.diag(inside.astype(np.float16))
    total = len(features) * release_mean(features, noise_multiplier, seed)
    return (total - 1 / 2) / noise_multiplier**2


@dataclass(frozen=True, kw_only=True)
class LayerAttack:
    """A search for the example that adds most to each layer's sum: proven is at most a b."""

    name: str
    setting: str
    run: Run  # its mechanism clips within backpropagation
    starts: int = 10
    steps: int = 300

    kind: ClassVar[str] = "attacks"

    def carry_out(self) -> dict[str, Any]:
        """Return what the record of the attack holds, but for its provenance."""
        paths = jax.tree_util.tree_leaves_with_path(self.run.network.shapes())
        layers = [path[0].key for path, _ in paths]
        found, together = {}, {}
        for name, weights in (("drawn", False), ("free", True)):
            of_layer = [self._longest(weights, leaf)[leaf] for leaf in range(len(layers))]
            found[name] = dict(zip(layers, map(rounded, of_layer), strict=True))
            together[name] = rounded(np.sqrt(np.mean(self._longest(weights, None) ** 2)))
        return {
            "attack": self.name,
            "setting": self.setting,
            **found,
            "together": together,
            "looked": f"for each, {self.starts} random starts and {self.steps} steps from each",
        }

    def _longest(self, weights: bool, leaf: int | None) -> np.ndarray:
        """Return the longest gradient's norms over a b, by layer."""
        options = {"weights": weights, "starts": self.starts, "steps": self.steps}
        norms = worst_example.search(self.run, leaf=leaf, **options).norms
        return np.asarray(norms) / self.run.mechanism.sensitivity

    @staticmethod
    def line(record: dict[str, Any]) -> str:
        """Return a record as one line."""
        shown = ", ".join(f"{layer} {share:.1%}" for layer, share in record["free"].items())
        return f"{record['attack']}: of what is proven possible, {shown}"

    @staticmethod
    def refuted(record: dict[str, Any]) -> bool:
        """Return whether a layer was found beyond what is proven of it, but for rounding."""
        return max(*record["free"].values(), *record["drawn"].values()) > 1 + _ROUNDING


def first_image(run: Run) -> Example:
    """Return the first training example, at the weights that the run's seed draws.

    On MNIST its gradient is there eighty times as long as the clip: a missing clip shows.
    """
    data = run.dataset.load()
    image = np.asarray(data.train_images[0], np.float32)
    return Example(image, int(data.train_labels[0]), worst_example.drawn_weights(run))


def equal_features(run: Run) -> Example:
    """Return features of norm 1 that are all equal, at the weights that the run's seed draws."""
    (count,) = run.dataset.image_shape
    features = np.full(count, count**-0.5, np.float32)
    return Example(features, 0, worst_example.drawn_weights(run))


def searched(run: Run) -> Example:
    """Return the example with the longest gradient found, at the weights that the seed draws."""
    return _searched(_one_for_all_noise(run), weights=False)


def searched_with_weights(run: Run) -> Example:
    """Return the example and weights with the longest gradient found."""
    return _searched(_one_for_all_noise(run), weights=True)


def searched_after_training(run: Run) -> Example:
    """Return the example with the longest gradient found, at the weights that the run ends with."""
    return worst_example.search(run, trained_weights(run), weights=False, **SEARCH).example


def trained_weights(
    run: Run, data: Dataset | None = None, weights: nnx.State | None = None
) -> nnx.State:
    """Return the weights that training ends with; data and first weights are by default the run's.

    One run alone: one after the other share a program, on a CPU faster than side by side.
    """
    from dpstudy.training import loop  # only here: what reads trains nothing

    data = run.dataset.load() if data is None else data
    start = loop.start(run)
    if weights is not None:
        start = start._replace(params=jax.tree.map(jnp.copy, weights))
    epochs = loop.train([run], data, run.network.examples_at_once(), loop.stack([start]))
    for _, states in epochs:
        params = states.params
    return loop.item(0, params)


def _one_for_all_noise(run: Run) -> Run:
    """Return the run whose search serves all that differ in noise, length and claims alone."""
    its = {field.name for field in fields(run.mechanism)}
    shared = {name: value for name, value in _BESIDE_THE_BOUND.items() if name in its}
    return replace(run.of_a_step(), mechanism=replace(run.mechanism, **shared))


@lru_cache(maxsize=8)
def _searched(run: Run, *, weights: bool) -> Example:
    return worst_example.search(run, weights=weights, **SEARCH).example


def rounded(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{value:.6g}")
