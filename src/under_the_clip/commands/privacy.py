"""`dpstudy epsilon` and `dpstudy noise`: what an ε is spent on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import click

from dpstudy.errors import UserError
from under_the_clip.commands.shell import JSON, complain, options

privacy_options = options(
    click.option("--examples", type=int, required=True, help="Training examples."),
    click.option("--batch", type=int, required=True, help="Expected batch size."),
    click.option("--epochs", type=int, required=True, help="Passes over the data."),
    click.option(
        "--delta",
        type=float,
        default=1e-5,
        show_default=True,
        help="The δ of (ε, δ), below one over the number of examples.",
    ),
    JSON,
)


def _steps(examples: int, batch: int, epochs: int) -> dict[str, Any]:
    from dpstudy.parts.accountable import steps_per_epoch
    from dpstudy.privacy import accounting

    probability = accounting.sampling_probability_of(examples=examples, batch=batch)
    steps = accounting.whole("epochs", epochs, least=1) * steps_per_epoch(examples, batch)
    return {"sampling_probability": probability, "steps": steps}


def warn_of_delta(delta: float, examples: int) -> None:
    """Say in a line where a delta is not below one over the number of examples."""
    if delta * examples >= 1:
        complain(
            f"warning: δ = {delta:g} is not below 1/n = {1 / examples:.3g}, n = {examples:,} being "
            "the examples, so that to publish one of them at random would count as private; take "
            f"δ = 1e-{len(str(examples)):02} or less"
        )


def _state(
    said: dict[str, Any],
    values: dict[str, float | None],
    reasons: dict[str, object],
    shown: Callable[[str, float], str],
    as_json: bool,
) -> None:
    """Print a value by accountant, and on standard error why one has none."""
    from dpstudy.privacy.run_epsilon import LABELS

    for name, reason in reasons.items():
        complain(f"none by {LABELS[name]}: {reason}")
    if as_json:
        click.echo(json.dumps(said | values))
        return
    for name, value in values.items():
        text = "none" if value is None else shown(name, value)
        click.echo(f"{text:>8}  {LABELS[name]}")


@click.command()
@click.option(
    "--noise",
    type=float,
    required=True,
    help="Noise multiplier σ: the noise's standard deviation over the proven sensitivity of a "
    "whole step, which is the clipping norm where all of an example's gradient is clipped.",
)
@click.option(
    "--shuffled",
    is_flag=True,
    help="Batches cut from a shuffled data set: what that costs at least and at most.",
)
@privacy_options
def epsilon(
    noise: float,
    shuffled: bool,
    examples: int,
    batch: int,
    epochs: int,
    delta: float,
    as_json: bool,
) -> None:
    """State the ε that DP-SGD costs, by accountant.

    For Poisson sampling and neighbours that differ by adding or removing one example; with
    --shuffled for one example blanked. PLD is the tightest: take its line.

    dpstudy epsilon --examples 60000 --batch 512 --epochs 40 --noise 1.23
    """
    from dpstudy.lab.wording import rounded_down, rounded_up
    from dpstudy.privacy import accounting

    what, given = _steps(examples, batch, epochs), {"noise_multiplier": noise, "delta": delta}
    values: dict[str, float | None]
    if shuffled:
        from dpstudy.privacy.run_epsilon import shuffled_curve  # only here: it loads JAX

        what["steps"] = epochs * (examples // batch)
        curves = shuffled_curve(examples=examples, batch=batch, steps=[what["steps"]], **given)
        values = {name: curve[-1] for name, curve in curves.items()}
    else:
        values = {
            name: accounting.epsilon(**what, **given, accountant=name)
            for name in accounting.ACCOUNTANTS
        }
        # JSON has no infinity.
        values = {name: value if math.isfinite(value) else None for name, value in values.items()}
    warn_of_delta(delta, examples)
    infinite = f"its bound is infinite at δ = {delta:g}"
    _state(
        what | given,
        values,
        {name: infinite for name, value in values.items() if value is None},
        lambda name, value: (rounded_down if name == "shuffled-at-least" else rounded_up)(value, 4),
        as_json,
    )


@click.command()
@click.option("--epsilon", "wanted", type=float, required=True, help="The epsilon to spend.")
@privacy_options
def noise(
    wanted: float, examples: int, batch: int, epochs: int, delta: float, as_json: bool
) -> None:
    """State the noise that a wanted ε needs, by accountant.

    For Poisson sampling and neighbours that differ by adding or removing one example. PLD asks for
    the least: take its line.

    dpstudy noise --epsilon 3 --examples 60000 --batch 512 --epochs 40
    """
    from dpstudy.privacy import accounting

    what = _steps(examples, batch, epochs)
    values: dict[str, float | None] = {}
    reasons: dict[str, object] = {}
    for name in accounting.ACCOUNTANTS:
        try:
            values[name] = accounting.noise_multiplier_for(
                wanted, **what, delta=delta, accountant=name
            )
        except UserError as error:
            # One accountant may be unable to certify what another can.
            values[name] = None
            reasons[name] = error
    if len(reasons) == len(values):
        raise next(iter(reasons.values()))
    warn_of_delta(delta, examples)
    said = what | {"epsilon": wanted, "delta": delta}
    # All of its digits: fewer might be less noise than is needed.
    _state(said, values, reasons, lambda _, value: f"{value:.5g}", as_json)
