"""Every number that chapter 5 says in prose is what the stored results and records say."""

import jax
import numpy as np
import pytest
from prose import MNIST, median, over, percent, points, reading, said_by, variant
from results_for_tests import figures_in

from dpstudy.lab import records
from dpstudy.lab.wording import rounded_down
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
CLIPPED = "filter, then clipped"

pytestmark = pytest.mark.usefixtures("of_the_study")


def stored(name, dataset=MNIST):
    return reading(f"tanh-filter-{name}", dataset)


def line(name, label):
    return variant(f"tanh-filter-{name}", MNIST, label)


def on_cifar_10(label):
    return variant("tanh-filter-cifar-10", None, label)


def best(mechanism):
    return line("at-equal-epsilon", f"{mechanism}, best")


def audit(name):
    return records.read(records.folder("audits") / f"{name}.json", "audits")


def test_more_accuracy_with_the_same_noise():
    filtered, flat = line("figures", RANGE), line("figures", FLAT)
    assert len(filtered.results) == len(flat.results) == 5 and over(filtered, flat).low > 0
    says(f"ends at {median(filtered)} % and DP-SGD at {median(flat)} %")
    says("{} points more (95 % interval {} to {})", *points(over(filtered, flat)))


def test_more_accuracy_on_cifar_10_too():
    filtered, flat = on_cifar_10(RANGE), on_cifar_10(FLAT)
    assert len(filtered.accuracy) == len(flat.accuracy) == 3 and over(filtered, flat).low > 0
    spent = filtered.median("epsilon_claimed-rdp-2019")
    says(f"so that the ε of a sensitivity of 1 is {spent:.2f}")
    says("it ends at {} % and DP-SGD at {} %, with three seeds each: {} points more ({} to {}).",
         median(filtered), median(flat), *points(over(filtered, flat)))  # fmt: skip
    lowest, *others = sorted(filtered.accuracy)
    assert others[0] - lowest > 0.1
    says(f"one seed of the filter ends at {percent(lowest)} %.")


def test_dp_sgd_with_searched_settings_has_as_much_on_cifar_10():
    tuned = variant("losing-less-figure-3", "cifar-10", "cross-entropy")
    spent = tuned.median("epsilon_pld")
    says(f"settings has {median(tuned)} % at a true ε of {spent:.2f}")
    says(f"and tanh, it has {median(tuned)} % on that network.")
    assert tuned.accuracy.median() > on_cifar_10(RANGE).accuracy.median()


def test_an_activation_does_nearly_as_much():
    tanh = line("left-out", "DP-SGD, network with tanh")
    assert len(tanh.accuracy) == 2
    says(f"with tanh for relu DP-SGD has {median(tanh)} % on MNIST, two seeds, at a true ε of "
         f"{tanh.median('epsilon_pld'):.2f}.")  # fmt: skip


def test_bought_with_privacy():
    claimed, proven = (
        line("figures", RANGE).median(f"epsilon_{which}") for which in ("claimed-rdp-2019", "pld")
    )
    record, drawn = audit("tanh-filter"), audit("tanh-filter-drawn-weights")
    assert record["claimed"] == pytest.approx(claimed, abs=1e-4)
    says(f"The paper prints no ε. Its accounting gives {claimed:.2f} for our 60 epochs. An audit")
    says(f"from them the audit shows {rounded_down(drawn['lower_bound'])} too")
    rows = figures.epsilons(stored("figures")).data.set_index("technique")
    assert rows["ε at least"].dropna().to_dict() == {RANGE: record["lower_bound"]}
    by_pld = line("figures", FLAT).median("epsilon_pld")
    says(f"by PLD, as the other ε, it gives {by_pld:.2f}")
    says(f"What is proven is {round(proven, -4):,.0f}, for 26,010 parameters and Poisson")
    says(f"shows at least {rounded_down(record['lower_bound'])}, about all that")
    says(f"{record['trials']:,} trials could show")
    assert record["lower_bound"] > 0.99 * record["most_shown"]
    says(f"reach a norm of {figures.longest_norm(line('figures', RANGE)):.1f}")
    seen = rows["ε if none is longer"]
    as_it_is, expanded = (_three_digits(seen[of]) for of in (RANGE, "expanded by 10"))
    says(f"ε would be {as_it_is} for the filter as it is, {expanded} with")
    there = figures.epsilons(stored("cifar-10", None)).data.set_index("technique").loc[RANGE]
    says(f"and {_three_digits(there['ε if none is longer'])} on CIFAR-10, where the longest is "
         f"{there['longest norm seen']:.1f}.")  # fmt: skip


def _three_digits(value):
    return f"{float(f'{value:.3g}'):,.0f}"


