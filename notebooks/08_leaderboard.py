# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% tags=["facts"]
from dpstudy.lab import records
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.wording import rounded_down
from dpstudy.recipe.run import SEARCHED as TESTED
from dpstudy.recipe.run import latest, second_edition
from dpstudy.recipe.run import recipe as study_recipe
from under_the_clip.leaderboard import effects as crossed
from under_the_clip.leaderboard.board import (
    SECOND,
    lines_at,
    lines_on_cifar_10,
    ranks,
)
from under_the_clip.leaderboard.experiments import (
    EPSILONS,
    RECIPE,
    methods,
)
from under_the_clip.leaderboard.published import (
    DISPUTED,
    NOT_READ,
    PUBLISHED,
    RUN_AGAIN,
)
from under_the_clip.recipe import cost_figure
from under_the_clip.recipe import figures as recipe_page
from under_the_clip.recipe.search import (
    EPSILONS as SEARCHED,
)
from under_the_clip.recipe.search import (
    FIRST_TESTED,
    PLAIN,
    SETTINGS,
    label_of,
    multiples_of,
)
from under_the_clip.recipe.search import (
    PRIVATE as OWN,
)
from under_the_clip.recipe.third_edition import edition_on
from under_the_clip.sentences import (
    CIFAR,
    DATASETS,
    FASHION,
    MNIST,
    SMALL,
    gain,
    percent,
    points,
    reading,
    standing,
    variant,
)


def reached(dataset, epsilon, search="recipe-search"):
    return variant(search, dataset, f"epsilon {epsilon:g}").accuracy


def at_all(dataset, search):
    return {one: reached(dataset, one, search) for one in sorted(SEARCHED)}


at = {name: at_all(name, edition_on(name).name) for name in DATASETS}
at_first, at_second = (
    at_all(CIFAR, name) for name in ("recipe-search", "recipe-second")
)
assert all(len(one) == 5 for of in at.values() for one in of.values())
assert {*map(float, SEARCHED)} == {1, 2, 3, 8}
assert {*TESTED} == {CIFAR}
gained = {
    one: at_second[one].mean() - at_first[one].mean() for one in at_first
}
again = {
    one: Estimate.difference(at[CIFAR][one], at_second[one])
    for one in at_second
}
sure = {epsilon for epsilon, one in again.items() if one.low > 0}
assert sure == {1, 2} and all(one.value > 0 for one in again.values())
# It leads on each dataset, at each ε that others were trained at.
board = {
    (name, epsilon): {
        line.name: (line.accuracy, rank)
        for lines in [lines_at(reading(f"leaderboard-{name}"), epsilon)]
        for line, rank in zip(
            lines, ranks([line.accuracy for line in lines]), strict=True
        )
    }
    for name in SMALL
    for epsilon in EPSILONS[name]
}
for of in board.values():
    leading = SECOND if SECOND in of else RECIPE
    assert [name for name, (_, rank) in of.items() if rank == 1] == [
        leading
    ]
    assert len(of) >= 11 and {len(runs) for runs, _ in of.values()} == {5}
on_cifar = {
    line.name: line.accuracy.median() for line in lines_on_cifar_10()
}
best_on_cifar = on_cifar.pop("recipe")
on_pixels = [
    of for name, of in on_cifar.items() if not name.startswith("scattering")
]
assert max(on_cifar.values()) < best_on_cifar - 0.12
assert len(on_pixels) == 4 and max(on_pixels) < best_on_cifar - 0.15


def held_out(dataset, exponent):
    tried = [
        variant("recipe-search", dataset, label_of(exponent, one)).accuracy
        for one in multiples_of(exponent)
    ]
    assert {len(accuracy) for accuracy in tried} == {1}
    return max(accuracy[0] for accuracy in tried)


parts = {
    name: recipe_page.changed(reading("recipe-parts", name)).data.set_index(
        "change"
    )
    for name in (CIFAR, FASHION)
}
chance = {
    CIFAR: 1.2,
    FASHION: 0.8,
}  # in points, as the tables' captions say
for name, most in chance.items():
    shown = recipe_page.changed(reading("recipe-parts", name))
    assert f"less than {most} points could be chance" in shown.caption
own_again = gain(
    *(
        variant("recipe-parts-again", CIFAR, f"{one}, best")
        for one in (OWN, PLAIN)
    )
)
assert own_again.high < -0.01
assert parts[CIFAR].points[OWN] < -chance[CIFAR]
assert abs(parts[FASHION].points[OWN]) < chance[FASHION]
whitened = held_out(CIFAR, 0.4) - held_out(CIFAR, 0.0)
assert whitened > 0.05
[cost] = cost_figure.cost().data.to_dict("records")
assert cost["on"].startswith("2 x CPU core") and cost["minutes"] <= 15
assert cost["accuracy"] not in set(at[CIFAR][3.0])


def stated(dataset, epsilon, author, among=PUBLISHED):
    [one] = [
        one.accuracy
        for one in among
        if (one.dataset, one.claimed_epsilon) == (dataset, epsilon)
        and author in one.method
    ]
    return one


deep, deep_again = (
    {
        epsilon: stated(CIFAR, epsilon, "De et al.", of)
        for epsilon in (2.0, 4.0, 8.0)
    }
    for of in (PUBLISHED, RUN_AGAIN)
)
tang, tang_again = (
    stated(CIFAR, 1.0, "Tang", of) for of in (PUBLISHED, RUN_AGAIN)
)
scattered = {name: stated(name, 3.0, "Tramèr") for name in DATASETS}
selective = {name: stated(name, 3.0, "Fu et al.") for name in DATASETS}
assert [one.key for one in DISPUTED.values()] == ["huang2026revisiting"]
middle = {
    name: {epsilon: one.median() for epsilon, one in of.items()}
    for name, of in at.items()
}
# Some of the chapters' runs there spent less: it leads them at 2 as well.
assert middle[CIFAR][2.0] > max(on_cifar.values()) + 0.1
assert deep_again[8.0] < middle[CIFAR][8.0] < deep[8.0]
assert tang < tang_again < middle[CIFAR][1.0]
sound = [one for one in PUBLISHED if one.method not in DISPUTED]
assert tang == max(
    one.accuracy
    for one in sound
    if one.dataset == CIFAR and one.claimed_epsilon <= 1
)
[above] = [
    one
    for one in sound
    if one.accuracy
    >= max(
        of
        for at, of in middle[one.dataset].items()
        if at <= one.claimed_epsilon
    )
]
assert above.accuracy == deep[8.0]
[(_, not_read)] = NOT_READ.items()
assert {*not_read} == {2.0, 8.0}
assert middle[CIFAR][2.0] > not_read[2.0]
assert middle[CIFAR][8.0] < not_read[8.0]
for name in DATASETS:
    assert middle[name][3.0] > max(scattered[name], selective[name])

# %% [markdown]
# # Which one, at the same ε? A linear head
#
# Noise hits every weight alike. So a private model wants few weights, and good features before
# training begins. Where do such features come from, without private images and without public ones?
# A program draws coloured discs. Patches of them become filters, and a linear head learns on top.
#
# **In short**
#
# - **The best private model here is linear.** At the same ε it beats every network of this study,
#   on all three datasets.
# - **Drawings beat the private photos.** Features learned from discs are better on CIFAR-10 than
#   features learned from CIFAR-10.
# - **Whiten the features.** It lifts what is small in them above the noise, which gains
#   {{ points(whitened, 0) }} points on CIFAR-10.
#
# **Run** `dpstudy recipe cifar-10 --epsilon 3`: {{ f"{cost['minutes']:.0f}" }} minutes on two
# cores. The median of five seeds is {{ percent(middle[CIFAR][3.0]) }} %; the run that was timed has
# {{ percent(cost["accuracy"]) }} %.

# %% mystnb={"code_prompt_show": "Parameters, to run this chapter yourself"} tags=["parameters", "hide-input"]
profile = "stored"  # "stored", "smoke" (tiny runs in a minute) or "full"
dataset = None  # None for each, "mnist", "fashion-mnist" or "cifar-10"
seeds = None  # None for the experiment's own number, or 1 to 1000
power = 0.3  # the exponent of whitening of your own, in the smoke profile

