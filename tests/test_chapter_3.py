"""What the chapter on losing less says is what is stored."""

from __future__ import annotations

from functools import cache
from itertools import product

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from prose import said_by, study_ledger

from dpstudy.lab import readings
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Verdict
from dpstudy.page.results import gain
from dpstudy.parts.data.images import CLASSES
from dpstudy.parts.loss import CrossEntropy
from under_the_clip.experiments import find
from under_the_clip.losing_less import diagnostics as inside
from under_the_clip.losing_less import figures
from under_the_clip.losing_less.loss import Composite
from under_the_clip.losing_less.published import NUMBERS

says = said_by("03_losing_less")
SMALL = ("mnist", "fashion-mnist")
CIFAR, CE = "cifar-10", "cross-entropy"
ENDS = "points", "low", "high"

pytestmark = pytest.mark.usefixtures("of_the_study")


@cache
def figure_3(dataset):
    return readings.read(find("losing-less-figure-3"), dataset=dataset)


@cache
def judged():
    return {entry.id: entry.outcome for entry in study_ledger().entries}


def in_points(found, *names):
    return tuple(f"{100 * found[name]:.2f}" for name in names)


def test_it_is_a_head_start():
    for dataset, seeds in zip((*SMALL, CIFAR), (10, 10, 5), strict=True):
        assert set(figure_3(dataset).finals.label.value_counts()) == {seeds}
    says("over ten seeds and on CIFAR-10 five, the composite loss leads")
    names = "difference", "difference_low", "difference_high"
    mnist, fashion, cifar = (
        in_points(judged()[f"losing-less-early-{dataset}"].ours, *names)
        for dataset in (*SMALL, CIFAR)
    )
    says("At a true ε of 1.5 the composite loss leads by {} points on MNIST (95 %".format(*mnist))
    says("(95 % interval {1} to {2}), ".format(*mnist))
    says("{} on Fashion-MNIST ({} to {}) and".format(*fashion))
    says("and {} on CIFAR-10 ({} to {}).".format(*cifar))


def test_as_the_paper_says_it_gains_most_early():
    says("As the paper says, it gains most early. At a true ε of 1.5")
    for dataset in (*SMALL, CIFAR):
        assert judged()[f"losing-less-early-most-{dataset}"].verdict is Verdict.REPRODUCED


def test_no_gain_is_certain_at_the_end():
    found = {}
    for dataset in (*SMALL, CIFAR):
        assert f"{figure_3(dataset).curves.epsilon_pld.max():.1f}" == "2.4"
        composite, plain = (
            Variant(figure_3(dataset), loss) for loss in ("composite", "cross-entropy")
        )
        gained = gain(composite, plain)
        assert gained["low"] < 0 < gained["high"]
        found[dataset] = in_points(gained, "points", "low", "high")
        assert judged()[f"losing-less-epsilon-{dataset}"].verdict is Verdict.REPRODUCED
    says("At the end, at a true ε of 2.4, less than the paper's 3, no gain is certain")
    says("no gain is certain at the paper's settings: ")
    says("settings: {} points on MNIST ({} to {}), ".format(*found["mnist"]))
    says("{} on Fashion-MNIST ({} to {}) and".format(*found["fashion-mnist"]))
    says("and {} on CIFAR-10 ({} to {}). The paper has".format(*found[CIFAR]))
    most = [judged()[f"losing-less-{of}"].ours["highest"] for of in (
        "composite-accuracy", f"cross-entropy-accuracy-{CIFAR}")]  # fmt: skip
    says("our best of five have {:.2f} and {:.2f} %,".format(*(100 * one for one in most)))


def test_what_the_loss_of_two_examples_is():
    logits, hidden = jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]]), (jnp.ones((2, 8)),)
    loss = Composite(focusing=5.0, turning_epoch=7.0, divisor=11.0)
    (right, wrong), (later, still) = (
        loss(logits, hidden, jnp.array([0, 0]), epoch).tolist() for epoch in (1, 30)
    )
    says(f"the right answer costs {right:.1f}, since squared error wants its logit of 4 to be 1,")
    says(f"and the wrong one {wrong:.1f}. In the last the right one costs nothing and")
    says(f"and the wrong one {still:.1f}, nearly what it costs with cross-entropy.")
    assert later < 1e-6
    alone = CrossEntropy()(logits, hidden, jnp.array([0, 0]), 1).tolist()
    assert still == pytest.approx(alone[1], rel=0.1)


def test_what_the_paper_s_tests_say_here():
    table = figures.significance(figure_3(CIFAR))
    found = table.data.set_index("test")
    says("p-values of {:g}, {:g} and 10⁻⁶;".format(*found.published.dropna().unique()[:2]))
    says(f"the t-test on CIFAR-10 gives {found.p['t-test, two samples']:.2f}.")
    says(f"are hardly normal (p = {found.p['Shapiro-Wilk, composite']:.3f}),")
    composite, plain = (
        Variant(figure_3(CIFAR), loss).accuracy for loss in ("composite", "cross-entropy")
    )
    of_three = Estimate.difference(composite, plain, of=3)
    says(f"on CIFAR-10 is {100 * of_three.low:.2f} to {100 * of_three.high:.2f} points.")
    says("two seeds end above 62.2 %, three below 60.8 %.")
    assert ((composite > 0.622).sum(), (composite < 0.608).sum()) == (2, 3)


