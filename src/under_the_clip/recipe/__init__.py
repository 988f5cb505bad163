"""The recipe's experiments and figures in chapter 8; the recipe itself is `dpstudy.recipe`."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="08_leaderboard",
    experiments=("search",),
    sections={
        "A recipe for two cores": ("search", "slanted"),
        "What carries it": ("parts",),
        "Do the remedies still help?": ("remedies",),
    },
)