def test_made_sound_it_gains_nothing():
    flat, clipped, rooted = map(best, ("flat clipping", CLIPPED, "filter, noise for root n"))
    assert all(len(best(name).results) == 5 for name in MECHANISMS)
    says(f"flat clipping ends at {median(flat)} %, at its best of {TRIED} set")
    shown = page.expanded(stored("expanded"), stored("at-equal-epsilon")).data
    ends, more = [], []
    for k in (1, 10):
        of = shown[shown.technique == f"{CLIPPED}, k = {k}"].iloc[0]
        assert of.seeds == 5
        assert settings(line("expanded", f"{CLIPPED}, k = {k}")) == settings(flat)
        ends.append(percent(of["median"]))
        more.append([percent(of[end]) for end in ("points", "low", "high")])
    says("ends at {} % with the paper's $k$ = 1, {} points more ({} to {}), and at {} % expanded "
         "by 10, {} more ({} to {}).", ends[0], *more[0], ends[1], *more[1])  # fmt: skip
    says("0.001: {} %, {} points less ({} to {}).", median(clipped), *points(over(flat, clipped)))
    says(f"leaves {median(rooted)} %, also with $k$ = 0.001.")
    for sound in (clipped, rooted):
        assert sound.run.mechanism.active_range == pytest.approx(0.001, rel=0.05)
    for name in MECHANISMS:
        if name.startswith("filter"):
            assert over(best("automatic clipping"), best(name)).low > 0
            assert over(flat, best(name)).low > 0


def settings(of):
    """Of the best of a search: batch, epochs, rate, bound and noise."""
    [found] = {
        (
            run.sampling,
            run.epochs,
            run.optimizer,
            run.mechanism.clip_norm,
            run.mechanism.noise_multiplier,
        )
        for run in (result.run for result in of.results)
    }
    return found


def test_the_filter_loses_at_the_settings_of_flat_clipping():
    flat, clipped = best("flat clipping"), best(CLIPPED)
    assert settings(flat) == settings(clipped)
    numbers = range(1, TRIED + 1)
    wanted = [AT_EQUAL_EPSILON.variants[f"{CLIPPED}, {n:02d}"][0] for n in numbers]
    tried = [
        one.run
        for label, one in clipped.reading.found
        if label.startswith(f"{CLIPPED}, ") and not label.endswith("best")
    ]
    for runs in (wanted, tried):  # of 0.001 to 1, in 16 points
        ranges = [run.mechanism.active_range for run in runs]
        assert clipped.run.mechanism.active_range == min(ranges) < 0.0015
        assert 0.6 < max(ranges) < 1
    found = page.at_equal_epsilon(stored("at-equal-epsilon")).data.set_index("technique")
    says("are best at the same one, where they end at {} and {} % with seed 0.",
         *(percent(found["seed 0"][name]) for name in ("flat clipping", CLIPPED)))  # fmt: skip
    says("between automatic and flat clipping: {} points ({} to {})",
         *points(over(flat, best("automatic clipping"))))  # fmt: skip


def test_with_a_wide_active_range_the_filter_and_a_clip_come_to_flat_clipping():
    shown = page.active_ranges(stored("active-range"), stored("at-equal-epsilon"))
    [table, *_] = getattr(shown, "parts", [shown])
    ends = table.data.set_index("technique")["median"].map(percent)
    clipped, rooted = (
        [end for label, end in ends.items() if label.startswith(f"{name}, k = ")]
        for name in ACTIVE_RANGES
    )
    assert (len(clipped), len(rooted)) == (6, 4)
    assert clipped == sorted(clipped, key=float)
    says("ends at {}, {}, {}, {}, {} and {} % as $k$ grows", *clipped)
    says(f"from 0.0001 to 10 by factors of ten, flat clipping at {ends['flat clipping']} %")
    says("it ends at {}, {}, {} and {} % with $k$ from", *rooted)


def test_order_is_kept_among_numbers_and_not_among_gradients():
    gradients = np.array([[5.0, 0.0], [2.0, 2.0]])
    norms = (np.linalg.norm(of, axis=1) for of in (gradients, np.tanh(gradients)))
    says("(5, 0) is longer than (2, 2), {:.2f} against {:.2f}, and shorter after the filter, "
         "{:.2f} against {:.2f}.", *np.concatenate([*norms]))  # fmt: skip


def test_what_gains_is_not_to_clip():
    unclipped = line("left-out", NO_CLIP)
    assert unclipped.curves.clipped_fraction.max() == 0
    ends = [percent(end) for end in unclipped.accuracy]
    says("two seeds end at {} and {} %", *ends)
    says("which no gradient reaches, ends at {} and {} %, where the filter's five seeds have {} % "
         "in the median", *ends, median(line("figures", RANGE)))  # fmt: skip


