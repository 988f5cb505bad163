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
    """Return the judged claims of all papers, or of one, such as "tempered-sigmoids".

    Raises:
        UserError: there is no such paper.
    """
    if key is None:
        return judge(CLAIMS)
    check_known("paper", key, KEYS)
    return judge({KEYS[key]: CLAIMS[KEYS[key]]})
