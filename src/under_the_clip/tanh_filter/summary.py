"""The front page's row on the tanh filter."""

from dpstudy.claims.ledger import Ledger
from dpstudy.lab.readings import read
from dpstudy.lab.variant import Variant
from dpstudy.lab.wording import epsilon
from dpstudy.page.results import gain
from under_the_clip.losing_less.experiments import FIGURE_3
from under_the_clip.tanh_filter.experiments import AT_EQUAL_EPSILON, CIFAR_10, EXPANDED
from under_the_clip.tanh_filter.figures import further_seeds
from under_the_clip.verdicts import gain_in_words, gains, holds


def what_is_left(judged: Ledger) -> tuple[str, str]:
    """Return what the paper claims, and what is left of it."""
    one = "holds" if holds(judged, "tanh-filter-sensitivity-one") else "is no bound"
    return (
        "An elementwise tanh in place of clipping: more accuracy with the noise of DP-SGD.",
        "The ε is wrong: the paper proves a sensitivity of √n for n parameters and computes with "
        f"1, which {one}. At the same noise, which gives the filter no usable ε: "
        f"{gains(judged, 'tanh-filter-better')}{_tuned()}{_filter_made_sound()}",
    )


def _tuned() -> str:
    """Say what DP-SGD reaches on CIFAR-10 where its rate was searched, if that is stored."""
    flat, tuned = (
        Variant(read(runs, dataset="cifar-10"), label)
        for runs, label in ((CIFAR_10, "DP-SGD"), (FIGURE_3, "cross-entropy"))
    )
    if not len(flat.results) or not len(tuned.results):
        return ""
    return (
        f" On CIFAR-10 DP-SGD ends at {100 * flat.accuracy.median():.1f} %, at a rate that nobody "
        f"searched; with tanh and searched settings that network has "
        f"{100 * tuned.accuracy.median():.1f} % at ε = {epsilon(tuned.median('epsilon_pld'))}."
    )


def _filter_made_sound() -> str:
    """Say what the filter gains with a clip after it, once that is stored with several seeds."""
    searched, wider = (read(one, dataset="mnist") for one in (AT_EQUAL_EPSILON, EXPANDED))
    own, flat = (
        Variant(searched, f"{name}, best") for name in ("filter, then clipped", "flat clipping")
    )
    published = Variant(further_seeds(wider), "filter, then clipped, k = 1")
    wide, narrow = gain(published, flat), gain(own, flat)
    if wide["low"] is None or narrow["low"] is None:
        return ""
    at = own.results[0].run.mechanism.active_range
    return (
        " With a clip after it, against flat clipping at a true ε of 3 on MNIST: "
        f"{gain_in_words(*wide.values())}; with the active range that its own search chose, "
        f"{at:.1g}: {gain_in_words(*narrow.values())}."
    )
