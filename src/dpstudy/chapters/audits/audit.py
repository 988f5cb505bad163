"""One audit: a mechanism in its setting, the canary that it is given, and what that shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpstudy.parts.mechanism import Mechanism
from dpstudy.parts.run import Run
from dpstudy.privacy import auditing, worst_example
from dpstudy.privacy.canaries import Example, trials
from dpstudy.privacy.run_epsilon import epsilon_curve

# Starts and steps of a search for the canary.
SEARCH = {"starts": 20, "steps": 300}
# Fields of mechanisms that no bounded gradient depends on, at the values that searches share.
_BESIDE_THE_BOUND = {
    "noise_multiplier": 1.0,
    "noise_std": 1.0,
    "claimed_factor": 1.0,
    "claimed_accountant": "",
}


@dataclass(frozen=True)
class Audit:
    """One mechanism in its setting, with a canary that it is audited by.

    Attributes:
        name: lower-case words joined by hyphens.
        mechanism: what is audited, in words.
        setting: on what, with which canary, in words.
        run: its mechanism, sampling, epochs, network and data.
        canary: finds the first canary, and the weights that stand still.
        claimed_by: the name in `epsilon_curve` of the epsilon that is claimed.
        runs: simulated.
        canaries: in each run.
    """

    name: str
    mechanism: str
    setting: str
    run: Run
    canary: Callable[[Run], Example]
    claimed_by: str
    runs: int = 10
    canaries: int = 8192

    kind: ClassVar[str] = "audits"

    def carry_out(self) -> dict[str, Any]:
        """Return what the record of the audit holds, but for its provenance."""
        run = self.run
        seen = trials(run, self.canary(run), runs=self.runs, canaries=self.canaries)
        found = auditing.bounds(seen, run.delta)
        spent = epsilon_curve(run, [run.epochs * run.steps_per_epoch])
        [proven] = spent["pld" if "pld" in spent else "shuffled-pld"]
        lower_bound, guesses = found["clopper-pearson"]
        return {
            "audit": self.name,
            "mechanism": self.mechanism,
            "setting": self.setting,
            "claimed": spent[self.claimed_by][0],
            "proven": proven,
            "lower_bound": _rounded(lower_bound),
            "bounds": {name: _rounded(bound) for name, (bound, _) in found.items()},
            "most_shown": _rounded(auditing.most_shown(seen.scores.size, run.delta)),
            "delta": run.delta,
            "confidence": auditing.CONFIDENCE,
            "trials": seen.scores.size,
            "runs": self.runs,
            "strength": _rounded(seen.strength),
            "attained": _rounded(seen.strength * run.mechanism.noise_over_sensitivity),
            "seen": f"{guesses}.",
        }

    @staticmethod
    def line(record: dict[str, Any]) -> str:
        """Return a record as one line."""
        return (
            f"{record['audit']}: claimed {record['claimed']:.3g}, proven {record['proven']:.4g}, "
            f"at least {record['lower_bound']:.3g} ({record['confidence']:.0%}, "
            f"{record['trials']:,} trials)"
        )


def first_image(run: Run) -> Example:
    """Return the first training example, at the weights that the run's seed draws."""
    data = run.dataset.load()
    image = np.asarray(data.train_images[0], np.float32)
    return Example(image, int(data.train_labels[0]), worst_example.drawn_weights(run))


def searched(run: Run) -> Example:
    """Return the example with the longest gradient found, at the weights that the seed draws."""
    return _searched(_one_for_all_noise(run), weights=False)


def searched_with_weights(run: Run) -> Example:
    """Return the example and weights with the longest gradient found."""
    return _searched(_one_for_all_noise(run), weights=True)


def searched_after_training(run: Run) -> Example:
    """Return the example with the longest gradient found, at the weights that the run ends with."""
    from dpstudy.training import loop  # only here: what reads trains nothing

    epochs = loop.train([run], run.dataset.load(), run.network.examples_at_once())
    *_, (_, states) = epochs
    params = loop.item(0, states.params)
    return worst_example.search(run, params, weights=False, **SEARCH).example


def _one_for_all_noise(run: Run) -> Run:
    """Return the run whose search serves all that differ in noise, length and claims alone."""
    its = {field.name for field in dataclasses.fields(run.mechanism)} & set(_BESIDE_THE_BOUND)
    changes = {name: _BESIDE_THE_BOUND[name] for name in its}
    mechanism: Mechanism = dataclasses.replace(run.mechanism, **changes)
    return dataclasses.replace(run.of_a_step(), mechanism=mechanism)


@lru_cache(maxsize=8)
def _searched(run: Run, *, weights: bool) -> Example:
    return worst_example.search(run, weights=weights, **SEARCH).example


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