# %% tags=["remove-input"]
from dpstudy.lab.train import prepare
from dpstudy.page.panels import dots
from under_the_clip.experiments import find
from under_the_clip.leaderboard import figures as chapter
from under_the_clip.recipe import cost_figure
from under_the_clip.recipe import figures as recipe


def runs(name):
    return prepare(find(name), profile, dataset=dataset, seeds=seeds)


(
    search,
    slanted,
    parts,
    parts_again,
    remedies,
    ruled,
    second,
    second_parts,
    second_remedies,
    third,
    by_filters,
) = (
    runs(f"recipe-{name}")
    for name in (
        *("search", "slanted", "parts", "parts-again", "remedies", "rule"),
        *("second", "second-parts", "second-remedies", "third", "sizes"),
    )
)
mnist, fashion, cifar, factorial = map(
    runs,
    (
        *("leaderboard-mnist", "leaderboard-fashion-mnist"),
        *("leaderboard-cifar-10", "factorial"),
    ),
)
chapter.in_short()

# %% [markdown]
# One published network that we could read is above it: {cite:t}`de2022unlocking` reach
# {{ percent(deep[8.0]) }} % on CIFAR-10 at an ε of 8, where the recipe reaches
# {{ percent(middle[CIFAR][8.0]) }} %. Others who ran that network again found less than the
# recipe has. If your ε is large and you have many GPUs, try both.
#
# :::{dropdown} Fine print: what others reach
# The recipe reaches {{ ", ".join(percent(one) for one in middle[CIFAR].values()) }} % on CIFAR-10
# at ε = 1, 2, 3 and 8, {{ ", ".join(percent(one) for one in middle[FASHION].values()) }} % on
# Fashion-MNIST and {{ ", ".join(percent(one) for one in middle[MNIST].values()) }} % on MNIST,
# medians of five seeds. The run that was timed is none of the five, and took
# {{ f"{cost['GB']:.1f}" }} GB.
#
# On CIFAR-10 the highest published at 1 that we could read is {{ percent(tang) }} %, from synthetic
# images too {cite}`tang2023randp`, and {{ percent(tang_again) }} % where others ran it again. What
# its authors have at 2 and 8 we could not read: it is said to be about
# {{ " and ".join(percent(one, 0) for one in not_read.values()) }} %, at 8 more than the recipe.
# {cite:t}`de2022unlocking` have {{ percent(deep[2.0]) }} % at 2, {{ percent(deep[4.0]) }} at 4 and
# {{ percent(deep[8.0]) }} at 8; run again {{ percent(deep_again[2.0]) }},
# {{ percent(deep_again[4.0]) }} and {{ percent(deep_again[8.0]) }} {cite}`bao2024reliable`.
# {cite:t}`tramer2021code` have, at 3, {{ percent(scattered[CIFAR]) }} % on CIFAR-10,
# {{ percent(scattered[FASHION]) }} on Fashion-MNIST and {{ percent(scattered[MNIST]) }} on MNIST;
# {cite:t}`fu2024dpsur` {{ percent(selective[CIFAR]) }}, {{ percent(selective[FASHION]) }} and
# {{ percent(selective[MNIST]) }}. That the ε of the latter holds is disputed: their accounting
# takes the sampling probability for constant {cite}`huang2026revisiting`.
# :::

# %% mystnb={"code_prompt_show": "What the recipe reaches at each ε, what others have, what it costs"} tags=["hide-output", "remove-input"]
from dpstudy.page.figure import Several, Table, not_yet_run

Several(
    (
        recipe.reached(first=search, second=second, third=third),
        cost_figure.cost(),
    )
)

# %% tags=["facts"]
run, first_run = latest(CIFAR), study_recipe(CIFAR)
[of, colours], shares = run.dataset.blocks, run.dataset.shares
before = first_run.dataset
assert (of.small, of.large) == (480, 120) and len(of.grids) == 3
assert (before.small, before.large) == (800, 200)
assert second_edition(CIFAR).dataset.blocks[0].synthetic == 60_000
assert (len(of.views), shares, colours.colours) == (8, (0.9, 0.1), 96)
for name in DATASETS:
    one = study_recipe(name).dataset
    assert (one.mirrored, one.deslanted) == (name != MNIST, name == MNIST)
assert f"{first_run.optimizer.learning_rate / 3:.1f}" == "13.3"
assert run.optimizer.learning_rate / 3 == 300
audits, _ = records.read_all(records.folder("audits"), "audits")
assert abs(audits["recipe"]["claimed"] - 3) < 0.005
shown = rounded_down(audits["recipe"]["lower_bound"])
first = ", ".join(percent(one) for _, one in sorted(FIRST_TESTED.items()))
assert {*FIRST_TESTED} == {1, 2, 3, 8}
slanted = {one: reached(None, one, "recipe-slanted") for one in SEARCHED}
assert {len(one) for one in slanted.values()} == {5}
floor = 0.988  # what the recipe was built to reach on MNIST at 3
missed = floor - slanted[3.0].median()
assert missed > 0 and middle[MNIST][3.0] > floor

# %% [markdown]
# ## Only the last step costs privacy
#
# Everything in front of the linear head is learned from drawings, and a drawing is nobody's. The
# head alone looks at private labels, by DP-SGD. The drawings are discs that hide one another:

# %%
import numpy as np

random = np.random.default_rng(0)
rows, columns = np.arange(32)[:, None], np.arange(32)
drawn = np.zeros((400, 32, 32, 3), np.uint8)
for image in drawn:
    for _ in range(100):
        y, x = random.uniform(-8, 40, size=2)
        radius = 2 / np.sqrt(1 - 0.98 * random.random())  # few are large
        inside = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
        image[inside] = random.integers(256, size=3)

# %% tags=["remove-input"]
recipe.steps(drawn)

# %% [markdown]
# 1. **Draw** {{ f"{of.synthetic:,}" }} images; half of those for digits and clothes are thick
#    strokes {cite}`baradad2021learning`.
# 2. **Filter.** Patches of the drawings become {{ f"{of.small + of.large:,}" }} filters. A photo's
#    features are its responses, thresholded and averaged over regions {cite}`coates2011importance`,
#    and over {{ len(of.views) }} views of the photo: zoomed, turned, mirrored.
# 3. **Whiten.** The drawings' features give {{ f"{of.components:,}" }} principal components. Each
#    is divided by its variance to the power {{ of.exponent }}.
# 4. **Train** a linear head on the private photos' components by DP-SGD. Their mean is taken away
#    first, released with noise: ε counts both.
#
# The recipe has three *editions*. This is the third, for photos. Clothes and digits keep the first:
# no colours, and no other view, but for the mirror image of clothes.
#
# :::{dropdown} Fine print: the whole recipe, its cost and its history
# For photos this is the third edition. It has {{ of.small }} filters of 5 x 5 pixels and
# {{ of.large }} of 8 x 8. Responses are thresholded on both sides, and averaged over three grids of
# regions that overlap. Patches know no colour of their own: {{ colours.colours }} colours, drawn
# from the cube, have a block of {{ f"{colours.components:,}" }} components, and a share of
# {{ shares[1] }} of each photo's squared length. The head is trained in batches of
# {{ f"{run.sampling.batch:,}" }} for {{ run.epochs }} epochs, with C =
# {{ run.mechanism.clip_norm }} and a rate of 300 ε up to an ε of 8.
#
# For clothes and digits it is the first edition, with {{ before.small }} and {{ before.large }}
# filters, {{ f"{before.components:,}" }} components of {{ f"{before.synthetic:,}" }} drawings, the
# exponent {{ before.exponent }}, and views of the image and, but for digits, its mirror image.
# Digits, drawn or private, are sheared until they stand upright {cite}`lecun1998gradient`, each by
# its own slant, which costs no privacy; as they lean, {{ percent(slanted[3.0].median()) }} % are
# right at
# 3. Its batches have {{ f"{first_run.sampling.batch:,}" }} images, C is
# {{ first_run.mechanism.clip_norm }}, and the rate 13.3 ε.
#
# Of the private images only the mean enters the features, released with a noise multiplier of
# {{ f"{run.dataset.released:g}" }}, which ε counts; their number is taken to be public. The command
# takes one exponent and one rate for each edition, the latter in proportion to ε. For the figures
# both were searched on images held out, for the first edition on each dataset and at each ε, for
# the others at ε = 3, which ε does not count: [it would cost](07b_search_cost.ipynb). An attack on
# the first edition, mean included, shows at least {{ shown }} of the proven 3
# ([audits](07_audits.ipynb)). For images of your own there is [a script](../book/engine.md), and
# [ten lines](../book/how_to_rerun.md) read a model that `--save` kept.
#
# The first edition was changed twice after its test accuracy had been seen. Its first version, with
# one rate for every ε and one grid of regions, was tested on CIFAR-10 with one seed,
# {{ first }} % at 1, 2, 3 and 8,
# before rates in proportion to ε and the three grids came; those runs are in the repository's
# history. Digits as they lean were tested at the same four ε and missed our floor of
# {{ percent(floor) }} % at 3, by {{ points(missed, 2) }} points, before they were made upright and
# tested again. Each choice itself was made by images held out. Two further editions were chosen by
# these alone, but the third was thought of when the second had been tested. Each was tested once,
# with five seeds at four ε, after its search, and by the run that was timed: the test photos have
# been used by three editions.
# :::
#
# %% tags=["facts"]
import numpy as np