def test_it_is_not_ahead_throughout():
    ours = [judged()[f"losing-less-throughout-{dataset}"].ours for dataset in (*SMALL, CIFAR)]
    assert not any(one["epochs_below"] for one in ours)
    mnist, fashion, cifar = (f"{one['epochs_above']} of {one['epochs']}" for one in ours)
    says(f"leads for {mnist} epochs on MNIST, {fashion} on Fashion-MNIST and {cifar} on CIFAR-10")


def test_before_half_of_epsilon_cross_entropy_is_ahead_of_the_papers():
    curves = figure_3(CIFAR).curves
    spent = curves.groupby("epoch")["epsilon_rdp-2019"].max()
    tighter, truly = (curves.groupby("epoch")[f"epsilon_{by}"].max() for by in ("rdp", "pld"))
    old, new, true = (of[of <= 1.5].index[-1] for of in (spent, tighter, truly))
    says(f"On CIFAR-10 an ε of 1.5 is spent after {old} epochs by RDP of 2019, after {new} by the")
    says(f"by the tighter one, and after {true} in truth.")
    outcomes = [
        judged()[f"losing-less-early-{loss}-accuracy{by}"]
        for by in ("", "-tighter-rdp")
        for loss in ("composite", "cross-entropy")
    ]
    assert [one.verdict for one in outcomes] == [
        Verdict.NOT_REPRODUCED,
        Verdict.NOT_REPRODUCED,
        Verdict.REPRODUCED,
        Verdict.NOT_REPRODUCED,
    ]
    ours = [f"{100 * one.ours['median']:.2f}" for one in outcomes]
    says("By RDP of 2019, which we take it to use, ours have {} and {} %;".format(*ours))
    says("by the tighter RDP they have {2} and {3} %, a mean lead of".format(*ours))
    says(f"After {old} epochs our composite loss is below that, at {ours[0]} %; after {new} it")
    says("above the paper's at both, at {1} and {3} %.".format(*ours))
    assert outcomes[0].ours["difference_high"] < 0 < outcomes[1].ours["difference_low"]
    assert outcomes[3].ours["difference_low"] > 0
    rows = curves[curves.epoch == new].pivot_table(
        index="seed", columns="label", values="test_accuracy"
    )
    says("a mean lead of {:.2f} points ({:.2f} to {:.2f}).".format(
        *in_percent(Estimate.difference(rows["composite"], rows[CE]))))  # fmt: skip
    says("with a mean of {:.2f} % ({:.2f} to {:.2f}).".format(
        *in_percent(Estimate.mean(rows["composite"]))))  # fmt: skip
    says(f"cross-entropy at ε < 1.5 has {float(ours[1]):.1f} % here and 45.9 % in the paper")


def test_what_the_noise_costs_by_both_conversions():
    for by, said in (
        ("rdp-2019", "costs {} on MNIST, {} on Fashion-MNIST and {} on CIFAR-10 by RDP of 2019"),
        ("rdp", "by which the three cost {}, {} and {}."),
    ):
        ends = [figure_3(one).curves[f"epsilon_{by}"].max() for one in (*SMALL, CIFAR)]
        says(said.format(*(f"{end:.2f}" for end in ends)))


def test_the_turn_gains_and_focusing_takes_it_back():
    def gained(label, dataset):
        line = Variant(readings.read(find("losing-less-ablation"), dataset=dataset), label)
        assert len(line.accuracy) == 5
        return gain(line, Variant(figure_3(dataset), "cross-entropy"))

    turn = [gained("squared error and cross-entropy", dataset) for dataset in SMALL]
    assert all(one["low"] > 0 for one in turn)
    says("the turn from squared error to cross-entropy gains. With focal loss in place of")
    for dataset in SMALL:
        with_focal = gained("squared error and focal", dataset)
        assert with_focal["low"] < 0 < with_focal["high"] < 0.002
    lost = {}
    for label in ("focal", "squared error"):
        found = [gained(label, dataset) for dataset in SMALL]
        assert all(one["high"] < 0 for one in found)
        lost[label] = [f"{-100 * one['points']:.2f}" for one in found]
    says("and ends {} and {} points below it".format(*lost["focal"]))
    says("Squared error alone ends {} and {} points below.".format(*lost["squared error"]))
    for part, verdict in (
        ("squared-error", Verdict.REPRODUCED),
        ("squared-error-and-cross-entropy", Verdict.NOT_REPRODUCED),
        ("squared-error-and-focal", Verdict.UNDECIDED),
    ):
        for dataset in SMALL:
            assert judged()[f"losing-less-above-{part}-{dataset}"].verdict is verdict


def test_neither_the_penalty_nor_the_reading_of_equation_9_is_seen_to_matter():
    found = []
    for dataset in SMALL:
        without = Variant(
            readings.read(find("losing-less-ablation"), dataset=dataset), "squared error and focal"
        )
        found.append(in_points(gain(Variant(figure_3(dataset), "composite"), without), *ENDS))
        assert float(found[-1][1]) < 0 < float(found[-1][2])
    says("it is worth {} points on MNIST ({} to {}) and".format(*found[0]))
    says("to {2}) and {3} on Fashion-MNIST ({4} to {5}).".format(*found[0], *found[1]))
    printed = Variant(readings.read(find("losing-less-equation-9"), dataset="mnist"), "as printed")
    assert len(printed.accuracy) == 5
    found = gain(printed, Variant(figure_3("mnist"), "composite"))
    assert found["low"] < 0 < found["high"]
    says(f"as printed the loss ends at {100 * printed.accuracy.median():.2f} % on MNIST, where")


