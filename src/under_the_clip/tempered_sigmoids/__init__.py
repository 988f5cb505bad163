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
        "On small images tanh needs about half the budget": (
            *("figure-3", "table-3-not-private", "calibrated", "shuffled"),
        ),
        "How much is left depends on how hard you search": (
            "table-3-search",
            "tutorial",
            "table-4",
        ),
        "On CIFAR-10 search the rate before you choose": (
            *("cifar-10-changes", "cifar-10-rates", "cifar-10-not-private"),
            "cifar-10-other-network",
        ),
        "Longer gradients do not decide": ("figures-4-5",),
        "Slope 1 and value 0 mark the good members": ("figure-2", "layer-wise"),
    },
    choices={"tanh in place of relu": "table-3-gain"},
)
