"""Every number that chapter 5 says in prose is what the stored results and records say."""

from functools import cache

import jax
import numpy as np
import pytest
from prose import said_by
from results_for_tests import figures_in

from dpstudy.lab import readings, records
from dpstudy.lab.variant import Variant
from dpstudy.lab.wording import rounded_down
from dpstudy.page.results import gain
from under_the_clip.experiments import find
from under_the_clip.tanh_filter import figures
from under_the_clip.tanh_filter.claims import LATE_GROWTH, UNREST
from under_the_clip.tanh_filter.experiments import (
    ACTIVE_RANGES,
    AT_EQUAL_EPSILON,
    ENDS,
    EXPANSIONS,
    MECHANISMS,
    NO_CLIP,
    TRIED,
)

says, page = said_by("05_tanh_filter"), figures_in("05_tanh_filter")
RANGE, FLAT = "range 1", "DP-SGD"


pytestmark = pytest.mark.usefixtures("of_the_study")


@cache
def line(name, label):
    return Variant(readings.read(find(f"tanh-filter-{name}"), dataset="mnist"), label)


def percent(accuracy):
    return f"{100 * accuracy:.2f}"


def median(name, label):
    return percent(line(name, label).accuracy.median())


def best(mechanism):
    return line("at-equal-epsilon", f"{mechanism}, best")


def apart(one, other):
    """What one line has more than another: points, and their interval, as prose has them."""
    of = gain(one, other)
    low, high = sorted(abs(of[end]) for end in ("low", "high"))
    return f"{percent(abs(of['points']))} points", f"{percent(low)} to {percent(high)}"


def test_more_accuracy_with_the_same_noise():
    filtered, flat = line("figures", RANGE), line("figures", FLAT)
    assert len(filtered.results) == len(flat.results) == 5
    says(f"ends at {median('figures', RANGE)} % and DP-SGD at {median('figures', FLAT)} %")
    points, interval = apart(filtered, flat)
    says(f"{points} more (95 % interval {interval})")
    assert gain(filtered, flat)["low"] > 0


def test_more_accuracy_on_cifar_10_too():
    reading = readings.read(find("tanh-filter-cifar-10"))
    filtered, flat = (Variant(reading, label) for label in (RANGE, FLAT))
    assert len(filtered.accuracy) == len(flat.accuracy) == 3
    with_1 = filtered.median("epsilon_claimed-rdp-2019")
    says(f"so that the ε of a sensitivity of 1 is {with_1:.2f}")
    ends = [percent(one.accuracy.median()) for one in (filtered, flat)]
    points, interval = apart(filtered, flat)
    says(f"it ends at {ends[0]} % and DP-SGD at {ends[1]} %, with three seeds each: {points} more")
    says(f"{points} more ({interval}).")
    assert gain(filtered, flat)["low"] > 0
    lowest, *others = sorted(filtered.accuracy)
    assert others[0] - lowest > 0.1
    says(f"one seed of the filter ends at {percent(lowest)} %.")


def test_dp_sgd_with_searched_settings_has_as_much_on_cifar_10():
    tuned = Variant(
        readings.read(find("losing-less-figure-3"), dataset="cifar-10"), "cross-entropy"
    )
    spent = tuned.median("epsilon_pld")
    says(f"settings has {percent(tuned.accuracy.median())} % at a true ε of {spent:.2f}")
    says(f"and tanh, it has {percent(tuned.accuracy.median())} % on that network.")
    filtered = Variant(readings.read(find("tanh-filter-cifar-10")), RANGE)
    assert tuned.accuracy.median() > filtered.accuracy.median()


def test_an_activation_does_nearly_as_much():
    tanh = line("left-out", "DP-SGD, network with tanh")
    assert len(tanh.accuracy) == 2
    says(
        f"with tanh for relu DP-SGD has {percent(tanh.accuracy.median())} % on MNIST, two seeds, at"
    )
    says(f"at a true ε of {tanh.median('epsilon_pld'):.2f}.")


