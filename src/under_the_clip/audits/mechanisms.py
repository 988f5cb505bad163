"""The list of audits: every mechanism of the study, in the settings whose epsilon is claimed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dpstudy.lab.noise import at_epsilon
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.images import DATASETS, TRAINING_EXAMPLES
from dpstudy.parts.mechanism import AutomaticClipping, FlatClipping, NoPrivacy, PerLayerClipping
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.optimizer import Adam
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson, Shuffled
from dpstudy.recipe.run import recipe
from under_the_clip.audits.black_box import BlackBoxAudit
from under_the_clip.audits.layers import LayerAttack
from under_the_clip.audits.released import ReleasedAudit
from under_the_clip.audits.shuffled import ShuffledAudit
from under_the_clip.audits.white_box import (
    Audit,
    equal_features,
    first_image,
    searched,
    searched_after_training,
    searched_with_weights,
)
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
from under_the_clip.networks import BackpropMnist
from under_the_clip.tanh_filter.experiments import SIGMA, TUTORIAL
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped, FilteredToNorm, TanhFilter

SMALL = TRAINING_EXAMPLES["mnist-5k"]

# How the canary is found, by what that adds to an audit's name.
_SEARCHES = {
    "": (searched_with_weights, "image, label and weights searched for the longest gradient"),
    "-drawn-weights": (searched, "image and label searched, weights as drawn"),
    "-trained-weights": (searched_after_training, "image and label searched, weights as trained"),
}
_WORST = {"": _SEARCHES[""]}


def _flat() -> Iterator[Audit]:
    setting = "MNIST, batch 512, 40 epochs, σ {:g}; the first training image, weights as drawn"
    for name, run, claimed_by in (
        ("flat-clipping", Run(), "rdp-2019"),
        ("flat-clipping-epsilon-1", at_epsilon(1.0, Run()), "pld"),
        ("per-layer-clipping", vary(Run(), mechanism=PerLayerClipping()), "pld"),
    ):
        yield Audit(
            name=name,
            mechanism=name.removesuffix("-epsilon-1").replace("-", " "),
            setting=setting.format(run.mechanism.noise_multiplier),
            run=run,
            canary=first_image,
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
        canary=equal_features,
        claimed_by="pld",
        canaries=run.dataset.components,
    )


def _as_published() -> Iterator[Audit]:
    for dataset, claimed in (("mnist", 0.07), ("mnist", 0.3), ("fashion-mnist", 0.87)):
        run = as_published(dataset, claimed)
        for suffix, (canary, in_words) in _SEARCHES.items():
            yield Audit(
                name=f"backpropagation-clipping-{dataset}-claims-{claimed:g}{suffix}",
                mechanism="backpropagation clipping, as published",
                setting=f"{DATASETS[dataset]}, batch 4,096, {run.epochs} epochs; {in_words}",
                run=run,
                canary=canary,
                claimed_by="claimed-zcdp",
            )


def _corrected() -> Iterator[Audit]:
    for target in TARGETS:
        # Where less is given away, no canary but the worst shows anything.
        for suffix, (canary, in_words) in _SEARCHES.items() if target >= 1 else _WORST.items():
            yield Audit(
                name=f"backpropagation-clipping-corrected-aims-at-{target:g}{suffix}",
                mechanism="backpropagation clipping, corrected code",
                setting=f"MNIST, batch 256, 5 epochs; {in_words}",
                run=corrected(target),
                canary=canary,
                claimed_by="claimed-gdp",
            )


def _sound() -> Iterator[Audit]:
    canary, in_words = _SEARCHES[""]
    for target in TARGETS:
        yield Audit(
            name=f"backpropagation-clipping-sound-spends-{target:g}",
            mechanism="backpropagation clipping, sound noise",
            setting=f"MNIST, batch 256, 5 epochs; {in_words}",
            run=corrected(target, SOUND_NOISE[target]),
            canary=canary,
            claimed_by="pld",
        )


def _tanh_filter() -> Iterator[Audit]:
    setting = "MNIST, batch 256, 60 epochs, σ 1.1; {}"
    published = vary(TUTORIAL, mechanism=TanhFilter(noise_std=SIGMA))
    for suffix in ("", "-drawn-weights"):
        canary, in_words = _SEARCHES[suffix]
        yield Audit(
            name=f"tanh-filter{suffix}",
            mechanism="tanh filter, as published",
            setting=setting.format(in_words),
            run=published,
            canary=canary,
            claimed_by="claimed-rdp-2019",
        )
    # Sound with the noise that the paper has for a sensitivity of 1: they have it.
    bounded = {"clip_norm": 1.0, "noise_multiplier": SIGMA}
    canary, in_words = _SEARCHES["-drawn-weights"]
    for name, kind in (
        ("tanh-filter-then-clipped", FilteredThenClipped),
        ("tanh-filter-scaled-to-a-norm", FilteredToNorm),
        ("automatic-clipping", AutomaticClipping),
    ):
        yield Audit(
            name=name,
            mechanism=name.replace("-", " ").replace("filter", "filter,", 1),
            setting=setting.format(in_words),
            run=vary(TUTORIAL, mechanism=kind(**bounded)),
            canary=canary,
            claimed_by="pld",
        )


def _shuffled() -> Iterator[ShuffledAudit]:
    """One run gives away less than a run with canaries, and dealing takes time: fewer trials."""
    for name, trained, runs, in_words in (
        ("shuffled-proof", 0, 81_920, "the others have the opposite of the canary's gradient"),
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
    clips = {"input_bound": 1.0, "upstream_bound": 0.01 * SMALL}
    published = BackpropagationClipping(
        **clips,
        noise_multiplier=joint_noise(0.3, 8) / SMALL,
        claimed_factor=float(SMALL),
        claimed_accountant="zcdp",
    )
    yield BlackBoxAudit(
        name="black-box-backpropagation-clipping",
        mechanism="backpropagation clipping, as published",
        setting="4,000 images of MNIST in one batch, 8 epochs; the first image, wrongly labelled",
        run=Run(
            **small,
            mechanism=published,
            sampling=Shuffled(SMALL),
            optimizer=Adam(0.01),
            epochs=8,
        ),
        claimed_by="claimed-zcdp",
        start=replace(fitting, mechanism=ClippedWithoutNoise(1.0, 0.01 * 200)),
        models=300,
    )
    yield BlackBoxAudit(
        name="black-box-flat-clipping",
        mechanism="flat clipping",
        setting="4,000 images of MNIST, batch 2,000, 5 epochs, σ 1; the first image, "
        "wrongly labelled",
        run=Run(
            **small,
            mechanism=FlatClipping(noise_multiplier=1.0),
            sampling=Poisson(2000),
            epochs=5,
        ),
        claimed_by="pld",
        start=replace(fitting, mechanism=NoPrivacy()),
        models=300,
    )


AUDITS = (
    *_flat(),
    *_recipe(),
    *_as_published(),
    *_corrected(),
    *_sound(),
    *_tanh_filter(),
    *_shuffled(),
    *_black_box(),
)

LAYER_ATTACKS = (
    LayerAttack(
        name="layers-mnist-corrected",
        setting="MNIST normalised, a = 3, b = 2.56e-5 (corrected code)",
        run=corrected(3.0),
    ),
    LayerAttack(
        name="layers-mnist-corrected-plain-pixels",
        setting="MNIST with pixels in [0, 1], a = 3, b = 2.56e-5",
        run=vary(corrected(3.0), normalization=""),
    ),
    LayerAttack(
        name="layers-mnist-as-published",
        setting="MNIST with pixels in [0, 1], a = 1, b = 40.96 (as published)",
        run=as_published("mnist"),
    ),
)
