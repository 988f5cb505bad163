"""A run that cannot be is refused in one line; one that can be has one name, for good."""

import dataclasses
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstudy.errors import UserError
from dpstudy.kinds import declare_all
from dpstudy.parts.data import dataset
from dpstudy.parts.data import images as data
from dpstudy.parts.data.dataset import Data, Images
from dpstudy.parts.data.scattering import Scattering
from dpstudy.parts.loss import CrossEntropy, Loss
from dpstudy.parts.measure import Norms
from dpstudy.parts.mechanism import AutomaticClipping, FlatClipping, Mechanism, NoPrivacy
from dpstudy.parts.networks.activation import TANH, LayerWise, Linear, Relu, Tempered
from dpstudy.parts.networks.network import INITS, HiddenHead, LinearHead, Network, SmallCnn
from dpstudy.parts.optimizer import Adam, Optimizer, Sgd, SgdWithDecay
from dpstudy.parts.part import KINDS, Part, SpecError, part
from dpstudy.parts.run import Run, cohort_of, setting, vary, vary_as_written
from dpstudy.parts.sampling import Poisson, Sampling, Shuffled
from dpstudy.recipe.features import ColourFeatures, SecondLayerFeatures, SyntheticFeatures
from dpstudy.recipe.mixture import Mixture
from dpstudy.recipe.views import View
from dpstudy.recipe.whitened import OWN
from under_the_clip.backpropagation_clipping.mechanism import BackpropagationClipping
from under_the_clip.losing_less.loss import Composite, Focal, Huber
from under_the_clip.losing_less.measures import Smoothness
from under_the_clip.networks import ScatteringLinearMnist, ScatteringMnist, TemperedCifar
from under_the_clip.tanh_filter.mechanism import TanhFilter

RUNS = Path(__file__).parents[1] / "results" / "runs"
CIFAR = Run(dataset=Images("cifar-10"), network=TemperedCifar())
BACKPROP = BackpropagationClipping()
SMALL = vary(Run(), dataset=Images("mnist-5k"))
ON_FEATURES = {"dataset": Scattering(), "network": ScatteringMnist()}
RELEASED = ON_FEATURES | {"dataset": Scattering(groups=0, released=8.0)}
ON_PATCHES = {
    "dataset": SyntheticFeatures("mnist", synthetic=400, small=10, large=5, components=64),
    "network": LinearHead(inputs=64),
}
SMALL_FEATURES = {"synthetic": 400, "components": 64}
ON_SECOND = ON_PATCHES | {"dataset": SecondLayerFeatures("mnist", **SMALL_FEATURES)}
ON_COLOURS = ON_PATCHES | {"dataset": ColourFeatures("cifar-10", **SMALL_FEATURES)}
ON_MIXTURE = ON_PATCHES | {"dataset": Mixture("mnist", (ON_PATCHES["dataset"],), (1.0,))}
declare_all()
OURS = ("dpstudy.", "under_the_clip.")
PACKAGE = {kind: one for kind, one in KINDS.items() if one.__module__.startswith(OURS)}


def of_kind(base):
    return [one for one in PACKAGE.values() if issubclass(one, base)]


# --- what is refused --------------------------------------------------------------------------


def wrong(given=None, **values):
    """Cases in which the value of the last of the given fields is refused: each of these."""
    return [
        ((given or {}) | {field: value}, field, repr(value))
        for field, bad in values.items()
        for value in bad
    ]