def test_bought_with_privacy():
    claimed, proven = (
        line("figures", RANGE).median(f"epsilon_{which}") for which in ("claimed-rdp-2019", "pld")
    )
    record = records.read(records.folder("audits") / "tanh-filter.json", "audits")
    assert record["claimed"] == pytest.approx(claimed, abs=1e-4)
    says(f"The paper prints no ε. Its accounting gives {claimed:.2f} for our 60 epochs. An audit")
    drawn = records.read(records.folder("audits") / "tanh-filter-drawn-weights.json", "audits")
    says(f"from them the audit shows {rounded_down(drawn['lower_bound'])} too")
    rows = figures.epsilons(readings.read(find("tanh-filter-figures"), dataset="mnist"))
    shown = rows.data.set_index("technique")["ε at least"].dropna()
    assert shown.to_dict() == {RANGE: record["lower_bound"]}
    by_pld = line("figures", FLAT).median("epsilon_pld")
    says(f"by PLD, as the other ε, it gives {by_pld:.2f}")
    says(f"What is proven is {round(proven, -4):,.0f}, for 26,010 parameters and Poisson")
    says(f"shows at least {rounded_down(record['lower_bound'])}, about all that")
    says(f"{record['trials']:,} trials could show")
    assert record["lower_bound"] > 0.99 * record["most_shown"]
    says(f"reach a norm of {figures.longest_norm(line('figures', RANGE)):.1f}")


def test_made_sound_it_gains_nothing():
    flat, clipped = best("flat clipping"), best("filter, then clipped")
    assert all(len(best(name).results) == 5 for name in MECHANISMS)
    says(f"flat clipping ends at {percent(flat.accuracy.median())} %, at its best of {TRIED} set")
    searched = readings.read(AT_EQUAL_EPSILON, dataset="mnist")
    shown = page.expanded(readings.read(find("tanh-filter-expanded")), searched).data
    wide, wider = (
        shown[shown.technique == f"filter, then clipped, k = {k}"].iloc[0] for k in (1, 10)
    )
    assert (wide.seeds, wider.seeds) == (5, 5)
    trained = [line("expanded", f"filter, then clipped, k = {k}") for k in (1, 10)]
    assert all(settings(of) == settings(flat) for of in (clipped, *trained))
    more = [
        f"{percent(of.points)} {{}} ({percent(of.low)} to {percent(of.high)})"
        for of in (wide, wider)
    ]
    says(f"ends at {percent(wide['median'])} % with the paper's $k$ = 1, ")
    says(f"$k$ = 1, {more[0].format('points more')}, and at {percent(wider['median'])} % expanded")
    says(f"expanded by 10, {more[1].format('more')}.")
    says(f"0.001: {percent(clipped.accuracy.median())} %, {apart(flat, clipped)[0]} less "
         f"({apart(flat, clipped)[1]}).")  # fmt: skip
    assert gain(flat, clipped)["low"] > 0
    tried = (
        AT_EQUAL_EPSILON.variants[f"filter, then clipped, {n:02d}"] for n in range(1, TRIED + 1)
    )
    ranges = [run.mechanism.active_range for (run,) in tried]
    lowest = best("filter, then clipped").results[0].run.mechanism.active_range
    assert lowest == min(ranges) == pytest.approx(0.001, rel=0.05) and max(ranges) < 1
    rooted = best("filter, noise for root n")
    says(f"leaves {percent(rooted.accuracy.median())} %, also with $k$ = 0.001.")
    assert rooted.run.mechanism.active_range == pytest.approx(0.001, rel=0.05)
    for name in MECHANISMS:
        if name.startswith("filter"):
            assert gain(best("automatic clipping"), best(name))["low"] > 0
            assert gain(flat, best(name))["low"] > 0


def settings(of):
    """Of the best of a search: batch, epochs, rate, bound and noise."""
    runs = (result.run for result in of.results)
    [found] = {
        (
            run.sampling,
            run.epochs,
            run.optimizer,
            run.mechanism.clip_norm,
            run.mechanism.noise_multiplier,
        )
        for run in runs
    }
    return found


