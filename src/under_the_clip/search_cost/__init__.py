"""What a search costs: total ε against the number of trials, and what is left at the same total.

The four papers choose settings on private data, and count nothing for it.
"""

from under_the_clip.chapters import Chapter

# Its propositions are shown with the others.
CHAPTER = Chapter(folder=__name__, notebook="06_theorems", propositions=("propositions",))