NAN, INF = float("nan"), float("inf")
BAD = [
    # The table: sigma <= 0, C <= 0, batch > examples, delta outside (0, 1), epochs < 1; numbers
    # that are none, or are of the wrong kind; the other ranges.
    *wrong(noise_multiplier=(0.0, NAN), clip_norm=(-0.1, INF, None), batch=(60_001, 0, 512.0)),
    *wrong({"dataset": Images("mnist-5k")}, batch=(4_001,)),
    *wrong(delta=(0.0, 1, -1e-5, "1e-5"), epochs=(0, 2.5), offset=(-INF,), init=(3,)),
    *wrong(learning_rate=(-0.5, True), momentum=(1.0, -0.1), seed=(-1, 2**31, False)),
    *wrong(scale=(0,), inverse_temperature=(-2,), width=(0, 0.3)),
    *wrong({"optimizer": SgdWithDecay()}, decay=(0.0,)),
    ({"learning_rate": 10**400}, "learning_rate", "1000000"),
    ({"sampling": Shuffled(0)}, "batch", "0"),
    ({"optimizer": Adam(0.0)}, "learning_rate", "0.0"),
    # Parts.
    ({"activation": LayerWise((TANH, TANH, Tempered(scale=0.0)))}, "scale", "0.0"),
    ({"activation": LayerWise((TANH, TANH))}, "activation", "'layer-wise'"),
    ({"activation": LayerWise((TANH, TANH, LayerWise(())))}, "an activation", "layer-wise"),
    ({"activation": LayerWise([TANH] * 3)}, "layers must be a tuple", "[Tempered"),
    ({"activation": "relu"}, "activation", "'relu'"),
    ({"loss": TANH}, "loss", "Tempered("),
    ({"mechanism": None}, "mechanism", "None"),
    ({"sampling": Sampling}, "sampling", "Sampling"),
    ({"dataset": Images("mnist", normalization="imagenet")}, "normalization", "'mnist'"),
    ({"measures": Norms()}, "measures", "Norms()"),
    ({"measures": (Norms(), Norms())}, "a measure is taken once", "norms, norms"),
    # Mechanisms of the papers.
    *wrong({"mechanism": BACKPROP}, input_bound=(0.0,), upstream_bound=(0.0,)),
    *wrong({"mechanism": BACKPROP}, claimed_factor=(0.0,), shares=((0.5, 0.4), (1.5, -0.5))),
    ({"mechanism": BACKPROP, "claimed_accountant": "rumour"}, "unknown claimed_accountant", "zcdp"),
    *wrong({"mechanism": TanhFilter()}, output_range=(0.0,), active_range=(0.0,), parameters=(0,)),
    *wrong({"mechanism": TanhFilter()}, noise_std=(0.0,)),
    *wrong({"mechanism": AutomaticClipping()}, stability=(0.0,)),
    # Losses and measures of the papers.
    *wrong({"loss": Focal()}, focusing=(-1.0,)),
    *wrong({"loss": Composite()}, divisor=(0.0,), turning_epoch=("late",), penalised=(1,)),
    *wrong({"loss": Composite()}, squared=("yes",)),
    *wrong({"loss": Huber()}, bound=(0.0,)),
    ({"measures": (Smoothness(steps=0),)}, "steps", "0"),
    ({"measures": (Smoothness(examples=0),)}, "examples", "0"),
    *wrong(held_out=(7_000, 50)),
    # Scattering features.
    *wrong(ON_FEATURES, groups=(10, -27), held_out=(7_000,)),
    ({**ON_FEATURES, "released": 8.0}, "groups", "27"),
    *wrong(ON_FEATURES | {"groups": 0}, released=(0.5,)),
    ({**RELEASED, "sampling": Shuffled()}, "what a dataset releases", "Poisson"),
    ({**ON_FEATURES, "name": "tahn"}, "unknown dataset", "'tahn'"),
    *wrong(ON_FEATURES | {"network": ScatteringLinearMnist()}, width=(2.0,)),
    # Features by synthetic images.
    ({**ON_PATCHES, "scenes": "tahn"}, "unknown scenes", "'tahn'; one of: dead-leaves"),
    *wrong(ON_PATCHES, synthetic=(0,), small=(0,), large=(-1,), components=(0,), inputs=(0,)),
    *wrong(ON_PATCHES, threshold=(-0.1,), exponent=(-0.1,), drawn=(-1,), released=(0.5,)),
    *wrong(ON_PATCHES, mirrored=(1,), deslanted=(1,), grids=((3, 0),), only=(-1, 60_001)),
    ({**ON_PATCHES, "views": (View(zoom=9.0),)}, "zoom must be from 1/4 to 4", "9.0"),
    ({**ON_PATCHES, "views": (View(zoom=0.2),)}, "zoom must be from 1/4 to 4", "0.2"),
    ({**ON_PATCHES, "views": (View(degrees=-181.0),)}, "degrees must be from -180", "-181.0"),
    ({**ON_PATCHES, "views": (View(degrees=181.0),)}, "degrees must be from -180", "181.0"),
    *wrong(ON_PATCHES, views=([View()],), overlapping=(1,)),
    *wrong(ON_SECOND, first=(0,), directions=(0,), seconds=(-1,), grids=((),)),
    *wrong(ON_COLOURS, colours=(0,), grids=((11,),)),
    *wrong(ON_MIXTURE, shares=((0.5,),), released=(0.5,)),
    ({**ON_MIXTURE, "shares": (0.5, 0.5)}, "shares must be as many as blocks", "2 and 1"),
    ({**ON_MIXTURE, "blocks": ()}, "shares must be as many as blocks", "1 and 0"),
    ({**ON_PATCHES, "synthetic": 50}, "components must be at most 49", "64"),
    ({**ON_PATCHES, "exponent": 2}, "exponent must be at most 1", "2"),
    ({**ON_PATCHES, "small": 1_000_000}, "small and large must be at most 5,000", "1000000"),
    *wrong(ON_PATCHES | {"network": HiddenHead(inputs=64)}, units=(0,)),
    *wrong(ON_PATCHES | {"scenes": OWN}, synthetic=(60_001,)),
    # Names.
    ({"name": "tahn"}, "unknown dataset", "'tahn'; one of: mnist, fashion-mnist, cifar-10"),
    ({"init": "two\nlines"}, "unknown init", r"'two\nlines'; one of: glorot, he"),
    ({"normalization": " "}, "unknown normalization", "' '; one of: , imagenet"),
]


