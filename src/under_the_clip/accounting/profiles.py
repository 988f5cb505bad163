"""What the chapter's tables and figures share: profiles, accountants, and how an ε is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpstudy.errors import check_known
from dpstudy.lab.published import DELTA, MNIST_PARAMETERS, Setting
from under_the_clip.losing_less.published import END_TO_END, SCATTERNET

NAMES = {"rdp-2019": "RDP 2019", "rdp": "RDP", "pld": "PLD"}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
AT_DELTA = "δ = 10" + f"{math.log10(DELTA):.0f}".translate(_SUPERSCRIPTS)


@dataclass(frozen=True)
class Resolution:
    """How finely a profile draws this chapter; the numbers do not depend on it.

    Attributes:
        stride: epochs between two points of a curve.
        parameters: numbers of parameters n at which the tanh filter is accounted for.
        calibrated: settings for which noise is calibrated.
    """

    stride: int
    parameters: tuple[int, ...]
    calibrated: tuple[Setting, ...]


PROFILES = {
    "stored": Resolution(2, (1, 10, 100, 1_000, 10_000, MNIST_PARAMETERS), END_TO_END),
    "smoke": Resolution(10, (1, 1_000, MNIST_PARAMETERS), END_TO_END[:1]),
    "full": Resolution(
        1,
        (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, MNIST_PARAMETERS),
        END_TO_END + SCATTERNET,
    ),
}


def resolution(profile: str) -> Resolution:
    """Return how finely a profile draws this chapter.

    Raises:
        UserError: there is no such profile; the message names those that exist.
    """
    check_known("profile", profile, PROFILES)
    return PROFILES[profile]
