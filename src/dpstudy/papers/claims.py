"""The ledger of all papers: each paper's claims, judged by its runs.

Apart from the list of experiments, which is read where runs are trained and pandas may lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpstudy.errors import UserError
from dpstudy.ledger.claim import Claim, ClaimError, read_claims
from dpstudy.ledger.ledger import Ledger, judge
from dpstudy.ledger.published import Number
from dpstudy.papers import EXPERIMENTS
from dpstudy.papers.tempered_sigmoids import published as tempered_sigmoids

FOLDER = Path(__file__).parent

# The papers, with their published numbers, in the order in which they are listed everywhere.
NUMBERS: Mapping[str, Mapping[str, Number]] = {
    "tempered sigmoids": tempered_sigmoids.NUMBERS,
    "losing less": {},
    "backpropagation clipping": {},
    "tanh filter": {},
}
# By their key on the command line, which is also the stem of their file.
KEYS = {name.replace(" ", "-"): name for name in NUMBERS}


def read(path: Path) -> list[Claim]:
    """Return the claims of one paper's file, in its order.

    Raises:
        ClaimError: it is no paper's, or it or one of its entries is malformed.
    """
    if path.stem not in KEYS:
        raise ClaimError(f"{path.name}: no paper {path.stem!r}; one of: {', '.join(KEYS)}")
    paper = KEYS[path.stem]
    return read_claims(path, paper, NUMBERS[paper])


def ledger(paper: str | None = None) -> Ledger:
    """Return the judged claims of all papers, or of one.

    Args:
        paper: a key such as "tempered-sigmoids".

    Raises:
        UserError: there is no such paper, or an entry is malformed.
    """
    if paper is not None and paper not in KEYS:
        raise UserError(f"unknown paper {paper!r}; one of: {', '.join(KEYS)}")
    chosen = KEYS if paper is None else (paper,)
    files = [path for key in chosen for path in FOLDER.glob(f"**/{key}.yaml")]
    return judge((claim for file in files for claim in read(file)), EXPERIMENTS)