best = {name: (0.4 if name == CIFAR else 0.3) for name in DATASETS}
for name, exponent in best.items():
    others = [held_out(name, one) for one in (0.0, 0.2, 0.5, 0.6, 1.0)]
    assert held_out(name, exponent) > max(others)
more = {
    name: held_out(name, exponent) - held_out(name, 0.0)
    for name, exponent in best.items()
}
assert more[CIFAR] > more[FASHION] > more[MNIST] > 0
spent = [
    {f"{one:.2f}" for one in found.epsilon_pld[found.label.isin(SETTINGS)]}
    for found in (
        reading("recipe-search", name).finals for name in DATASETS
    )
]
elsewhere = recipe_page.transferred(reading("recipe-search")).data
elsewhere = elsewhere.set_index("trained on").to_numpy()
lost = (np.diag(elsewhere)[:, None] - elsewhere).max()
assert lost < 0.001

# %% [markdown]
# ## Whitening lifts small components above the noise
#
# Why is the third step needed? DP-SGD adds noise of one size to every weight, and components are
# of very different sizes. Here are those of the digits that come with the package, by the drawings
# above in grey, and without the mean:

# %% mystnb={"code_prompt_show": "Code: components of the digits"} tags=["hide-input"]
from dpstudy.parts.data import images
from dpstudy.recipe.patch_features import choose_filters, features

grey = drawn[:, 2:-2, 2:-2, :1]  # as large as a digit
filters = choose_filters(grey, 5, 64, random)


def responses(pixels):
    return np.asarray(features(pixels, (filters,), 0.6))


found = responses(grey)
mean, spread = found.mean(0), found.std(0) + 1e-6
_, sizes, directions = np.linalg.svd(
    (found - mean) / spread, full_matrices=False
)
variance = sizes[:300] ** 2 / len(grey)


def components(pixels):
    return (responses(pixels) - mean) / spread @ directions[:300].T


digits = images.load("mnist-5k")
of_train, of_test = map(
    components, (digits.train_images, digits.test_images)
)

# %% [markdown]
# No label has been touched so far. Now scale each digit's components to norm 1. Its gradient is
# their product with its error, so clipping the error clips the gradient:

# %%
from scipy.special import softmax

labels = np.eye(10, dtype=np.float32)[digits.train_labels]
clip = 0.25


def whitened(found, exponent):
    found = found / variance**exponent
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def clipped(x, head):
    error = softmax(x @ head, axis=1) - labels
    norm = np.linalg.norm(error, axis=1, keepdims=True)
    return error * np.minimum(1, clip / norm)


# %% [markdown]
# How far do the digits pull each component, if all steps pull as the first does? And how far does
# the noise of all steps, which is alike for all?

# %%
from dpstudy.privacy.accounting import noise_multiplier_for

steps, head = 60, np.zeros((300, 10), np.float32)
sigma = steps**0.5 * noise_multiplier_for(  # of full batches
    1.0, sampling_probability=1.0, steps=1, delta=1e-5
)
pulls = {}
for name, exponent in (("as they are", 0.0), ("whitened", 0.4)):
    x = whitened(of_train, exponent)
    pulls[name] = steps * np.linalg.norm(x.T @ clipped(x, head), axis=1)

recipe.heard(pulls, sigma * clip * (10 * steps) ** 0.5)

# %% [markdown]
# As they are, most components are lost. Whitened, nearly all are heard, and the head has more to
# learn from. Each step takes every digit, so none is sampled:

# %%
for name, exponent in (("as they are", 0.0), ("whitened", 0.4)):
    x, head = whitened(of_train, exponent), np.zeros_like(head)
    random = np.random.default_rng(0)
    for _ in range(steps):
        noise = sigma * clip * random.normal(size=head.shape)
        head -= 40 * (x.T @ clipped(x, head) + noise) / len(x)
    said = (whitened(of_test, exponent) @ head).argmax(axis=1)
    right = (said == digits.test_labels).mean()
    print(f"{name:>11}: {right:.1%} right at ε = 1")

# %% [markdown]
# :::{exercise} Why features are whitened
# :label: leaderboard-whitening
#
# Predict: two features tell two classes apart equally well: the means of the classes are one
# standard deviation apart. The first is a hundred times as large as the second. Examples are
# scaled to norm 1, and noise of the same size is added to both weights. How much of the second is
# left, beside the noise, before and after each feature is divided by its standard deviation?
# :::
#
# :::{solution-start} leaderboard-whitening
# :class: dropdown
# :::
#
# Before, the second feature is 0.01 of an example's length, after it is 0.71: noise hides it
# seventy times less.

# %% tags=["nbval-check-output"]
pair = np.array([100.0, 1.0])
for name, by in (("as they are", 1.0), ("whitened", pair)):
    scaled = pair / by
    print(f"{name:>11}: {(scaled / np.linalg.norm(scaled)).round(2)}")

# %% [markdown]
# :::{solution-end}
# :::
#
# How far should you whiten? The whole recipe says: most of the way. Equal variances, the exponent
# one half, are already a little too much.

# %% tags=["remove-input"]
recipe.whitening(search)

# %% [markdown]
# The best exponent gains {{ points(more[CIFAR]) }} points on CIFAR-10, {{ points(more[FASHION]) }}
# on Fashion-MNIST and {{ points(more[MNIST]) }} on MNIST. You need not search it: what another
# dataset chooses costs less than a tenth of a point.
#
# :::{dropdown} Fine print: what a search costs
# Held out, {{ percent(held_out(CIFAR, 0.4)) }} % are right on CIFAR-10 with the exponent 0.4 and
# {{ percent(held_out(CIFAR, 0.0)) }} % without; on Fashion-MNIST
# {{ percent(held_out(FASHION, 0.3)) }} % with the exponent 0.3 and
# {{ percent(held_out(FASHION, 0.0)) }} % without. Each is at its best rate, with one seed. Trained
# on fewer images, their ε is
# {{ " and ".join(sorted({one for of in spent for one in of}, reverse=True)) }}. A search spends
# privacy that no one counts. Choosing exponent and rate on another dataset spends that dataset's
# instead. On none of the three it costs more than {{ points(lost, 2) }} points, whichever of the
# others chooses.
# :::

# %% mystnb={"code_prompt_show": "What settings of another dataset are worth"} tags=["hide-output", "remove-input"]
recipe.transferred(search)

