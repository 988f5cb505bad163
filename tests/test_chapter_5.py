"""Every number that chapter 5 says in prose is what the stored results and records say."""

from functools import cache

import pytest
from prose import said_by

from dpstudy.lab import readings, records
from dpstudy.ledger.wording import rounded_down
from dpstudy.page.lines import Line
from dpstudy.page.results import gain
from dpstudy.papers import find
from dpstudy.papers.tanh_filter import figures
from dpstudy.papers.tanh_filter.experiments import (
    AT_EQUAL_EPSILON,
    ENDS,
    EXPANSIONS,
    MECHANISMS,
    TRIED,
)

says = said_by("05_tanh_filter")
RANGE, FLAT = "range 1", "DP-SGD"


pytestmark = pytest.mark.usefixtures("of_the_study")


@cache
def line(name, label):
    return Line(readings.read(find(f"tanh-filter-{name}"), dataset="mnist"), label)


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
    assert len(filtered.runs) == len(flat.runs) == 5
    says(f"ends at {median('figures', RANGE)} % and DP-SGD at {median('figures', FLAT)} %")
    points, interval = apart(filtered, flat)
    says(f"{points} more (95 % interval {interval})")
    assert gain(filtered, flat)["low"] > 0


def test_more_accuracy_on_cifar_10_too():
    reading = readings.read(find("tanh-filter-cifar-10"))
    filtered, flat = (Line(reading, label) for label in (RANGE, FLAT))
    assert len(filtered.accuracy) == len(flat.accuracy) == 3
    ends = [percent(one.accuracy.median()) for one in (filtered, flat)]
    points, interval = apart(filtered, flat)
    says(f"it ends at {ends[0]} % and DP-SGD at {ends[1]} %, with three seeds each: {points} more")
    says(f"{points} more ({interval}).")
    assert gain(filtered, flat)["low"] > 0
    lowest, *others = sorted(filtered.accuracy)
    assert others[0] - lowest > 0.1
    says(f"one seed of the filter ends at {percent(lowest)} %.")


def test_an_activation_does_nearly_as_much():
    tanh = line("left-out", "DP-SGD, network with tanh")
    assert len(tanh.accuracy) == 2
    says(
        f"with tanh for relu DP-SGD has {percent(tanh.accuracy.median())} % on MNIST, two seeds, at"
    )
    says(f"at a true ε of {tanh.value('epsilon_pld'):.2f}.")


def test_bought_with_privacy():
    claimed, proven = (
        line("figures", RANGE).value(f"epsilon_{which}") for which in ("claimed-rdp-2019", "pld")
    )
    record = records.read(records.folder("audits") / "tanh-filter.json", "audits")
    assert record["claimed"] == pytest.approx(claimed, abs=1e-4)
    says(f"The paper’s accounting gives ε = {claimed:.2f}. An audit")
    says(f"What is proven is {proven:,.0f}, for 26,010 parameters and 60 epochs:")
    says(f"shows at least {rounded_down(record['lower_bound'])}, about all that")
    says(f"{record['trials']:,} trials could show")
    assert record["lower_bound"] > 0.99 * record["most_shown"]
    says(f"reach a norm of {figures.longest_norm(line('figures', RANGE)):.1f}")


def test_made_sound_it_loses():
    flat, clipped = best("flat clipping"), best("filter, then clipped")
    assert all(len(best(name).runs) == 5 for name in MECHANISMS)
    says(f"each at its best of {TRIED} settings, flat clipping ends at "
         f"{percent(flat.accuracy.median())} %, the filter followed by a clip at "
         f"{percent(clipped.accuracy.median())} %")  # fmt: skip
    points, interval = apart(flat, clipped)
    says(f"{points} less ({interval})")
    assert gain(flat, clipped)["low"] > 0
    says(f"leaves {percent(best('filter, noise for root n').accuracy.median())} %")
    for name in MECHANISMS:
        if name.startswith("filter"):
            assert gain(best("automatic clipping"), best(name))["low"] > 0
            assert gain(flat, best(name))["low"] > 0


def settings(of):
    """Of the best of a search: batch, epochs, rate, bound and noise."""
    runs = (result.run for _, result in of.own.found)
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
    found = figures.at_equal_epsilon(readings.read(AT_EQUAL_EPSILON, dataset="mnist"))
    first, second = (
        percent(found.data.set_index("technique")["seed 0"][name])
        for name in ("flat clipping", "filter, then clipped")
    )
    says(f"they end at {first} and {second} % with seed 0")
    points, _ = apart(flat, best("automatic clipping"))
    says(f"within {points} of flat clipping")
    of = gain(flat, best("automatic clipping"))
    assert of["low"] < 0 < of["high"]