def test_most_winners_take_all_the_epochs_that_were_tried():
    says("Four of the five winners take 40 epochs, the most that were tried")
    taken = sorted(best(name).run.epochs for name in MECHANISMS)
    assert taken == [20, 40, 40, 40, 40] and ENDS["epochs"][1] == 40


def test_ranges_and_expansions():
    flat, alone = line("figures", FLAT), line("figures", RANGE)
    twice, five = (line("figures", f"range {c}") for c in (2, 5))
    assert all((one.accuracy > flat.accuracy).all() for one in (alone, twice))
    says(f"that shows, {median(twice)} against {median(alone)} %;")
    ends = five.accuracy
    says(f"seeds end between {percent(ends.min())} and {percent(ends.max())} %")
    expanded = {k: line("figures", f"expanded by {k:g}") for k in EXPANSIONS}
    assert max(expanded, key=lambda k: expanded[k].accuracy.median()) == 2
    says("by a factor of 2 the filter ends at {} %, by 10 at {} %, and as it is at {} %",
         *map(median, (expanded[2], expanded[10], alone)))  # fmt: skip
    assert all(over(of, alone).high > 0 and over(of, flat).low > 0 for of in expanded.values())


def test_an_expanded_filter_learns_late():
    late, early = LATE_GROWTH.of(*[line("figures", "expanded by 10")] * 2)
    assert (late > early).all() and len(late) == 5
    says(f"by a factor of 10 it gains {percent((late - early).mean())} points from epochs 31 to 40")
    late, early = LATE_GROWTH.of(*[line("figures", RANGE)] * 2)
    assert (late < early).sum() == 3


def test_what_is_not_printed():
    def pair(form):
        """The filter and DP-SGD."""
        return [line("left-out", form.format(of)) for of in ("filter", "DP-SGD")]

    filtered, plain = pair("{}, network with tanh")
    says(f"DP-SGD ends at {median(plain)} % and the filter at {median(filtered)} %")
    flat = line("figures", FLAT)
    share = over(plain, flat).value / over(line("figures", RANGE), flat).value
    assert 0.75 < share < 1
    says("the filter's lead is {} points", percent(over(*pair("{}, rate 0.05")).value))
    says("On a network twice as wide its lead is {} points",
         percent(over(*pair("{}, network twice as wide")).value))  # fmt: skip
    fast = line("left-out", "filter, rate 0.5").accuracy
    assert sorted(fast > 0.9) == [False, True]


def test_the_filter_is_less_steady():
    def change(label):
        return percent(UNREST.of(*[line("figures", label)] * 2)[0].median())

    says(f"its accuracy changes by {change(RANGE)} points from one to the next, expanded by 2 "
         f"by {change('expanded by 2')}, and that of DP-SGD by {change(FLAT)}.")  # fmt: skip


def at_seed(seed, of):
    [result] = (one for one in of.results if one.run.seed == seed)
    return result


def test_on_cifar_10_the_filter_swings():
    last = at_seed(1, on_cifar_10(RANGE)).curve["test_accuracy"][-3:]
    says("seed 1 reads {}, {} and {} % after its last three epochs", *map(percent, last))


def test_norms_fall_on_mnist_and_rise_on_cifar_10():
    filtered = line("figures", RANGE), on_cifar_10(RANGE)
    norms = [of.by_epoch("gradient_norm").median(axis=1) for of in filtered]
    says("norm of filtered gradients is {:.2f} on MNIST and {:.1f} on CIFAR-10, medians of the "
         "seeds, where $\\sqrt n$ is {:.0f} and {:.0f}.",
         *(of.iloc[-1] for of in norms), *roots(filtered))  # fmt: skip
    says(f"On MNIST it fell from {norms[0][1]:.2f} in the first epoch.")
    mnist, cifar = (at_seed(0, of).curve for of in filtered)
    longer = [sum(curve["bounded-norms.counts"][-1][30:]) for curve in (mnist, cifar)]
    says(f"Still, with seed 0, {longer[0]} of 1,000 end longer than 1, up to "
         f"{mnist[figures.LARGEST][-1]:.1f}.")  # fmt: skip
    says(f"On CIFAR-10 it rose from {norms[1][1]:.2f}, and {longer[1]} of 1,000 end longer")
    assert filtered[1].run.epochs == 15


def roots(filtered):
    """Square roots of the numbers of parameters."""
    for of in filtered:
        yield sum(leaf.size for leaf in jax.tree.leaves(of.run.network.shapes())) ** 0.5