def test_weight_decay_does_what_the_penalty_does():
    found, ends = [], []
    for dataset in SMALL:
        reading = readings.read(find("losing-less-weight-decay"), dataset=dataset)
        best = Variant(reading, "weight decay, best")
        assert len(best.accuracy) == 5
        assert best.run.optimizer.decay == 1e-5
        found.append(in_points(gain(best, Variant(figure_3(dataset), "composite")), *ENDS))
        ends.append(f"{100 * best.accuracy.median():.2f}")
        assert Variant(reading, "weight decay 0.01").accuracy.median() < 0.12
    assert judged()["losing-less-above-weight-decay-mnist"].verdict is Verdict.NOT_TESTED
    says("It ends at {} and {} % with 0.00001, the least of four that were tried".format(*ends))
    says("{} points above the penalty on MNIST ({} to {}) and".format(*found[0]))
    says("and {} on Fashion-MNIST ({} to {}). With 0.01 it learns nothing.".format(*found[1]))


def test_with_adam():
    of = {
        (dataset, loss): Variant(
            readings.read(find("losing-less-adam"), dataset=dataset), f"{loss}, Adam"
        ).accuracy
        for dataset in SMALL
        for loss in ("composite", "cross-entropy")
    }
    assert {len(accuracy) for accuracy in of.values()} == {2}
    *on_mnist, composite, plain = (100 * accuracy.median() for accuracy in of.values())
    says(f"the composite loss ends at {composite:.2f} % on Fashion-MNIST and cross-entropy at")
    says(f"and cross-entropy at {plain:.2f} %. On MNIST both end at 98.0 %.")
    assert {f"{end:.1f}" for end in on_mnist} == {"98.0"}


@cache
def at_equal_effort(dataset):
    return readings.read(find("losing-less-equal-effort"), dataset=dataset)


def gained(dataset, loss, activation):
    """What a loss gains over cross-entropy in points, and its interval, at the digits shown."""
    lines = (
        Variant(at_equal_effort(dataset), f"{one}, {activation}") for one in (loss, "cross-entropy")
    )
    found = gain(*lines)
    return tuple(f"{100 * found[end]:.2f}" for end in ("points", "low", "high"))


def test_at_equal_effort_it_gains_but_for_tanh_on_mnist():
    mnist, fashion = (gained(dataset, "composite", "tanh") for dataset in SMALL)
    assert float(mnist[1]) < 0 < float(mnist[2]) and float(fashion[1]) > 0
    says("gains {} points on MNIST ({} to {}) and".format(*mnist))
    tried = at_equal_effort("fashion-mnist").finals.set_index("label").test_accuracy
    halved, printed = (tried[f"composite, tanh, rate x {by}"] for by in ("0.5", "1"))
    assert round(10_000 * (halved - printed)) == 1
    at_the_papers = Variant(figure_3("fashion-mnist"), "composite").accuracy.loc[:4]
    of = Estimate.difference(
        at_the_papers, Variant(at_equal_effort("fashion-mnist"), "cross-entropy, tanh").accuracy
    )
    points, *ends = in_percent(of)
    says(f"At the paper's rate it gains {points:.2f} points on Fashion-MNIST with these five seeds")
    says("with these five seeds ({:.2f} to {:.2f}); the".format(*ends))
    of_ten = gain(*(Variant(figure_3("fashion-mnist"), loss) for loss in ("composite", CE)))[
        "points"
    ]
    says(f"the {100 * of_ten:.2f} above are of ten.")
    says("and {} on Fashion-MNIST ({} to {}). There the best rate of the".format(*fashion))
    best, halved = (
        Variant(at_equal_effort("fashion-mnist"), label).setting("optimizer")
        for label in ("composite, tanh", "composite, tanh, rate x 0.5")
    )
    assert best == halved
    mnist, fashion = (gained(dataset, "composite", "relu") for dataset in SMALL)
    assert float(mnist[1]) > 0 and float(fashion[1]) > 0
    says("the whole loss gains more: {} points on MNIST ({} to {}) and".format(*mnist))
    says("and {} on Fashion-MNIST ({} to {}).".format(*fashion))
    ends = [
        f"{100 * Variant(at_equal_effort(dataset), label).accuracy.median():.2f}"
        for dataset in SMALL
        for label in ("composite, relu", "cross-entropy, tanh")
    ]
    says("most of it on MNIST, with {} against {} %, and all of it".format(*ends[:2]))
    says("on Fashion-MNIST, with {} against {} %.".format(*ends[2:]))


def in_percent(estimate):
    return [100 * value for value in (estimate.value, estimate.low, estimate.high)]


def test_the_turn_alone_is_above_cross_entropy_at_its_best_rate():
    found = []
    for dataset in SMALL:
        turn = Variant(
            readings.read(find("losing-less-ablation"), dataset=dataset),
            "squared error and cross-entropy",
        )
        plain = Variant(at_equal_effort(dataset), "cross-entropy, tanh")
        assert gain(turn, plain)["low"] > 0
        found.append(in_points(gain(turn, plain), *ENDS))
    says("by {} points on MNIST ({} to {}) and".format(*found[0]))
    says(f"turns to cross-entropy, gains {found[0][0]} and {found[1][0]}. The")
    says("and {} on Fashion-MNIST ({} to {}). Its rate was not searched".format(*found[1]))