def test_the_filter_loses_at_the_settings_of_flat_clipping():
    flat, clipped = best("flat clipping"), best("filter, then clipped")
    assert settings(flat) == settings(clipped)
    tried = {
        one.run.mechanism.active_range
        for label, one in clipped.reading.found
        if label.startswith("filter, then clipped, ")
    }
    assert min(tried) < 0.0015 and 0.6 < max(tried) <= 1  # of 0.001 to 1, in 16 points
    found = page.at_equal_epsilon(readings.read(AT_EQUAL_EPSILON, dataset="mnist"))
    first, second = (
        percent(found.data.set_index("technique")["seed 0"][name])
        for name in ("flat clipping", "filter, then clipped")
    )
    says(f"are best at the same one, where they end at {first} and {second} % with seed 0.")
    of = {end: 100 * value for end, value in gain(flat, best("automatic clipping")).items()}
    says("between automatic and flat clipping: "
         f"{of['points']:.2f} points ({of['low']:.2f} to {of['high']:.2f})")  # fmt: skip


def test_with_a_wide_active_range_the_filter_and_a_clip_come_to_flat_clipping():
    reading = readings.read(find("tanh-filter-active-range"))
    shown = page.active_ranges(reading, readings.read(AT_EQUAL_EPSILON, dataset="mnist"))
    ends = shown.parts[0].data if hasattr(shown, "parts") else shown.data
    ends = ends.set_index("technique")["median"].map(percent)
    clipped, rooted = (
        [end for label, end in ends.items() if label.startswith(f"{name}, k = ")]
        for name in ACTIVE_RANGES
    )
    flat = ends["flat clipping"]
    assert (len(clipped), len(rooted)) == (6, 4)
    assert clipped == sorted(clipped, key=float)
    says("ends at {}, {}, {}, {}, {} and {} % as $k$ grows".format(*clipped))
    says(f"from 0.0001 to 10 by factors of ten, flat clipping at {flat} %")
    says("it ends at {}, {}, {} and {} % with $k$ from".format(*rooted))


def test_order_is_kept_among_numbers_and_not_among_gradients():
    gradients = np.array([[5.0, 0.0], [2.0, 2.0]])
    longer, shorter = np.linalg.norm(gradients, axis=1)
    after = np.linalg.norm(np.tanh(gradients), axis=1)
    says("(5, 0) is longer than (2, 2), "
         f"{longer:.2f} against {shorter:.2f}, and shorter after the filter, "
         f"{after[0]:.2f} against {after[1]:.2f}.")  # fmt: skip


def test_what_gains_is_not_to_clip():
    unclipped = line("left-out", NO_CLIP)
    assert unclipped.curves.clipped_fraction.max() == 0
    ends = [percent(end) for end in unclipped.accuracy]
    says("two seeds end at {} and {} %".format(*ends))
    says("which no gradient reaches, ends at {} and {} %,".format(*ends))
    says(f"where the filter's five seeds have {median('figures', RANGE)} % in the median")


def test_most_winners_take_all_the_epochs_that_were_tried():
    says("Four of the five winners take 40 epochs, the most that were tried")
    taken = [one.run.epochs for name in MECHANISMS for one in [best(name).results[0]]]
    assert sorted(taken) == [20, 40, 40, 40, 40] and ENDS["epochs"][1] == 40


def test_ranges_and_expansions():
    flat = line("figures", FLAT).accuracy
    assert all((line("figures", f"range {c}").accuracy > flat).all() for c in (1, 2))
    says(f"that shows, {median('figures', 'range 2')} against {median('figures', RANGE)} %;")
    five = line("figures", "range 5").accuracy
    says(f"seeds end between {percent(five.min())} and {percent(five.max())} %")
    ends = {f"expanded by {k:g}": line("figures", f"expanded by {k:g}") for k in EXPANSIONS}
    most = max(ends, key=lambda label: ends[label].accuracy.median())
    assert most == "expanded by 2"
    at_10, alone = median("figures", "expanded by 10"), median("figures", RANGE)
    says(f"by a factor of 2 the filter ends at {median('figures', most)} %, by 10 at {at_10} %, "
         f"and as it is at {alone} %")  # fmt: skip
    assert all(gain(of, line("figures", RANGE))["high"] > 0 for of in ends.values())
    assert all(gain(of, line("figures", FLAT))["low"] > 0 for of in ends.values())


def test_an_expanded_filter_learns_late():
    late, early = LATE_GROWTH.of(*[line("figures", "expanded by 10")] * 2)
    assert (late > early).all() and len(late) == 5
    says(f"by a factor of 10 it gains {percent((late - early).mean())} points from epochs 31 to 40")
    late, early = LATE_GROWTH.of(*[line("figures", RANGE)] * 2)
    assert (late < early).sum() == 3