# %% mystnb={"code_prompt_show": "Train your own exponent"} tags=["hide-output", "remove-input"]
from dpstudy.page.own import own
from under_the_clip.recipe.search import of_exponent

trained = (
    prepare(of_exponent(power), profile, seeds=seeds)
    if profile == "smoke"
    else None
)
own(
    trained,
    "power",
    power,
    notebook="08_leaderboard",
    name="recipe-own-exponent",
)

# %% tags=["facts"]
noise, mirrored, fewer, quarter = (
    "white noise for images",
    "no mirror images",
    "2,000 components",
    "a quarter of the filters",
)
on_photos = parts[CIFAR]
assert on_photos.points[noise] < -chance[CIFAR]
by_three = {
    (row["dataset"], row["row"]): row
    for row in recipe_page.gains_in(
        reading("recipe-parts-again"),
        {one: one for one in (mirrored, fewer, quarter, OWN)},
    )
}
assert {row["seeds"] for row in by_three.values()} == {3}
for name in (mirrored, fewer, quarter):
    assert by_three[CIFAR, name]["high"] < 0
for name in (mirrored, fewer, quarter, OWN):
    assert (
        by_three[FASHION, name]["low"] < 0 < by_three[FASHION, name]["high"]
    )


def loses(name):
    return points(by_three[CIFAR, name]["points"] / 100)


raw, white = (
    on_photos.accuracy[f"scattering, {of}"]
    for of in ("not whitened", "whitened")
)
assert (
    abs(white - raw) < 0.001
    and on_photos.points[
        ["scattering, whitened", "scattering, not whitened"]
    ].max()
    < -10
)

# %% [markdown]
# ## Drawings beat the private photos
#
# Surely the best filters for photos come from the photos? Take private ones in place of the first
# edition's drawings, as if privacy did not matter. CIFAR-10 loses {{ points(own_again) }} points,
# and Fashion-MNIST gains nothing that could not be chance. Drawings have to be more than noise,
# though: with white noise in their place CIFAR-10 loses
# {{ points(on_photos.points[noise] / 100) }}.

# %% tags=["remove-input"]
CHANGES = {
    "the private images in place of synthetic ones (not private)": "private photos for drawings",
    "white noise for images": "white noise for drawings",
    "no mirror images": "no mirror images",
    "2,000 components": "2,000 components for 8,000",
    "a quarter of the filters": "a quarter of the filters",
    "scattering, whitened": "scattering, whitened",
}
several = recipe.gains_in(parts_again, CHANGES)
drawn = [(row["dataset"], row["row"]) for row in several]
changed = several + [
    row
    for row in recipe.gains_in(parts, CHANGES)
    if (row["dataset"], row["row"]) not in drawn
]
dots(
    sorted(changed, key=lambda row: [*CHANGES.values()].index(row["row"])),
    name="recipe-changed",
    caption=(
        "What one change does to the first edition, in points, at its best "
        "rate, on held-out examples. Lines: 95 % intervals of three seeds, "
        "which did not choose the rate. A point without one is of the seed "
        "that did, and what lies in the grey could be chance."
    ),
    axis="points gained",
    chance={"cifar-10": 1.2, "fashion-mnist": 0.8},
)

# %% [markdown]
# Why do they win? This study does not know. Scattering, the usual fixed feature, is far behind, and
# whitening does not rescue it.
#
# :::{dropdown} Fine print: what carries it
# On CIFAR-10 the recipe loses {{ loses(mirrored) }} points without mirror images,
# {{ loses(fewer) }} with 2,000 components for 8,000, and {{ loses(quarter) }} with a quarter of the
# filters. On Fashion-MNIST none of these changes, nor private images, makes a difference that three
# seeds are sure of. Scattering features in place of these have {{ percent(raw) }} % on CIFAR-10,
# and {{ percent(white) }} % whitened, by the seed that chose the rate. Each change is made by
# itself, at the best of its rates. With three seeds the private photos are
# {{ points(own_again.high) }} to {{ points(own_again.low) }} points behind. White noise has one
# seed, which chose the rate.
# :::

# %% mystnb={"code_prompt_show": "Every change, in numbers"} tags=["hide-output", "remove-input"]
Several((recipe.changed(parts), recipe.changed(parts_again)))


# %% tags=["facts"]
def best_held_out(search, name):
    return max(
        one.curve["test_accuracy"][-1]
        for label, one in reading(search, name).found
        if label.startswith("exponent")
    )


on_held_out = {
    name: 100
    * (
        best_held_out("recipe-second", name)
        - best_held_out("recipe-search", name)
    )
    for name in (CIFAR, FASHION)
}
wider = best_held_out("recipe-third", CIFAR) - best_held_out(
    "recipe-second", CIFAR
)
assert 0 < 100 * wider < chance[CIFAR]
assert on_held_out[CIFAR] > chance[CIFAR]
assert 0 < on_held_out[FASHION] < chance[FASHION]
assert all(one > 0.01 for one in gained.values())
taken = recipe_page.changed(
    reading("recipe-second-parts", CIFAR)
).data.set_index("change")
COLOURS, VIEWS = "no colours", "an image and its mirror image"
STEPS, DRAWN = "a third of the steps", "a basis of 12,000 images"
EDGES, CLIPS = "regions with edges", "clipped at 0.25"
QUARTER = "a quarter of the filters"
assert {*taken.index} == {
    *(COLOURS, VIEWS, STEPS, DRAWN, EDGES, CLIPS, QUARTER)
}
assert taken.points.idxmin() == QUARTER and taken.points[QUARTER] < -2
assert taken.points[[COLOURS, VIEWS, STEPS, EDGES]].between(-1, -0.4).all()
assert taken.high[[COLOURS, VIEWS, EDGES]].max() < 0
assert taken.high[[STEPS, CLIPS, DRAWN]].min() > 0 > taken.points[DRAWN]


def at_seed_0(change):
    tried = [
        one.curve["test_accuracy"][-1]
        for label, one in reading("recipe-second-parts", CIFAR).found
        if label.startswith(f"{change}, rate")
    ]
    assert len(tried) == 3
    return 100 * max(tried)


few_drawn = at_seed_0(DRAWN) - at_seed_0("the recipe")
assert 0 < few_drawn < chance[CIFAR]


def lost_by(change):
    """In points, with the interval."""
    ends = -taken.high[change], -taken.low[change]
    return "{:.1f} ({:.1f} to {:.1f})".format(-taken.points[change], *ends)


# %% [markdown]
# ## Filters gain most, views and colours some, all at no ε
#
# Can the features see more? They may look as long as they like: no private label is in them, and
# more of them add no noise to the score of a linear head. So the second edition looks at each photo
# from eight sides and knows colours, in a third of the steps. Change one of its parts:

# %% tags=["remove-input"]
TAKEN = {
    "a quarter of the filters": "a quarter of the filters",
    "an image and its mirror image": "two views for eight",
    "no colours": "no colours",
    "regions with edges": "regions with edges",
    "a third of the steps": "again a third of the steps",
    "clipped at 0.25": "clips five times as long",
    "a basis of 12,000 images": "12,000 drawings for 60,000",
}
dots(
    recipe.gains_in(second_parts, TAKEN),
    name="recipe-second-changed",
    caption=(
        "What one change does to the second edition: points held out, "
        "means and 95 % intervals of three seeds, each at its best rate, "
        "which another seed chose."
    ),
    axis="points gained",
)