def test_tuning_the_rate_strengthens_the_gain_on_fashion_mnist_alone():
    mnist, fashion = (
        gain(
            Variant(at_equal_effort(dataset), "composite, tanh"),
            Variant(figure_3(dataset), "composite"),
        )
        for dataset in SMALL
    )
    assert mnist["low"] < 0 < mnist["high"] and fashion["low"] > 0
    says("On Fashion-MNIST it strengthens the gain, on MNIST it does not")
    says("loss gains {} points ({} to {}) and".format(*in_points(fashion, *ENDS)))
    says("and {} ({} to {}).".format(*in_points(mnist, *ENDS)))


@cache
def by_seed(dataset, label):
    """Test accuracy by epoch and seed, of the five seeds that an ablation has."""
    name = "figure-3" if label in ("composite", "cross-entropy") else "ablation"
    curves = readings.read(find(f"losing-less-{name}"), dataset=dataset).curves
    rows = curves[(curves.label == label) & (curves.seed < 5)]
    return rows.pivot_table(index="epoch", columns="seed", values="test_accuracy")


def apart(dataset, first, second, epoch):
    return Estimate.difference(*(by_seed(dataset, one).loc[epoch] for one in (first, second)))


def test_focal_loss_makes_the_head_start_last_and_the_penalty_helps_early():
    early = [
        f"{in_percent(apart(dataset, f'squared error and {then}', 'cross-entropy', epoch))[0]:.2f}"
        for then, epoch in (("cross-entropy", 1), ("cross-entropy", 10), ("focal", 10))
        for dataset in SMALL
    ]
    says("a head start of {} and {} points after one epoch and {} and {} after ten".format(*early))
    says("with focal loss it is {4} and {5} after ten.".format(*early))
    leads = []
    for dataset in SMALL:
        ahead = [e for e in range(1, 41) if apart(dataset, "focal", "cross-entropy", e).low > 0]
        leads.append(next(e for e in range(1, 41) if e + 1 not in ahead))
    says("in epochs 1 to {} on MNIST and 1 to {} on Fashion-MNIST".format(*leads))
    mnist, fashion = (
        in_percent(apart(dataset, "composite", "squared error and focal", 5)) for dataset in SMALL
    )
    says("it is worth {:.2f} points on MNIST ({:.2f} to {:.2f})".format(*mnist))
    says("and {:.2f} on Fashion-MNIST ({:.2f} to {:.2f}).".format(*fashion))
    of = apart("fashion-mnist", "focal", "cross-entropy", 5)
    says("by {:.2f} points after 5 epochs ({:.2f} to {:.2f})".format(*in_percent(of)))
    curves = readings.read(find("losing-less-ablation"), dataset="fashion-mnist").curves
    rows = curves[(curves.label == "focal") & (curves.epoch == 5)]
    says(f"with {rows.clipped_fraction.mean():.0%} clipped, less".replace("%", " %"))
    [plain] = after("clipped_fraction", 5, CE, "{:.4f}", ["fashion-mnist"])
    assert rows.clipped_fraction.mean() < float(plain)
    says("Of squared error more than 99 % are clipped in every epoch, and after 17 epochs it is")
    assert all(apart(dataset, "squared error", "cross-entropy", 17).high < 0 for dataset in SMALL)
    clipped = curves[curves.label == "squared error"].clipped_fraction
    assert clipped.min() > 0.99
    for dataset in SMALL:
        [printed] = {one.run.optimizer.learning_rate for _, one in figure_3(dataset).found}
        of = at_equal_effort(dataset)
        for loss, share in (("cross-entropy", 1), ("composite", 0.5)):
            found = Variant(of, f"{loss}, tanh").results
            assert {one.run.optimizer.learning_rate for one in found} == {share * printed}


def test_the_last_epochs_on_cifar_10():
    curves = figure_3(CIFAR).curves
    spent = curves.groupby("epoch")["epsilon_rdp-2019"].max()
    assert spent[spent < 3].index[-1] == 29
    says(f"the last epoch spends {spent.iloc[-1]:.2f}")
    table = curves.pivot_table(index=["label", "epoch"], columns="seed", values="test_accuracy")

    def at(epoch):
        return Estimate.difference(
            *(table.loc[loss, epoch] for loss in ("composite", "cross-entropy"))
        )

    said = in_percent(at(29))
    says("the mean gain is {:.2f} points ({:.2f} to {:.2f}).".format(*said))
    best = [100 * table.loc[loss, 29].max() for loss in ("composite", "cross-entropy")]
    says(f"{best[0] - best[1]:.2f} points apart; the mean")
    ahead = [epoch for epoch in range(1, 31) if at(epoch).low > 0]
    assert ahead == [*range(1, 6), *range(10, 27), 28, 29]
    says("in epochs 1 to 5, then from 10 to 26, and in 28 and 29.")


def worth(dataset, part, activation):
    """What a part of the loss is worth in points, and its interval."""
    whole, without = (
        Variant(at_equal_effort(dataset), f"{one}, {activation}") for one in ("composite", part)
    )
    found = gain(whole, without)
    return [100 * found[end] for end in ("points", "low", "high")]


PENALTY, FOCUS = "without the penalty", "without focus"


