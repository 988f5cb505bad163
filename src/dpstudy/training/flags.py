"""JAX's settings that a run's numbers depend on: stored under one identity, they must be one."""

from __future__ import annotations

import jax

from dpstudy.errors import UserError

# Importing it has products keep all digits.
from dpstudy.gradients import devices  # noqa: F401

_WANTED = {
    "jax_enable_x64": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_default_matmul_precision": "highest",
}


def check_flags() -> None:
    """Refuse to train a run where it would have other numbers than on other machines.

    Raises:
        UserError: a setting of JAX, of the environment or of the program, is another.
    """
    for name, wanted in _WANTED.items():
        found = getattr(jax.config, name)
        if found != wanted:
            raise UserError(
                f"runs are trained with {name} = {wanted}, got {found}: their numbers depend on it"
            )
