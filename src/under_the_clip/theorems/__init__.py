"""Chapter 6: the papers' propositions, and searches for their counterexamples."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="06_theorems",
    propositions=("sampled_gaussian", "shuffled_batches"),
)
