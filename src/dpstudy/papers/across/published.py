"""What others published without real public data, at δ = 1e-5: some of the highest."""

from __future__ import annotations

from dpstudy.ledger.published import Accuracy, Source
from dpstudy.papers.backpropagation_clipping import published as backpropagation_clipping
from dpstudy.papers.tempered_sigmoids import published as tempered_sigmoids

_TRAMER = Source("tramer2021code", "README.md at commit 2a1c3a84, main results")
# Scattering features too, with updates that a private validation rejects where they do not help.
_FU = Source("fu2024dpsur", "README.md of its code at commit 014bf0eb, main results")
_DE = Source("de2022unlocking", "Abstract")
# Priors learned from images of random processes, which are nobody's either.
_TANG = Source("tang2023randp", "Abstract")

PUBLISHED = (
    Accuracy("mnist", "linear scattering, Tramèr & Boneh 2021", 0.987, 3.0, _TRAMER),
    Accuracy("fashion-mnist", "linear scattering, Tramèr & Boneh 2021", 0.897, 3.0, _TRAMER),
    Accuracy("cifar-10", "CNN on scattering, Tramèr & Boneh 2021", 0.693, 3.0, _TRAMER),
    Accuracy("cifar-10", "Wide-ResNet-40-4, De et al. 2022", 0.814, 8.0, _DE),
    Accuracy("cifar-10", "random processes, Tang et al. 2023", 0.723, 1.0, _TANG),
    *(
        Accuracy(dataset, "selective updates, Fu et al. 2024", value, epsilon, _FU)
        for dataset, values in {
            "mnist": (0.9793, 0.9870, 0.9888),
            "fashion-mnist": (0.8838, 0.8934, 0.8971),
            "cifar-10": (0.6441, 0.6940, 0.7083),
        }.items()
        for epsilon, value in zip((1.0, 2.0, 3.0), values, strict=True)
    ),
)

_STATED_AS = {
    "DP-SGD, relu": ("relu",),
    "DP-SGD, tanh": ("tanh",),
    "DP-SGD, tempered sigmoid": ("best tempered sigmoid",),
    "as published": ("clips inside backpropagation, Adam", "clips inside backpropagation, SGD"),
    "linear scattering, Tramèr & Boneh 2021": ("scattering, linear",),
}
# What papers state of the leaderboard's methods, by dataset and method.
OF_METHODS = {
    (one.dataset, method): one
    for one in (*tempered_sigmoids.ACCURACIES, *backpropagation_clipping.ACCURACIES, *PUBLISHED)
    for method in _STATED_AS.get(one.method, ())
}
