"""What others published without real public data, at δ = 1e-5: some of the highest."""

from dpstudy.lab.published import Accuracy, Source
from under_the_clip.backpropagation_clipping import published as backpropagation_clipping
from under_the_clip.tempered_sigmoids import published as tempered_sigmoids

_TRAMER = Source("tramer2021code", "README.md at commit 2a1c3a84, main results")
# Scattering features too, with updates that a private validation rejects where they do not help.
_FU = Source("fu2024dpsur", "README.md of its code at commit 014bf0eb, main results")
_DE = Source("de2022unlocking", "Abstract")
# Priors learned from images of random processes, which are nobody's either.
_TANG = Source("tang2023randp", "Abstract")
# These two are copied from quotations: the pages themselves could not be opened here.
_DE_QUOTED = Source("de2022unlocking", "CIFAR-10 without extra data, as quoted by others")
_BAO = Source("bao2024reliable", "Tables 11 and 15 of the extended version, as quoted by others")

_WIDE_RESNET = "Wide-ResNet, De et al. 2022"
_RANDOM_PROCESSES = "random processes, Tang et al. 2023"
_SELECTIVE = "selective updates, Fu et al. 2024"

PUBLISHED = (
    Accuracy("mnist", "linear scattering, Tramèr & Boneh 2021", 0.987, 3.0, _TRAMER),
    Accuracy("fashion-mnist", "linear scattering, Tramèr & Boneh 2021", 0.897, 3.0, _TRAMER),
    Accuracy("cifar-10", "CNN on scattering, Tramèr & Boneh 2021", 0.693, 3.0, _TRAMER),
    Accuracy("cifar-10", _WIDE_RESNET, 0.659, 2.0, _DE_QUOTED),
    Accuracy("cifar-10", _WIDE_RESNET, 0.735, 4.0, _DE_QUOTED),
    Accuracy("cifar-10", _WIDE_RESNET, 0.814, 8.0, _DE),
    Accuracy("cifar-10", _RANDOM_PROCESSES, 0.723, 1.0, _TANG),
    *(
        Accuracy(dataset, _SELECTIVE, value, epsilon, _FU)
        for dataset, values in {
            "mnist": (0.9793, 0.9870, 0.9888),
            "fashion-mnist": (0.8838, 0.8934, 0.8971),
            "cifar-10": (0.6441, 0.6940, 0.7083),
        }.items()
        for epsilon, value in zip((1.0, 2.0, 3.0), values, strict=True)
    ),
)
# What others reach with the method of a paper, by the name that it has in `PUBLISHED`.
RUN_AGAIN = (
    *(
        Accuracy("cifar-10", _WIDE_RESNET, value, epsilon, _BAO)
        for epsilon, value in {1.0: 0.568, 2.0: 0.629, 4.0: 0.695, 8.0: 0.787}.items()
    ),
    Accuracy("cifar-10", _RANDOM_PROCESSES, 0.7248, 1.0, _BAO),
)
# Of whom others say that the ε does not hold: the probability of being sampled depends on which
# updates were released, which the accounting overlooks.
DISPUTED = {_SELECTIVE: Source("huang2026revisiting", "Abstract")}
# What authors in `PUBLISHED` state at other ε, by dataset and method, about: it could not be read.
NOT_READ = {("cifar-10", _RANDOM_PROCESSES): {2.0: 0.77, 8.0: 0.85}}

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
