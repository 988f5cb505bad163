"""Tempered sigmoids (Papernot et al., AAAI 2021)."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="02_tempered_sigmoids",
    paper="tempered sigmoids",
    cited=("papernot2021tempered",),
    experiments=("experiments",),
    propositions=(
        "propositions.clipping_bias",
        "propositions.clipped_fields",
        "propositions.temperature_and_bias",
        "propositions.gradient_norms",
        "propositions.family",
        "propositions.loss_sign_and_group_privacy",
    ),
    sections={
        "Figure 3: accuracy against ε": ("figure-3",),
        "The baseline in its own settings": ("tutorial",),
        "Table 3: accuracy with and without privacy": ("table-3-not-private", "calibrated"),
        "Figure 2: the family": ("figure-2",),
        "Poisson sampling and shuffled batches": ("shuffled",),
        "Four scenarios": ("figures-4-5",),
        "Table 4: learning rates and optimizers": ("table-4",),
        "CIFAR-10: a rate for this network": ("cifar-10-changes", "cifar-10-rates"),
        "The runs behind this page": ("cifar-10-not-private",),
        "A triplet for each layer": ("layer-wise",),
        "After a search of one size each": ("table-3-search",),
    },
    choices={"tanh in place of relu": "table-3-gain"},
)
