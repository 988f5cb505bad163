"""The sensitivity of each layer, attacked on the real network.

Backpropagation clipping proves that one example adds to a layer's sum at most a b. Here the image,
its label and the weights are searched for the example that adds most to each layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from dpstudy.parts.run import Run
from dpstudy.privacy import worst_example
from under_the_clip.audits.white_box import rounded

# Norms are sums of float32 squares.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class LayerAttack:
    """A search for the example that adds most to each layer's sum.

    Attributes:
        name: lower-case words joined by hyphens.
        setting: on what, in words.
        run: its mechanism clips within backpropagation.
        starts: random starts of each search.
        steps: of Adam from each.
    """

    name: str
    setting: str
    run: Run
    starts: int = 10
    steps: int = 300

    kind: ClassVar[str] = "attacks"

    def carry_out(self) -> dict[str, Any]:
        """Return what the record of the attack holds, but for its provenance."""
        paths = jax.tree_util.tree_leaves_with_path(self.run.network.shapes())
        layers = [path[0].key for path, _ in paths]
        found = {}
        together = {}
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
