"""Blocks of features side by side, each whitened and of norm 1: a sum of kernels, by shares."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from jaxtyping import Float16

from dpstudy.parts.data import images
from dpstudy.parts.part import SpecError, checked, part, static
from dpstudy.recipe.whitened import Drawn, Pixels, Whitened


@part("mixture")
class Mixture(Drawn):
    """Images as blocks of features, of which each has its share of an example's squared norm.

    The noise of a linear head's score does not depend on how many features there are: only on how
    alike two examples are, which is the mean of what they are in each block, weighted by `shares`.
    `name` and `drawn` are those of all blocks, whatever they say themselves.

    >>> from dpstudy.recipe.features import ColourFeatures, SyntheticFeatures
    >>> two = Mixture(blocks=(SyntheticFeatures(), ColourFeatures()), shares=(0.9, 0.1))
    >>> two.image_shape
    (9500,)
    """

    name: str = "cifar-10"
    blocks: tuple[Drawn, ...] = ()
    shares: tuple[float, ...] = static(())
    drawn: int = 0
    released: float = static(0.0)
    held_out: int = 0

    def check(self) -> None:
        self.check_drawn()
        if not self.blocks or len(self.shares) != len(self.blocks):
            raise SpecError(
                f"shares must be as many as blocks, at least one, got {len(self.shares)} and "
                f"{len(self.blocks)}"
            )
        if min(self.shares) <= 0 or abs(sum(self.shares) - 1) > 1e-6:
            raise SpecError(f"shares must be above 0, together 1, got {self.shares}")
        for block in self.own_blocks:
            checked(block)
            if block.leaks or block.released or block.held_out or block.only:
                raise SpecError("a block of a mixture releases and holds out nothing by itself")

    @cached_property
    def own_blocks(self) -> tuple[Drawn, ...]:
        """The blocks, of this dataset and by this seed."""
        return tuple(replace(one, name=self.name, drawn=self.drawn) for one in self.blocks)

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (sum(block.image_shape[0] for block in self.blocks),)

    @property
    def weighted_blocks(self) -> tuple[tuple[Whitened, float], ...]:
        return tuple(
            (part, share * own)
            for block, share in zip(self.own_blocks, self.shares, strict=True)
            for part, own in block.weighted_blocks
        )

    def vectors_of(self, whole: images.Dataset) -> Float16[np.ndarray, "n k"]:
        count = len(whole.train_images) + len(whole.test_images)
        return self._mixed(count, lambda block: block.vectors_of(whole))

    def vectors(self, pixels: Pixels) -> Float16[np.ndarray, "n k"]:
        return self._mixed(len(pixels), lambda block: block.vectors(pixels))

    def _mixed(
        self, count: int, of: Callable[[Drawn], Float16[np.ndarray, "n part"]]
    ) -> Float16[np.ndarray, "n k"]:
        found, start = np.empty((count, *self.image_shape), np.float16), 0
        # One block after the other: all of their vectors together take gigabytes once more.
        for block, share in zip(self.own_blocks, self.shares, strict=True):
            end = start + block.image_shape[0]
            np.multiply(of(block), np.float16(np.sqrt(share)), out=found[:, start:end])
            start = end
        return found
