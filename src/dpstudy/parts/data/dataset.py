"""Datasets as parts: how one is loaded, and prepared inside the compiled program.

Features that take minutes are kept in the user's cache, whole or not at all, under a checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float16, UInt8

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.gradients import devices
from dpstudy.parts.data import images
from dpstudy.parts.data.images import DATASETS, IMAGE_SHAPE, TRAINING_EXAMPLES
from dpstudy.parts.part import Part, SpecError, choose, part

# Means and standard deviations by channel, public constants: of red, green and blue as torchvision
# has them for ImageNet; of MNIST's grey as PyTorch's examples do.
NORMALIZATIONS = {
    "": ((0.0,), (1.0,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "mnist": ((0.1307,), (0.3081,)),
}
# Test examples that are evaluated together. Intermediates of larger batches leave a core's cache,
# and take half as long again or more.
AT_ONCE = 100


class Data(Part):
    """A training and a test set, made of the images of that `name`.

    `held_out` training examples, evenly spread, are held out of training and stand in for the test
    set: settings chosen by them have not seen it. Of the rest the first `only` are trained on, by
    default all.
    """

    name: str
    held_out: int
    only: int = 0

    @property
    def examples(self) -> int:
        """The number of training examples, without those held out."""
        return self.only or TRAINING_EXAMPLES[self.name] - self.held_out

    def check_held_out(self) -> None:
        """Raise SpecError unless so many training examples can be held out, and evaluated."""
        examples, count = TRAINING_EXAMPLES[self.name], self.held_out
        if count and (count < 0 or examples % count or count % AT_ONCE):
            raise SpecError(
                f"held_out must divide the {examples} training examples, and be a multiple of "
                f"{AT_ONCE}, got {count}"
            )

    @property
    def image_shape(self) -> tuple[int, ...]:
        """The shape of what `prepare` returns for one example."""
        raise NotImplementedError

    @property
    def release_noise(self) -> float | None:
        """Noise over sensitivity of what is released of the training set before the first step.

        As of one Gaussian mechanism on all examples; None where nothing is released.
        """
        return None

    @property
    def leaks(self) -> bool:
        """Whether features are fitted to private images without noise. Then there is no epsilon."""
        return False

    @property
    def draws(self) -> bool:
        """Whether something of it is drawn, so that noise must be drawn by another key."""
        return False

    def at_seed(self, seed: int) -> Data:
        """Return the dataset of the run with that `seed`: the same, unless the dataset is drawn."""
        return self

    def load(self) -> images.Dataset:
        """Return the arrays as they are stored.

        Raises:
            DataError: they are not on this machine, and cannot be downloaded.
        """
        raise NotImplementedError

    def prepare(self, stored: Array) -> Float[Array, "batch *image"]:
        """Return a batch, as it is stored, as the floats that a network is given."""
        raise NotImplementedError


@part("images")
class Images(Data):
    """Images as they are.

        >>> data = Images("cifar-10", held_out=5_000)
        >>> data.examples, data.image_shape
        (45000, (32, 32, 3))
        >>> data.prepare(np.uint8([[[[0, 255]]]])).tolist()
        [[[[0.0, 1.0]]]]

    `name` is of `DATASETS`. Pixels are scaled to [0, 1]; a `normalization` of `NORMALIZATIONS` then
    takes away a mean, and divides by a standard deviation.
    """

    name: str = "mnist"
    normalization: str = ""
    held_out: int = 0

    def check(self) -> None:
        choose("dataset", self.name, DATASETS)
        choose("normalization", self.normalization, NORMALIZATIONS)
        colours = len(NORMALIZATIONS[self.normalization][0])
        if self.normalization and self.image_shape[-1] != colours:
            raise SpecError(
                f"normalization {self.normalization!r} is for {colours} colours; {self.name!r} has "
                f"{self.image_shape[-1]}"
            )
        self.check_held_out()

    @property
    def image_shape(self) -> tuple[int, ...]:
        return IMAGE_SHAPE[self.name]

    def load(self) -> images.Dataset:
        return hold_out(images.load(self.name), self.held_out)

    def prepare(self, stored: UInt8[Array, "batch h w c"]) -> Float[Array, "batch h w c"]:
        pixels = stored.astype(jnp.float32) / 255
        if not self.normalization:
            return pixels
        mean, deviation = NORMALIZATIONS[self.normalization]
        return (pixels - jnp.array(mean)) / jnp.array(deviation)


def hold_out(whole: images.Dataset, count: int) -> images.Dataset:
    """Return the dataset with so many training examples, evenly spread, in the test set's place."""
    if not count:
        return whole
    pixels, labels = whole.train_images, whole.train_labels
    every = len(labels) // count
    out = np.arange(len(labels)) % every == every - 1
    held = {"test_images": pixels[out], "test_labels": labels[out]}
    return replace(whole, train_images=pixels[~out], train_labels=labels[~out], **held)


def kept(
    path: Path, shape: tuple[int, ...], compute: Callable[[], Iterable[np.ndarray]]
) -> Float16[np.ndarray, "n *features"]:
    """Return the array of a file of the cache, read-only and mapped into memory.

    A file that is not there whole, or is of another shape, is written anew: `compute` yields the
    array's rows, some at a time, since all at once take gigabytes. DataError where it cannot be
    read or written.
    """
    if (found := _read(path, shape)) is None:
        _write(path, shape, compute())
        if (found := _read(path, shape)) is None:
            raise DataError(f"{path}: is not what was just written to it; delete it and try again")
    return found


def _read(path: Path, shape: tuple[int, ...]) -> Float16[np.ndarray, "n *features"] | None:
    def read(path: Path) -> np.ndarray:
        mapped = np.lib.format.open_memmap(path, mode="r")
        if mapped.shape != shape or mapped.dtype != np.float16:
            raise ValueError("another array")
        return np.asarray(mapped)

    return files.found_in_cache(path, read)


def _write(path: Path, shape: tuple[int, ...], rows: Iterable[np.ndarray]) -> None:
    header = {"descr": np.dtype(np.float16).str, "fortran_order": False, "shape": shape}
    with files.kept_in_cache(path) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for part in rows:
            stream.write(part.astype(np.float16).tobytes())
        files.seal(stream)


def of_each_image(
    arrays: Sequence[np.ndarray],
    function: Callable[[np.ndarray], np.ndarray],
    what: str,
    batch: int,
) -> Iterator[np.ndarray]:
    """Yield a function of images, array by array, with a bar: a batch a core at a time.

    XLA alone divides small products badly among cores.
    """
    from dpstudy.progress import tqdm

    parts = [pixels[at : at + batch] for pixels in arrays for at in range(0, len(pixels), batch)]
    total, cores = sum(map(len, parts)), devices.available_cores()
    with tqdm(desc=what, total=total, unit="image") as bar, ThreadPoolExecutor(cores) as pool:
        for at in range(0, len(parts), 2 * cores):
            some = parts[at : at + 2 * cores]  # What is done waits in memory for what comes before.
            for found in pool.map(lambda part: np.asarray(function(part)), some):
                yield found
                bar.update(len(found))
