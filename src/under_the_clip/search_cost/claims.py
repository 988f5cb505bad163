"""What losing less says of the cost of a search: the one sentence on it in the four papers.

"The cost of this search should however be moderate, as analysed by Liu and Talwar [14], Papernot
and Steinke [18]" (Section 4): of the search that chose the settings of Table 5.
"""

from dpstudy.claims.claim import Claim, moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import Untested, on
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.search_cost.published import ON_FEATURES, ON_PIXELS
from under_the_clip.search_cost.rules import AtTheSameTotal, TimesOne

_WHERE, _RULED = "Section 4, before Table 1", moment("2026-11-29 06:50")
_SMALL, _CIFAR = ("mnist", "fashion-mnist"), ("cifar-10",)
_NO_NUMBER = (
    "neither the paper nor the code that its settings come from says how many trials there were"
)
_RANDOM = (
    "Of a search that was done as the cited bounds ask: a number of trials drawn at random, "
    "settings drawn at random from the grid. The search that was done tried a whole grid, a fixed "
    "number: that has the cost of all of its trials together."
)

OF_LOSING_LESS = {
    "losing-less-search-moderate": Claim(
        "",
        _WHERE,
        "The privacy cost of searching its settings is moderate.",
        on(_CIFAR, TimesOne, ON_PIXELS) | on(_SMALL, Untested, _NO_NUMBER),
        _RULED,
        remark=_RANDOM,
    ),
    "losing-less-search-moderate-on-features": Claim(
        "",
        _WHERE,
        "So is that of the settings on scattering features.",
        on(_CIFAR, TimesOne, ON_FEATURES) | on(_SMALL, Untested, _NO_NUMBER),
        _RULED,
        remark=_RANDOM,
    ),
    "losing-less-search-moderate-in-accuracy": Claim(
        "",
        _WHERE,
        "At the same total ε such a search costs next to no accuracy.",
        on(
            _CIFAR,
            AtTheSameTotal,
            ON_PIXELS,
            *(Runs(RECIPE_SEARCH, f"epsilon {at}") for at in (3, 1, 2)),
            between=(1.0, 2.0),
        )
        | on(_SMALL, Untested, _NO_NUMBER),
        _RULED,
        remark="This study's reading of the sentence, on its own recipe: no network of the paper "
        "was searched at several ε. What a better setting gains is not counted, only what paying "
        "for the search loses.",
    ),
}
