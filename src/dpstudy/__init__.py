"""Differentially private SGD in JAX: fast, exact, accounted for, and made for studies.

For one's own network: `private_gradient`, `poisson`, `gaussian_noise`; the noise multiplier for a
wanted epsilon is `dpstudy.privacy.accounting.noise_multiplier_for`.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "private_gradient": "dpstudy.training.own_network",
    "PrivateGradient": "dpstudy.training.own_network",
    "poisson": "dpstudy.parts.sampling",
    "gaussian_noise": "dpstudy.parts.mechanism",
    "statement": "dpstudy.privacy.statement",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    # On demand: the command line and the reading side start without jax.
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
