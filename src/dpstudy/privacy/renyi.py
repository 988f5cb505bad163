"""Rényi divergences of steps of the Poisson-sampled Gaussian mechanism, by dp-accounting."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import dp_accounting
import numpy as np
from absl import logging as absl_logging
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS
from jaxtyping import Float

ORDERS: tuple[float, ...] = tuple(DEFAULT_RDP_ORDERS)
# `orders` of tensorflow/privacy, tutorials/mnist_dpsgd_tutorial.py, 2019: all are among the others.
ORDERS_2019: tuple[float, ...] = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))


def event(q: float, sigma: float, steps: int, release: float | None) -> dp_accounting.DpEvent:
    """Return steps after a Gaussian release, if there is one, as dp-accounting has them.

    Steps have a sampling probability `q` and noise multiplier `sigma`; the release has its own.
    """
    parts = [dp_accounting.SelfComposedDpEvent(_step(q, sigma), steps)] if steps else []
    parts += [dp_accounting.GaussianDpEvent(release)] if release else []
    return dp_accounting.ComposedDpEvent(parts)


def divergence(
    q: float, sigma: float, steps: int, release: float | None, orders: tuple[float, ...] = ORDERS
) -> tuple[Float[np.ndarray, " orders"], Float[np.ndarray, " orders"]]:
    """Return orders and the divergence of each, of some infinite; see `event`."""
    one_step = _of_one_step(q, sigma) if steps else dict.fromkeys(orders, 0.0)
    found = steps * np.array([one_step[order] for order in orders])
    if release:
        found = found + np.array(orders) / (2 * release**2)  # Mironov 2017, Prop. 7
    return np.array(orders), found


@contextmanager
def quiet() -> Iterator[None]:
    """Leave "excluding this order" unsaid: without an order a bound is looser, and holds."""
    verbosity = absl_logging.get_verbosity()
    absl_logging.set_verbosity(absl_logging.ERROR)
    try:
        yield
    finally:
        absl_logging.set_verbosity(verbosity)


def _step(q: float, sigma: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))


@lru_cache(maxsize=64)
def _of_one_step(q: float, sigma: float) -> dict[float, float]:
    """Return the divergence of a step at each order: those of all accountants, computed once."""
    with quiet():
        found = RdpAccountant(ORDERS).compose(_step(q, sigma)).rdp
    return dict(zip(ORDERS, found, strict=True))