def test_with_tanh_both_parts_matter_on_fashion_mnist_and_neither_is_seen_to_on_mnist():
    focus, penalty = (worth("fashion-mnist", part, "tanh") for part in (FOCUS, PENALTY))
    assert focus[1] > 0 and penalty[1] > 0
    says("focusing is worth {:.2f} points ({:.2f} to {:.2f}) and the".format(*focus))
    says("the penalty {:.2f} ({:.2f} to {:.2f}), by the three seeds".format(*penalty))
    focus, penalty = (worth("mnist", part, "tanh") for part in (FOCUS, PENALTY))
    assert focus[1] < 0 < focus[2] and penalty[1] < 0 < penalty[2]
    says("the penalty is worth {:.2f} points ({:.2f} to {:.2f}).".format(*penalty))


def test_with_relu_the_penalty_does_half_of_it_on_fashion_mnist():
    points, low, high = worth("fashion-mnist", PENALTY, "relu")
    whole, plain, without = (
        Variant(at_equal_effort("fashion-mnist"), f"{loss}, relu").accuracy
        for loss in ("composite", "cross-entropy", PENALTY)
    )
    of_all = 100 * (whole - plain).loc[without.index].mean()
    assert low > 0 and 0.4 < points / of_all < 0.6
    says(f"is worth {points:.2f} points on Fashion-MNIST ({low:.2f} to {high:.2f}), about half of")
    says(
        f"gains with the same seeds, {of_all:.2f}. Focusing is not seen to matter there, nor either"
    )
    for dataset, part in (("fashion-mnist", FOCUS), ("mnist", FOCUS), ("mnist", PENALTY)):
        _, low, high = worth(dataset, part, "relu")
        assert low < 0 < high


def test_of_the_parameters_focusing_matters_most():
    moved = {"divisor": [], "turning_epoch": []}
    for dataset, where in zip(SMALL, ("MNIST", "Fashion-MNIST"), strict=True):
        reading = readings.read(find("losing-less-sensitivity"), dataset=dataset)
        assert len(reading.finals) == 19
        ends = 100 * reading.finals.groupby("label").test_accuracy.median()
        paper = 100 * Variant(figure_3(dataset), "composite").accuracy.median()
        focused = [ends["focusing 0"], paper, ends["focusing 8"]]
        assert focused == sorted(focused, reverse=True)
        says("{:.2f}, {:.2f} and {:.2f} % on ".format(*focused) + where)
        own = Variant(figure_3(dataset), "composite").accuracy
        for name, found in moved.items():
            labels = [label for label in reading.labels if label.startswith(name)]
            of = [0.0, *((Variant(reading, one).accuracy - own).mean() for one in labels)]
            found.append(f"{100 * (max(of) - min(of)):.2f}")
        assert max(map(float, (found[-1] for found in moved.values()))) < focused[0] - focused[2]
    says("moves by {} and {} points over values of".format(*moved["divisor"]))
    says("and by {} and {} over values of".format(*moved["turning_epoch"]))


def test_absolute_error_does_not_train_and_hubers_does_as_squared_error():
    ends, squared, huber, least = {}, [], [], []
    for dataset in SMALL:
        reading = readings.read(find("losing-less-other-errors"), dataset=dataset)
        absolute, wide, narrow = (
            Variant(reading, label) for label in ("absolute error", "Huber, 1", "Huber, 0.1")
        )
        assert {len(line.accuracy) for line in (absolute, wide, narrow)} == {5}
        ends[dataset] = f"{100 * absolute.accuracy.median():.2f}"
        ablation = readings.read(find("losing-less-ablation"), dataset=dataset)
        alone = Variant(ablation, "squared error")
        difference = gain(wide, alone)
        assert difference["low"] < 0 < difference["high"]
        for found, line in ((squared, alone), (huber, wide), (least, narrow)):
            found.append(f"{100 * line.accuracy.median():.2f}")
    last = reading.curves[reading.curves.epoch == 40].groupby("label").test_accuracy.median()
    assert last["Huber, 0.1"] == last["Huber, 0.2"] == 0.1
    rising = [last[f"Huber, {bound}"] for bound in ("0.2", "0.3", "0.4", "0.5")]
    assert rising[0] < rising[1] < rising[2] > rising[3] and rising[1] > 0.8
    assert least[1] == "10.00" and judged()["losing-less-huber-mnist"].verdict is Verdict.UNDECIDED
    curves = readings.read(find("losing-less-other-errors"), dataset="mnist").curves
    loss = curves[(curves.epoch == 40) & (curves.label == "absolute error")].train_loss.median()
    says(f"On MNIST it ends at {ends['mnist']} % with a training loss of {loss:.2f}, and")
    says(f"On Fashion-MNIST it ends at {ends['fashion-mnist']} %.")
    says("a bound of 1 ends at {} and {} %,".format(*huber))
    says("squared error at {} and {} %, which five seeds".format(*squared))
    says(f"On MNIST 0.1 ends at {least[0]} %.")


def after(column, epoch, loss, form="{:.2f}", datasets=SMALL):
    """A measure after an epoch, by dataset, median over seeds."""
    shown = []
    for dataset in datasets:
        curves = readings.read(find("losing-less-inside"), dataset=dataset).curves
        rows = curves[(curves.epoch == epoch) & (curves.label == loss)]
        shown.append(form.format(rows[column].median()))
    return tuple(shown)


def on_all(column, epoch, form):
    """A measure of the composite loss, and of cross-entropy, on all three datasets."""
    return [after(column, epoch, loss, form, (*SMALL, CIFAR))
            for loss in ("composite", "cross-entropy")]  # fmt: skip


