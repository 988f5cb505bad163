"""Chapter 8: which method, at the same ε, and which remedies add up."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="08_leaderboard",
    experiments=("experiments",),
    sections={
        "No network on pixels keeps up": ("mnist", "fashion-mnist", "cifar-10"),
        "Tanh and the composite loss are in part one remedy": ("factorial",),
    },
)