def test_what_is_not_printed():
    network = [median("left-out", f"{of}, network with tanh") for of in ("DP-SGD", "filter")]
    says(f"DP-SGD ends at {network[0]} % and the filter at {network[1]} %")
    by_tanh = gain(line("left-out", "DP-SGD, network with tanh"), line("figures", FLAT))["points"]
    assert 0.75 < by_tanh / gain(line("figures", RANGE), line("figures", FLAT))["points"] < 1
    slow = [line("left-out", f"{of}, rate 0.05") for of in ("filter", "DP-SGD")]
    says(f"the filter's lead is {percent(gain(*slow)['points'])} points")
    wide = [line("left-out", f"{of}, network twice as wide") for of in ("filter", "DP-SGD")]
    says(f"On a network twice as wide its lead is {percent(gain(*wide)['points'])} points")
    fast = line("left-out", "filter, rate 0.5").accuracy
    assert sorted(fast > 0.9) == [False, True]


def test_the_filter_is_less_steady():
    def change(label):
        trained = line("figures", label)
        return 100 * UNREST.of(trained, trained)[0].median()

    says(f"its accuracy changes by {change(RANGE):.2f} points from one to the next, expanded by 2 "
         f"by {change('expanded by 2'):.2f}, and that of DP-SGD by {change(FLAT):.2f}."
    )  # fmt: skip


def test_on_cifar_10_the_filter_swings():
    [(_, seed_1)] = [
        (label, one)
        for label, one in readings.read(find("tanh-filter-cifar-10")).found
        if label == RANGE and one.run.seed == 1
    ]
    last = [percent(value) for value in seed_1.curve["test_accuracy"][-3:]]
    says("seed 1 reads {}, {} and {} % after its last three epochs".format(*last))


def longer_than_1(result):
    return sum(result.curve["bounded-norms.counts"][-1][30:])


def test_norms_fall_on_mnist_and_rise_on_cifar_10():
    mnist, cifar = (readings.read(find(f"tanh-filter-{name}")) for name in ("figures", "cifar-10"))
    first, last = zip(*(ends_of_the_mean_norm(found) for found in (mnist, cifar)), strict=True)
    mnist, cifar = (dict(found.found[::-1])[RANGE] for found in (mnist, cifar))
    assert mnist.run.seed == cifar.run.seed == 0
    says(f"norm of filtered gradients is {last[0]:.2f} on MNIST and {last[1]:.1f} on CIFAR-10,")
    roots = [
        sum(leaf.size for leaf in jax.tree.leaves(run.network.shapes())) ** 0.5
        for run in (mnist.run, cifar.run)
    ]
    says("where $\\sqrt n$ is {:.0f} and {:.0f}.".format(*roots))
    says(f"On MNIST it fell from {first[0]:.2f} in the first epoch.")
    largest = mnist.curve[figures.LARGEST][-1]
    says(f"Still, with seed 0, {longer_than_1(mnist)} of 1,000 end longer than 1, up to")
    says(f"longer than 1, up to {largest:.1f}.")
    says(f"On CIFAR-10 it rose from {first[1]:.2f}, and {longer_than_1(cifar)} of 1,000 end longer")
    assert cifar.run.epochs == 15


def ends_of_the_mean_norm(reading):
    norms = [one.curve["gradient_norm"] for label, one in reading.found if label == RANGE]
    return np.median([of[1] for of in norms]), np.median([of[-1] for of in norms])


def test_epsilon_of_the_longest_norm_seen():
    rows = figures.epsilons(readings.read(find("tanh-filter-figures"), dataset="mnist"))
    seen = rows.data.set_index("technique")["ε if none is longer"]
    as_it_is, expanded = (f"{float(f'{seen[of]:.3g}'):,.0f}" for of in (RANGE, "expanded by 10"))
    says(f"ε would be {as_it_is} for the filter as it is, {expanded} with")
    rows = figures.epsilons(readings.read(find("tanh-filter-cifar-10")))
    [filtered] = (row for row in rows.data.to_dict("records") if row["technique"] == RANGE)
    there = float(f"{filtered['ε if none is longer']:.3g}")
    says(f"and {there:,.0f} on CIFAR-10, where the longest is")
    says(f"where the longest is {filtered['longest norm seen']:.1f}.")