# %% [markdown]
# Filters are worth most. Most of the rest is worth about half a point, though three seeds are not
# sure of steps and clips. The whole edition gains {{ points(on_held_out[CIFAR] / 100) }} points
# over the first on held-out photos, and on the test photos {{ points(gained[3.0]) }}.
#
# It has five times the drawings of the first, which buy little. So the third edition has a fifth of
# them and, for their time, half as many filters again. It has
# {{ points(again[3.0].value) }} points more on the test photos. Five seeds are sure of a gain at
# ε = 1 and 2, not at 3.
#
# :::{dropdown} Fine print: how it was chosen
# What the design is made of was looked for by hand, on held-out photos and clothes, mostly with a
# quarter of the filters. No test image was looked at. Three designs were searched, with three
# exponents or shares and three rates each; those before, with a second layer of features and with
# six views, gained less. The best exponent, {{ of.exponent }}, is the smallest that was tried. On
# clothes the design has no other views than the mirror image, and its regions have edges.
#
# A quarter of the filters and of the components loses {{ lost_by(QUARTER) }} points, and regions
# with edges {{ lost_by(EDGES) }}. Not certain are {{ points(-taken.points[STEPS] / 100) }} by a
# third of the steps, {{ points(-taken.points[CLIPS] / 100) }} by clips of the first edition's
# length and {{ points(-taken.points[DRAWN] / 100) }} by a fifth of the drawings, which had gained
# {{ points(few_drawn / 100) }} with the seed that chose the rates.
#
# The third edition was searched with three exponents and three rates, on the same held-out photos,
# and has {{ points(wider) }} points more there than the second. It was thought of when the second
# had been tested, and its own test is the second that these photos saw of such an edition.
# :::

# %% mystnb={"code_prompt_show": "Every part, in numbers"} tags=["hide-output", "remove-input"]
recipe.changed(second_parts)

# %% tags=["facts"]
by_size = cost_figure.accuracy_by_minutes(reading("recipe-sizes"))
accuracy_of = {
    filters: one.set_index("seed").accuracy
    for filters, one in by_size.groupby("filters")
}
size = by_size.groupby("filters")[["minutes", "GB"]].mean()
assert [*accuracy_of] == [150, 300, 600, 1_200]
assert {len(one) for one in accuracy_of.values()} == {3}
by_size = {
    filters: Estimate.difference(one, accuracy_of[600])
    for filters, one in accuracy_of.items()
}
assert by_size[150].high < by_size[300].value
assert (
    by_size[300].high < 0 and by_size[1_200].low < 0 < by_size[1_200].high
)
each = (size.minutes[1_200] - size.minutes[150]) / 1_050
assert 600 * each > 0.6 * size.minutes[600]  # the filters' share
# The edition and its run that was timed are those of the figure.
assert size.minutes[600] == cost["minutes"] < 15 < size.minutes[1_200] < 30


# %% [markdown]
# ## A quarter of an hour is enough
#
# Most of the recipe's minutes go to its filters. Would more of them see more? On held-out photos,
# by their number:

# %% tags=["remove-input"]
cost_figure.more_filters(by_filters)

# %% [markdown]
# Twice as many take {{ f"{size.minutes[1_200]:.0f}" }} minutes, and three seeds are not sure that
# they gain anything. Half as many lose {{ points(by_size[300].value) }} points, and take
# {{ f"{size.minutes[300]:.0f}" }} minutes. In a hurry, take fewer:
#
# ```bash
# dpstudy recipe cifar-10 --epsilon 3 --filters 300
# ```
#
# :::{dropdown} Fine print: filters and memory
# Each size has the rate and the exponent of the edition's search, and ten components a filter, up
# to {{ f"{of.components:,}" }}. No test photo was looked at. Twice as many filters have
# {{ points(by_size[1_200].value, 2) }} points more in the mean of three seeds, with a 95 % interval
# from {{ points(by_size[1_200].low, 2) }} less to {{ points(by_size[1_200].high, 2) }} more. A
# quarter has {{ points(by_size[150].value) }} less, in {{ f"{size.minutes[150]:.0f}" }} minutes.
# Memory goes from {{ f"{size.GB[150]:.1f}" }} GB with a quarter to {{ f"{size.GB[1_200]:.1f}" }}
# with twice as many.
# :::


# %% tags=["facts"]
def remedied(experiment, name):
    shown = recipe_page.changed(reading(experiment, name))
    assert "seeds 1 to 4, which did not choose the rate," in shown.caption
    assert len(shown.data) == 7
    return shown.data.set_index("change")


of_first, of_second, of_clothes = (
    remedied("recipe-remedies", CIFAR),
    remedied("recipe-second-remedies", CIFAR),
    remedied("recipe-remedies", FASHION),
)
TURNED = "squared error, then cross-entropy"
SHORTER = "automatic clipping"
FILTER = "tanh filter, then clipped"
TEMPERED = "a hidden layer, tempered"
for one in (of_first, of_second, of_clothes):
    assert one.points.idxmax() == TURNED
    assert (one.drop(TURNED).low <= 0).all()  # no other is seen to help
assert of_second.low[TURNED] > 0
assert 0.05 <= of_second.points[TURNED] < 0.15
assert of_second.points.idxmin() == FILTER
assert (
    of_clothes.high > 0
).all() and of_clothes.points.idxmin() == TEMPERED
assert {*of_second.index[of_second.high < 0]} == {
    SHORTER,
    FILTER,
    TEMPERED,
    "a hidden layer, relu",
}


def gained(of, remedy):
    return points(of.points[remedy] / 100)


# %% [markdown]
# ## The papers' remedies add next to nothing here
#
# Do the other chapters' remedies still help, on the second edition's photos and the first one's
# clothes? Hardly. On photos squared error that turns to cross-entropy gains a tenth of a point, and
# the tanh filter loses most. None is surely better or worse on clothes.

# %% tags=["remove-input"]
REMEDIES = {
    "squared error, then cross-entropy": "squared error, then CE",
    "automatic clipping": "automatic clipping",
    "a hidden layer, tanh": "a hidden layer, tanh",
    "composite loss": "composite loss",
    "a hidden layer, relu": "a hidden layer, relu",
    "tanh filter, then clipped": "tanh filter",
}
with_remedies = second_remedies.on("cifar-10"), remedies.on("fashion-mnist")


def gains_with(names):
    return [
        row for one in with_remedies for row in recipe.gains_in(one, names)
    ]


added = gains_with(REMEDIES)
dots(
    added,
    name="recipe-with-remedies",
    caption=(
        "What a remedy adds to the recipe, of photos the second edition, "
        "of clothes the first: points held out, means and 95 % intervals "
        "of four seeds, each at its best rate, which another seed chose."
    ),
    axis="points gained",
)

# %% [markdown]
# So stop at the linear head.
#
# :::{dropdown} Fine print: remedies and their settings
# On CIFAR-10 squared error that turns to cross-entropy gains {{ gained(of_second, TURNED) }}
# points; of seven intervals one is soon above zero by chance. Automatic clipping loses
# {{ gained(of_second, SHORTER) }}, a hidden layer with relu
# {{ gained(of_second, "a hidden layer, relu") }} and with a tempered sigmoid
# {{ gained(of_second, TEMPERED) }}, and the filter {{ gained(of_second, FILTER) }}. The composite
# loss and a hidden layer with tanh cannot be told apart from the recipe. With the first edition
# squared error that turns is {{ gained(of_first, TURNED) }} points ahead, too little to be certain,
# and the composite loss {{ gained(of_first, "composite loss") }} behind. On Fashion-MNIST squared
# error that turns gains most, {{ gained(of_clothes, TURNED) }}, and a hidden layer with a
# tempered sigmoid ends lowest, by {{ gained(of_clothes, TEMPERED) }}, which is not certain.
#
# The filter's active range $k$ is 0.001: a wider one would leave these small gradients as they are.
# Clips inside backpropagation would be flat clipping here: there is one layer, and its inputs have
# norm 1.
# :::

# %% mystnb={"code_prompt_show": "Every remedy, in numbers"} tags=["hide-output", "remove-input"]
Several((recipe.changed(with_remedies[0]), recipe.changed(remedies)))

# %% tags=["facts"]
from under_the_clip.recipe import rule_figure

