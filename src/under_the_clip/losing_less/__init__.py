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
        "Figure 3: accuracy against ε": ("figure-3", "not-private"),
        "Figure 4: on scattering features": ("figure-4", "linear", "statistics"),
        "At equal effort": ("equal-effort",),
        "Why: Figures 1, 2, 5 to 9 and 15": ("inside",),
        "Which part does it? Figures 10 to 14": (
            *("ablation", "other-errors", "sensitivity", "equation-9", "weight-decay", "adam"),
        ),
    },
    choices={"the composite loss in place of cross-entropy": "losing-less-better-at-equal-effort"},
)
