"""Shuffled batches audited: with the gradients of the proof, and with a trained network's."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dpstudy.parts.run import Run
from dpstudy.privacy import auditing, dealing
from under_the_clip.audits.white_box import Audited, rounded, trained_weights


@dataclass(frozen=True, kw_only=True)
class ShuffledAudit(Audited):
    """White box: every batch's noisy sum is seen, and every gradient known, but not the deal.

    Attributes:
        trained: epochs after which the examples' gradients are taken; 0 for those of the proof.
        runs: simulated, each with a coin of its own.
    """

    trained: int
    runs: int

    def carry_out(self) -> dict[str, Any]:
        """Return what the record of the audit holds, but for its provenance."""
        seen = dealing.trials(self.run, self._gradients(), self.runs)
        found = auditing.of_many_runs(*seen.flat, self.run.delta)
        return self.record("white box", found, self.runs) | {
            "runs": self.runs,
            "strength": rounded(seen.strength),
            "attained": rounded(seen.strength * self.run.mechanism.noise_over_sensitivity),
        }

    def _gradients(self) -> dealing.Gradients:
        run: Run = self.run
        if not self.trained:
            return dealing.of_the_proof(run)
        weights = trained_weights(dataclasses.replace(run, epochs=self.trained))
        return dealing.of_training(run, weights)
