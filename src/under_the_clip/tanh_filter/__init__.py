"""The tanh gradient filter (Amian 2022)."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="05_tanh_filter",
    paper="tanh filter",
    cited=("amian2022tanh",),
    parts=("mechanism",),
    experiments=("experiments",),
    propositions=("propositions.sensitivity",),
    sections={
        "With the same noise: Figures 2 to 5": ("figures", "cifar-10"),
        "CIFAR-10: each at its own rate": ("cifar-10-rates",),
        "How much hangs on what is not printed": ("left-out",),
        "The filter made sound": ("at-equal-epsilon", "active-range", "expanded"),
    },
)
