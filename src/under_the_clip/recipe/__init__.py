"""The recipe's experiments and figures in chapter 8; the recipe itself is `dpstudy.recipe`."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="08_leaderboard",
    experiments=("search", "second_edition", "third_edition", "rule"),
    sections={
        "Only the last step costs privacy": ("search", "slanted"),
        "Drawings beat the private photos": ("parts", "parts-again"),
        "Filters gain most, views and colours some, all at no ε": (
            "second",
            "second-before",
            "second-parts",
            "third",
        ),
        "A quarter of an hour is enough": ("sizes",),
        "The papers' remedies add next to nothing here": ("remedies", "second-remedies"),
        "A rule in place of a search": ("rule",),
    },
)