def refusal(act) -> str:
    with pytest.raises(SpecError) as caught:
        act()
    (line,) = str(caught.value).splitlines()
    assert isinstance(caught.value, UserError)  # what the command line turns into exit code 2
    return line


@pytest.mark.parametrize(("changes", "field", "value"), BAD, ids=lambda x: str(x)[:60])
def test_a_bad_value_is_refused_in_one_line_that_names_field_and_value(changes, field, value):
    run = vary(Run(), **changes)
    line = refusal(lambda: run.identity)
    assert line.startswith(field)
    assert value in line


def all_fields(cls) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)}


def test_every_field_is_tested_for_bad_values():
    tested = {name for changes, _, _ in BAD for name in changes}
    tested |= {"network", "layers", "steps", "examples", "zoom", "degrees"}
    assert set.union(all_fields(Run), *map(all_fields, PACKAGE.values())) == tested


BASES = {"data": Data, "network": Network, "loss": Loss, "mechanism": Mechanism,
         "sampling": Sampling, "optimizer": Optimizer}  # fmt: skip


@pytest.mark.parametrize("field", ["dataset", *list(BASES)[1:]])
@pytest.mark.parametrize("kind", ["tahn", " ", "two\nlines", None, 3, ["mnist"]], ids=repr)
def test_an_unknown_kind_is_refused_in_one_line_with_the_valid_ones(field, kind):
    line = refusal(lambda: Run.from_dict({field: {"kind": kind}}))
    base = field.replace("set", "")
    assert line.startswith(f"unknown {base} {kind!r}; one of: ")
    assert [one.kind for one in of_kind(BASES[base])] == line.partition("of: ")[2].split(", ")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"learning_rat": 0.5}, "unknown field 'learning_rat' in a run"),
        ({"seed": 1, "Batch": 64}, "unknown field 'Batch' in a run"),
        ({"kind": "run"}, "unknown field 'kind' in a run"),
        ({"optimizer": {"kind": "adam", "momentum": 0.5}}, "unknown field 'momentum' in adam"),
        ({"network": {"kind": "tempered-mnist", "activation": {"kind": "layer-wise"}}},
         "a field is missing in layer-wise: "),
        ({"mechanism": {"kind": "flat", "noise_multiplier": -1}},
         "noise_multiplier must be > 0, got -1"),
        ({"optimizer": "adam"}, "optimizer must be an object with fields, got 'adam'"),
        ([], "run must be an object with fields, got []"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_run_is_refused_when_read(written, message):
    assert refusal(lambda: Run.from_dict(written)).startswith(message)


@pytest.mark.parametrize("network", of_kind(Network), ids=lambda one: one.kind)
@pytest.mark.parametrize("data", [Images, Scattering])
@pytest.mark.parametrize("name", dataset.DATASETS)
def test_a_network_takes_the_images_of_its_own_kind_only(network, data, name):
    run = Run(dataset=data(name), network=network())
    alike = ("mnist" in network.kind) == ("mnist" in name) and "head" not in network.kind
    if alike and ("scattering" in network.kind) == (data is Scattering):
        assert Run.from_dict(run.to_dict()) == run
    else:
        line = refusal(lambda: run.identity)
        assert repr(network.kind) in line
        assert f"the {data.kind} of {name!r}" in line


def test_a_run_cannot_be_changed():
    for one in (Run(), Images(), TANH):
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.seed = 1


# --- changing and reading fields by name --------------------------------------------------------


def test_fields_are_changed_and_read_by_name_wherever_they_are():
    run = vary(Run(), learning_rate=8.0, activation=Relu(), batch=200, seed=3)
    assert run == Run(network=SmallCnn(Relu()), sampling=Poisson(200), optimizer=Sgd(8.0), seed=3)
    # In the order given: a field of a part that has just been put in.
    assert vary(run, optimizer=Adam(), learning_rate=0.1).optimizer == Adam(0.1)
    names = ("learning_rate", "activation", "batch", "seed", "name")
    assert [setting(run, name) for name in names] == [8.0, Relu(), 200, 3, "mnist"]
    assert Run() == Run(), "the original stays as it was"


@dataclasses.dataclass(frozen=True)
class Doubled(Part):
    batch: int = 3


@pytest.mark.parametrize(
    ("run", "name", "count", "near"),
    [
        (Run(), "learning_rat", "no", "; the nearest is 'learning_rate'"),
        (Run(optimizer=Adam()), "momentum", "no", "; one of: activation, batch, clip_norm"),
        (Run(loss=Doubled()), "batch", "2", ""),
    ],
    ids=["misspelt", "of another part", "ambiguous"],
)
def test_a_name_of_no_field_or_of_two_is_refused(run, name, count, near):
    expected = f"{count} parts of the run have a field {name!r}" + near
    assert refusal(lambda: vary(run, **{name: 1})).startswith(expected)
    assert refusal(lambda: setting(run, name)).startswith(expected)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("clip_norm", "0.5", 0.5),
        ("clip_norm", "1", 1),
        ("epochs", "3", 3),
        ("seed", "7", 7),
        ("normalization", "mnist", "mnist"),
        ("name", "fashion-mnist", "fashion-mnist"),
        ("activation", "relu", Relu()),
        ("activation", '{"kind": "tempered", "scale": 3}', Tempered(scale=3)),
        ("optimizer", "adam", Adam()),
        ("measures", "[]", ()),
    ],
)
def test_a_field_is_changed_to_what_a_text_says_as_by_its_value(field, text, value):
    assert vary_as_written(Run(), {field: text}) == vary(Run(), **{field: value})


