"""The ledger of all papers: each paper's claims, judged by its runs.

Apart from the list of experiments, which is read where runs are trained and pandas may lack.
"""

from collections.abc import Mapping

from dpstudy.claims.claim import Claim
from dpstudy.claims.ledger import Ledger, judge
from dpstudy.errors import check_known
from under_the_clip.chapters import papers

# By paper, in the order of the book.
CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    chapter.paper: chapter.module("claims").CLAIMS for chapter in papers()
}
# By their key on the command line.
KEYS = {chapter.key: chapter.paper for chapter in papers()}


def ledger(key: str | None = None) -> Ledger:
    """Return the judged claims of all papers, or of one by its key; UserError if there is none."""
    if key is not None:
        check_known("paper", key, KEYS)
        return judged(KEYS[key])
    parts = [judged(paper) for paper in CLAIMS]
    damaged = dict.fromkeys(line for part in parts for line in part.damaged)
    return Ledger(tuple(entry for part in parts for entry in part.entries), tuple(damaged))


def judged(paper: str) -> Ledger:
    """Return the claims of a paper, by its short name, with their verdicts on what is stored."""
    return judge({paper: CLAIMS[paper]})
