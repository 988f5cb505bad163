"""`dpstudy epsilon` and `dpstudy noise`: what an ε is spent on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dpstudy.errors import UserError
from under_the_clip.commands.shell import JSON, complain, options

if TYPE_CHECKING:
    from dpstudy.privacy.private_selection import Trials

# Of `private_selection.LAWS`, which loads the accountants.
LAWS = ("logarithmic", "geometric", "poisson")
# What has to be true for a search to cost what is said.
CONDITIONS = (
    "how many trials there are is drawn first, from that law, and stays secret",
    "each trial draws its settings at random from a list that was fixed before, and its own noise",
    "the best is all that is released: no score, no other trial",
    "its score is computed on public data, or within a trial's ε, or on held-out private data "
    "that are accounted for too",
)

privacy_options = options(
    click.option("--examples", type=int, required=True, help="Training examples."),
    click.option("--batch", type=int, required=True, help="Expected batch size."),
    click.option("--epochs", type=int, help="Passes over the data."),
    click.option("--steps", type=int, help="Batches in all, in place of --epochs."),
    click.option(
        "--delta",
        type=float,
        default=1e-5,
        show_default=True,
        help="The δ of (ε, δ), below one over the number of examples.",
    ),
    click.option(
        "--search",
        type=float,
        metavar="MEAN",
        help="Such runs are trials, a random number of them, with that mean; the best is released.",
    ),
    click.option(
        "--trials-law",
        metavar="LAW",
        help=f"Law of that number: {', '.join(LAWS)}; the first by default.",
    ),
    JSON,
)


def _accounted(
    examples: int,
    batch: int,
    epochs: int | None,
    steps: int | None,
    delta: float,
    search: float | None,
    trials_law: str | None,
    shuffled: bool = False,
) -> dict[str, Any]:
    """Return what the options ask for, as arguments of `accounting.epsilon`; or raise UserError."""
    from dpstudy.parts.accountable import steps_per_epoch
    from dpstudy.privacy import accounting
    from dpstudy.privacy.private_selection import Trials

    if search is None and trials_law is not None:
        raise UserError("--trials-law is of a search: give its mean with --search too")
    trials = None if search is None else Trials(search, trials_law or LAWS[0])
    if trials and shuffled:
        raise UserError("what a search costs is known of sampled batches alone: leave --shuffled")
    if (epochs is None) == (steps is None):
        raise UserError("one of --epochs and --steps is needed, and not both")
    probability = accounting.sampling_probability_of(examples=examples, batch=batch)
    if steps is None:
        each = examples // batch if shuffled else steps_per_epoch(examples, batch)
        steps = accounting.whole("epochs", epochs, least=1) * each
    steps = accounting.whole("steps", steps, least=1)
    return {"sampling_probability": probability, "steps": steps, "delta": delta, "search": trials}


def _accountants(search: Trials | None) -> tuple[str, ...]:
    from dpstudy.privacy import accounting

    return accounting.ACCOUNTANTS if search is None else accounting.OF_A_SEARCH


def warn_of_delta(delta: float, examples: int) -> None:
    """Say in a line where a delta is not below one over the number of examples."""
    if delta * examples >= 1:
        complain(
            f"warning: δ = {delta:g} is not below 1/n = {1 / examples:.3g}, n = {examples:,} being "
            "the examples, so that to publish one of them at random would count as private; take "
            f"δ = 1e-{len(str(examples)):02} or less"
        )


def _state(
    what: dict[str, Any],
    values: dict[str, float | None],
    reasons: dict[str, object],
    shown: Callable[[str, float], str],
    as_json: bool,
) -> None:
    """Print a value by accountant, and on standard error why one has none."""
    from dpstudy.privacy.run_epsilon import LABELS

    for name, reason in reasons.items():
        complain(f"none by {LABELS[name]}: {reason}")
    search = what.pop("search")
    if as_json:
        if search:
            what |= {"mean_trials": search.mean, "trials_law": search.law, "holds_if": CONDITIONS}
        click.echo(json.dumps(what | values))
        return
    for name, value in values.items():
        text = "none" if value is None else shown(name, value)
        click.echo(f"{text:>8}  {LABELS[name]}")
    if search:
        about = f"{search.mean:g} trials in the mean ({search.law})"
        click.echo("\n- ".join([f"for the best of {about}, and only if", *CONDITIONS]))


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
def epsilon(noise: float, shuffled: bool, as_json: bool, **asked: Any) -> None:
    """State the ε that DP-SGD costs, by accountant.

    For Poisson sampling and neighbours that differ by adding or removing one example; with
    --shuffled for one example blanked. PLD is the tightest: take its line.

    With --search it is the ε of releasing the best of a random number of such runs. It holds only
    if that number is drawn first and stays secret, if each draws its settings from a list that was
    fixed before, if nothing else is released, and if the score costs no more: on public data,
    within a run's ε, or on held-out private data that are accounted for too. The best of a fixed
    number costs what all of them do together.

    dpstudy epsilon --examples 60000 --batch 512 --epochs 40 --noise 1.23 --search 10
    """
    from dpstudy.lab.wording import rounded_down, rounded_up
    from dpstudy.privacy import accounting

    what = _accounted(**asked, shuffled=shuffled)
    given = {"noise_multiplier": noise, "delta": what["delta"]}
    values: dict[str, float | None]
    if shuffled:
        from dpstudy.privacy.run_epsilon import shuffled_curve

        data = {name: asked[name] for name in ("examples", "batch")}
        curves = shuffled_curve(**data, steps=[what["steps"]], **given)
        values = {name: curve[-1] for name, curve in curves.items()}
    else:
        values = {
            name: accounting.epsilon(**what | given, accountant=name)
            for name in _accountants(what["search"])
        }
        # JSON has no infinity.
        values = {name: value if math.isfinite(value) else None for name, value in values.items()}
    warn_of_delta(what["delta"], asked["examples"])
    infinite = f"its bound is infinite at δ = {what['delta']:g}"
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
def noise(wanted: float, as_json: bool, **asked: Any) -> None:
    """State the noise that a wanted ε needs, by accountant.

    For Poisson sampling and neighbours that differ by adding or removing one example. PLD asks for
    the least: take its line.

    With --search the wanted ε is that of releasing the best of a random number of such runs, on the
    conditions that `dpstudy epsilon --help` has.

    dpstudy noise --epsilon 3 --examples 60000 --batch 512 --epochs 40 --search 10
    """
    from dpstudy.privacy import accounting

    what = _accounted(**asked)
    values: dict[str, float | None] = {}
    reasons: dict[str, object] = {}
    for name in _accountants(what["search"]):
        try:
            values[name] = accounting.noise_multiplier_for(wanted, **what, accountant=name)
        except UserError as error:
            # One accountant may be unable to certify what another can.
            values[name] = None
            reasons[name] = error
    if len(reasons) == len(values):
        raise next(iter(reasons.values()))
    warn_of_delta(what["delta"], asked["examples"])
    # All of its digits: fewer might be less noise than is needed.
    _state(what | {"epsilon": wanted}, values, reasons, lambda _, value: f"{value:.5g}", as_json)