def test_most_of_what_the_paper_sees_inside_is_there():
    verdicts = {name: outcome.verdict for name, outcome in judged().items()}
    for what, dataset in product(("logits", "pre-activations", "gradients", "last-weights"), SMALL):
        assert verdicts[f"losing-less-{what}-{dataset}"] is Verdict.REPRODUCED
    there = readings.read(find("losing-less-inside"), dataset=CIFAR).found
    least, most = (
        function([one.curve["layer-norms.hidden"][-1] for label, one in there if label == loss], 0)
        for loss, function in (("cross-entropy", np.min), ("composite", np.max))
    )
    assert (most < least).all() and len(most) == 7
    for column in ("layer-norms.logits", "layer-norms.last_weights", "gradient_norm"):
        composite, plain = on_all(column, 30, "{:.6f}")
        assert float(plain[2]) > float(composite[2])
    (*composite, composite_there), (*plain, plain_there) = (
        [*after("layer-norms.logits", 40, loss, "{:.3g}"), *of_cifar]
        for loss, of_cifar in zip(
            ("composite", "cross-entropy"),
            (after("layer-norms.logits", 30, loss, "{:#.3g}", [CIFAR])
             for loss in ("composite", "cross-entropy")),
            strict=True,
        )
    )  # fmt: skip
    said = "norm is {} on MNIST, {} on Fashion-MNIST and".format(*composite)
    says(f"{said} {composite_there} on CIFAR-10, with cross-entropy")
    says("with cross-entropy {}, {} and".format(*plain) + f" {plain_there}.")
    (mnist, *_), (mnist_plain, *_) = on_all("clipping-bias.cosine", 1, "{:.2f}")
    says(f"On MNIST it is {mnist} after the first, with cross-entropy {mnist_plain}, and")
    (mnist, _, cifar), (mnist_plain, _, cifar_plain) = on_all("clipping-bias.cosine", 10, "{:.2f}")
    says(f"and {mnist} against {mnist_plain} after the tenth.")
    says(f"the cosine is {cifar} after the tenth epoch, with cross-entropy {cifar_plain};")
    (*_, cifar), (*_, cifar_plain) = on_all("clipping-bias.cosine", 20, "{:.2f}")
    says(f"after the twentieth it is {cifar} against {cifar_plain}.")
    assert verdicts["losing-less-cosine-mnist"] is Verdict.REPRODUCED
    assert verdicts["losing-less-cosine-fashion-mnist"] is Verdict.UNDECIDED
    (composite, *_), (plain, *_) = on_all("smoothness.largest", 2, "{:.3g}")
    [squared] = after("smoothness.largest", 2, "squared error", "{:.3g}", ["mnist"])
    says(
        f"it is {composite} on MNIST, with cross-entropy {plain} and with squared error {squared}."
    )
    ends = [
        after("smoothness.largest", 40, loss, "{:.1f}") for loss in ("composite", "cross-entropy")
    ]
    says("smaller on Fashion-MNIST, {} against {}, and".format(*(of[1] for of in ends)))
    composite, plain = on_all("smoothness.largest", 30, "{:,.0f}")
    says(f"and on CIFAR-10, {composite[2]} against {plain[2]}.")
    for dataset, verdict in zip(
        (*SMALL, CIFAR),
        (Verdict.UNDECIDED, Verdict.REPRODUCED, Verdict.REPRODUCED),
        strict=True,
    ):
        assert verdicts[f"losing-less-curvature-{dataset}"] is verdict
    most = [judged()[f"losing-less-most-curved-{dataset}"] for dataset in (*SMALL, CIFAR)]
    assert {one.verdict for one in most} == {Verdict.UNDECIDED}
    mnist, fashion, cifar = (
        [one.ours[f"{side}_median"] for side in ("second", "first")] for one in most
    )
    says("that is {:.1f} on MNIST, with cross-entropy {:.1f}; on".format(*mnist))
    says("on Fashion-MNIST it is {:.1f} against {:.0f} and".format(*fashion))
    says("and on CIFAR-10 {:,.0f} against {:,.0f}, and on none".format(*cifar))
    first = readings.read(find("losing-less-inside"), dataset="fashion-mnist").curves
    first = first[first.epoch == 1].groupby("label")["clipping-bias.cosine"]
    assert first.min()["composite"] > 0.94 and first.max()["cross-entropy"] < 0.32


def test_more_examples_reach_the_clip_at_first():
    early = [
        share.rstrip("%")
        for loss in ("composite", "cross-entropy")
        for share in after("clipped_fraction", 5, loss, "{:.0%}")
    ]
    said = (
        "clipped with the composite loss, {} and {} % of the gradients, than with cross-entropy, {}"
    )
    says((said + " and {} %, and shorter").format(*early))
    [there] = after("clipped_fraction", 5, "cross-entropy", "{:.1%}", [CIFAR])
    says(f"On CIFAR-10 {there.rstrip('%')} % are clipped after 5 epochs with cross-entropy too.")


def test_of_the_classes_of_cifar_10():
    found = {name: judged()[f"losing-less-class-{name}"] for name in ("automobile", "cat", "truck")}
    assert [one.verdict for one in found.values()] == [
        *2 * [Verdict.REPRODUCED],
        Verdict.UNDECIDED,
    ]
    automobile, cat, truck = (
        "{:.0f} against {:.0f} %".format(
            *(100 * one.ours[f"{of}_median"] for of in ("first", "second"))
        )
        for one in found.values()
    )
    says(f"of automobile after 2 epochs, {automobile}, and of cat after 20, {cat}.")
    says(f"Of truck after 2 epochs five seeds do not tell, at {truck}.")