@pytest.mark.parametrize(
    ("field", "text", "line"),
    [
        ("clip_norm", "half", "clip_norm must be a number, got 'half'"),
        ("clip_norm", "true", "clip_norm must be a number, got True"),
        ("clip_norm", "NaN", "clip_norm must be finite, got nan"),
        ("clip_norm", "0", "clip_norm must be > 0, got 0"),
        ("epochs", "2.5", "epochs must be a whole number, got 2.5"),
        ("batch", "70000", "batch must be at most the 60000 examples of mnist, got 70000"),
        ("activation", "rleu", "unknown activation 'rleu'; the nearest is 'relu'"),
        (
            "activation",
            '{"kind": "tempered", "scael": 3}',
            "unknown field 'scael' in tempered; the",
        ),
        ("activation", "3", "activation must be an object with fields, got 3"),
        ("measures", "norms", "measures must be a list such as [0.5, 0.5], got 'norms'"),
        (
            "clipnorm",
            "1",
            "no parts of the run have a field 'clipnorm'; the nearest is 'clip_norm'",
        ),
    ],
)
def test_a_text_that_is_no_value_of_the_field_is_refused_in_one_line(field, text, line):
    assert refusal(lambda: vary_as_written(Run(), {field: text})).startswith(line)


# --- identity ---------------------------------------------------------------------------------

# Names of stored results: should one change, the file it names is no longer found.
PINNED = {
    "44136fa355b3678a": Run(),
    "039482d999dd2a72": vary(Run(), activation=Tempered(2.55, 1.55, 1.2)),
    "0cd07dbabe76dc2d": vary(Run(), activation=Relu(), sampling=Shuffled()),
    "0c965f467d77c45e": Run(
        dataset=Images("fashion-mnist"),
        mechanism=NoPrivacy(),
        optimizer=Sgd(0.107, momentum=0.0),
        seed=4,
        measures=(Norms(),),
    ),
    "115141a2190e8d0e": Run(
        dataset=Images("cifar-10", normalization="imagenet"),
        network=TemperedCifar(),
        mechanism=FlatClipping(noise_multiplier=0.8981),
        sampling=Poisson(1024),
        optimizer=Sgd(1),
        epochs=30,
        seed=3,
    ),
}


