"""Automatic clipping (Bu et al. 2023)."""

from under_the_clip.chapters import Chapter

CHAPTER = Chapter(
    folder=__name__,
    notebook="11_automatic_clipping",
    paper="automatic clipping",
    cited=("bu2023automatic",),
    experiments=("experiments",),
    sections={"Flat and automatic clipping": ("norms",)},
    choices={"automatic clipping in place of flat clipping": "automatic-not-below-flat"},
)