beside = rule_figure.rule_beside_search(reading("recipe-rule"))
assert not reading("recipe-rule").missing
over_rule = beside.search - beside.rule
on_photographs = beside[beside.dataset == CIFAR].sort_values("images")
fewest, most = on_photographs.iloc[0], on_photographs.iloc[-1]
# On digits half the rule's rate may be a little better, elsewhere none is.
assert over_rule.max() < 0.01
assert {*beside[over_rule > 0].dataset} == {MNIST}
assert {*beside["best rate"]} == {0.5, 1.0}
assert most.rule - fewest.rule > 10 * over_rule.max()

# %% [markdown]
# ## A rule in place of a search
#
# How should you set the rate for images of your own? A search spends privacy of its own. Features
# have norm 1, so you know beforehand how far noise moves a score by the end of training. The rule
# makes that distance 1. Here are 1,000 images in 100 steps, and each step takes all of them:

# %%
alone = noise_multiplier_for(
    3.0, sampling_probability=1.0, steps=1, delta=1e-5
)
noise = alone * 100**0.5  # in each of 100 steps
moved = clip * noise * 100**0.5 / 1_000 / (1 - 0.9)  # at a rate of 1
print(f"rate {1 / moved:.2f}")

# %% [markdown]
# What would a search have gained? We tried rates from a quarter of the rule's to four times it.

# %% tags=["remove-input"]
from under_the_clip.recipe import rule_figure

rule_figure.rule(ruled)

# %% [markdown]
# Nothing, on clothes and on photographs: of five rates the rule's is the best, however many images
# there are. On digits half of it gains at most {{ points(over_rule.max()) }} points. More images
# gain more. The rule reaches {{ percent(fewest.rule, 0) }} % with {{ fewest.images }} photographs.
# It reaches {{ percent(most.rule, 0) }} % with {{ f"{most.images:,}" }}. So leave the rate alone;
# collect more images. `PrivateImageClassifier` sets itself by the rule: [try
# yours](../book/engine.md).
#
# :::{dropdown} Fine print: the rule and its test
# A batch is all images, or 8,192 of more, for 60 epochs and at least 100 steps; the momentum is 0.9
# and C is 0.25. The mean is released where its noise is short beside it. Features are an eighth of
# the recipe's, so that accuracy is lower than above where there are many images. There is one
# seed, which draws the features and the noise. The estimator also scales a released mean towards 0
# by as much as its noise is of its length, which these runs do not.
# :::

# %% tags=["facts"]
LINEAR, CONVOLUTIONS = "scattering, linear", "scattering, convolutions"
INSIDE = [f"clips inside backpropagation, {by}" for by in ("Adam", "SGD")]
ON_FEATURES = {RECIPE, LINEAR, CONVOLUTIONS}
FILTER = "tanh filter, then clipped"
mean = {
    which: {name: runs.mean() for name, (runs, _) in of.items()}
    for which, of in board.items()
}
rank = {
    which: {name: at for name, (_, at) in of.items()}
    for which, of in board.items()
}
tanh_leads = {
    which: Estimate.difference(of["tanh"][0], of["relu"][0])
    for which, of in board.items()
}
assert {standing(one) for one in tanh_leads.values()} == {"ahead"}
for (name, epsilon), of in mean.items():
    place = rank[name, epsilon]
    pixels = {one: of[one] for one in of if one not in ON_FEATURES}
    # A linear head on scattering follows.
    assert sorted(of, key=of.get)[-2] == LINEAR and place[LINEAR] == 2
    if name == FASHION:
        assert place[CONVOLUTIONS] == 3
        assert {*sorted(of, key=of.get)[:2]} == {*INSIDE}
        assert len({place[one] for one in INSIDE}) == 1
        assert place[INSIDE[0]] > place["relu"]
        assert place[FILTER] > place["tanh"]
        for one in ("best tempered sigmoid", "automatic clipping"):
            assert of[one] < of["tanh"]
    else:
        last = max(place.values())
        assert {one for one in place if place[one] == last} == {
            "relu",
            *INSIDE,
        }
        best_two = sorted(pixels, key=pixels.get)[-2:]
        assert {*best_two} == {"composite loss", TURNED}
        alike = CONVOLUTIONS, FILTER, "tanh", "best tempered sigmoid"
        assert {place[one] for one in (*alike, "automatic clipping")} == {3}
        assert place[RECIPE] == 1
leading = [
    {
        one
        for one, at in rank[FASHION, epsilon].items()
        if one not in ON_FEATURES
        and at
        == min(
            at
            for name, at in rank[FASHION, epsilon].items()
            if name not in ON_FEATURES
        )
    }
    for epsilon in (1.0, 3.0, 8.0)
]
assert leading == [
    {"composite loss", TURNED},
    {"composite loss", TURNED, "tanh"},
    {"composite loss", TURNED, "tanh", "automatic clipping"},
]
pixels_at_3 = max(
    of for one, of in mean[FASHION, 3.0].items() if one not in ON_FEATURES
)
ahead_by = [tanh_leads[FASHION, one].value for one in (1.0, 3.0, 8.0)]
assert ahead_by == sorted(ahead_by, reverse=True)
inside_behind = [
    of["relu"] - of[one]
    for (name, _), of in mean.items()
    if name == FASHION
    for one in INSIDE
]
searched = gain(
    *(
        variant(
            "tempered-sigmoids-table-3-search",
            FASHION,
            f"{one}, private, best",
        )
        for one in ("tanh", "relu")
    )
)
assert standing(searched) == "ahead"


opened = variant("recipe-search", MNIST, "epsilon 1").run
beside = variant("leaderboard-mnist", MNIST, f"{RECIPE}, epsilon 1").run
of_digits = opened.dataset.exponent
assert of_digits < beside.dataset.exponent == 0.4
assert opened.optimizer.learning_rate > beside.optimizer.learning_rate


def at_each(name, method):
    each = sorted(EPSILONS[name])
    return ", ".join(percent(mean[name, one][method]) for one in each)


# %% [markdown]
# ## No network on pixels keeps up
#
# On digits and clothes we trained nearly every method of this book at one true ε. The recipe leads,
# and a linear head on scattering features follows it. Each has its own rate, searched in the same
# way. The best network on pixels ends {{ points(mean[FASHION, 3.0][RECIPE] - pixels_at_3, 0) }}
# points lower on Fashion-MNIST. It ends about {{ points(best_on_cifar - max(on_pixels), 0) }} lower
# on CIFAR-10, at a smaller ε and at its paper's settings.

# %% tags=["remove-input"]
behind_it = [
    row
    for ranking in (fashion, mnist)
    for row in chapter.behind_the_recipe(ranking, 3.0)
]
dots(
    behind_it,
    name="leaderboard-behind",
    caption=(
        "Every method at ε = 3, in points over the recipe, which is the "
        "line at 0: means and 95 % intervals of five seeds."
    ),
    axis="points, recipe at 0",
)

# %% [markdown]
# If you must train on the pixels of digits or clothes, take tanh. On Fashion-MNIST it leads relu by
# {{ points(tanh_leads[FASHION, 1.0]) }} points at an ε of 1, where only the rate was searched, and
# by less where ε is larger. Clips inside backpropagation are last there.
#
# :::{exercise} When two methods share a rank
# :label: leaderboard-rank
#
# Predict: one method is ahead of another by 0.1 points on average, and the seeds of each have a
# standard deviation of 0.1. Do they share a rank with five seeds each? With twenty?
# :::
#
# :::{solution-start} leaderboard-rank
# :class: dropdown
# :::
#
# With five seeds they do: the interval of the difference reaches below 0. With twenty they do not,
# but again among eleven.

# %% tags=["nbval-check-output"]
import pandas as pd

from under_the_clip.leaderboard.board import ranks

