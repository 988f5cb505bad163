"""What a search costs: total ε against the number of trials, and what is left at the same total.

The four papers choose settings on private data, and count nothing for it. Its chapter stands
between 7 and 8, and has no number.
"""

from under_the_clip.chapters import Chapter

# Its propositions are shown with the others.
CHAPTER = Chapter(
    folder=__name__,
    notebook="07b_search_cost",
    experiments=("experiments",),
    propositions=("propositions",),
    sections={"Who leads when the search is paid for?": ("paid", "borrowed")},
)
