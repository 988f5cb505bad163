"""Looking for a counterexample: many random cases, then uphill from the worst of them.

A statement "left side <= right side" is searched by what its sides are for one case. `search`
climbs by gradients; `search_box` serves sides that cannot be differentiated, such as an
accountant's epsilon. Both work in double precision and repeat themselves exactly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from scipy import optimize

from dpstudy.gradients import devices

Case = Any
"""A tree of arrays: what one counterexample would consist of."""
Sides = Callable[[Case], tuple[Array, Array]]
Draw = Callable[[np.random.Generator, int], Case]
"""From a generator and a number n to n random cases, along each array's first axis."""

_SMALLEST = 1e-300
# A search is compiled once and run once: compiling it well takes longer than running it.
_QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    worst: float  # the largest left - right seen
    ratio: float  # the largest left / right seen
    case: Case  # where the ratio is largest
    ratios: np.ndarray  # by climber, the largest ratio seen on its way
    climbed: Case  # by climber (first axis), the case of that ratio
    looked: str  # how hard, in words


def normal(*shape: int, scale: float = 1.0) -> Draw:
    """Return the draw of arrays of that shape, normal around 0."""
    return lambda rng, n: rng.normal(scale=scale, size=(n, *shape))


def uniform(low: float, high: float, *shape: int) -> Draw:
    """Return the draw of arrays of that shape, uniform."""
    return lambda rng, n: rng.uniform(low, high, (n, *shape))


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` compiled in double precision, from and to numpy arrays."""
    options = _QUICK if devices.backend() == "cpu" else None
    compiled = jax.jit(function, compiler_options=options)

    def run(*arguments: Any) -> Any:
        with jax.enable_x64(True):
            doubles = jax.tree.map(lambda x: np.asarray(x, np.float64), arguments)
            return jax.tree.map(np.asarray, compiled(*doubles))

    return run


def search(
    sides: Sides,
    draw: Draw | Mapping[str, Draw],
    *,
    cases: int = 1024,
    climbers: int = 16,
    steps: int = 300,
    rate: float = 0.05,
) -> Found:
    """Look for a case whose left side exceeds its right side.

    `cases` random cases are tried; Adam then climbs the ratio left / right from those `climbers`
    whose ratio is largest. What a case must keep to (a norm at most 1, say) is built into `sides`;
    what it may not change, `sides` puts behind `jax.lax.stop_gradient`.

    The sides are in jax operations, the right one positive; `draw` is of cases, or by name of each
    of a case's arrays. Adam's first step length is `rate`, the last a hundredth of it.
    """
    rng = np.random.default_rng(0)
    named = isinstance(draw, Mapping)
    drawn = {name: of(rng, cases) for name, of in draw.items()} if named else draw(rng, cases)
    worst, ratios, climbed = in_double(partial(_climb, sides, climbers, steps, rate))(drawn)
    best = int(np.argmax(ratios))
    case = jax.tree.map(lambda x: x[best], climbed)
    more = f", then {climbers} climbs of {steps} steps" if steps else ""
    looked = f"{cases:,} random cases{more}"
    return Found(float(worst), float(ratios[best]), case, ratios, climbed, looked)


def searched(draw: Draw | Mapping[str, Draw], **options: Any) -> Callable[..., Any]:
    """Make of a function from a case to its two sides the `search` of these, done once.

    What the function takes beside the case, the search takes alone.

    >>> @searched(normal(), cases=8, climbers=1)
    ... def largest_sine(x, times):
    ...     return jnp.sin(x), 1 / jnp.asarray(times)
    >>> round(largest_sine(2.0).ratio, 3)
    2.0
    """

    def of(sides: Callable[..., tuple[Array, Array]]) -> Callable[..., Found]:
        @cache
        @wraps(sides)
        def found(*about: Any, **named: Any) -> Found:
            return search(lambda case: sides(case, *about, **named), draw, **options)

        return found

    return of


def _climb(sides: Sides, climbers: int, steps: int, rate: float, drawn: Case) -> Any:
    def ratio(case: Case) -> tuple[Array, Array]:
        left, right = sides(case)
        return left / jnp.maximum(right, _SMALLEST), left - right

    ratios, violations = jax.vmap(ratio)(drawn)
    # What is not a number is no counterexample.
    ratios = jnp.where(jnp.isfinite(ratios), ratios, -jnp.inf)
    started, chosen = jax.lax.top_k(ratios, climbers)
    start = jax.tree.map(lambda x: x[chosen], drawn)
    if steps == 0:
        return jnp.nanmax(violations), started, start
    # Long steps first, short ones at the end: the top is often an edge.
    adam = optax.adam(optax.linear_schedule(rate, rate / 100, steps))
    uphill = jax.vmap(jax.value_and_grad(ratio, has_aux=True))

    def step(carry: Any, _: None) -> tuple[Any, Array]:
        case, state, highest, at = carry
        (value, violation), gradient = uphill(case)
        better = value > highest
        at = jax.tree.map(lambda new, old: _where(better, new, old), case, at)
        highest = jnp.where(better, value, highest)
        gradient = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), -x, 0.0), gradient)
        # Each climber's own scale: the ratio may be flat or steep.
        change, state = adam.update(_unit(gradient), state)
        return (optax.apply_updates(case, change), state, highest, at), jnp.nanmax(violation)

    carry = (start, adam.init(start), started, start)
    (_, _, highest, at), on_the_way = jax.lax.scan(step, carry, None, length=steps)
    return jnp.maximum(jnp.nanmax(violations), jnp.nanmax(on_the_way)), highest, at


def _where(better: Float[Array, "climbers"], new: Array, old: Array) -> Array:
    return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _unit(gradient: Case) -> Case:
    leaves = jax.tree.leaves(gradient)
    square = sum(jnp.sum(x**2, axis=tuple(range(1, x.ndim))) for x in leaves)
    norm = jnp.maximum(jnp.sqrt(square), _SMALLEST)
    return jax.tree.map(lambda x: x / norm.reshape(-1, *[1] * (x.ndim - 1)), gradient)


def search_box(
    sides: Callable[..., tuple[float, float]],
    box: Mapping[str, tuple[float, float]],
    *,
    cases: int = 200,
    refinements: int = 60,
) -> Found:
    """Look for a counterexample without gradients.

    Random cases, then Nelder and Mead's simplex from the one with the largest ratio.

    >>> box = {"x": (0.1, 2.0), "y": (0.1, 2.0)}
    >>> found = search_box(lambda x, y: (x + y, x * y + 1), box)  # x + y ≤ x y + 1?
    >>> round(found.ratio, 2)  # At x = 0.1, y = 2, or the other way round.
    1.75

    The box has each argument's least and greatest value, both positive, drawn evenly on a
    logarithmic scale; the right side is positive. The simplex may make `refinements` evaluations.
    """
    low, high = np.log(np.array(list(box.values()), np.float64)).T
    seen: list[tuple[float, float, dict[str, float]]] = []

    def ratio(point: np.ndarray) -> float:
        values = np.exp(np.clip(point, low, high))
        case = dict(zip(box, map(float, values), strict=True))
        left, right = sides(**case)
        seen.append((left / right, left - right, case))
        return left / right

    points = np.random.default_rng(0).uniform(low, high, (cases, len(box)))
    start = points[int(np.argmax([ratio(point) for point in points]))]
    if refinements:
        options = {"maxfev": refinements}
        optimize.minimize(lambda x: -ratio(x), start, method="Nelder-Mead", options=options)
    highest, _, at = max(seen, key=lambda one: one[0])
    worst = max(violation for _, violation, _ in seen)
    more = f", then {refinements} of a simplex from the worst" if refinements else ""
    return Found(worst, highest, at, np.array([highest]), at, f"{cases} random cases{more}")
