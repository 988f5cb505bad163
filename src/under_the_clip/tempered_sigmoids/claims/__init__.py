"""What "Tempered Sigmoid Activations for Deep Learning with Differential Privacy" claims.

AAAI 2021, and where it says so, arXiv v1.

On MNIST and Fashion-MNIST the experiments have the noise that "Losing less" prints; this paper
prints none. Each activation's own best setting is the winner of a search: that of Table 3 on MNIST
and Fashion-MNIST, that of the learning rate on CIFAR-10.

Not listed: settings, what the paper cites of others' work, what follows from a claim listed, such
as the difference of two numbers, what may be so; and what no run of this study varies or records:
the number of parameters alone, norms layer by layer, tempered losses.
"""

from dpstudy.claims.claim import propositions, stated
from dpstudy.claims.rules import Statement
from under_the_clip.tempered_sigmoids import CHAPTER
from under_the_clip.tempered_sigmoids.claims.accuracy import OPTIMIZERS, SPENDING, TRAINING
from under_the_clip.tempered_sigmoids.claims.why import FAMILY, NORMS

_MONOTONE = stated(
    "epsilon-monotone",
    "text on Figure 3",
    "The privacy loss ε rises with the number of steps.",
    Statement("epsilon-monotone"),
)
_PROPOSITIONS = propositions(
    CHAPTER.statements(),
    headlines=("clipping-bias", "gradient-norm-multiclass"),
)

CLAIMS = (*TRAINING, *SPENDING, _MONOTONE, *FAMILY, *NORMS, *OPTIMIZERS, *_PROPOSITIONS)
