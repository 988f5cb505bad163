"""The list of audits: every mechanism of the study, in the settings whose epsilon is claimed."""

from collections.abc import Iterator
from dataclasses import replace

from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.images import DATASETS, TRAINING_EXAMPLES
from dpstudy.parts.mechanism import AutomaticClipping, FlatClipping, NoPrivacy, PerLayerClipping
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.optimizer import Adam
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson, Shuffled
from dpstudy.recipe.run import recipe
from under_the_clip.audits import white_box
from under_the_clip.audits.black_box import BlackBoxAudit
from under_the_clip.audits.shuffled_batches import ShuffledAudit
from under_the_clip.audits.white_box import Audit, LayerAttack, ReleasedAudit
from under_the_clip.backpropagation_clipping.experiments import (
    SOUND_NOISE,
    TARGETS,
    as_published,
    corrected,
    joint_noise,
)
from under_the_clip.backpropagation_clipping.mechanism import (
    BackpropagationClipping,
    ClippedWithoutNoise,
)
from under_the_clip.designs import at_epsilon
from under_the_clip.networks import BackpropMnist
from under_the_clip.tanh_filter.experiments import SIGMA, TUTORIAL
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped, FilteredToNorm, TanhFilter

SMALL = TRAINING_EXAMPLES["mnist-5k"]

# How the canary is found, by what that adds to an audit's name.
_SEARCHES = {
    "": (
        white_box.searched_with_weights,
        "image, label and weights searched for the longest gradient",
    ),
    "-drawn-weights": (white_box.searched, "image and label searched, weights as drawn"),
    "-trained-weights": (
        white_box.searched_after_training,
        "image and label searched, weights as trained",
    ),
}


def _searched(
    name: str,
    mechanism: str,
    setting: str,
    run: Run,
    claimed_by: str,
    searches: tuple[str, ...] = ("",),
) -> Iterator[Audit]:
    """Yield the audits of a run whose canary is searched for, one for each of `_SEARCHES`."""
    for suffix in searches:
        canary, in_words = _SEARCHES[suffix]
        yield Audit(
            name=name + suffix,
            mechanism=mechanism,
            setting=f"{setting}; {in_words}",
            run=run,
            canary=canary,
            claimed_by=claimed_by,
        )


def _flat() -> Iterator[Audit]:
    for name, run, claimed_by in (
        ("flat-clipping", Run(), "rdp-2019"),
        ("flat-clipping-epsilon-1", at_epsilon(1.0, Run()), "pld"),
        ("per-layer-clipping", vary(Run(), mechanism=PerLayerClipping()), "pld"),
    ):
        yield Audit(
            name=name,
            mechanism=name.removesuffix("-epsilon-1").replace("-", " "),
            setting=f"MNIST, batch 512, 40 epochs, σ {run.mechanism.noise_multiplier:g}; the first "
            "training image, weights as drawn",
            run=run,
            canary=white_box.first_image,
            claimed_by=claimed_by,
        )


def _recipe() -> Iterator[Audit]:
    run = at_epsilon(3.0, recipe("mnist"))
    yield ReleasedAudit(
        name="recipe",
        mechanism="released mean, then flat clipping: the recipe",
        setting=f"MNIST, mean at σ {run.dataset.release_noise:g}, batch 8,192, 60 epochs at σ "
        f"{run.mechanism.noise_multiplier:.3g}; equal features",
        run=run,
        canary=white_box.equal_features,
        claimed_by="pld",
        canaries=run.dataset.components,
    )


def _backpropagation_clipping() -> Iterator[Audit]:
    start, what = "backpropagation-clipping", "backpropagation clipping"
    every = tuple(_SEARCHES)
    for dataset, claimed in (("mnist", 0.07), ("mnist", 0.3), ("fashion-mnist", 0.87)):
        name, run = f"{start}-{dataset}-claims-{claimed:g}", as_published(dataset, claimed)
        setting = f"{DATASETS[dataset]}, batch 4,096, {run.epochs} epochs"
        yield from _searched(name, f"{what}, as published", setting, run, "claimed-zcdp", every)
    setting = "MNIST, batch 256, 5 epochs"
    for target in TARGETS:
        name, run = f"{start}-corrected-aims-at-{target:g}", corrected(target)
        # Where less is given away, no canary but the worst shows anything.
        searches = every if target >= 1 else ("",)
        yield from _searched(name, f"{what}, corrected code", setting, run, "claimed-gdp", searches)
    for target in TARGETS:
        name, run = f"{start}-sound-spends-{target:g}", corrected(target, SOUND_NOISE[target])
        yield from _searched(name, f"{what}, sound noise", setting, run, "pld")


