"""Backpropagation clipping (Stevens et al. 2022)."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="04_backpropagation_clipping",
    paper="backpropagation clipping",
    cited=("stevens2022backpropagation", "stevens2022code"),
    parts=("mechanism",),
    experiments=("experiments",),
    propositions=(
        "propositions.layer_sensitivity",
        "propositions.convolution_sensitivity",
        "propositions.concentrated",
    ),
    sections={
        "Table 1: as published": ("table-1",),
        "Figure 5": ("figure-5",),
        "What the text leaves out": ("left-out",),
        "The corrected code": ("corrected",),
        "Against flat clipping, at a true ε": ("against-flat",),
    },
    choices={"clips inside backpropagation in place of flat clipping": "backprop-better"},
)
