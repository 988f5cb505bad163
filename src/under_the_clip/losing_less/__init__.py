"""Losing less (Shamsabadi & Papernot, PoPETs 2023)."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="03_losing_less",
    paper="losing less",
    cited=("shamsabadi2023losing",),
    parts=("loss", "measures"),
    experiments=("experiments",),
    propositions=("propositions.equations", "propositions.convergence"),
    sections={
        "Why did the paper see a lead at the end?": ("figure-3",),
        "The turn does the work": (
            *("ablation", "cifar-10-ablation"),
            *("other-errors", "equation-9", "weight-decay", "adam"),
        ),
        "At the paper's rate γ costs more than the loss gains": ("sensitivity",),
        "With a rate of its own it gains on Fashion-MNIST": ("equal-effort", "cifar-10-rates"),
        "On scattering features a linear head beats the paper's network, but not on CIFAR-10": (
            "figure-4",
            "linear",
            "statistics",
        ),
        "In the first epochs the clip turns its gradient less": ("inside", "not-private"),
    },
    choices={"the composite loss in place of cross-entropy": "losing-less-better-at-equal-effort"},
)
