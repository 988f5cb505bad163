"""The searches that the papers, and the code that their settings come from, describe.

Left out, since no number of trials is printed: those of tempered sigmoids (the triplets of Figure 2
and what Tables 3 and 4 tried), losing less' own over e_t, β and γ (Section 4 speaks of "a search on
the values"; neither Table 5 nor Figure 14 has the grid), the search behind Table 5 on MNIST and
Fashion-MNIST (the code has CIFAR-10's alone), and the tanh filter's (its ranges are curves of
figures). Ranges of ε are not counted: each ε was searched for itself.
"""

from dataclasses import dataclass

from dpstudy.lab.published import Number, Source
from under_the_clip.losing_less.published import END_TO_END, SCATTERNET
from under_the_clip.published import Configuration

_CODE = "at commit 5eddb46e"
_GRID = "6 batch sizes, 4 rates, 3 lengths"


@dataclass(frozen=True)
class PublishedSearch:
    """How many settings were tried, for one network on one dataset.

    Attributes:
        trials: as many as the grid has.
        grid: what it crosses, in words.
        chosen: what came out, where a paper trains with it and its ε is proven here.
        release: noise over sensitivity of what each trial released before training, if anything.
    """

    paper: str
    dataset: str
    network: str
    trials: Number
    grid: str
    chosen: Configuration | None = None
    release: float | None = None


[_END_TO_END], [_ON_FEATURES] = (
    [one for one in table if one.dataset == "cifar-10"] for table in (END_TO_END, SCATTERNET)
)
_FIGURE_1 = Source("stevens2022backpropagation", "Figure 1, and the sentence before it")

ON_PIXELS = PublishedSearch(
    "losing less",
    "cifar-10",
    "end-to-end",
    Number(
        "trials, end to end",
        72,
        Source("tramer2021code", f"scripts/run_cnns_cifar10.py {_CODE}: 6 x 4 x 3"),
        exact=True,
    ),
    _GRID,
    _END_TO_END,
)
ON_FEATURES = PublishedSearch(
    "losing less",
    "cifar-10",
    "ScatterNet",
    Number(
        "trials, on features",
        360,
        Source("tramer2021code", f"scripts/run_cnns_cifar10_scat.py {_CODE}: 6 x 4 x 3 x (2 + 3)"),
        exact=True,
    ),
    f"{_GRID}, 5 ways to normalise features",
    _ON_FEATURES,
    # Two releases with noise multiplier 8, a mean and a mean of squares: one with 8/√2.
    release=8 / 2**0.5,
)
SEARCHES = (
    ON_PIXELS,
    ON_FEATURES,
    *(
        PublishedSearch(
            "backpropagation clipping",
            dataset,
            "end-to-end",
            Number(f"trials, {dataset}", 320, _FIGURE_1, exact=True),
            "4 lengths, 4 batch sizes, 4 input clips, 5 gradient clips",
        )
        for dataset in ("mnist", "fashion-mnist", "cifar-10")
    ),
)
# Papers of which no number of trials is printed, nor in the code behind them.
UNKNOWN = ("tempered sigmoids", "tanh filter")
