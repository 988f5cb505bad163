"""Pictures of any kind as arrays of one shape: what is made of them, and what is refused."""

import contextlib

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from dpstudy.errors import DataError
from dpstudy.parts.part import SpecError
from dpstudy.recipe import pictures
from dpstudy.recipe.pictures import PictureNote, as_pixels, in_colour, of_source

GREY, COLOUR = (28, 28, 1), (32, 32, 3)
RAMP = np.linspace(0, 255, 28 * 28).astype(np.uint8).reshape(28, 28)


def saved(path, array, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array, mode).save(path)
    return str(path)


@pytest.mark.parametrize("shape", [(3, 28, 28), (3, 28, 28, 1)])
def test_arrays_that_fit_are_left_as_they_are(shape, recwarn):
    given = np.broadcast_to(RAMP.reshape(1, *shape[1:]), shape)
    found = as_pixels(given, GREY, say=True)
    assert found.shape == (3, *GREY) and (found[..., 0] == RAMP).all()
    assert not recwarn


def test_files_and_arrays_are_the_same_picture(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    path = saved(tmp_path / "one.png", colours)
    of_file, of_array = as_pixels([path], COLOUR), as_pixels([colours], COLOUR)
    assert (of_file == of_array).all() and of_file.std() > 5
    assert (as_pixels(colours[None], COLOUR) == of_array).all()


def test_what_is_done_to_pictures_is_said(tmp_path):
    with pytest.warns(PictureNote, match="were made grey and resized: the features take 28 x 28"):
        as_pixels(np.zeros((2, 10, 12, 3), np.uint8), GREY, say=True)
    with pytest.warns(PictureNote, match="given three channels and resized.* 32 x 32 pixels, in c"):
        as_pixels([RAMP], COLOUR, say=True)


def test_a_flat_picture_stays_as_flat_and_a_grey_of_three_channels_alike():
    assert (as_pixels(np.full((1, 9, 9), 77, np.uint8), COLOUR) == 77).all()
    [red] = as_pixels(np.full((1, 28, 28, 3), (255, 0, 0), np.uint8), GREY)
    assert (red == 76).all()  # 0.299 of 255, its luminance


def test_sixteen_bits_are_scaled_and_what_is_transparent_is_on_white(tmp_path):
    deep = (RAMP.astype(np.uint16) * 257).astype(np.uint16)
    path = saved(tmp_path / "deep.png", deep)
    assert not in_colour([path])
    assert (as_pixels([path], GREY)[0, ..., 0] == RAMP).all()
    clear = saved(tmp_path / "clear.png", np.zeros((28, 28, 4), np.uint8), "RGBA")
    assert (as_pixels([clear], GREY) == 255).all()


def test_a_turned_photograph_is_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(RAMP).save(tmp_path / "turned.png", exif=exif)
    assert (as_pixels([tmp_path / "turned.png"], GREY)[0, ..., 0] == RAMP[::-1, ::-1]).all()


def test_any_colour_makes_all_coloured(tmp_path):
    grey = saved(tmp_path / "grey.png", RAMP)
    colour = saved(tmp_path / "colour.png", np.zeros((5, 5, 3), np.uint8))
    assert not in_colour([grey]) and in_colour([grey, colour])


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((2, 28, 28), np.float32),
        np.zeros((2, 28, 28, 2), np.uint8),
        np.zeros((2, 784), np.uint8),
        np.zeros((2, 0, 28), np.uint8),
        [np.zeros((28, 28), np.int64)],
        [7],
    ],
)
def test_arrays_that_are_no_pictures_are_refused(wrong):
    for reads in (lambda: as_pixels(wrong, GREY), lambda: in_colour(wrong)):
        with pytest.raises(SpecError, match=r"^pictures must be uint8[^\n]*$"):
            reads()


def test_files_that_are_no_pictures_are_refused_by_name(tmp_path):
    whole = saved(tmp_path / "a.png", np.random.default_rng(0).integers(0, 255, (99, 99), np.uint8))
    (tmp_path / "cut.png").write_bytes((tmp_path / "a.png").read_bytes()[:2_000])
    (tmp_path / "text.png").write_text("no picture")
    for name in ("cut.png", "text.png"):
        with pytest.raises(DataError, match=rf"{name}: is no picture \([^\n]*\)$"):
            as_pixels([whole, tmp_path / name], GREY)
    for reads in (in_colour, lambda one: as_pixels(one, GREY)):
        with pytest.raises(DataError, match=r"mistyped.png: there is no such file$"):
            reads([tmp_path / "mistyped.png"])
        with pytest.raises(DataError, match="not a regular file"):
            reads([tmp_path])


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_files_of_numbers_of_no_known_range_are_refused(kind, tmp_path):
    path = saved(tmp_path / "one.tif", kind(RAMP / 255))
    for reads in (in_colour, lambda one: as_pixels(one, GREY)):
        with pytest.raises(DataError, match=r"one.tif: is no picture \(numbers of 32 bits.*16\)$"):
            reads([path])