@pytest.mark.parametrize(("name", "run"), PINNED.items(), ids=PINNED)
def test_known_runs_keep_their_names(name, run):
    assert run.identity == name


def test_every_stored_run_is_the_one_that_its_file_is_named_for():
    paths = sorted(RUNS.glob("*.json"))
    assert len(paths) > 600
    for path in paths:
        written = json.loads(path.read_text())["run"]
        run = Run.from_dict(written)
        assert run.identity == path.stem
        assert run.to_dict() == written


def others(given=None, **values):
    """Runs with the given fields and one of these each, by its name."""
    return {name: vary(Run(), **(given or {}) | {name: value}) for name, value in values.items()}


# One other valid value of each field of a run and of its parts.
OTHER = {
    **others(dataset=Images("fashion-mnist"), activation=Relu(), scale=1.0, offset=0.5, init="he"),
    **others(inverse_temperature=3.0, width=2.0, clip_norm=1.0, noise_multiplier=1.24, batch=256),
    **others(mechanism=NoPrivacy(), loss=Focal(), held_out=10_000, sampling=Shuffled(), seed=1),
    **others(optimizer=Adam(), learning_rate=0.25, momentum=0.0, epochs=41, delta=1e-6),
    "measures": vary(Run(), measures=(Norms(),)),
    "normalization": vary(CIFAR, normalization="imagenet"),
    "network": CIFAR,
    "no activation": vary(Run(), activation=Linear()),
    "layers": vary(Run(), activation=LayerWise((TANH,) * 3)),
    "other layers": vary(Run(), activation=LayerWise((TANH, TANH, Relu()))),
    **others({"mechanism": BACKPROP}, input_bound=2.0, upstream_bound=2.0, claimed_factor=2.0),
    **others({"mechanism": BACKPROP}, claimed_accountant="gdp", shares=(0.5, 0.5)),
    **others({"mechanism": TanhFilter()}, output_range=2.0, active_range=2.0, noise_std=1.0),
    **others({"mechanism": TanhFilter()}, parameters=7),
    **others({"mechanism": AutomaticClipping()}, stability=0.1),
    **others({"loss": Focal()}, focusing=2.0),
    "composite": vary(Run(), loss=Composite()),
    **others(
        {"loss": Composite()}, turning_epoch=7.0, divisor=11.0, penalised=False, squared=False
    ),
    **others({"loss": Huber()}, bound=0.5),
    "features": vary(Run(), **ON_FEATURES),
    **others(ON_FEATURES, groups=9),
    "no groups": vary(Run(), **ON_FEATURES, groups=0),
    "released": vary(Run(), **RELEASED),
    "features held out": vary(Run(), **ON_FEATURES, held_out=10_000),
    "patches": vary(Run(), **ON_PATCHES),
    "inputs": vary(Run(), **ON_PATCHES | {"network": LinearHead(inputs=63)}, components=63),
    "the mean released": vary(Run(), **ON_PATCHES, released=20.0),
    "hidden head": vary(Run(), **ON_PATCHES | {"network": HiddenHead(inputs=64)}),
    **others(ON_PATCHES | {"network": HiddenHead(inputs=64)}, units=7),
    **others(ON_PATCHES, scenes="both", synthetic=401, small=11, large=6, threshold=0.5, drawn=1),
    **others(ON_PATCHES, mirrored=False, deslanted=True, grids=(3, 1), exponent=0.5),
    "components": vary(Run(), **ON_PATCHES | {"network": LinearHead(inputs=65)}, components=65),
    **others(ON_PATCHES, views=(View(), View(mirrored=True))),
    "zoom": vary(Run(), **ON_PATCHES, views=(View(zoom=1.5),)),
    "degrees": vary(Run(), **ON_PATCHES, views=(View(degrees=5.0),)),
    **others(ON_SECOND, first=65, directions=255, seconds=599),
    **others(ON_COLOURS, colours=95),
    "blocks": vary(Run(), **ON_MIXTURE),
    "patches held out": vary(Run(), **ON_PATCHES, held_out=10_000),
    **others(ON_PATCHES, only=600, overlapping=True),
    "steps": vary(Run(), measures=(Smoothness(steps=3),)),
    "examples": vary(Run(), measures=(Smoothness(examples=3),)),
    "weight decay": vary(Run(), optimizer=SgdWithDecay()),
    **others({"optimizer": SgdWithDecay()}, decay=0.1),
}
NUMBERS = {"scale", "inverse_temperature", "offset", "clip_norm", "noise_multiplier",
           "learning_rate", "momentum", "seed"}  # fmt: skip
