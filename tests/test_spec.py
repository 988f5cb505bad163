"""A run that cannot be is refused in one line; one that can be has one name, for good."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstudy import losses, models, spec
from dpstudy.errors import UserError
from dpstudy.parts import images as data
from dpstudy.spec import Run, SpecError

FIELDS = {field.name: field for field in dataclasses.fields(Run)}
NUMBERS = ("scale", "inverse_temperature", "offset", "clip_norm", "noise_multiplier",
           "learning_rate", "momentum", "seed", "scale_2", "inverse_temperature_2", "offset_2",
           "scale_3", "inverse_temperature_3", "offset_3")  # fmt: skip
LAYER_WISE = {"activation": "layer-wise"}
COLOUR = {"dataset": "cifar-10", "model": "tempered-cifar"}


# --- what is refused --------------------------------------------------------------------------

BAD = [
    # The table: sigma <= 0, C <= 0, batch > examples, delta outside (0, 1), epochs < 1.
    ({"noise_multiplier": 0.0}, "noise_multiplier", "0.0"),
    ({"noise_multiplier": -1.23}, "noise_multiplier", "-1.23"),
    ({"clip_norm": 0}, "clip_norm", "0.0"),
    ({"clip_norm": -0.1}, "clip_norm", "-0.1"),
    ({"batch": 60_001}, "batch", "60001"),
    ({"batch": 4_001, "dataset": "mnist-5k"}, "batch", "4001"),
    (
        {"batch": 50_001, "dataset": "cifar-10", "model": "tempered-cifar"},
        "batch",
        "50001",
    ),
    ({"delta": 0.0}, "delta", "0.0"),
    ({"delta": 1}, "delta", "1.0"),
    ({"delta": -1e-5}, "delta", "-1e-05"),
    ({"delta": 1.5}, "delta", "1.5"),
    ({"epochs": 0}, "epochs", "0"),
    ({"epochs": -3}, "epochs", "-3"),
    # Numbers that are none, or are of the wrong kind.
    ({"noise_multiplier": float("nan")}, "noise_multiplier", "nan"),
    ({"clip_norm": float("inf")}, "clip_norm", "inf"),
    ({"offset": float("-inf")}, "offset", "-inf"),
    ({"learning_rate": 10**400}, "learning_rate", "1000000"),
    ({"delta": "1e-5"}, "delta", "'1e-5'"),
    ({"clip_norm": None}, "clip_norm", "None"),
    ({"learning_rate": True}, "learning_rate", "True"),
    ({"epochs": 2.5}, "epochs", "2.5"),
    ({"batch": 512.0}, "batch", "512.0"),
    ({"seed": False}, "seed", "False"),
    # The other ranges.
    ({"batch": 0}, "batch", "0"),
    ({"learning_rate": 0}, "learning_rate", "0.0"),
    ({"learning_rate": -0.5}, "learning_rate", "-0.5"),
    ({"momentum": 1.0}, "momentum", "1.0"),
    ({"momentum": -0.1}, "momentum", "-0.1"),
    ({"seed": -1}, "seed", "-1"),
    ({"seed": 2**31}, "seed", "2147483648"),
    ({"scale": 0}, "scale", "0.0"),
    ({"inverse_temperature": -2}, "inverse_temperature", "-2.0"),
    ({"width": 0}, "width", "0.0"),
    ({"width": -1}, "width", "-1.0"),
    ({"width": 0.3}, "width", "0.3"),
    (LAYER_WISE | {"scale_2": 0}, "scale_2", "0.0"),
    (LAYER_WISE | {"inverse_temperature_3": -1}, "inverse_temperature_3", "-1.0"),
    (
        LAYER_WISE | {"dataset": "cifar-10", "model": "tempered-cifar", "batch": 100},
        "activation",
        "layer-wise",
    ),
    # Values that would do nothing: the run would have a second name.
    ({"activation": "relu", "scale": 3}, "scale", "3.0"),
    ({"activation": "relu", "inverse_temperature": 3}, "inverse_temperature", "3.0"),
    ({"activation": "relu", "offset": 0}, "offset", "0.0"),
    ({"activation": "none", "scale": 3}, "scale", "3.0"),
    *(({name: 0.5}, name, "0.5") for name in spec.LATER_LAYERS),
    ({"normalization": "imagenet"}, "normalization", "'mnist'"),
    ({"activation": "relu", "offset_3": 0.5}, "offset_3", "0.5"),
    ({"optimizer": "adam", "momentum": 0.5}, "momentum", "0.5"),
    ({"mechanism": "none", "noise_multiplier": 0, "clip_norm": 1}, "clip_norm", "1.0"),
    ({"mechanism": "none"}, "noise_multiplier", "1.23"),
]


def refusal(fields) -> str:
    with pytest.raises(SpecError) as caught:
        Run(**fields)
    (line,) = str(caught.value).splitlines()
    assert isinstance(caught.value, UserError)  # what the command line turns into exit code 2
    return line


@pytest.mark.parametrize(("fields", "field", "value"), BAD, ids=lambda x: str(x)[:60])
def test_a_bad_value_is_refused_in_one_line_that_names_field_and_value(fields, field, value):
    line = refusal(fields)
    assert line.startswith(field)
    assert value in line


NAMED = {
    "dataset": spec.TRAINING_EXAMPLES,
    "model": spec.MODELS,
    "activation": spec.ACTIVATIONS,
    "loss": spec.LOSSES,
    "mechanism": spec.MECHANISMS,
    "sampling": spec.SAMPLINGS,
    "optimizer": spec.OPTIMIZERS,
    "record": spec.RECORDS,
    "init": spec.INITS,
    "normalization": spec.NORMALIZATIONS,
}


@pytest.mark.parametrize("field", NAMED)
@pytest.mark.parametrize("value", ["tahn", " ", "two\nlines", None, 3, ["mnist"]], ids=repr)
def test_an_unknown_name_is_refused_in_one_line_with_the_valid_ones(field, value):
    line = refusal({field: value})
    assert f"unknown {field} {value!r}" in line
    assert line.endswith("one of: " + ", ".join(NAMED[field]))


def test_every_field_is_tested_for_bad_values():
    assert {field for _, field, _ in BAD} | set(NAMED) == set(FIELDS)


@pytest.mark.parametrize("model", spec.MODELS)
@pytest.mark.parametrize("dataset", spec.TRAINING_EXAMPLES)
def test_a_network_takes_the_images_of_its_own_kind_only(model, dataset):
    if ("mnist" in model) == ("mnist" in dataset):
        assert Run(dataset=dataset, model=model).model == model
    else:
        line = refusal({"dataset": dataset, "model": model})
        assert repr(model) in line
        assert repr(dataset) in line


@pytest.mark.parametrize("fields", [{"learning_rat": 0.5}, {"seed": 1, "Batch": 64}], ids=str)
def test_an_unknown_field_is_refused_by_name(fields):
    with pytest.raises(SpecError, match=r"unknown field '(learning_rat|Batch)'"):
        Run.from_dict(fields)


def test_stored_fields_are_checked_like_given_ones():
    with pytest.raises(SpecError, match=r"noise_multiplier must be > 0, got -1\.0"):
        Run.from_dict({"noise_multiplier": -1})


def test_a_run_is_checked_without_reading_data_or_loading_what_could():
    code = (
        "import sys\n"
        "from dpstudy.spec import Run, SpecError\n"
        "def refuse(event, arguments):\n"
        "    if event == 'open': raise SystemExit(f'opened {arguments[0]}')\n"
        "sys.addaudithook(refuse)\n"
        "try: Run(batch=60_001)\n"
        "except SpecError as error: print(error)\n"
        "heavy = {'jax', 'flax', 'dpstudy.parts.images', 'dpstudy.training'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    environment = os.environ | {"DPSTUDY_DATA": os.devnull}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    expected = "batch must be at most the 60000 examples of mnist, got 60001\n[]\n"
    assert told.stdout == expected, told.stderr


def test_a_run_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Run().seed = 1


# --- identity ---------------------------------------------------------------------------------

# Names of stored results: should one change, the file it names is no longer found.
PINNED = {
    "44136fa355b3678a": {},
    "2ebfe5d0bb59dfef": {"activation": "relu"},
    "9d15fbf40d8fdcee": {"seed": 1, "learning_rate": 0.25},
    "5daa45c05cda1a72": {
        "dataset": "cifar-10",
        "model": "losing-less-cifar",
        "clip_norm": 1,
        "noise_multiplier": 1.54,
        "batch": 1024,
        "epochs": 30,
        "sampling": "shuffled",
    },
    "69c3c01a3851a458": {
        "dataset": "fashion-mnist",
        "mechanism": "none",
        "noise_multiplier": 0,
        "optimizer": "adam",
        "learning_rate": 0.01,
    },
}


@pytest.mark.parametrize(("name", "fields"), PINNED.items())
def test_known_runs_keep_their_names(name, fields):
    assert Run(**fields).identity == name


# One other valid value a field, with what else must change for it to be valid.
OTHER = {
    "dataset": {"dataset": "fashion-mnist"},
    "model": {"model": "losing-less-mnist"},
    "activation": {"activation": "relu"},
    "scale": {"scale": 1.0},
    "inverse_temperature": {"inverse_temperature": 3.0},
    "offset": {"offset": 0.5},
    "loss": None,
    "mechanism": {"mechanism": "none", "noise_multiplier": 0.0},
    "clip_norm": {"clip_norm": 1.0},
    "noise_multiplier": {"noise_multiplier": 1.24},
    "sampling": {"sampling": "shuffled"},
    "batch": {"batch": 256},
    "epochs": {"epochs": 41},
    "optimizer": {"optimizer": "adam"},
    "learning_rate": {"learning_rate": 0.25},
    "momentum": {"momentum": 0.0},
    "delta": {"delta": 1e-6},
    "seed": {"seed": 1},
    "width": {"width": 2.0},
    "record": {"record": "norms"},
    "init": {"init": "he"},
    "normalization": COLOUR | {"normalization": "imagenet"},
    **{name: LAYER_WISE | {name: 0.5} for name in spec.LATER_LAYERS},
}


def test_every_field_changes_the_identity():
    assert set(OTHER) == set(FIELDS)
    assert len(spec.LOSSES) == 1, "give the loss another value in OTHER"
    names = [Run(**fields).identity for fields in OTHER.values() if fields] + [Run().identity]
    assert len(set(names)) == len(names)


def test_fields_that_came_later_leave_the_names_of_stored_runs_as_they_are():
    later = {
        "width": 1.0,
        "record": "",
        "init": "glorot",
        "normalization": "",
        **{name: FIELDS[name].default for name in NUMBERS[8:]},
    }
    for name, fields in PINNED.items():
        assert Run(**fields | later).identity == name


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_at_its_default_is_left_out(name):
    default = FIELDS[name].default
    run = Run(**{"seed": 7} | {name: default})
    assert name not in run.to_dict()
    assert run.identity == Run(**{} if name == "seed" else {"seed": 7}).identity


def test_equal_numbers_written_differently_are_one_run():
    assert Run(learning_rate=1, seed=3).identity == Run(learning_rate=1.0, seed=3).identity
    assert Run(offset=0.0, momentum=0.0).identity == Run(offset=-0.0, momentum=-0.0).identity


@st.composite
def valid_fields(draw):
    """The fields of any valid run, a random part of them left at their defaults."""
    positive = st.floats(1e-6, 1e6)
    dataset = draw(st.sampled_from(sorted(spec.TRAINING_EXAMPLES)))
    fitting = [m for m, shape in spec.MODELS.items() if shape == spec.IMAGE_SHAPE[dataset]]
    fields = {
        "dataset": dataset,
        "model": draw(st.sampled_from(fitting)),
        "batch": draw(st.integers(1, spec.TRAINING_EXAMPLES[dataset])),
    }
    free = {
        "sampling": st.sampled_from(spec.SAMPLINGS),
        "epochs": st.integers(1, 10_000),
        "learning_rate": positive,
        "delta": st.floats(1e-12, 0.999),
        "seed": st.integers(0, 2**31 - 1),
        "width": st.integers(1, 32).map(lambda eighths: eighths / 8),
        "record": st.sampled_from(spec.RECORDS),
        "init": st.sampled_from(spec.INITS),
    }
    if "cifar" in dataset:
        free["normalization"] = st.sampled_from(spec.NORMALIZATIONS)
    kinds = [kind for kind in spec.ACTIVATIONS if kind != "layer-wise" or "mnist" in dataset]
    fields["activation"] = draw(st.sampled_from(kinds))
    if fields["activation"] in ("tempered", "layer-wise"):
        free |= {"scale": positive, "inverse_temperature": positive, "offset": st.floats(-9, 9)}
    if fields["activation"] == "layer-wise":
        free |= {
            name: st.floats(-9, 9) if "offset" in name else positive for name in spec.LATER_LAYERS
        }
    if draw(st.booleans()):
        fields["optimizer"] = "adam"
    else:
        free |= {"momentum": st.floats(0, 0.999)}
    if draw(st.booleans()):
        fields |= {"mechanism": "none", "noise_multiplier": 0}
    else:
        free |= {"clip_norm": positive, "noise_multiplier": positive}
    return fields | {name: draw(values) for name, values in free.items() if draw(st.booleans())}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(valid_fields(), st.randoms())
def test_a_run_survives_being_stored_whatever_the_order_of_its_fields(fields, random):
    run = Run(**fields)
    stored = list(json.loads(json.dumps(run.to_dict())).items())
    random.shuffle(stored)
    again = Run.from_dict(dict(stored))
    assert again == run
    assert again.identity == run.identity
    # The identity by hand: SHA-256 of the JSON of what is not at its default, in order.
    text = json.dumps(dict(sorted(stored)), separators=(",", ":"))
    assert run.identity == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert len(run.identity) == 16


# --- cohorts ----------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None, derandomize=True)
@given(valid_fields(), st.data())
def test_runs_that_differ_in_numbers_alone_have_one_shape(fields, draw):
    run = Run(**fields)
    changed = {"seed": st.integers(0, 99), "learning_rate": st.floats(0.01, 9)}
    if run.activation == "layer-wise":
        changed |= {name: st.floats(0.1, 9) for name in spec.LATER_LAYERS}
    if run.activation in ("tempered", "layer-wise"):
        changed |= {"scale": st.floats(0.1, 9), "inverse_temperature": st.floats(0.1, 9)}
        changed |= {"offset": st.floats(-9, 9)}
    if run.private:
        changed |= {"clip_norm": st.floats(0.01, 9), "noise_multiplier": st.floats(0.01, 9)}
    if run.optimizer == "sgd":
        changed |= {"momentum": st.floats(0, 0.99)}
    other = dataclasses.replace(
        run, **{name: draw.draw(values) for name, values in changed.items()}
    )
    assert other.shape == run.shape
    assert hash(other.shape) == hash(run.shape)
    assert run.shape.shape == run.shape
    assert other.numbers == {name: getattr(other, name) for name in NUMBERS}


def test_runs_that_differ_in_anything_else_have_two_shapes():
    free = (*NUMBERS, "epochs", "delta", "record")
    shaping = [fields for name, fields in OTHER.items() if fields and name not in free]
    assert len({Run(**fields).shape for fields in [*shaping, {}]}) == len(shaping) + 1


def test_a_longer_run_or_another_delta_shares_the_compiled_program():
    assert Run(epochs=2).shape == Run(delta=1e-6).shape == Run().shape


def test_what_is_recorded_shares_the_compiled_program_but_not_the_cohort():
    assert Run(record="norms").shape == Run().shape
    assert Run(record="norms").cohort != Run().cohort != Run(epochs=2).cohort
    assert Run(seed=3, scale=1.0).cohort == Run().cohort


# --- agreement with the rest of the package -----------------------------------------------------


def test_datasets_networks_and_losses_are_those_there_are():
    assert set(spec.TRAINING_EXAMPLES) == set(spec.IMAGE_SHAPE) == set(data.NAMES)
    assert set(spec.MODELS) == set(models.NETWORKS)
    assert set(spec.LOSSES) == set(losses.LOSSES)


@pytest.mark.parametrize(
    "name",
    [
        "mnist-5k",
        *(
            pytest.param(name, marks=pytest.mark.data)
            for name in ("mnist", "fashion-mnist", "cifar-10")
        ),
    ],
)
def test_the_number_and_shape_of_examples_are_those_of_the_data(name):
    if name != "mnist-5k" and data.find(name) is None:
        pytest.skip(f"{name} is not on this machine")
    images = data.load(name, download=False).train_images
    assert len(images) == spec.TRAINING_EXAMPLES[name]
    assert images.shape[1:] == spec.IMAGE_SHAPE[name]


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({}, 117),  # 117.19
        ({"batch": 256, "dataset": "mnist-5k"}, 16),  # 15.63
        ({"batch": 4_000, "dataset": "mnist-5k"}, 1),
        ({"batch": 3_000, "dataset": "mnist-5k"}, 1),
        ({"batch": 512, "dataset": "cifar-10", "model": "tempered-cifar"}, 98),  # 97.66
    ],
)
def test_an_epoch_of_poisson_sampling_expects_to_see_each_example_about_once(fields, steps):
    run = Run(**fields)
    assert run.steps_per_epoch == steps
    assert run.sampling_probability == run.batch / run.examples
    assert abs(steps * run.sampling_probability - 1) <= run.sampling_probability / 2


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(["mnist", "mnist-5k"]), st.integers(1, 4_000))
def test_an_epoch_of_shuffled_batches_never_needs_an_example_twice(dataset, batch):
    run = Run(dataset=dataset, batch=batch, sampling="shuffled")
    assert run.examples - batch < run.steps_per_epoch * batch <= run.examples
