"""The recipe of the study's own: trained by one command, kept in a file, read by a script."""

import io
import json
import os
import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from results_for_tests import dpstudy

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.parts.data import images
from dpstudy.parts.part import SpecError
from dpstudy.privacy import accounting
from dpstudy.recipe import model as models
from dpstudy.recipe.features import SyntheticFeatures
from dpstudy.recipe.run import recipe_at


@pytest.fixture(scope="module", autouse=True)
def coarse():
    """To find the noise is a good part of what there is to do; here to a tenth of a per mille."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "_INTERVAL", 5 * accounting._INTERVAL)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "digits.npz"
    done = dpstudy("recipe", "mnist-5k", "--epsilon", "3", "--save", str(path), "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1]), path


def test_the_script_of_the_book_trains_it_on_arrays_as_the_command_does(trained, capsys):
    report, _ = trained
    script = Path(__file__).parents[1] / "book" / "own_images.py"
    made = runpy.run_path(str(script))
    accuracy = float(re.search(r"test accuracy (\d\.\d+)", capsys.readouterr().out)[1])
    # Of 1,000 images; the two draw other noise.
    assert accuracy == pytest.approx(report["test_accuracy"], abs=0.012)
    run = recipe_at("mnist-5k", 3.0)
    assert made["spent"] == {
        "sampling_probability": run.sampling_probability,
        "steps": run.epochs * run.steps_per_epoch,
        "delta": run.delta,
    }
    assert made["sigma"] == run.mechanism.noise_multiplier
    assert made["gradient"].sensitivity == run.mechanism.sensitivity
    assert made["features"] == run.dataset


def test_a_saved_model_classifies_images_as_accurately_as_was_said(trained):
    report, path = trained
    data = images.load("mnist-5k")
    right = models.load(path).classify(data.test_images) == data.test_labels
    # A logit is rounded otherwise here: at most an image in a thousand may change sides.
    assert np.mean(right) == pytest.approx(report["test_accuracy"], abs=0.0011)
    assert report["test_accuracy"] > 0.96
    assert report["seconds"] < 300  # Where it has the machine for itself, half a minute.


def test_its_epsilon_is_that_of_its_noise_and_batches(trained):
    report, _ = trained
    spent = accounting.epsilon(
        noise_multiplier=report["noise_multiplier"],
        sampling_probability=1_024 / 4_000,
        steps=60 * 4,
        delta=1e-5,
        release_noise=20.0,
    )
    assert report["epsilon"] == pytest.approx(spent, rel=1e-5)
    assert 2.99 < spent <= 3


def test_a_seed_is_of_everything_that_is_drawn():
    run = recipe_at("mnist-5k", 3.0, seed=4)
    assert run.seed == run.dataset.drawn == 4


def test_steps_are_shorter_where_there_is_more_noise(monkeypatch):
    # To find the noise takes seconds, and the rate does not depend on it.
    monkeypatch.setattr("dpstudy.privacy.accounting.noise_multiplier_for", lambda *_, **__: 1.0)
    rates = [recipe_at("mnist-5k", at).optimizer.learning_rate for at in (1.0, 3.0, 8.0, 9.0)]
    assert rates == pytest.approx([4 / 3, 4, 32 / 3, 32 / 3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist-6k", "--epsilon", "3"], "mnist-6k"),
        (["mnist-5k", "--epsilon", "0"], "epsilon must be > 0"),
        (["mnist-5k", "--epsilon", "0.1"], "epsilon must be above 0.16"),
        (["mnist-5k", "--epsilon", "3", "--seed", "-1"], "-1 is not in the range 0<=x<=2147483647"),
        *(
            (["mnist-5k", "--epsilon", "3", "--save", place], message)
            for place, message in (
                ("/dev/null/model.npz", "cannot be written (Not a directory)"),
                ("/dev/null", "/dev/null is there already: name another file, or remove it first"),
                ("", ". is there already"),
                (__file__, "is there already"),
                (f"{'n' * 256}.npz", "cannot be written (File name too long)"),
            )
        ),
    ],
)
def test_mistakes_are_one_line_before_anything_is_trained(arguments, message, monkeypatch):
    monkeypatch.delattr("under_the_clip.commands.privacy._train_head")
    done = dpstudy("recipe", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_images_of_another_shape_are_refused(trained):
    _, path = trained
    model = models.load(path)
    with pytest.raises(SpecError, match=r"0 to 255, of shape \(n, 28, 28, 1\), got float"):
        model.classify(np.zeros((2, 28, 28, 1)))
    with pytest.raises(SpecError, match=r"got uint8 of shape \(2, 32, 32, 1\)"):
        model.features.components_of(model.features.basis(), np.zeros((2, 32, 32, 1), np.uint8))


def test_a_basis_that_came_out_otherwise_is_refused(trained):
    _, path = trained
    model = models.load(path)
    other = replace(model, witness=model.witness * np.where(np.arange(1_000) % 10, 1, -1))
    with pytest.raises(DataError, match="not those that the model was trained on: copy"):
        other.classify(images.load("mnist-5k").test_images[:1])


def sealed(path, content):
    """Write bytes, or arrays by name, under a checksum that is right."""
    with path.open("w+b") as stream:
        if isinstance(content, bytes):
            stream.write(content)
        else:
            np.savez(stream, **content)
        files.seal(stream)
    return path


def array(shape, kind="<f4"):
    """An array's file, but for its content, which would be terabytes."""
    stream = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize(
    "content",
    [b"", b"no model", {"kernel": np.zeros(3)}, array((3,)) + bytes(12), array((10**13,))],
)
def test_a_file_that_is_no_model_is_refused(content, seal, tmp_path):
    path = sealed(tmp_path / "model.npz", content)
    if not seal:
        os.truncate(path, path.stat().st_size - 32)
    with pytest.raises(DataError, match=r"^[^\n]* is no model of `dpstudy recipe` \([^\n]*\)$"):
        models.load(path)
    with pytest.raises(DataError, match="no such file"):
        models.load(tmp_path / "mistyped.npz")