# Numbers of mechanisms and losses that a run has not by default.
ELSEWHERE = {"input_bound", "upstream_bound", "claimed_factor", "output_range", "active_range",
             "noise_std", "stability", "decay", "focusing", "turning_epoch", "divisor",
             "bound"}  # fmt: skip


def test_every_field_changes_the_identity():
    fields = set.union(all_fields(Run), *map(all_fields, PACKAGE.values()))
    assert fields - set(OTHER) == {"name"}
    names = [run.identity for run in [*OTHER.values(), Run(), CIFAR]]
    assert len(set(names)) == len(names) - 1  # CIFAR is there twice


def test_fields_at_their_default_are_left_out():
    assert Run().to_dict() == {}
    assert vary(Run(), seed=7, batch=512, offset=1).to_dict() == {"seed": 7}
    for one in PACKAGE.values():
        if one is not LayerWise:
            assert one().to_dict() == {"kind": one.kind}


def test_equal_numbers_written_differently_are_one_run():
    one = vary(Run(), learning_rate=1, offset=0.0, momentum=0.0, width=2)
    other = vary(Run(), learning_rate=1.0, offset=-0.0, momentum=-0.0, width=2.0)
    assert one == other
    assert one.identity == other.identity


positive = st.floats(1e-6, 1e6)
numbers = st.floats(-9, 9)


def some(cls, **fields):
    """Any part of a class, a random part of its fields left at their defaults."""
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: cls(**given))


tempered = some(Tempered, scale=positive, inverse_temperature=positive, offset=numbers)
activations = st.one_of(tempered, st.just(Relu()), st.just(Linear()))


@st.composite
def runs(draw):
    """Any valid run."""
    name = draw(st.sampled_from(sorted(dataset.DATASETS)))
    kind = draw(st.sampled_from([Images, Scattering]))
    fitting = [n for n in of_kind(Network) if n.image_shape == kind(name).image_shape]
    network = draw(st.sampled_from(fitting))
    layers = st.tuples(*[activations] * network.hidden).map(LayerWise)
    normalizations = [
        one
        for one, (mean, _) in dataset.NORMALIZATIONS.items()
        if one == "" or len(mean) == dataset.IMAGE_SHAPE[name][-1]
    ]
    normalised = {
        Images: {"normalization": st.sampled_from(normalizations)},
        Scattering: {"groups": st.sampled_from([0, 9, 27, 81])},
    }
    widths = [1.0] if "linear" in network.kind else [eighths / 8 for eighths in range(1, 33)]
    batch = {"batch": st.integers(1, min(4_000, dataset.TRAINING_EXAMPLES[name]))}
    return draw(
        some(
            Run,
            loss=st.just(CrossEntropy()),
            mechanism=st.one_of(
                some(FlatClipping, clip_norm=positive, noise_multiplier=positive),
                some(BackpropagationClipping, input_bound=positive, upstream_bound=positive),
                some(TanhFilter, active_range=positive, noise_std=positive),
                st.just(NoPrivacy()),
            ),
            sampling=st.one_of(some(Poisson, **batch), some(Shuffled, **batch)),
            optimizer=st.one_of(
                some(Sgd, learning_rate=positive, momentum=st.floats(0, 0.999)),
                some(Adam, learning_rate=positive),
            ),
            epochs=st.integers(1, 10_000),
            seed=st.integers(0, 2**31 - 1),
            measures=st.sampled_from([(), (Norms(),)]),
            delta=st.floats(1e-12, 0.999),
        ).flatmap(
            lambda run: st.builds(
                lambda data, network: replace(run, dataset=data, network=network),
                some(kind, **normalised[kind]).map(lambda images: replace(images, name=name)),
                some(
                    network,
                    activation=st.one_of(activations, layers),
                    width=st.sampled_from(widths),
                    init=st.sampled_from(sorted(INITS)),
                ),
            )
        )
    )


