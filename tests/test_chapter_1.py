"""Every number that chapter 1 says in prose is what the accountants and the papers say."""

from functools import cache

import pytest
from prose import prose_of, said_by

from dpstudy.lab.wording import rounded_down
from under_the_clip import accounting as chapter
from under_the_clip.accounting import CORRECTED, TANH_FILTER_EPOCHS, cost_rows
from under_the_clip.backpropagation_clipping.published import BACKPROPAGATION_CLIPPING
from under_the_clip.losing_less.published import END_TO_END
from under_the_clip.published import MNIST_PARAMETERS
from under_the_clip.tanh_filter.published import TANH_FILTER
from under_the_clip.tempered_sigmoids.published import EPSILONS

says = said_by("01_accounting")
SHUFFLED = "At least, shuffled"


@cache
def table(name):
    """A table of the chapter by its first column, its cells as they are shown."""
    drawn = chapter.resolution("stored")
    make = getattr(chapter, name)
    shown = make(drawn) if name == "calibration_table" else make()
    columns = [column for column in shown.data if column not in shown.merged]
    return [dict(zip(columns, row, strict=True)) for row in shown.shown()]


def costs(paper):
    return [row for row in table("cost_table") if row["Paper"] == paper]


def numbers(paper, column):
    rows = cost_rows()
    return list(rows[rows.Paper == paper][column])


def test_what_the_papers_claim():
    tempered = sorted(EPSILONS.values())
    clipping = sorted(one.claimed_epsilon for one in BACKPROPAGATION_CLIPPING)
    says(f"ε = {END_TO_END[0].claimed_epsilon:g}, tempered sigmoids {tempered[0]} to")
    says(f"to {tempered[-1]}, backpropagation clipping {clipping[0]} to {clipping[-1]}; the tanh")
    assert {one.claimed_epsilon for one in TANH_FILTER} == {None}


def test_losing_less_by_three_accountants():
    pld = numbers("losing less", "PLD")[: len(END_TO_END)]
    says(f"cost ε = {min(pld):.2f} to {max(pld):.2f} by today's accountant, {{term}}`PLD`")
    says("PLD gives {:.2f}, {:.2f} and {:.2f}.".format(*pld))
    older = numbers("losing less", "RDP 2019")
    says("the paper quotes: {:.2f}, {:.2f} and {:.2f}.".format(*older))
    most = max(abs(one - END_TO_END[0].claimed_epsilon) for one in older[: len(END_TO_END)])
    says(f"its networks on pixels come within {most:.2f} of the 3 that it claims;")


def test_what_the_columns_say_of_each_other():
    rows = cost_rows()
    says(
        "Backpropagation clipping stays below its claims as long as the claimed sensitivity is used"
    )
    clips = rows[rows.Paper == "backprop clipping"]
    assert (clips["Claimed ε"] > clips.PLD).all() and len(clips) == 3
    says("next to no noise, Poisson sampling costs more than shuffling")
    for paper in ("backprop clipping", "tanh filter"):
        known = rows[(rows.Paper == paper) & rows["Proven, shuffled"].notna()]
        assert (known["Proven, Poisson"] > known["Proven, shuffled"]).all() and len(known)


def test_the_noise_of_exactly_three():
    rows = table("calibration_table")
    less = sorted(float(row["Less noise"].rstrip("%")) for row in rows)
    says(f"takes {less[0]:.0f} to {less[-1]:.0f} % less noise")
    mnist, own = rows[0], END_TO_END[0].noise_multiplier
    says(
        f"σ = {mnist['σ, PLD']} is enough where the paper has {own}"
        f", or {mnist['Epochs within 3']} epochs where it has"
    )


def test_shuffled_batches():
    least = numbers("losing less", SHUFFLED)
    end_to_end = least[: len(END_TO_END)]
    says(f"give away ε = {rounded_down(min(end_to_end))} to {rounded_down(max(end_to_end))} for")
    [mnist] = [row for row in costs("losing less") if row["Data set"] == "MNIST"]
    proven = float(mnist["Proven, shuffled"])
    says(f"lies between {rounded_down(least[0])} and {proven:.1f}, where the formula says")
    says(f"the formula says {mnist['PLD']} to 3")
    below = [row for row in costs("losing less") if float(row[SHUFFLED]) < 3]
    [noisiest] = below
    says(f"σ = {noisiest['σ']} for CIFAR-10 with ScatterNet, has a lower bound below 3:")
    says(f"below 3: {noisiest[SHUFFLED]}. It does not")
    assert noisiest["Data set"] == "CIFAR-10, ScatterNet"