def _tanh_filter() -> Iterator[Audit]:
    setting = "MNIST, batch 256, 60 epochs, σ 1.1"
    published = vary(TUTORIAL, mechanism=TanhFilter(noise_std=SIGMA))
    what, searches = "tanh filter, as published", ("", "-drawn-weights")
    yield from _searched("tanh-filter", what, setting, published, "claimed-rdp-2019", searches)
    # Sound with the noise that the paper has for a sensitivity of 1: they have it.
    for name, kind in (
        ("tanh-filter-then-clipped", FilteredThenClipped),
        ("tanh-filter-scaled-to-a-norm", FilteredToNorm),
        ("automatic-clipping", AutomaticClipping),
    ):
        mechanism = name.replace("-", " ").replace("filter", "filter,", 1)
        run = vary(TUTORIAL, mechanism=kind(clip_norm=1.0, noise_multiplier=SIGMA))
        # At weights as drawn, though their names do not say so.
        [audit] = _searched("", mechanism, setting, run, "pld", ("-drawn-weights",))
        yield replace(audit, name=name)


def _shuffled() -> Iterator[ShuffledAudit]:
    """One run gives away less than a run with canaries, and dealing takes time: fewer trials."""
    for name, trained, runs, in_words in (
        ("shuffled-proof", 0, 81_920, "the others have the opposite of the canary's gradient"),
        ("shuffled-proof-in-4000-runs", 0, 4000, "as in the proof, in as few runs as below"),
        ("shuffled-after-1-epoch", 1, 4000, "gradients of the network after 1 epoch"),
        ("shuffled-trained-weights", 40, 4000, "gradients of the trained network"),
    ):
        yield ShuffledAudit(
            name=name,
            mechanism="flat clipping, shuffled batches",
            setting=f"MNIST, batch 512, 40 epochs, σ 1.23; {in_words}",
            run=replace(Run(), sampling=Shuffled(512)),
            claimed_by="claimed-rdp-2019",
            trained=trained,
            runs=runs,
        )


def _black_box() -> Iterator[BlackBoxAudit]:
    """On the embedded images, with a start that the other examples are fitted at."""
    small = {"dataset": Images("mnist-5k"), "network": BackpropMnist(Relu())}
    fitting = Run(**small, sampling=Shuffled(200), optimizer=Adam(0.01), epochs=20)
    published = BackpropagationClipping(
        input_bound=1.0,
        upstream_bound=0.01 * SMALL,
        noise_multiplier=joint_noise(0.3, 8) / SMALL,
        claimed_factor=float(SMALL),
        claimed_accountant="zcdp",
    )
    run = {"sampling": Shuffled(SMALL), "optimizer": Adam(0.01), "epochs": 8}
    images, first = "4,000 images of MNIST", "the first image, wrongly labelled"
    yield BlackBoxAudit(
        name="black-box-backpropagation-clipping",
        mechanism="backpropagation clipping, as published",
        setting=f"{images} in one batch, 8 epochs; {first}",
        run=Run(**small, **run, mechanism=published),
        claimed_by="claimed-zcdp",
        start=replace(fitting, mechanism=ClippedWithoutNoise(1.0, 0.01 * 200)),
        models=300,
    )
    clipping = FlatClipping(noise_multiplier=1.0)
    yield BlackBoxAudit(
        name="black-box-flat-clipping",
        mechanism="flat clipping",
        setting=f"{images}, batch 2,000, 5 epochs, σ 1; {first}",
        run=Run(**small, mechanism=clipping, sampling=Poisson(2000), epochs=5),
        claimed_by="pld",
        start=replace(fitting, mechanism=NoPrivacy()),
        models=300,
    )


_ALL = (_flat, _recipe, _backpropagation_clipping, _tanh_filter, _shuffled, _black_box)
AUDITS = tuple(audit for of in _ALL for audit in of())

_PLAIN = "MNIST with pixels in [0, 1]"
LAYER_ATTACKS = tuple(
    LayerAttack(name=f"layers-mnist-{name}", setting=setting, run=run)
    for name, setting, run in (
        ("corrected", "MNIST normalised, a = 3, b = 2.56e-5 (corrected code)", corrected(3.0)),
        (
            "corrected-plain-pixels",
            f"{_PLAIN}, a = 3, b = 2.56e-5",
            vary(corrected(3.0), normalization=""),
        ),
        ("as-published", f"{_PLAIN}, a = 1, b = 40.96 (as published)", as_published("mnist")),
    )
)