@pytest.mark.parametrize(
    "kind", [jnp.asarray, Image.fromarray, pd.Series], ids=["jax", "pillow", "pandas"]
)
def test_pictures_of_other_libraries_are_taken(kind, tmp_path):
    given = [str(saved(tmp_path / "one.png", RAMP))] if kind is pd.Series else RAMP
    several = kind(given) if kind is pd.Series else [kind(given)]
    assert not in_colour(several)
    assert (as_pixels(several, GREY)[0, ..., 0] == RAMP).all()


def test_a_folder_has_a_class_in_each_of_its_folders(tmp_path):
    for name in ("b/1.png", "b/2.PNG", "a/1.png", ".hidden/1.png", "a/.hidden.png"):
        saved(tmp_path / name, RAMP)
    data = of_source(tmp_path)
    assert data.labels == ["a", "b", "b"] and data.test is None
    assert [one.name for one in data.pictures] == ["1.png", "1.png", "2.PNG"]
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "readme.md").touch()
    (tmp_path / "c d").mkdir()
    with (
        pytest.warns(PictureNote, match="no picture in 'c d': no class"),
        pytest.warns(PictureNote, match="2 of what is in it are no pictures"),
    ):
        assert of_source(tmp_path).labels == data.labels


def test_a_folder_of_train_and_test_has_a_test_set(tmp_path):
    (tmp_path / ".hidden").mkdir()
    for name in ("train/a/1.png", "train/b/1.png", "test/b/1.png"):
        saved(tmp_path / name, RAMP)
    data = of_source(tmp_path)
    assert (data.labels, data.test.labels) == (["a", "b"], ["b"])


def test_a_file_has_images_and_labels_and_perhaps_a_test_set(tmp_path):
    images, labels = np.zeros((2, 28, 28), np.uint8), np.array([[3], [4]])
    np.savez(tmp_path / "a.npz", images=images, labels=labels)
    assert of_source(tmp_path / "a.npz").labels == [3, 4]
    both = {"x_train": images, "y_train": labels, "x_test": images[:1], "y_test": labels[:1]}
    np.savez(tmp_path / "b.npz", **both)
    data = of_source(tmp_path / "b.npz")
    assert (data.labels, data.test.labels, data.test.pictures.shape) == ([3, 4], [3], (1, 28, 28))


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (Image.fromarray(np.int32(RAMP)), "numbers of 32 bits"),
        (Image.fromarray(np.float32(RAMP) / 255), "numbers of 32 bits"),
        (Image.new("LAB", (8, 8)), "a picture of mode LAB is not read"),
    ],
)
def test_pictures_of_no_known_range_in_memory_are_refused_too(picture, message):
    with pytest.raises(SpecError, match=message):
        as_pixels([picture], GREY)


def test_a_picture_whose_reader_gives_up_is_refused_by_name(tmp_path):
    (tmp_path / "one.dds").write_bytes(b"DDS " + (124).to_bytes(4, "little") + bytes(120))
    with pytest.raises(DataError, match=r"one.dds: is no picture \("):
        as_pixels([tmp_path / "one.dds"], GREY)


def test_an_archive_with_any_byte_damaged_is_read_or_refused(tmp_path):
    path = tmp_path / "whole.npz"
    np.savez_compressed(path, images=np.stack([RAMP] * 2), labels=[0, 1])
    whole = path.read_bytes()
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        with contextlib.suppress(DataError):
            of_source(path)


def test_sources_that_cannot_be_read_are_refused(tmp_path):
    np.savez(tmp_path / "bytes.npz", images=np.stack([RAMP] * 2), labels=np.array([b"a", b"b"]))
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "one.npy", RAMP)
    np.savez(tmp_path / "others.npz", pixels=RAMP)
    np.savez(tmp_path / "objects.npz", images=np.array([RAMP, None], object), labels=[0, 1])
    (tmp_path / "text.npz").write_text("text")
    for name, message in {
        "empty": "no folders in it with pictures",
        "one.npy": "one array alone",
        "others.npz": "has no arrays called images and labels, ",
        "objects.npz": r"is no .npz file of arrays \(of texts or numbers; objects are not read\)$",
        "text.npz": "is no .npz file of arrays",
        "bytes.npz": r"labels must be numbers or texts, got \|S1",
        "mistyped": "there is no such folder or file",
    }.items():
        with pytest.raises(DataError, match=message):
            of_source(tmp_path / name)


def test_no_pictures_are_none():
    assert as_pixels([], COLOUR).shape == (0, *COLOUR)
    assert pictures.as_pixels(np.zeros((0, 28, 28), np.uint8), GREY).shape == (0, *GREY)
