"""Backpropagation clipping (Stevens et al. 2022)."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="04_backpropagation_clipping",
    paper="backpropagation clipping",
    cited=("stevens2022backpropagation", "stevens2022code"),
    parts=("mechanism",),
    experiments=("experiments",),
    propositions=("propositions.sensitivity", "propositions.concentrated"),
    sections={
        "The accuracies come back, the ε do not": (
            *("table-1", "figure-5", "left-out", "cifar-10"),
        ),
        "The corrected code costs more than it aims at": ("corrected",),
        "At a true ε it leads on MNIST alone": ("against-flat",),
    },
    choices={"clips inside backpropagation in place of flat clipping": "backprop-better"},
)