def test_backpropagation_clipping_as_published():
    [batch] = {one.batch for one in BACKPROPAGATION_CLIPPING}
    says(f"too little noise by a factor of {batch:,}")
    mnist, *_ = costs("backprop clipping")
    says(f"claims ε = {mnist['Claimed ε']}. Proven is {mnist['Proven, shuffled']}. The first code")
    least = mnist[SHUFFLED].partition(".")[0]
    says(f"clipping, noise and shuffling alone can go below {least}.")
    epochs = [one.epochs for one in BACKPROPAGATION_CLIPPING] + [TANH_FILTER_EPOCHS]
    rows = [*costs("backprop clipping"), costs("tanh filter")[0]]
    for row, count in zip(rows, epochs, strict=True):
        assert float(row[SHUFFLED].replace(",", "")) / count == pytest.approx(24, abs=0.5)
    rows = table("backpropagation_table")
    rho = BACKPROPAGATION_CLIPPING[0].claimed_rho
    says(f"ρ is {rows[0]['Proven ρ']} where {rho:.5f} was claimed")
    says(f"gives the {mnist['Proven, shuffled']} of the tables above")
    says(f"the zCDP one {rows[0]['Proven ε']}")


def test_the_corrected_code():
    rows = {float(row["Target ε"]): row for row in table("corrected_table")}
    proven = {row["Claimed ε"]: row["Proven, Poisson"] for _, row in in_short().iterrows()}
    constant, as_it_is = CORRECTED
    assert f"as it is, {rows[3.0][as_it_is]} is proven" in chapter.in_short().caption
    says(f"a second aims at 3. With a constant divisor it costs {proven[3.0]:.3g}; as it")
    for text in ("as it is, at most {} is proven.", "at most {} is proven for the target of 3"):
        says(text.format(rows[3.0][as_it_is]))
    says(f"The target of 3 costs {proven[3.0]:.3g}, that of 1 costs {rows[1.0][constant]}")
    says(f"and that of 0.1 costs {rows[0.1][constant]}")
    says(f"the central limit alone would give {rows[3.0]['ε, layers apart']}; that four layers")


def in_short():
    data = chapter.in_short().data
    return data[data.Paper == "the same, corrected code"]


def test_the_tanh_filter():
    mnist, *_ = costs("tanh filter")
    at = mnist["RDP 2019"]
    says(f"for {TANH_FILTER_EPOCHS} epochs, both assumed, {mnist['Proven, Poisson']} is proven for")
    says(f"would cost {mnist['PLD']}, or {at} by the accountant")
    least = mnist[SHUFFLED].partition(".")[0]
    says(f"For shuffled batches {mnist['Proven, shuffled']} is proven, and no proof from")
    says(f"filter, noise and shuffling alone can go below {least}.")
    says(f"norm 1 would cost {mnist['PLD']}")
    data = chapter.tanh_filter_figure(chapter.resolution("stored")).data
    [ten] = data[(data.parameters == 10) & (data.epochs == TANH_FILTER_EPOCHS)].epsilon
    says(f"at ten parameters: ε = {ten:.0f} after {TANH_FILTER_EPOCHS} epochs")
    says(f"n = {MNIST_PARAMETERS // 1000}{{,}}{MNIST_PARAMETERS % 1000:03d}$ is the MNIST network")


def test_the_figure_shows_what_is_claimed_beside_what_is_proven():
    data = chapter.in_short().data
    assert set(data.Paper) == {
        *("losing less", "backprop clipping", "the same, corrected code", "tanh filter")
    }
    assert data["Claimed ε"].notna().all() and data["Proven, Poisson"].notna().all()
    above = data[data.Paper != "losing less"]
    assert (above["Proven, Poisson"] > above["Claimed ε"]).all()


def test_nothing_is_to_be_looked_at():
    assert "ook at" not in prose_of("01_accounting")
