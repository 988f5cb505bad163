"""What others published without public data, at ε = 3 or 8 and δ = 1e-5."""

from __future__ import annotations

from dpstudy.ledger.published import Accuracy, Source

_TRAMER = Source("tramer2021code", "README.md at commit 2a1c3a84, main results")
_DE = Source("de2022unlocking", "Abstract")

PUBLISHED = (
    Accuracy("mnist", "linear on scattering, Tramèr & Boneh 2021", 0.987, 3.0, _TRAMER),
    Accuracy("fashion-mnist", "linear on scattering, Tramèr & Boneh 2021", 0.897, 3.0, _TRAMER),
    Accuracy("cifar-10", "CNN on scattering, Tramèr & Boneh 2021", 0.693, 3.0, _TRAMER),
    Accuracy("cifar-10", "Wide-ResNet of 40 layers, De et al. 2022", 0.814, 8.0, _DE),
)