def test_classes_are_nearer_to_those_without_privacy():
    apart_from = []
    for dataset in SMALL:
        watched, free = (
            readings.read(find(f"losing-less-{name}"), dataset=dataset)
            for name in ("inside", "not-private")
        )
        right = {}
        for reading, label in ((watched, "composite"), (watched, CE), (free, CE)):
            matrix = inside._summed(Variant(reading, label), "confusion.counts", 2)
            right[reading is free, label] = np.diag(matrix) / matrix.sum(axis=1)
        for loss in ("composite", CE):
            apart_from.append(100 * np.abs(right[False, loss] - right[True, CE]).mean())
    says("by {:.1f} points on MNIST, with cross-entropy by {:.1f}, and".format(*apart_from))
    says("and by {:.1f} and {:.1f} on Fashion-MNIST; after 20".format(*apart_from[2:]))


def test_late_in_training_they_are_nearer_too():
    apart_from = []
    for dataset in SMALL:
        watched, free = (
            readings.read(find(f"losing-less-{name}"), dataset=dataset)
            for name in ("inside", "not-private")
        )
        right = [
            inside._summed(Variant(reading, label), "confusion.counts", 20)
            for reading, label in ((watched, "composite"), (watched, CE), (free, CE))
        ]
        *private, wanted = (np.diag(matrix) / matrix.sum(axis=1) for matrix in right)
        apart_from += [100 * np.abs(one - wanted).mean() for one in private]
    says("after 20 by {:.1f} and {:.1f}, and by {:.1f} and {:.1f}.".format(*apart_from))
    says(
        f"where the paper has {100 * NUMBERS['cifar-10, not private'].value:.1f} % without privacy"
    )
    assert readings.read(find("losing-less-not-private"), dataset=CIFAR).finals.empty


def test_of_the_classes_that_the_paper_calls_hard():
    there = readings.read(find("losing-less-inside"), dataset=CIFAR).found
    shares = {
        (name, loss): pd.Series(
            {
                one.run.seed: counts[at, at] / counts[at].sum()
                for label, one in there
                if label == loss
                for at_20 in [one.curve["epoch"].index(20)]
                for counts in [np.asarray(one.curve["confusion.counts"][at_20])]
            }
        )
        for name in ("deer", "dog")
        for at in [CLASSES[CIFAR].index(name)]
        for loss in ("composite", CE)
    }
    deer, deer_plain, dog, dog_plain = shares.values()
    assert len(deer) == len(dog_plain) == 5
    assert Estimate.difference(deer, deer_plain).low > 0
    assert Estimate.difference(dog, dog_plain).low < 0
    medians = [f"{100 * of.median():.0f}" for of in (deer, deer_plain, dog)]
    says("it has {} against {} % of deer after 20 epochs, and of dog {} % with both.".format(
        *medians))  # fmt: skip
    assert dog.median() == dog_plain.median()


def test_gradients_are_more_condensed_after_the_first_epoch():
    found = [judged()[f"losing-less-first-spread-{dataset}"] for dataset in (*SMALL, CIFAR)]
    assert {one.verdict for one in found} == {Verdict.REPRODUCED}
    mnist, fashion, cifar = (
        [f"{one.ours[f'{side}_median']:.1f}" for side in ("second", "first")] for one in found
    )
    says("is {} on MNIST, with cross-entropy {}, on Fashion-MNIST".format(*mnist))
    says("on Fashion-MNIST {} against {}, and on CIFAR-10".format(*fashion))
    says("and on CIFAR-10 {} against {}.".format(*cifar))


def test_gradients_after_the_first_epoch():
    def of(dataset, loss):
        reading = readings.read(find("losing-less-inside"), dataset=dataset)
        return inside._summed(Variant(reading, loss), "clipping-bias.counts", 1)

    shown = [inside._median(of(CIFAR, loss)) for loss in ("composite", CE)]
    says("is {:.0f} on CIFAR-10, with cross-entropy {:.0f}, and on MNIST the same".format(*shown))
    counts = [of("mnist", loss) for loss in ("composite", CE)]
    assert len({inside._median(one) for one in counts}) == 1
    spreads = [
        np.subtract(*np.searchsorted(np.cumsum(one) / one.sum(), [0.75, 0.25])) for one in counts
    ]
    assert spreads[0] < spreads[1]


