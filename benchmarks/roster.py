"""Who takes part, by the name under which it is stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """One contestant.

    Attributes:
        module: its file in `peers/`.
        private: whether it clips and adds noise.
        variants: settings, each of which takes part; the best counts.
        fixed_batch: whether it trains on the examples that it is given.
        quick: whether it starts fast enough for a trial.
    """

    module: str
    private: bool = True
    variants: tuple[str, ...] = ("",)
    fixed_batch: bool = True
    quick: bool = True


# Examples in one pass of our inner loop.
MICROBATCHES = ("32", "8")
# The same with each core a device of its own, which share the examples.
SPREAD = tuple(f"{size}, a device a core" for size in MICROBATCHES)
LAYOUTS = ("channels first", "channels last")
OURS = "ours"
PEERS = {
    OURS: Peer("ours", variants=(*MICROBATCHES, *SPREAD)),
    "ours, with sampling": Peer(
        "ours_poisson", variants=(MICROBATCHES[0], *SPREAD), fixed_batch=False
    ),
    "ours, not private": Peer(
        "ours_non_private", private=False, variants=(*MICROBATCHES, *SPREAD, "whole batch")
    ),
    "vmap(grad)": Peer("vmap_grad"),
    "jax-privacy": Peer("jax_privacy_clipped_grad", variants=("whole batch", "16", "64")),
    "JAX, not private": Peer("jax_non_private", private=False),
    "Opacus, hooks": Peer("opacus_hooks"),
    "Opacus, ghost clipping": Peer("opacus_ghost"),
    "torch.func": Peer("torch_func", variants=("whole batch", "16", "64")),
    "PyTorch, not private": Peer("torch_non_private", private=False, variants=LAYOUTS),
    "PyTorch compiled, not private": Peer("torch_compiled", private=False, quick=False),
}
PRODUCTS = {"JAX": Peer("products_jax"), "PyTorch": Peer("products_torch")}
# What is undone in turn in our step; the names that `peers/ours_without.py` knows.
LESSONS = Peer(
    "ours_without",
    variants=(
        "nothing undone",
        "products for all convolutions",
        "full patches",
        "columns gathered anew for each use",
        "the library's convolution",
        "the library's pooling",
        "the whole batch in one pass",
    ),
)
