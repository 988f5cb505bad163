"""The rules that turn stored results into verdicts: few, general, each with its tolerance.

The tolerances come from what is measured, not from what came out:

- An accuracy is a share of `TEST_IMAGES` images. Two accuracies that differ by less than two
  binomial standard errors say nothing about which network is better on new images: within that of
  the published accuracy, ours agrees with it. Within twice that, or where our seeds lie on both
  sides of the published value, it agrees partly.
- For any other quantity no paper states a spread. Values within `SAME_LEVEL` of each other, a
  factor of two either way, are at one level; within its square, partly.
- One variant is above another if its lowest seed is above the other's highest; partly, if only
  the medians are in that order.
- The best of a sweep are somewhere in particular if as many chosen blindly are rarely as near.
- A number published for some epsilon is upheld only by runs whose proven epsilon is at most the
  published one, and falls only to runs that spent at least the published one by the accounting of
  its time. Runs that spent less and fall short, or more and succeed, decide nothing.

All accuracies are those of the last epoch. Where a pattern names several variants, the best is the
one with the highest median over seeds: a search, as in the papers, whose choice is not paid for.
"""

from __future__ import annotations

from dpstudy.ledger.rules.numbers import Gap, Value
from dpstudy.ledger.rules.orders import Comparable, Factor, Ordering, Rises, Sooner, Throughout
from dpstudy.ledger.rules.rule import Rule
from dpstudy.ledger.rules.spending import AtEpsilon
from dpstudy.ledger.rules.statements import Statement
from dpstudy.ledger.rules.sweeps import Apart, Cluster, Ranks, Setting, Share

KINDS: dict[str, type[Rule]] = {
    rule.kind: rule
    for rule in (
        Value,
        Gap,
        Ordering,
        Throughout,
        Sooner,
        Rises,
        Factor,
        Comparable,
        AtEpsilon,
        Cluster,
        Share,
        Ranks,
        Setting,
        Apart,
        Statement,
    )
}