def shuffled(written, random):
    """The same JSON with its fields in another order."""
    if isinstance(written, list):
        return [shuffled(one, random) for one in written]
    if not isinstance(written, dict):
        return written
    items = [(name, shuffled(value, random)) for name, value in written.items()]
    random.shuffle(items)
    return dict(items)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(runs(), st.randoms())
def test_a_run_survives_being_stored_whatever_the_order_of_its_fields(run, random):
    stored = shuffled(json.loads(json.dumps(run.to_dict())), random)
    again = Run.from_dict(stored)
    assert again == run
    assert again.identity == run.identity
    # The identity by hand: SHA-256 of the JSON of what is not at its default, in order.
    text = json.dumps(stored, separators=(",", ":"), sort_keys=True)
    assert run.identity == hashlib.sha256(text.encode()).hexdigest()[:16]


# --- cohorts ----------------------------------------------------------------------------------


def renumbered(of, draw):
    """The same with every traced number drawn anew."""
    if isinstance(of, tuple):
        return tuple(renumbered(one, draw) for one in of)
    if not isinstance(of, Part):
        return of
    drawn = {name: st.floats(0.01, 0.99) for name in NUMBERS | ELSEWHERE}
    drawn["seed"] = st.integers(0, 99)
    values = {
        name: draw(drawn[name]) if name in drawn else renumbered(getattr(of, name), draw)
        for name in (field.name for field in dataclasses.fields(of))
    }
    return replace(of, **values)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(runs(), st.data())
def test_runs_that_differ_in_numbers_alone_are_a_cohort(run, drawn):
    other = renumbered(run, drawn.draw)
    assert cohort_of(other) == cohort_of(run)
    assert hash(cohort_of(other)) == hash(cohort_of(run))
    assert other.identity != run.identity


def test_runs_that_differ_in_anything_else_are_not():
    """Compared each with each: an equality that forgets classes shows in no set of hashes."""
    shaping = [run for name, run in OTHER.items() if name not in NUMBERS | ELSEWHERE]
    cohorts = [cohort_of(run) for run in [*shaping, Run()]]
    for index, one in enumerate(cohorts):
        assert [one == other for other in cohorts] == [index == i for i in range(len(cohorts))]


@part()
class Brightened(Images):
    """Data of one's own, whose number is no constant to JAX."""

    by: float = 1.0


def test_runs_on_other_examples_are_no_cohort_whatever_their_structure():
    """One program trains a cohort on the data of its first run."""
    one, other = (replace(Run(), dataset=Brightened(by=by)) for by in (1.0, 2.0))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert cohort_of(one) != cohort_of(other)


def test_no_step_depends_on_length_delta_or_measures():
    for name in ("epochs", "delta", "measures", *NUMBERS):
        assert cohort_of(OTHER[name].of_a_step()) == cohort_of(Run().of_a_step())


# --- agreement with the data --------------------------------------------------------------------


def test_datasets_are_those_there_are():
    tables = (dataset.DATASETS, dataset.TRAINING_EXAMPLES, dataset.IMAGE_SHAPE)
    assert all(set(table) == set(data.NAMES) for table in tables)


def test_a_run_samples_its_examples_with_the_probability_that_its_batch_says():
    run = vary(SMALL, batch=250)
    assert run.sampling_probability == 250 / 4_000
    assert run.steps_per_epoch == 16
    assert vary(run, sampling=Shuffled(1_500)).steps_per_epoch == 2
    assert [int(run.epoch_of(jnp.int32(step))) for step in (0, 15, 16, 31, 32)] == [1, 1, 2, 2, 3]


def test_held_out_examples_stand_in_for_the_test_set():
    whole, split = Images("mnist-5k"), Images("mnist-5k", held_out=1_000)
    loaded, parted = whole.load(), split.load()
    assert (whole.examples, split.examples) == (4_000, 3_000) == (4_000, len(parted.train_labels))
    # The subset is ordered by class: all classes are held out alike.
    assert np.bincount(parted.test_labels).tolist() == [100] * 10
    together = np.concatenate([parted.train_images, parted.test_images])
    assert sorted(map(bytes, together)) == sorted(map(bytes, loaded.train_images))
