# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% tags=["facts"]
from dpstudy.lab.verdict import Verdict
from under_the_clip import claims as study

judged = study.ledger()
heads = judged.headlines.once
counts, whole = heads.counts, len(heads.entries)
stands, false, open_ = (
    counts[of]
    for of in (Verdict.REPRODUCED, Verdict.REFUTED, Verdict.UNDECIDED)
)
assert 0.5 < stands / whole < 0.6
papers = {one.paper: heads.of(one.paper).counts for one in heads.entries}
assert len(papers) == 4
for found in papers.values():
    assert found[Verdict.REPRODUCED]
    assert found[Verdict.NOT_REPRODUCED] + found[Verdict.REFUTED]
with_false = [one for one, of in papers.items() if of[Verdict.REFUTED]]
assert len(with_false) == 3
assert "tempered sigmoids" not in with_false
became = {one.id: one.outcome.verdict for one in heads.entries}
assert became["above-relu-mnist"] is Verdict.REPRODUCED
assert became["above-relu-cifar-10"] is Verdict.NOT_REPRODUCED
assert became["backprop-epsilon-mnist"] is Verdict.REFUTED
assert became["losing-less-better-cifar-10"] is Verdict.UNDECIDED


def rules_and_runs(judged):
    decided = [
        e.rule_came_first
        for e in judged.entries
        if e.rule_came_first is not None
    ]
    return sum(decided), len(decided)


older, decided = rules_and_runs(judged)
assert older < decided / 2

# %% [markdown]
# # The ledger: which claims hold?
#
# Each number, ordering and bound that the four papers rest on has a verdict here, beside what this
# study measured. A rule computes it from the stored results: none is typed, and a result that
# changes, changes its verdict.
#
# **In short**
#
# - **More than half stand.** {{ stands }} of {{ whole }} verdicts on headline claims are
#   *{{ Verdict.REPRODUCED }}*, like tanh's lead over relu on MNIST.
# - **No paper stands whole.** Each has claims that hold, and others that do not, like that lead on
#   CIFAR-10.
# - **Some cannot be true.** {{ false }} are *{{ Verdict.REFUTED }}*, like backpropagation
#   clipping's ε on MNIST.
# - **Some stay open.** {{ open_ }} are *{{ Verdict.UNDECIDED }}*, like the composite loss's lead on
#   CIFAR-10's pixels: our seeds or runs cannot tell.
#
# **Do** unfold "What was measured" below a claim before you build on it.

# %% tags=["parameters", "remove-input"]
profile = "stored"  # any profile shows what is stored

# %% tags=["remove-input"]
import pandas as pd

from dpstudy.page.figure import Note, Table
from under_the_clip import claims
from under_the_clip.ledger import figures as page

ledger = claims.ledger()
page.by_paper(ledger)


# %% tags=["remove-input"]
def damage(judged):
    return (
        Note("Left out", "; ".join(judged.damaged))
        if judged.damaged
        else None
    )


damage(ledger)

# %% [markdown]
# ## What does each paper claim?
#
# A claim has one verdict for each dataset that it is made for. Headlines are open: what a paper's
# abstract, tables and figures stand for. Only tempered sigmoids has no headline that is
# {{ Verdict.REFUTED }}. Details are folded, and so is what was measured.
#
# {doc}`../book/how_to_read` says what the verdicts mean. A claim that an experiment of this study
# is to decide waits as *{{ Verdict.NOT_YET_RUN }}*; *{{ Verdict.NOT_TESTED }}* is one that none
# can. The same table stands in a terminal with `dpstudy claims`.

# %% tags=["remove-input"]
page.every_paper(ledger)

# %% [markdown]
# ## How is a verdict reached?
#
# - **Seeds decide by intervals.** A mean, a difference or a ratio comes with its 95 % interval, by
#   Student's t; two variants are paired by the seeds that both have. The claim stands if the whole
#   interval lies where the claim says. It is left open if the interval reaches over the edge. A
#   verdict is called close where one seed, redrawn, would turn it.
# - **All seeds or none.** A claim waits until every seed that its experiment asks for is stored: a
#   verdict on some of them would be a choice of seeds.
# - **A number at an ε** is upheld only by runs whose proven ε is no larger; where its note says
#   “whatever it truly costs”, by any. It falls only to runs that spent as much: less would be
#   unfair to it. How much they spent is then counted as in the paper's time.
# - **Few rules came first.** Where a rule is older than all runs that decide it, nobody could have
#   fitted it to them. So it is with {{ older }} of the {{ decided }} verdicts that rest on runs; †
#   marks the others. All rules about seeds were restated by intervals on 24 November 2026, when
#   most of the first papers' runs were there.


# %% mystnb={"code_prompt_show": "Every rule: when a claim stands, and when in part"} tags=["hide-output", "remove-input"]
def rule_kinds(judged):
    rows = [
        {
            "rule": kind,
            "the claim stands if": rule.full,
            "and in part if": rule.partial,
            "last changed": f"{rule.changed:%-d %B %Y}",
        }
        for kind, rule in {
            entry.rule.kind: entry.rule for entry in judged.entries
        }.items()
    ]
    return Table(
        name="rules-of-the-ledger",
        caption=(
            "The rules. Interval: 95 %, by Student's t over seeds. Tolerance of an accuracy: a "
            "point, or a fifth of the error where that is less."
        ),
        data=pd.DataFrame(rows),
    )


rule_kinds(ledger)
