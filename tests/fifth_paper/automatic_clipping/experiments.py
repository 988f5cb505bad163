"""The runs of automatic clipping's chapter."""

from __future__ import annotations

from dpstudy.lab.experiment import Experiment
from dpstudy.parts.mechanism import AutomaticClipping
from dpstudy.parts.run import Run, vary

FLAT = Run()
AUTOMATIC = vary(FLAT, mechanism=AutomaticClipping(clip_norm=0.1))

NORMS = Experiment(
    name="automatic-clipping-norms",
    title="Flat clipping, and automatic clipping at two norms",
    variants={
        "flat": (FLAT,),
        "automatic": (AUTOMATIC,),
        # Ten times the norm at a tenth of the rate: the same steps, if the norm needs no search.
        "automatic, C = 1": (vary(AUTOMATIC, clip_norm=1.0, learning_rate=0.05),),
    },
    seeds={"mnist": 3},
)

EXPERIMENTS = (NORMS,)
