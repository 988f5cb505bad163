"""The ledger of all papers: each paper's claims, judged by its runs.

Apart from the list of experiments, which is read where runs are trained and pandas may lack.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpstudy.claims.claim import Claim
from dpstudy.claims.ledger import Ledger, judge
from dpstudy.errors import check_known
from under_the_clip.backpropagation_clipping import claims as backpropagation_clipping
from under_the_clip.leaderboard import claims as across
from under_the_clip.losing_less import claims as losing_less
from under_the_clip.tanh_filter import claims as tanh_filter
from under_the_clip.tempered_sigmoids import claims as tempered_sigmoids

# By paper, in the order in which they are listed everywhere.
CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    "tempered sigmoids": tempered_sigmoids.CLAIMS,
    "losing less": losing_less.CLAIMS,
    "backpropagation clipping": (
        *backpropagation_clipping.CLAIMS,
        *across.BACKPROPAGATION_CLIPPING,
    ),
    "tanh filter": tanh_filter.CLAIMS,
}
# By their key on the command line.
KEYS = {name.replace(" ", "-"): name for name in CLAIMS}


def ledger(key: str | None = None) -> Ledger:
    """Return the judged claims of all papers, or of one.

    Args:
        key: of a paper, such as "tempered-sigmoids".

    Raises:
        UserError: there is no such paper.
    """
    if key is None:
        return judge(CLAIMS)
    check_known("paper", key, KEYS)
    return judge({KEYS[key]: CLAIMS[KEYS[key]]})