def test_on_scattering_features_it_gains_on_mnist():
    ahead = [judged()[f"losing-less-features-throughout-{dataset}"].ours for dataset in SMALL]
    assert ahead[0]["epochs_above"] == ahead[0]["epochs"]
    says("leads at all {epochs} epochs, on".format(**ahead[0]))
    says("on Fashion-MNIST at {epochs_above} of {epochs}, and".format(**ahead[1]))
    said, linear = [], []
    for dataset in SMALL:
        reading = readings.read(find("losing-less-figure-4"), dataset=dataset)
        composite, plain = (Variant(reading, loss) for loss in ("composite", "cross-entropy"))
        assert len(composite.accuracy) == len(plain.accuracy) == 5
        found = gain(composite, plain)
        assert (found["low"] > 0) == (dataset == "mnist")
        said.append([f"{100 * found[end]:.2f}" for end in ("points", "low", "high")])
        head = Variant(
            readings.read(find("losing-less-linear"), dataset=dataset), "cross-entropy"
        ).accuracy
        assert len(head) == 5 and head.min() > max(plain.accuracy.max(), composite.accuracy.max())
        linear.append(f"{100 * head.median():.2f}")
    says("with cross-entropy it has {} and {} %.".format(*linear))
    read = (readings.read(find("losing-less-linear"), dataset=of) for of in (*SMALL, CIFAR))
    heads = [[Variant(one, loss) for loss in ("composite", "cross-entropy")] for one in read]
    there = 100 * heads[2][1].accuracy.median()
    says(f"with two seeds, the head has {there:.2f} % with cross-entropy and")
    assert {len(line.accuracy) for line in heads[2]} == {2}
    best = max(Variant(figure_3(CIFAR), loss).accuracy.median() for loss in ("composite", CE))
    assert best < min(line.accuracy.median() for line in heads[2])
    mnist, fashion = (in_points(gain(*pair), *ENDS) for pair in heads[:2])
    says("the loss is worth {} points on MNIST ({} to {}) and".format(*mnist))
    says("and {} on Fashion-MNIST ({} to {}).".format(*fashion))
    says(f"and {-100 * gain(*heads[2])['points']:.2f} points less with the composite loss;")
    (points, low, high), (points_there, low_there, high_there) = said
    says(
        f"the loss gains {points} points on MNIST ({low} to {high}) and perhaps {points_there} on "
        f"Fashion-MNIST ({low_there} to {high_there}), with five seeds, and"
    )


def test_on_scattering_features_of_cifar_10_the_papers_gain_is_not_there():
    reading = readings.read(find("losing-less-figure-4"), dataset=CIFAR)
    lines = [Variant(reading, loss) for loss in ("composite", "cross-entropy")]
    found = in_points(gain(*lines), *ENDS)
    assert {len(line.accuracy) for line in lines} == {3} and float(found[1]) > 0
    says("and {} on CIFAR-10 ({} to {}), with three.".format(*found))
    ends = [f"{100 * line.accuracy.median():.2f}" for line in lines]
    says(f"end at {ends[0]} and {ends[1]} %, at a true ε of {lines[0].median('epsilon_pld'):.2f}.")
    curves, medians, epochs = reading.curves, [], []
    for accountant in ("pld", "rdp", "rdp-2019"):
        within = curves[curves[f"epsilon_{accountant}"] < 2]
        last = within[within.epoch == within.epoch.max()].groupby("label").test_accuracy.median()
        medians += [f"{100 * last[line.name]:.2f}" for line in lines]
        epochs.append(within.epoch.max())
    said = (
        "Below 2 they have {} and {} %; by the tighter RDP {} and {} %, by RDP of 2019 {} and {} %."
    )
    says(said.format(*medians))
    says(f"the composite loss on features {float(medians[4]):.1f} and 66.8 %.")
    true, tighter, old = epochs
    says(f"is spent after {old} epochs by RDP of 2019, after {tighter} by the tighter one, and")
    says(f"and after {true} in truth. Each example")
    theirs = [
        NUMBERS[f"cifar-10, features, {loss}, ε < 2"].value
        for loss in ("composite", "cross-entropy")
    ]
    says(f"The paper has {100 * theirs[0]:.1f} % at ε < 2, we take it on CIFAR-10, and")
    says(f"and {100 * theirs[1]:.1f} % with cross-entropy. Ours")
    stated = 100 * (theirs[0] - theirs[1])
    there = judged()["losing-less-features-early"].ours
    ours = in_points(there, "difference", "difference_low", "difference_high")
    says(
        "Three seeds leave its gain of {:.1f} points open: ours is {} there ({} to {}).".format(
            stated, *ours
        )
    )
    assert float(ours[1]) < 0 < stated < float(ours[2])
    for name in ("composite", "cross-entropy"):
        outcome = judged()[f"losing-less-features-{name}-accuracy"]
        assert outcome.verdict is Verdict.NOT_REPRODUCED
    ahead = {of: judged()[f"losing-less-features-throughout-{of}"].ours for of in (*SMALL, CIFAR)}
    says("with three seeds, at {epochs_above} of {epochs}; cross-entropy".format(**ahead[CIFAR]))
    says(
        f"leads at {ahead['fashion-mnist']['epochs_below']} on Fashion-MNIST and at none elsewhere"
    )
    assert ahead["mnist"]["epochs_below"] == ahead[CIFAR]["epochs_below"] == 0
    above = judged()[f"losing-less-features-above-pixels-{CIFAR}"].ours
    above = in_points(above, "difference", "difference_low", "difference_high")
    said = "network on features ends {} points above one on pixels on CIFAR-10 ({} to {})."
    says(said.format(*above))
    assert readings.read(find("losing-less-statistics")).on(CIFAR).finals.empty


def test_with_released_statistics_it_gains_on_mnist():
    said = []
    for dataset in SMALL:
        reading = readings.read(find("losing-less-statistics"), dataset=dataset)
        composite, plain = (Variant(reading, loss) for loss in ("composite", "cross-entropy"))
        assert len(composite.accuracy) == len(plain.accuracy) == 5
        said.append(in_points(gain(composite, plain), *ENDS))
        assert (float(said[-1][1]) > 0) == (dataset == "mnist")
    says("gains on MNIST too, {} points ({} to {}), and".format(*said[0]))
    says("and {} on Fashion-MNIST ({} to {}).".format(*said[1]))


def test_measures_cost_less_than_a_fifth_of_the_training_they_watch():
    rows = inside.cost().data.set_index("loss")
    assert set(rows.index) == {"cross-entropy", "composite"}
    assert (rows["measures add"] < 1 / 5).all()
