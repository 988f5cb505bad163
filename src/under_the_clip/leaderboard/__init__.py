"""Chapter 8: which method, at the same ε, and which remedies add up."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="08_leaderboard",
    experiments=("experiments",),
    sections={
        "MNIST": ("mnist",),
        "Fashion-MNIST": ("fashion-mnist",),
        "Which remedies add up?": ("factorial",),
    },
)