def test_a_pipe_is_no_model_and_nothing_kept(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # Whoever opens it waits for a writer.
    with pytest.raises(DataError, match="not a regular file"):
        models.load(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"cannot be read \(not a regular file\); delete it"):
        files.found_in_cache(tmp_path / "pipe", Path.read_bytes)


TINY = SyntheticFeatures("mnist-5k", "both", 12, components=4, small=2, large=2)
ARRAYS = {"kernel": (4, 10), "mean": (4,), "witness": (4,)}


def tiny():
    """A model of few numbers, whose basis nobody computes."""
    return models.Model(TINY, *(np.ones(shape, np.float32) for shape in ARRAYS.values()))


def test_a_model_with_any_bit_flipped_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    tiny().save(path)
    whole = path.read_bytes()
    assert models.load(path).features == TINY
    for position in range(0, len(whole), 7):
        content = bytearray(whole)
        content[position] ^= 1 << position % 8
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"is no model of `dpstudy recipe` \(.*checksum"):
            models.load(path)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "change",
    [
        lambda right: right[:-1],
        lambda right: right[None],
        lambda right: right.astype(np.int32),
        lambda right: right.astype("U4"),
        lambda right: right * np.nan,
    ],
)
def test_a_model_of_wrong_shapes_or_types_is_refused(name, change, tmp_path):
    wrong = change(np.ones(ARRAYS[name], np.float32))
    arrays = {other: getattr(tiny(), other) for other in ARRAYS} | {name: wrong}
    path = sealed(tmp_path / "m.npz", {"features": json.dumps(TINY.to_dict()), **arrays})
    with pytest.raises(DataError, match=rf"is no model of `dpstudy recipe` \({name} must be"):
        models.load(path)


def test_saving_a_model_replaces_nothing(tmp_path):
    tiny().save(tmp_path / "model.npz")
    with pytest.raises(DataError, match=r"model.npz is there already: name another file"):
        tiny().save(tmp_path / "model.npz")
    tiny().save(tmp_path / f"{'n' * 251}.npz")