for count, on_board in ((5, 2), (20, 2), (20, 11)):
    spread = np.linspace(-1, 1, count)
    spread = 0.1 * spread / spread.std(ddof=1)
    means = [97.1, 97.0, *range(90, 92 - on_board, -1)]
    found = ranks([pd.Series(mean + spread) for mean in means])
    print(f"{count} seeds, {on_board} methods: ranks {found[:2]}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{dropdown} Fine print: the rankings
# On Fashion-MNIST the recipe, here with the exponent 0.4, has {{ at_each(FASHION, RECIPE) }} % at
# 1, 3 and 8, means of five seeds, and a linear head on scattering features
# {{ at_each(FASHION, LINEAR) }} %; convolutions on these follow. On pixels the composite loss and
# its turn alone, from squared error to cross-entropy, share the lead at 1: they have
# {{ percent(mean[FASHION, 1.0]["composite loss"]) }} % and
# {{ percent(mean[FASHION, 1.0][TURNED]) }} %. At 3 these two and tanh cannot be told apart, nor at
# 8 these three and automatic clipping. No network there has more than
# {{ percent(pixels_at_3) }} % at 3, and relu has
# {{ percent(mean[FASHION, 3.0]["relu"]) }} %. Tanh leads relu by
# {{ ", ".join(points(tanh_leads[FASHION, one]) for one in (1.0, 3.0, 8.0)) }} points; where width,
# batch and epochs are searched too by {{ points(searched) }} ([chapter
# 2](02_tempered_sigmoids.ipynb)). The best tempered sigmoid and automatic clipping are nowhere
# ahead of tanh, and the filter is behind it. Clips inside backpropagation are
# {{ points(min(inside_behind)) }} to {{ points(max(inside_behind)) }} points behind relu, whether
# by Adam or SGD.
#
# On MNIST the recipe has {{ at_each(MNIST, RECIPE) }} % at 1 and 3. The guide and this chapter's
# opener have {{ percent(at[MNIST][1.0].mean()) }} % at 1, since digits chose the exponent
# {{ of_digits }} and a larger rate there. A linear head on scattering features has
# {{ at_each(MNIST, LINEAR) }} %. On pixels the composite loss and its turn
# alone have the most; tanh, the best tempered sigmoid, automatic
# clipping, the filter and convolutions on scattering features cannot be told apart. Tanh is ahead
# of relu by
# {{ points(tanh_leads[MNIST, 1.0]) }} and {{ points(tanh_leads[MNIST, 3.0]) }} points, and clips
# inside backpropagation are not seen to differ from relu.
#
# Methods on pixels share a network, but for backpropagation clipping, which has its paper's. Rates
# are chosen by 10,000 training examples that are held out. What a remedy adds, such as clips
# inside, is set as its chapter found best, by test accuracy: that favours the remedies. The
# filter's active range $k$ is 0.1: from 1 on it is flat clipping.
#
# On CIFAR-10 the recipe stands beside runs of the chapters, not searched with the same effort: relu
# and tanh keep the rate that was best at an ε of 7.53, by test accuracy, and the others have their
# papers' settings. None on scattering features comes within 12 points. The best tempered sigmoid,
# automatic clipping, the filter and clips inside were not run at this ε.
# :::


# %% tags=["remove-cell"]
import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.comparison import Estimate
from dpstudy.page.results import results
from dpstudy.parts.data.images import DATASETS
from under_the_clip.leaderboard.board import (
    cost,
    lines_at,
    lines_on_cifar_10,
    ranks,
)
from under_the_clip.leaderboard.experiments import EPSILONS


def on_cifar_10():
    return results(
        lines_on_cifar_10(),
        "The recipe's rate was searched at this ε, those of relu and tanh at 7.53; the others have "
        "their papers' settings.",
        name="leaderboard-cifar-10",
        shown="test accuracy at an ε of at most 3",
    )


def table_at(reading, epsilon):
    lines = lines_at(reading, epsilon)
    if not lines:
        return None
    [dataset] = reading.experiment.datasets
    costs = records.read_all(records.folder("methods"), "methods")[0].get(
        dataset
    )
    rows = [
        {
            "rank": rank,
            "method": line.name,
            **Estimate.mean(line.accuracy).summary("accuracy"),
            "seeds": len(line.accuracy),
            "true ε": line.median("epsilon_pld"),
            "published": line.published and line.published.accuracy,
            "published ε": line.published
            and line.published.claimed_epsilon,
            **cost(costs, line.name),
        }
        for line, rank in zip(
            lines, ranks([line.accuracy for line in lines]), strict=True
        )
    ]
    diverged = sum(int(line.finals.diverged.sum()) for line in lines)
    return Table(
        name=f"leaderboard-epsilon-{epsilon:g}",
        caption=(
            f"{DATASETS[dataset]} at a true ε of {epsilon:g}: mean test accuracy over seeds with "
            "its 95 % interval. A method's rank is one more than the number of those whose lead "
            "over it has an interval above 0, wide enough for all pairs together, and no smaller "
            "than that of a method with a larger mean. Published: at the ε that the paper states, "
            "where of this page's this is the nearest. Minutes of one core and memory are of a run "
            "that was timed, without the features, which are computed once. "
            f"Runs that diverged: {diverged}."
        ),
        data=pd.DataFrame(rows).sort_values(
            ["rank", "accuracy"], ascending=[True, False]
        ),
        formats={
            **dict.fromkeys(
                ("accuracy", "accuracy_low", "accuracy_high"), "{:.2%}"
            ),
            "true ε": "{:.2f}",
            "published": "{:.1%}",
            "published ε": "{:g}",
            "minutes": "{:.1f}",
            "GB": "{:.1f}",
        },
        merged={
            "accuracy": "{accuracy} ({accuracy_low} to {accuracy_high})",
            "published": "{published}, ε = {published ε}",
        },
    )


def board(reading):
    [dataset] = reading.experiment.datasets
    tables = {
        epsilon: table_at(reading, epsilon) for epsilon in EPSILONS[dataset]
    }
    shown = {
        epsilon: table
        for epsilon, table in tables.items()
        if table is not None
    }
    if not shown:
        return not_yet_run(
            f"The leaderboard on {DATASETS[dataset]}", reading.command
        )
    return Several(
        tuple(shown.values()),
        tuple(f"ε = {epsilon:g}" for epsilon in shown),
    )


# %% mystnb={"code_prompt_show": "Every method: Fashion-MNIST at three ε, MNIST at two, CIFAR-10 at most at 3"} tags=["hide-output", "remove-input"]
Several((board(fashion), board(mnist), on_cifar_10()))

# %% tags=["facts"]
crosses = crossed.cells(reading("factorial", FASHION))
assert crossed.is_whole(crosses)
held = crosses.groupby(["loss", "activation", "mechanism"]).points.mean()
flat = held.unstack()["flat"]
ENTROPY = "cross-entropy"
tanh, loss, together = (
    flat[cell] - flat[ENTROPY, "relu"]
    for cell in (
        (ENTROPY, "tanh"),
        ("composite", "relu"),
        ("composite", "tanh"),
    )
)
less = crossed.under(crosses, "flat").loc["tanh × composite"]
assert less.flat_high < 0
assert abs(tanh + loss - together + less.flat) < 0.01
assert held.idxmax() == ("composite", "tanh", "flat")
automatic = (held.unstack()["automatic"] - flat).abs().max()
lost_by = held.unstack().rsub(flat, axis=0).loc[ENTROPY]
assert (lost_by[["filter", "inside"]] > 0).all(axis=None)
spread = crosses.groupby(list(crossed.FACTORS)).points.std()
spread = spread.groupby("mechanism").max()
of_mnist = crossed.cells(reading("factorial", MNIST))
assert crossed.is_whole(of_mnist)
assert crossed.under(of_mnist, "flat").loc["tanh × composite"].flat_high < 0
inside = gain(
    *(
        variant("factorial", MNIST, f"relu / cross-entropy / {side}")
        for side in ("inside", "flat")
    )
)
assert standing(inside) == "ahead"

# %% [markdown]
# ## Tanh and the composite loss are in part one remedy
#
# Do two remedies add up? On Fashion-MNIST tanh alone gains {{ f"{tanh:.1f}" }} points over relu,
# and the [composite loss](03_losing_less.ipynb) alone {{ f"{loss:.1f}" }}. Together they gain
# {{ f"{together:.1f}" }}, well below the sum. Both are meant to keep gradients short, and the
# second seems to find little left to do. MNIST shows the same overlap.
#
# :::{dropdown} Fine print: the factorial
# Three activations, two losses and four mechanisms are crossed: {{ len(held) }} cells on one
# network at a true ε of 3, all with SGD, so that Adam has no part in it, each at its own best rate.
# It is another network than the ranking's, trained for half as long. Relu with cross-entropy has
# {{ f"{flat[ENTROPY, 'relu']:.1f}" }} % under flat clipping; tanh and the composite loss gain
# {{ f"{-less.flat:.2f}" }} points less than their sum ({{ f"{-less.flat_high:.2f}" }} to
# {{ f"{-less.flat_low:.2f}" }}). Automatic clipping is within
# {{ f"{np.ceil(10 * automatic) / 10:.1f}" }} points of flat clipping in every cell. The other two
# mechanisms lose. The filter loses {{ f"{lost_by['filter']['relu']:.1f}" }} points with relu and
# {{ f"{lost_by['filter']['tanh']:.1f}" }} with tanh. Clips inside backpropagation lose
# {{ f"{lost_by.inside['relu']:.1f}" }} with relu, for which their bounds were found, and with the
# tempered sigmoid they have {{ f"{held[ENTROPY, 'tempered', 'inside']:.1f}" }} %.
#
# On MNIST, with relu and cross-entropy, clips inside gain {{ points(inside, 2) }} points over flat
# clipping ({{ percent(inside.low, 2) }} to {{ percent(inside.high, 2) }}).
#
# The second table's gains are averages over the other factor's levels, for each mechanism, with
# intervals by what each seed gains. These are not corrected for their number. Seeds of a cell are
# at most {{ f"{spread.flat:.1f}" }} points apart in standard deviation under flat clipping, and up
# to {{ f"{spread.inside:.0f}" }} with clips inside.
# :::

# %% tags=["remove-cell"]
from itertools import product

from dpstudy.page.datasets import behind, for_each_dataset
from under_the_clip.designs import EPSILON
from under_the_clip.leaderboard.effects import cells, effects, under, whole
from under_the_clip.leaderboard.experiments import (
    ACTIVATIONS,
    LOSSES,
    MECHANISMS,
)


@for_each_dataset("The factorial: accuracy", whole)
def accuracy(reading):
    data = cells(reading)
    rows = ["loss", "activation"]
    means = (
        data.groupby([*rows, "mechanism"])
        .points.mean()
        .unstack()[list(MECHANISMS)]
    )
    return Table(
        name="factorial-accuracy",
        caption=(
            f"{DATASETS[reading.dataset_name]}: test accuracy in percent at a true ε of "
            f"{EPSILON:g}, means of {data.seed.nunique()} seeds, by activation, loss and "
            "mechanism. Inside: clips inside backpropagation."
        ),
        data=means.loc[list(product(LOSSES, ACTIVATIONS))]
        .rename_axis(columns=None)
        .reset_index(),
        formats=dict.fromkeys(MECHANISMS, "{:.2f}"),
    )


@for_each_dataset("The factorial: under each mechanism", whole)
def under_each_mechanism(reading):
    data = cells(reading)
    found = [under(data, mechanism) for mechanism in MECHANISMS]
    columns = (
        f"{mechanism}{end}"
        for mechanism in MECHANISMS
        for end in ("", "_low", "_high")
    )
    return Table(
        name="factorial-under-each-mechanism",
        caption=(
            f"{DATASETS[reading.dataset_name]}: points gained under each mechanism over relu with "
            "cross-entropy, each a mean over the other factor's levels; of two together, beyond "
            "the sum of both. With 95 % intervals, by seed."
        ),
        data=pd.concat(found, axis=1).reset_index(),
        formats=dict.fromkeys(columns, "{:+.2f}"),
        merged={
            name: f"{{{name}}} ({{{name}_low}} to {{{name}_high}})"
            for name in MECHANISMS
        },
    )


@for_each_dataset("The factorial: at once", whole)
def at_once(reading):
    found = effects(cells(reading))
    return Table(
        name="factorial-at-once",
        caption=(
            f"{DATASETS[reading.dataset_name]}: points gained over relu, cross-entropy and flat "
            "clipping, each a mean over the other factors; of two together, beyond the sum of "
            "both. With 95 % intervals, by seed."
        ),
        data=found[found.remedy.str.count("×") < 2],
        formats=dict.fromkeys(("points", "low", "high"), "{:+.2f}"),
        merged={"points": "{points} ({low} to {high})"},
    )


# %% mystnb={"code_prompt_show": "Every cell, what each remedy gains under each mechanism, and of all at once"} tags=["hide-output", "remove-input"]
Several(
    tuple(
        draw(factorial)
        for draw in (accuracy, under_each_mechanism, at_once)
    )
)

# %% [markdown]
# ## Gains and runs

# %% mystnb={"code_prompt_show": "Every gain on this page, and every experiment behind it"} tags=["hide-output", "remove-input"]
from dpstudy.page.results import gains_of, gains_table
from under_the_clip.sentences import variant

CELL = "factorial", "relu / cross-entropy / flat"
SEARCHED = "tempered-sigmoids-table-3-search"
COMPARED = {
    "tanh over relu": (
        ("factorial", "tanh / cross-entropy / flat"),
        CELL,
    ),
    "composite loss over cross-entropy": (
        ("factorial", "relu / composite / flat"),
        CELL,
    ),
    "both, over relu with cross-entropy": (
        ("factorial", "tanh / composite / flat"),
        CELL,
    ),
    "clips inside over flat": (
        ("factorial", "relu / cross-entropy / inside"),
        CELL,
    ),
    "tanh over relu, both searched": (
        (SEARCHED, "tanh, private, best"),
        (SEARCHED, "relu, private, best"),
    ),
}


def between(dataset, name, better, other):
    return gains_of(dataset, None, {name: (other, better)})


def every_gain():
    ends = "points", "low", "high"
    others = {"a hidden layer, tempered": "a hidden layer, tempered"}
    held_out = [*changed, *added, *gains_with(others)]
    rows = [
        row
        | {"comparison": f"{row['row']}, over the recipe{what}"}
        | {end: row.get(end, np.nan) / 100 for end in ends}
        for of, what in ((held_out, ", held out"), (behind_it, ", ε = 3"))
        for row in of
    ]
    exponents = recipe.whitening(search).data.groupby("dataset")
    for dataset, of in exponents:
        plain = of.accuracy[of.exponent == 0].max()
        rows.append(
            {
                "dataset": dataset,
                "comparison": "best exponent over 0, held out",
                "points": of.accuracy.max() - plain,
                "low": np.nan,
                "high": np.nan,
                "seeds": 1,
            }
        )
    best, *others = lines_on_cifar_10()
    for line in others:
        name = f"{line.name}, over the recipe, ε at most 3"
        rows += between("cifar-10", name, line, best)
    for ranked in (fashion, mnist):
        [dataset] = ranked.experiment.datasets
        for at in EPSILONS[dataset]:
            line = {of.name: of for of in lines_at(ranked, at)}
            name = f"tanh over relu, ε = {at:g}"
            rows += between(dataset, name, line["tanh"], line["relu"])
        for name, of in COMPARED.items():
            rows += between(
                dataset,
                name,
                *(variant(on, dataset, is_) for on, is_ in of),
            )
    together = under(cells(factorial.on("fashion-mnist")), "flat")
    less = together.loc["tanh × composite"].div(100)
    rows.append(
        {
            "dataset": "fashion-mnist",
            "comparison": "tanh and composite loss, over their sum",
            "points": less.flat,
            "low": less.flat_low,
            "high": less.flat_high,
            "seeds": 3,
        }
    )
    return gains_table(rows, name="leaderboard-gains")


experiments = behind(
    *(mnist, fashion, cifar, factorial, search, slanted),
    *(parts, parts_again),
    *(remedies, second_parts, second_remedies),
)
all_of_it = profile == "stored" and dataset is None and behind_it
Several((every_gain(), experiments)) if all_of_it else experiments