def test_noise_for_root_n_wants_a_small_active_range():
    name = "filter, noise for root n"
    [k] = {result.run.mechanism.active_range for _, result in best(name).own.found}
    says(f"the search takes $k$ = {k:.3f}, the least that was tried")
    found = readings.read(AT_EQUAL_EPSILON, dataset="mnist").found
    ends = {
        one.run.mechanism.active_range: percent(one.curve["test_accuracy"][-1])
        for label, one in found
        if label.startswith(f"{name}, ") and label != f"{name}, best"
    }
    assert (k, len(ends)) == (min(ends), TRIED)
    first, second = sorted(ends)[-2:]
    says(f"at {first:.2f} and {second:.2f}, end at {ends[first]} and {ends[second]} %")


def test_most_winners_take_all_the_epochs_that_were_tried():
    says("Four of the five winners take 40 epochs, the most that were tried")
    taken = [one.run.epochs for name in MECHANISMS for one in [best(name).own.found[0][1]]]
    assert sorted(taken) == [20, 40, 40, 40, 40] and ENDS["epochs"][1] == 40


def test_ranges_and_expansions():
    flat = line("figures", FLAT).accuracy
    assert all((line("figures", f"range {c}").accuracy > flat).all() for c in (1, 2))
    five = line("figures", "range 5").accuracy
    says(f"seeds end between {percent(five.min())} and {percent(five.max())} %")
    ends = {f"expanded by {k:g}": line("figures", f"expanded by {k:g}") for k in EXPANSIONS}
    most = max(ends, key=lambda label: ends[label].accuracy.median())
    assert most == "expanded by 2"
    says(f"by a factor of 2 does best, {median('figures', most)} %")
    says(f"and by 10 ends at {median('figures', 'expanded by 10')} %")
    assert all(gain(of, line("figures", FLAT))["low"] > 0 for of in ends.values())


def test_what_is_not_printed():
    network = [median("left-out", f"{of}, network with tanh") for of in ("DP-SGD", "filter")]
    says(f"DP-SGD ends at {network[0]} % and the filter at {network[1]} %")
    relu, tanh = (line(*of).accuracy.mean() for of in
                  (("figures", FLAT), ("left-out", "DP-SGD, network with tanh")))  # fmt: skip
    assert 0.75 < (tanh - relu) / gain(line("figures", RANGE), line("figures", FLAT))["points"] < 1
    slow = [line("left-out", f"{of}, rate 0.05") for of in ("filter", "DP-SGD")]
    says(f"the filter's lead is {percent(gain(*slow)['points'])} points")
    fast = line("left-out", "filter, rate 0.5").accuracy
    assert sorted(fast > 0.9) == [False, True]


def test_norms_grow_where_the_average_falls():
    mnist = line("figures", RANGE).own
    curve = mnist.curves_from_start.query("seed == 0").set_index("epoch")
    mean, longest = curve.gradient_norm, curve[figures.LARGEST]
    says(f"falls from {mean[1]:.2f} after the first epoch to {mean[60]:.2f}")
    data = figures.norms(readings.read(find("tanh-filter-figures"), dataset="mnist")).data
    least = data.iloc[0]
    says(f"{least['after epoch 60']:.0f} of 1,000 filtered gradients are shorter than "
         f"{least['norm to']:.4f}")  # fmt: skip
    says(f"grows meanwhile, from {longest[1]:.1f} to {longest[60]:.1f}")


def test_epsilon_of_the_longest_norm_seen():
    rows = figures.epsilons(readings.read(find("tanh-filter-figures"), dataset="mnist"))
    seen = rows.data.set_index("technique")["ε if none is longer"]
    says(
        f"ε would be {seen[RANGE]:,.0f} for the filter as it is, {seen['expanded by 10']:,.0f} with"
    )
    rows = figures.epsilons(readings.read(find("tanh-filter-cifar-10")))
    [filtered] = (row for row in rows.data.to_dict("records") if row["technique"] == RANGE)
    says(f"and {filtered['ε if none is longer']:,.0f} on CIFAR-10, where the longest is")
    says(f"where the longest is {filtered['longest norm seen']:.1f}.")
