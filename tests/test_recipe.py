"""The recipe of the study's own: trained by one command, kept in a file, read by a script."""

import io
import json
import os
import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from PIL import Image
from results_for_tests import dpstudy

from dpstudy import files
from dpstudy.errors import DataError, UserError
from dpstudy.parts.data import images
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import accounting
from dpstudy.privacy.statement import statement
from dpstudy.recipe import (
    PrivacyWarning,
    PrivateImageClassifier,
    load,
    on_dataset,
    patch_features,
    pictures,
)
from dpstudy.recipe import model as models
from dpstudy.recipe import run as of_the_study
from dpstudy.recipe.features import SyntheticFeatures
from dpstudy.recipe.folded import Folded
from dpstudy.recipe.mixture import Mixture
from dpstudy.recipe.run import FILTERS, latest, recipe, recipe_at
from dpstudy.recipe.whitened import OWN


@pytest.fixture(scope="module", autouse=True)
def small():
    """Features an eighth as large, and noise found to a tenth of a per mille."""
    features = {"synthetic": 300, "small": 40, "large": 10, "components": 200}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "_INTERVAL", 5 * accounting._INTERVAL)
        patch.setattr(of_the_study, "_SMALL", features)
        patch.setattr(patch_features, "PATCHES", 10_000)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "digits.npz"
    done = dpstudy("recipe", "mnist-5k", "--epsilon", "3", "--save", str(path), "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1]), path


@pytest.mark.smoke
def test_the_script_of_the_book_trains_on_arrays(capsys, monkeypatch):
    fit = PrivateImageClassifier.fit
    monkeypatch.setattr(  # Its features at full size take minutes.
        PrivateImageClassifier,
        "fit",
        lambda self, *given: fit(self.set_params(features="mnist-5k"), *given),
    )
    script = Path(__file__).parents[1] / "book" / "own_images.py"
    made = runpy.run_path(str(script))
    said = capsys.readouterr().out
    assert float(re.search(r"accuracy (\d\.\d+)", said)[1]) > 0.92
    assert "differential privacy" in said
    assert made["model"].epsilon_ <= 3


@pytest.mark.smoke
def test_a_saved_model_classifies_images_as_accurately_as_was_said(trained):
    report, path = trained
    data = images.load("mnist-5k")
    right = load(path).predict(data.test_images) == data.test_labels
    # A logit is rounded otherwise here: at most an image in a thousand may change sides.
    assert np.mean(right) == pytest.approx(report["test_accuracy"], abs=0.0011)
    assert report["test_accuracy"] > 0.92
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


def test_a_secret_seed_draws_noise_and_batches_alone(trained):
    report, path = trained
    assert load(path).model_.features == recipe("mnist-5k").dataset
    assert "secret seed" in report["statement"]["randomness"]
    assert "seed" not in json.dumps(report["statement"]["numbers"])
    settings = on_dataset.settings_of(recipe_at("mnist-5k", 3.0))
    assert report["statement"]["numbers"] == settings.spent
    assert report["statement"]["searched"] == statement(recipe("mnist-5k")).searched


def test_a_seed_of_noise_is_in_no_file_and_is_warned_of(monkeypatch):
    def stopped(run, *, seed, secure):
        assert (run.dataset, seed) == (recipe("mnist-5k").dataset, 7)
        with pytest.warns(PrivacyWarning, match="seed = 7 draws the noise"):
            trained(run, seed=seed, secure=secure)

    trained = on_dataset.train
    monkeypatch.setattr(on_dataset, "train", stopped)
    monkeypatch.setattr(images, "load", mock.Mock(side_effect=UserError("warned enough")))
    done = dpstudy("recipe", "mnist-5k", "--epsilon", "3", "--seed", "7")
    assert done.stderr.endswith("warned enough\n")
    with pytest.raises(SpecError, match="names what drew its features, 7"):
        trained(recipe("mnist-5k").at_seed(7), seed=7)


def test_features_fitted_to_private_images_are_not_trained_on():
    leaking = vary(recipe("mnist-5k"), scenes=OWN)
    with pytest.raises(SpecError, match="fitted to no private image"):
        on_dataset.train(leaking)


def test_a_seed_is_of_everything_that_is_drawn():
    run = recipe_at("mnist-5k", 3.0, seed=4)
    assert run.seed == run.dataset.drawn == 4


def test_steps_are_shorter_where_there_is_more_noise(monkeypatch):
    # To find the noise takes seconds, and the rate does not depend on it.
    monkeypatch.setattr("dpstudy.privacy.accounting.noise_multiplier_for", lambda *_, **__: 1.0)
    rates = [recipe_at("mnist-5k", at).optimizer.learning_rate for at in (1.0, 3.0, 8.0, 9.0)]
    assert rates == pytest.approx([4 / 3, 4, 32 / 3, 32 / 3])


def test_of_photographs_there_may_be_more_or_fewer_filters():
    of = {filters: latest("cifar-10", filters) for filters in (None, FILTERS, 150, 1_200)}
    assert of[None] == of[FILTERS]
    for filters in (150, 1_200):
        patches, colours = of[filters].dataset.blocks
        assert (patches.small + patches.large, patches.small) == (filters, 4 * patches.large)
        assert (
            replace(patches, small=480, large=120, components=6_000) == of[None].dataset.blocks[0]
        )
        assert colours == of[None].dataset.blocks[1]
        assert of[filters].network.inputs == of[filters].dataset.image_shape[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["mnist-6k", "--epsilon", "3"],
            "mnist-6k is no folder or file here, and none of the data",
        ),
        (["", "--epsilon", "3"], "SOURCE is empty"),
        (["mnist-5k"], "--epsilon is missing"),
        (["mnist-5k", "--epsilon", "3", "--delta", "2"], "delta must be in (0, 1), got 2"),
        (["mnist-5k", "--epsilon", "3", "--classify"], "name pictures after --classify"),
        (["mnist-5k", "one.png", "--epsilon", "3"], "name pictures after --classify"),
        (["mnist-5k", "--epsilon", "3", "--classify", "1.png"], "1.png: there is no such file"),
        (["mnist-5k", "--epsilon", "3", "--test", "x"], "has a test set and features of its own"),
        (
            [__file__, "--classify", "1.png"],
            f"spent; if {__file__} is a model, it was altered or cut",
        ),
        ([__file__, "--epsilon", "3"], "is no .npz file of arrays"),
        ([str(Path(__file__).parent), "--epsilon", "3"], "no folders in it with pictures"),
        (["mnist-5k", "--epsilon", "0"], "epsilon must be > 0"),
        (
            ["mnist-5k", "--epsilon", "3", "--filters", "600"],
            "chosen for cifar-10 alone, not for mnist-5k",
        ),
        (["cifar-10", "--epsilon", "3", "--filters", "5001"], "10 to 5,000, got 5001"),
        (["mnist-5k", "--epsilon", "3", "--seed", "1", "--secure"], "leave --seed out"),
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
    monkeypatch.delattr("dpstudy.recipe.on_dataset.train")
    monkeypatch.setattr(SyntheticFeatures, "vectors", None)
    done = dpstudy("recipe", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_images_of_another_shape_are_refused(trained):
    model = models.load(trained[1])
    with pytest.raises(SpecError, match=r"0 to 255, of shape \(n, 28, 28, 1\), got float"):
        model.scores(np.zeros((2, 28, 28, 1)))
    with pytest.raises(SpecError, match=r"got uint8 of shape \(2, 32, 32, 1\)"):
        model.scores(np.zeros((2, 32, 32, 1), np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of noughts and ones, of 20 to train on and 10 others of each."""
    data, root = images.load("mnist-5k"), tmp_path_factory.mktemp("digits")
    for digit in (0, 1):
        for number, at in enumerate(np.flatnonzero(data.train_labels == digit)[:30]):
            place = root / ("test" if number >= 20 else "train") / f"digit {digit}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(data.train_images[at, ..., 0]).save(place / f"{number}.png")
    return root


def test_a_folder_of_pictures_is_trained_on_kept_and_used(folder, tmp_path, trained):
    others = [str(folder / "test" / f"digit {digit}" / "24.png") for digit in (0, 1)]
    what = [str(folder), "--epsilon", "100", "--features", "mnist-5k"]
    kept = str(tmp_path / "model.npz")
    done = dpstudy("recipe", *what, "--save", kept, "--json", "--classify", *others)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["test_accuracy"] > 0.8
    assert said["epsilon"] <= 100 and said["delta"] == 1e-5
    labels = [one["label"] for one in said["classified"]]
    assert labels == ["digit 0", "digit 1"]
    assert said["statement"]["epsilon"] == said["epsilon"]
    assert "the number of examples and which classes" in said["statement"]["not_covered"][0]
    done = dpstudy("recipe", kept, "--classify", *others)
    assert done.exit_code == 0, done.output
    for name, line in zip(others, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{name}: {Path(name).parent.name} (")
    assert "is a trained model" in dpstudy("recipe", kept, "--epsilon", "3").stderr
    more = dpstudy("recipe", kept, "--seed", "3", "--classify", *others)
    assert "give it --classify, pictures and nothing else" in more.stderr


@pytest.mark.parametrize("of", ["the test set", "--classify"])
def test_a_picture_that_is_cut_short_is_told_before_anything_is_trained(
    of, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(SyntheticFeatures, "vectors", None)
    shutil.copytree(folder, tmp_path / "digits")
    cut = tmp_path / "digits/test/digit 0/24.png"
    cut.write_bytes(cut.read_bytes()[:100])
    what = [str(folder), "--classify", str(cut)]
    what = what if of == "--classify" else [str(tmp_path / "digits")]
    done = dpstudy("recipe", *what, "--epsilon", "3", "--features", "mnist-5k")
    assert done.exit_code == 2 and "24.png: is no picture (" in done.stderr


def test_a_model_is_kept_though_nothing_can_be_printed(folder, tmp_path, monkeypatch):
    kept = tmp_path / "model.npz"
    monkeypatch.setattr("under_the_clip.commands.recipe._in_words", mock.Mock(side_effect=OSError))
    what = [str(folder / "train"), "--epsilon", "100", "--features", "mnist-5k"]
    dpstudy("recipe", *what, "--save", str(kept))
    assert kept.is_file()


def test_a_model_is_kept_beside_what_was_put_in_its_place_during_the_training(
    folder, tmp_path, monkeypatch
):
    kept, of_source = tmp_path / "model.npz", pictures.of_source

    def meanwhile(source):
        kept.write_text("another's")
        return of_source(source)

    monkeypatch.setattr(pictures, "of_source", meanwhile)
    what = [str(folder / "train"), "--epsilon", "100", "--features", "mnist-5k"]
    done = dpstudy("recipe", *what, "--save", str(kept))
    assert "the model is in" in done.stdout and "model-2.npz" in done.stdout, done.output
    assert kept.read_text() == "another's"
    assert models.load(tmp_path / "model-2.npz").classes == ("digit 0", "digit 1")


def test_a_seed_of_ones_own_pictures_and_too_few_of_them_are_warned_of(folder, monkeypatch):
    stopped = mock.Mock(side_effect=UserError("enough"))
    monkeypatch.setattr(SyntheticFeatures, "vectors", stopped)
    what = [str(folder / "train"), "--epsilon", "0.1", "--features", "mnist-5k", "--seed", "3"]
    few, seed, _ = dpstudy("recipe", *what).stderr.splitlines()[-3:]
    assert few.startswith("dpstudy: warning: 40 images of 2 classes are too few for an epsilon of")
    assert seed.startswith("dpstudy: warning: random_state = 3 draws the noise")


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
# Of 72 features; outputs are ten scores, what the mean makes, and four components.
BLOCK = {"scale": (72,), "maps": (72, 15), "offset": (15,), "witness": (1, 15)}
ABOUT = (tuple(range(10)), statement(Run(epochs=1)))


def tiny(features=TINY, blocks=1):
    """A model of few numbers, whose basis nobody computes."""
    block = Folded((), *(np.ones(shape, np.float32) for shape in BLOCK.values()))
    seen = np.zeros((1, 28, 28, 1), np.uint8)
    return models.Model(features, blocks * (block,), np.ones(11, np.float32), seen, *ABOUT)


def test_a_model_with_any_bit_flipped_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    tiny().save(path)
    whole = path.read_bytes()
    assert models.load(path).features == TINY
    for position in range(0, len(whole), 7):
        content = bytearray(whole)
        content[position] ^= 1 << position % 8
        path.unlink()  # to write over a file waits for the disk
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"is no model of `dpstudy recipe` \(.*checksum"):
            models.load(path)


@pytest.mark.parametrize("name", [*BLOCK, "at_mean"])
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
    tiny().save(tmp_path / "right.npz")
    with np.load(tmp_path / "right.npz") as stored:
        arrays = dict(stored)
    name_there = name if name in arrays else f"block_0_{name}"
    arrays[name_there] = change(arrays[name_there])
    path = sealed(tmp_path / "m.npz", arrays)
    with pytest.raises(DataError, match=rf"is no model of `dpstudy recipe` \({name} must be"):
        models.load(path)


def test_a_model_may_have_any_drawn_features(tmp_path):
    both = Mixture("mnist-5k", blocks=(TINY, TINY), shares=(0.5, 0.5))
    tiny(both, 2).save(tmp_path / "model.npz")
    assert models.load(tmp_path / "model.npz").features == both
    with pytest.raises(SpecError, match="2 blocks of features, and 1"):
        tiny(both, 1)


def test_saving_a_model_replaces_nothing(tmp_path):
    tiny().save(tmp_path / "model.npz")
    with pytest.raises(DataError, match=r"model.npz is there already: name another file"):
        tiny().save(tmp_path / "model.npz")
    tiny().save(tmp_path / f"{'n' * 251}.npz")
