"""The tanh gradient filter (Amian 2022)."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="05_tanh_filter",
    paper="tanh filter",
    cited=("amian2022tanh",),
    parts=("mechanism",),
    experiments=("experiments",),
    propositions=("propositions",),
    sections={
        "Why it wins with the same noise: it does not clip": (
            "figures",
            "cifar-10",
            "cifar-10-rates",
            "left-out",
        ),
        "Made sound, it gains nothing on MNIST": ("at-equal-epsilon", "active-range", "expanded"),
    },
)
