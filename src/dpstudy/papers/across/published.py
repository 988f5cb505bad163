"""What others published without public data, at ε = 1, 3 or 8 and δ = 1e-5."""

from __future__ import annotations

from dpstudy.ledger.published import Accuracy, Source

_TRAMER = Source("tramer2021differentially", "Table 1")
_DE = Source("de2022unlocking", "Table 1")

PUBLISHED = (
    Accuracy("mnist", "linear on scattering, Tramèr & Boneh 2021", 0.987, 3.0, _TRAMER),
    Accuracy("fashion-mnist", "linear on scattering, Tramèr & Boneh 2021", 0.897, 3.0, _TRAMER),
    Accuracy("cifar-10", "CNN on scattering, Tramèr & Boneh 2021", 0.693, 3.0, _TRAMER),
    Accuracy("cifar-10", "WRN-40-4, De et al. 2022", 0.568, 1.0, _DE),
    Accuracy("cifar-10", "WRN-40-4, De et al. 2022", 0.707, 3.0, _DE),
    Accuracy("cifar-10", "WRN-40-4, De et al. 2022", 0.814, 8.0, _DE),
)
