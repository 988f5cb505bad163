"""What "Losing Less" (Shamsabadi and Papernot, PoPETs 2023) claims.

Its figures print no numbers; what its text says of them is an ordering, decided at Table 5's
settings, where it has them, and beside that at equal effort. Not listed: what it cites, but for the
sentence on what a search costs, and what Section 4 says of its own search.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from dpstudy.claims.claim import Claim, moment, named, propositions
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import (
    Difference,
    Gain,
    Largest,
    Rule,
    Spent,
    Throughout,
    Unsupported,
    Untested,
    Value,
    on,
)
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.quantity import (
    GRADIENT_NORM,
    Quantity,
    after,
    class_accuracy,
    each,
    gain_within,
    mean_of_layers,
    most_in_training,
    spread_of_norms,
    within,
)
from dpstudy.parts.data.images import CLASSES
from under_the_clip.losing_less import CHAPTER, experiments
from under_the_clip.losing_less.published import CLASS_ACCURACIES, NUMBERS, ClassAccuracy
from under_the_clip.search_cost.claims import OF_LOSING_LESS

RULED, RULED_ON_FEATURES = moment("2026-11-25 00:00"), moment("2026-11-25 00:20")
RULED_OF_SENTENCES = moment("2026-11-26 03:58")
RULED_OF_THE_MOST = moment("2026-11-26 22:10")
# After a second reading of the paper.
RULED_AGAIN = moment("2026-11-27 15:35")
claim, claim_on_features, claim_of_sentences, claim_of_the_most, claim_again = (
    partial(Claim, "", ruled=ruled)
    for ruled in (RULED, RULED_ON_FEATURES, RULED_OF_SENTENCES, RULED_OF_THE_MOST, RULED_AGAIN)
)
# After the study was recomputed from outside; since then variants are paired by the seeds that both
# have.
claim_with_more = partial(Claim, "", ruled=moment("2026-11-28 14:30"))
SMALL, C = ("mnist", "fashion-mnist"), ("cifar-10",)
ALL = SMALL + C
NOT_RUN = "no experiment of this study trains it on CIFAR-10"


def on_small(rule: type[Rule], *about: object, **options: object) -> dict[str, Rule]:
    """Return a rule on the small datasets; on CIFAR-10, of which the paper says it too, none."""
    return on(SMALL, rule, *about, **options) | on(C, Untested, NOT_RUN)


def with_both(experiment: Experiment, label: str = "{}") -> tuple[Runs, Runs]:
    """Return the runs with the composite loss and those with cross-entropy."""
    return tuple(Runs(experiment, label.format(loss)) for loss in ("composite", "cross-entropy"))


BOTH, ON_SCATTERING = with_both(experiments.FIGURE_3), with_both(experiments.FIGURE_4)
COMPOSITE, CE = BOTH
EPSILON = NUMBERS["epsilon"]
BELOW_1_5 = Quantity("test_accuracy", "test accuracy at a true ε < 1.5", "{:.2%}", within(1.5))
GAIN_BELOW_1_5 = Quantity(
    *("test_accuracy", "gain in test accuracy", "{:.2%}", gain_within(1.5)),
    names=("{0} over {1} at ε < 1.5", "at the end"),
)
# The paper names no accountant. How the ids of claims end, and their remarks, by accountant.
ACCOUNTANTS = {
    "rdp-2019": ("", "At ε by RDP of 2019, which the paper, that names none, is taken to use."),
    "rdp": (
        "-tighter-rdp",
        "At ε by the tighter RDP of later versions of Opacus, by which more epochs fit in.",
    ),
}
_SQUARED = "Eq. 9 is read as a square; as printed it was not run on CIFAR-10."


def _below(epsilon: float, accountant: str) -> Quantity:
    by = {"rdp-2019": "RDP 2019", "rdp": "tighter RDP"}[accountant]
    label = f"test accuracy at ε < {epsilon:g} ({by})"
    return Quantity("test_accuracy", label, "{:.2%}", within(epsilon, accountant))


BELOW_3 = _below(3.0, "rdp-2019")
_of = NUMBERS.on


def _accuracies(
    accountant: str, epsilon: float, ruled: datetime, runs: tuple[Runs, Runs], *words: str
) -> dict[str, Claim]:
    """Return the claims on both losses' accuracies before an ε is spent, by an accountant.

    The `words` are in the claim's id, in what it says, and the number's name.
    """
    (suffix, remark), (name, says, number) = ACCOUNTANTS[accountant], words
    below = _below(epsilon, accountant)
    return {
        f"losing-less-{name.format(loss)}{suffix}": Claim(
            *("", "Section 4.1", f"The accuracy of {loss_in_words} {says}."),
            on(C, Value, _of(number.format(loss)), of, at_least=bool(more), quantity=below),
            RULED_AGAIN if suffix else ruled,
            remark=f"{remark}{more}",
        )
        for loss, loss_in_words, of, more in (
            ("composite", "the composite loss", runs[0], f" {_SQUARED}"),
            ("cross-entropy", "cross-entropy", runs[1], ""),
        )
    }


def _early(accountant: str) -> dict[str, Claim]:
    words = "early-{}-accuracy", "before half of the ε is spent", "{}, ε < 1.5"
    return _accuracies(accountant, 1.5, RULED_OF_SENTENCES, BOTH, *words)


def _on_features_at_2(accountant: str) -> dict[str, Claim]:
    suffix, remark = ACCOUNTANTS[accountant]
    words = "features-{}-accuracy", "on scattering features", "features, {}, ε < 2"
    return {
        f"losing-less-features-early{suffix}": Claim(
            "",
            "Section 4.1",
            "On scattering features it is ahead before all of the ε is spent.",
            on(C, Difference, *ON_SCATTERING, quantity=_below(2.0, accountant)),
            RULED_AGAIN if suffix else RULED_ON_FEATURES,
            remark=remark,
        ),
        **_accuracies(accountant, 2.0, RULED_ON_FEATURES, ON_SCATTERING, *words),
    }


TRAINING = {
    "losing-less-better": claim(
        "Abstract, Figure 3",
        "The composite loss ends at a higher accuracy than cross-entropy at the same ε.",
        on(ALL, Difference, *BOTH),
        headline=True,
        remark=f"At the settings of Table 5, which were searched with cross-entropy. {_SQUARED}",
    ),
    "losing-less-better-at-equal-effort": claim(
        "Abstract, Figure 3",
        "It ends higher than cross-entropy, each at its own best learning rate.",
        on_small(Difference, *with_both(experiments.EQUAL_EFFORT, "{}, tanh")),
        headline=True,
        remark="Of five, chosen on held-out training examples.",
    ),
    "losing-less-better-with-relu": claim(
        "Abstract, Figure 3",
        "It ends higher than cross-entropy with relu in place of tanh.",
        on_small(Difference, *with_both(experiments.EQUAL_EFFORT, "{}, relu")),
    ),
    "losing-less-throughout": claim(
        "Figure 3",
        "It is ahead whatever ε has been spent.",
        on(ALL, Throughout, *BOTH),
        remark='The words "across the entire ε regime" are about scattering features.',
    ),
    "losing-less-early": claim(
        "Section 4.1",
        "It is ahead early on, at half the ε.",
        on(ALL, Difference, *BOTH, quantity=BELOW_1_5),
        remark="At the ε of that sentence, by PLD, so that more epochs than the paper's fit in.",
    ),
    "losing-less-early-most": claim_again(
        "Section 4.1",
        "It gains more in the initial epochs, at half the ε, than at the end.",
        on(ALL, Difference, *BOTH, quantity=GAIN_BELOW_1_5),
        remark="At the ε of the paper's example, by PLD.",
    ),
    "losing-less-epsilon": claim_again(
        "Abstract, Section 4.1",
        "Training costs at most this ε.",
        on(ALL, Spent, EPSILON, COMPOSITE),
        headline=True,
    ),
    "losing-less-composite-accuracy": claim_of_the_most(
        "Section 4.1",
        "The accuracy of the composite loss: the most over five runs at ε < 3.",
        on(C, Largest, _of("composite"), COMPOSITE, at_least=True, quantity=BELOW_3),
        headline=True,
        remark=(
            "The paper says that of cross-entropy's; it is taken to hold of both. "
            f"{ACCOUNTANTS['rdp-2019'][1]} {_SQUARED}"
        ),
    ),
    "losing-less-cross-entropy-accuracy": claim_of_the_most(
        "Section 4.1",
        "The accuracy of cross-entropy: the most over five runs at ε < 3.",
        on(ALL, Largest, _of("cross-entropy"), CE, quantity=BELOW_3),
        headline=True,
        remark=ACCOUNTANTS["rdp-2019"][1],
    ),
    "losing-less-gain": claim_of_sentences(
        "Abstract, Section 4.1",
        "What the composite loss gains over cross-entropy.",
        on(C, Gain, (_of("composite"), _of("cross-entropy")), *BOTH, EPSILON, at_least=True),
        headline=True,
        remark="By the accuracies that the text gives; the abstract rounds their difference up. "
        f"{_SQUARED}",
    ),
    **_early("rdp-2019"),
    **_early("rdp"),
    "losing-less-not-private": claim(
        "Section 4.1",
        "The accuracy without privacy.",
        on(ALL, Value, _of("not private"), Runs(experiments.FREE, "cross-entropy")),
    ),
}

ON_FEATURES = {
    "losing-less-features-better": claim_on_features(
        "Section 4.1, Figure 4",
        "On scattering features, too, the composite loss ends above cross-entropy.",
        on(ALL, Difference, *ON_SCATTERING),
        headline=True,
        remark="At the settings of Table 5, which were searched with cross-entropy.",
    ),
    "losing-less-features-above-pixels": claim_with_more(
        "Section 4.1",
        "With cross-entropy a network on scattering features ends above one on pixels.",
        on(ALL, Difference, ON_SCATTERING[1], CE),
    ),
    "losing-less-features-throughout": claim_on_features(
        "Section 4.1, Figure 4",
        "On scattering features it is ahead whatever ε has been spent.",
        on(ALL, Throughout, *ON_SCATTERING),
    ),
    **_on_features_at_2("rdp-2019"),
    **_on_features_at_2("rdp"),
}

_ANOTHER_DECAY = (
    "the paper's weight decay (Eq. 15) is a part of the loss, before the clip, each layer's by its "
    "size; ours is outside the clip, one for all layers"
)
# "Initial training iterations": a tenth of the epochs.
EARLY = Quantity("test_accuracy", "test accuracy after epoch 4", "{:.2%}", after(4))
_ablated = partial(Runs, experiments.ABLATION)
_other_error = partial(Runs, experiments.OTHER_ERRORS)


def _of_one_rate(*about: object) -> Rule:
    return Unsupported(Difference(*about), "Adam has two seeds, at one rate that nobody searched")


PARTS = {
    "losing-less-above-squared-error": claim_with_more(
        "Section 4.3, Figure 10",
        "None of its parts can be left out: it ends above squared error alone.",
        on_small(Difference, COMPOSITE, _ablated("squared error")),
    ),
    "losing-less-above-squared-error-and-cross-entropy": claim_with_more(
        "Section 4.3, Figure 10",
        "It ends above squared error and cross-entropy under the curriculum.",
        on_small(Difference, COMPOSITE, _ablated("squared error and cross-entropy")),
    ),
    "losing-less-above-squared-error-and-focal": claim_with_more(
        "Section 4.3, Figure 10",
        "It ends above itself without the penalty.",
        on_small(Difference, COMPOSITE, _ablated("squared error and focal")),
    ),
    "losing-less-parts-on-features": claim_again(
        "Section 4.3, Figure 10, second row",
        "On scattering features, too, none of its parts can be left out.",
        on(ALL, Untested, "no part of the loss was trained alone on scattering features"),
    ),
    "losing-less-squared-error-early": claim_with_more(
        "Section 4.3, Figure 11",
        "Squared error is ahead of cross-entropy in initial iterations.",
        on_small(Difference, _ablated("squared error"), CE, quantity=EARLY),
        remark="After a tenth of the epochs.",
    ),
    "losing-less-focal-late": claim_with_more(
        "Section 4.3, Figure 11",
        "Focal loss is ahead of cross-entropy in later iterations.",
        on_small(Difference, _ablated("focal"), CE),
        remark="At the end.",
    ),
    "losing-less-absolute-error": claim(
        "Section 4.3, Figure 12",
        "Squared error ends above absolute error.",
        on_small(Difference, _ablated("squared error"), _other_error("absolute error")),
    ),
    "losing-less-above-huber": claim_of_the_most(
        "Section 4.3, Figure 12",
        "Squared error ends above Huber's.",
        on_small(Difference, _ablated("squared error"), _other_error("Huber, 1")),
        remark="With the largest β of the figure.",
    ),
    "losing-less-huber": claim(
        "Section 4.3, Figure 12",
        "A larger β in Huber's error, nearer to squared error, ends higher.",
        on_small(Difference, _other_error("Huber, 1"), _other_error("Huber, 0.1")),
        remark="The largest β of the figure against the smallest.",
    ),
    "losing-less-above-weight-decay": claim_again(
        "Section 4.3, Figure 13",
        "The penalty ends above weight decay in its place.",
        on(ALL, Untested, _ANOTHER_DECAY),
    ),
    "losing-less-weight-decay-helps": claim_again(
        "Section 4.3, Figure 13",
        "Weight decay ends above no penalty at all.",
        on(ALL, Untested, _ANOTHER_DECAY),
    ),
    **{
        f"losing-less-insensitive-{name.replace('_', '-')}": claim_with_more(
            "Section 4.3, Figure 14",
            f"Its {symbol} has a negligible influence.",
            on_small(
                Difference, COMPOSITE, Runs(experiments.SENSITIVITY, f"{name} {end}"), "alike"
            ),
            remark="The end of the grid that is furthest from Table 5. The tolerance is more than "
            "the loss gains with tanh.",
        )
        for name, end, symbol in (
            *(("turning_epoch", 15, "e_t"), ("divisor", 51, "β"), ("focusing", 0, "γ")),
        )
    },
    "losing-less-adam": claim_with_more(
        "Appendix A",
        "Adam does not do better than SGD, with cross-entropy.",
        on_small(_of_one_rate, Runs(experiments.ADAM, "cross-entropy, Adam"), CE, "not above"),
    ),
    "losing-less-equation-9": claim_with_more(
        "Eq. 9",
        "Its norm as printed, or squared as Eq. 7 means it, makes no difference.",
        on(("mnist",), Difference, Runs(experiments.EQUATION_9, "as printed"), COMPOSITE, "alike"),
        remark="A question of this study's, which decides how the loss is read.",
    ),
}

FIRST_GRADIENT_NORM = Quantity("gradient_norm", "gradient norm in the first epoch", sides=after(1))
FIRST_SPREAD = Quantity(
    *("clipping-bias.counts", "spread of gradient norms after the first epoch"),
    sides=spread_of_norms(1),
)
LOGITS = Quantity("layer-norms.logits", "norm of the logits")
PRE_ACTIVATIONS = Quantity(
    "layer-norms.hidden", "norm of pre-activations, mean of layers", sides=each(mean_of_layers)
)
LAST_WEIGHTS = Quantity("layer-norms.last_weights", "norm of the last layer's weights")
COSINE = Quantity(
    "clipping-bias.cosine", "cosine of clipped to unclipped mean gradient", sides=after(1)
)
CURVATURE = Quantity("smoothness.largest", "largest singular value of the Hessian")
MOST_CURVED = replace(
    CURVATURE, label=f"{CURVATURE.label} in training", sides=each(most_in_training)
)
INSIDE = with_both(experiments.INSIDE)
# Where the composite loss is said to have the smaller value.
SMALLER = INSIDE[::-1]
_OF_ONE_EPOCH = "After later epochs, which Figure 8 leaves out, it is now and then the other way."
# By name: the place, the larger side and the smaller, what is compared, when ruled, what it says.
_ROWS = {
    "logits": (
        *("Section 4.2, Figures 1 and 6", SMALLER, LOGITS, RULED),
        "With cross-entropy the logits grow larger.",
    ),
    "pre-activations": (
        *("Section 4.2, Figures 1 and 6", SMALLER, PRE_ACTIVATIONS, RULED_OF_SENTENCES),
        "With cross-entropy pre-activations grow larger.",
    ),
    "last-weights": (
        *("Section 4.2, Figures 1 and 5", SMALLER, LAST_WEIGHTS, RULED),
        "With cross-entropy the weights of the last layer grow larger.",
    ),
    "gradients": (
        *("Section 4.2, Figure 7", SMALLER, GRADIENT_NORM, RULED_OF_SENTENCES),
        "With the composite loss gradients are smaller.",
    ),
    "first-gradients": (
        *("Section 3.2, Figure 1", SMALLER, FIRST_GRADIENT_NORM, RULED_AGAIN),
        "In the first epoch gradients are smaller with the composite loss.",
    ),
    "first-spread": (
        *("Section 3.2, Figure 1", SMALLER, FIRST_SPREAD, RULED_AGAIN),
        "In the first epoch gradients are more condensed with the composite loss.",
    ),
    "cosine": (
        *("Section 4.2, Figures 1 and 8", INSIDE, COSINE, RULED),
        "In the first epoch clipping turns the mean gradient less with the composite loss.",
    ),
    "curvature": (
        *("Section 3.2, Figure 2", SMALLER, CURVATURE, RULED),
        "The largest singular value of the Hessian is smaller with the composite loss.",
    ),
}


def _why(datasets: Sequence[str], suffix: str, since: datetime) -> dict[str, Claim]:
    return {
        f"losing-less-{name}{suffix}": Claim(
            *("", where, says),
            on(datasets, Difference, *sides, quantity=quantity),
            max(since, ruled),
            headline=name == "logits",
            remark=_OF_ONE_EPOCH if name == "cosine" else "",
        )
        for name, (where, sides, quantity, ruled, says) in _ROWS.items()
    }


def _of_class(stated: ClassAccuracy) -> Quantity:
    right = class_accuracy(CLASSES[stated.dataset].index(stated.name), stated.epoch)
    return Quantity("confusion.counts", f"accuracy on class {stated.name}", "{:.2%}", right)


WHY = {
    **_why(SMALL, "", RULED),
    **_why(C, "-cifar-10", RULED_OF_THE_MOST),
    "losing-less-most-curved": claim_of_the_most(
        "Section 3.2, Figure 2",
        "The largest of these singular values in training is smaller with the composite loss.",
        on(ALL, Difference, *SMALLER, quantity=MOST_CURVED),
    ),
}

OF_CLASSES = {
    f"losing-less-class-{stated.name}": claim_of_sentences(
        "Section 4.2, Figure 9",
        f"The composite loss has more of class {stated.name} right after epoch {stated.epoch}.",
        on((stated.dataset,), Difference, *INSIDE, quantity=_of_class(stated)),
    )
    for stated in CLASS_ACCURACIES
}

CLAIMS = named(TRAINING | ON_FEATURES | PARTS | WHY | OF_CLASSES | OF_LOSING_LESS) + propositions(
    CHAPTER.statements(), headlines=("gradient-norm-sum", "smoothness", "sse-exponential")
)
