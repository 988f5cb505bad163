"""The command line: `dpstudy`.

Every mistake a user can mend is one line on standard error and exit code 2.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import click

from dpstudy.errors import UserError

EXIT_MISTAKE, EXIT_INTERRUPTED, EXIT_DAMAGED = 2, 130, 1


class Group(click.Group):
    """A group that turns the package's errors into one line."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command; see the module's documentation."""
        try:
            return super().invoke(context)
        except UserError as error:
            click.echo(f"dpstudy: {error}", err=True)
            raise SystemExit(EXIT_MISTAKE) from None


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpstudy")
def main() -> None:
    """Under the Clip: re-run, account for and check the study's experiments."""


@main.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_experiments(as_json: bool) -> None:
    """List each experiment: runs stored, runs needed."""
    from dpstudy import readings
    from dpstudy.experiments import EXPERIMENTS

    rows = []
    for experiment in EXPERIMENTS.values():
        for dataset in experiment.datasets:
            reading = readings.read(experiment, dataset=dataset)
            rows.append(
                {
                    "experiment": experiment.name,
                    "dataset": dataset,
                    "stored": len(reading.found),
                    "needed": len(reading.found) + len(reading.missing),
                    "damaged": reading.damaged,
                    "title": experiment.title,
                }
            )
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(row["experiment"]) for row in rows)
    for row in rows:
        mark = "  (damaged files: see `dpstudy results verify`)" if row["damaged"] else ""
        click.echo(
            f"{row['experiment']:{width}}  {row['dataset']:13}  "
            f"{row['stored']:>3} of {row['needed']:>3} runs stored{mark}"
        )


def parse_budget(text: str | None) -> float:
    """Return seconds from "90s", "9m", "1.5h" or plain seconds; infinity from None.

    Raises:
        UserError: anything else, or not above 0.
    """
    if text is None:
        return math.inf
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UserError(f"budget must be a time such as 90s, 9m or 1.5h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


@main.command()
@click.argument("experiments", nargs=-1, required=True, metavar="EXPERIMENT…")
@click.option("--profile", default="full", show_default=True, help="smoke or full.")
@click.option("--dataset", help="Only this dataset.")
@click.option("--seeds", type=int, help="Seeds 0 to N-1, instead of the experiment's number.")
@click.option("--budget", help="Stop cleanly after this time, such as 9m; run again to go on.")
@click.option("--missing", is_flag=True, help="Print the runs that are missing, and train nothing.")
def run(
    experiments: tuple[str, ...],
    profile: str,
    dataset: str | None,
    seeds: int | None,
    budget: str | None,
    missing: bool,
) -> None:
    """Train what an EXPERIMENT still needs, and store it; "all" names every experiment.

    Runs already stored are not trained again; a run that was interrupted goes on at its last epoch.
    """
    from dpstudy.experiments import EXPERIMENTS, find

    chosen = EXPERIMENTS.values() if experiments == ("all",) else [find(e) for e in experiments]
    seconds = parse_budget(budget)
    work = [(e, e.runs(profile, dataset=dataset, seeds=seeds)) for e in chosen]
    if missing:
        for experiment, runs in work:
            for one in runs:
                if not (experiment.folder(profile) / f"{one.identity}.json").exists():
                    click.echo(f"{experiment.name}  {one.identity}  {json.dumps(one.to_dict())}")
        return
    _train(work, profile, seconds)


def _train(work: list[tuple[Any, list[Any]]], profile: str, seconds: float) -> None:
    import time

    from dpstudy.experiments.trainer import train_with_bar

    unfinished = 0
    end = time.monotonic() + seconds
    try:
        for experiment, runs in work:
            outcome = train_with_bar(experiment, runs, profile, budget=end - time.monotonic())
            unfinished += outcome.unfinished
            diverged = [r.run.identity for r in outcome.stored if r.diverged_at is not None]
            click.echo(
                f"{experiment.name}: {len(outcome.stored)} stored, {outcome.already} already "
                f"there, {outcome.unfinished} left"
                + (f", diverged: {', '.join(diverged)}" if diverged else "")
            )
    except KeyboardInterrupt:
        click.echo("stopped; what was done is kept, the same command goes on from there", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None
    if unfinished:
        click.echo(f"time is up: {unfinished} runs left; the same command goes on from there")


def privacy_options(command: Any) -> Any:
    """Add the options that say what is accounted for."""
    for option in reversed(
        [
            click.option("--examples", type=int, required=True, help="Training examples."),
            click.option("--batch", type=int, required=True, help="Expected batch size."),
            click.option("--epochs", type=int, required=True, help="Passes over the data."),
            click.option("--delta", type=float, default=1e-5, show_default=True),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        ]
    ):
        command = option(command)
    return command


def _steps(examples: int, batch: int, epochs: int) -> dict[str, Any]:
    from dpstudy import accounting
    from dpstudy.spec import steps_per_epoch

    probability = accounting.sampling_probability_of(examples=examples, batch=batch)
    steps = accounting.check_epochs(epochs) * steps_per_epoch(examples, batch)
    return {"sampling_probability": probability, "steps": steps}


@main.command()
@click.option("--noise", type=float, required=True, help="Noise multiplier.")
@privacy_options
def epsilon(
    noise: float, examples: int, batch: int, epochs: int, delta: float, as_json: bool
) -> None:
    """State the epsilon of DP-SGD with Poisson sampling, by each accountant."""
    from dpstudy import accounting
    from dpstudy.privacy import LABELS

    what = _steps(examples, batch, epochs)
    values = {
        name: accounting.epsilon(**what, noise_multiplier=noise, delta=delta, accountant=name)
        for name in accounting.ACCOUNTANTS
    }
    if as_json:
        click.echo(json.dumps({**what, "noise_multiplier": noise, "delta": delta, **values}))
        return
    for name, value in values.items():
        click.echo(f"{value:8.4f}  {LABELS[name]}")


@main.command()
@click.option("--epsilon", "wanted", type=float, required=True, help="The epsilon to spend.")
@privacy_options
def noise(
    wanted: float, examples: int, batch: int, epochs: int, delta: float, as_json: bool
) -> None:
    """State the noise multiplier that a wanted epsilon needs, by each accountant."""
    from dpstudy import accounting
    from dpstudy.privacy import LABELS

    what = _steps(examples, batch, epochs)
    values: dict[str, float | None] = {}
    for name in accounting.ACCOUNTANTS:
        try:
            values[name] = accounting.noise_multiplier_for(
                wanted, **what, delta=delta, accountant=name
            )
        except UserError:
            # An older accountant may be unable to certify what the tightest one can.
            if name == "pld":
                raise
            values[name] = None
    if as_json:
        click.echo(json.dumps({**what, "epsilon": wanted, "delta": delta, **values}))
        return
    for name, value in values.items():
        click.echo(f"{'none' if value is None else f'{value:8.4f}':>8}  {LABELS[name]}")


@main.group()
def data() -> None:
    """Fetch and verify datasets."""


@data.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Download again even if it is there.")
def fetch(name: str, force: bool) -> None:
    """Download a dataset and check its content."""
    from dpstudy import data as datasets

    click.echo(datasets.fetch(name, force=force))


@data.command()
@click.argument("name")
def verify(name: str) -> None:
    """Check a dataset's content against its known hashes."""
    from dpstudy import data as datasets

    click.echo(datasets.verify(name))


@main.group()
def results() -> None:
    """Verify stored results, and carry them between machines."""


@results.command("verify")
def verify_results() -> None:
    """Check every stored result; name each that is damaged, foreign or edited by hand."""
    from dpstudy import store
    from dpstudy.experiments.experiment import results_folder

    good, errors = store.read_all(results_folder())
    for error in errors:
        click.echo(f"dpstudy: {error}", err=True)
    click.echo(f"{len(good)} results are intact, {len(errors)} are not")
    if errors:
        raise SystemExit(EXIT_DAMAGED)


@results.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def export(file: Path) -> None:
    """Pack all intact results into FILE, a .tar.gz."""
    from dpstudy import transfer
    from dpstudy.experiments.experiment import results_folder

    click.echo(f"{transfer.export(results_folder(), file)} results packed into {file}")


@results.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def merge(file: Path) -> None:
    """Add the results packed in FILE; nothing stored is replaced."""
    from dpstudy import transfer
    from dpstudy.experiments.experiment import results_folder

    merged = transfer.merge(results_folder(), file)
    for line in merged.refused:
        click.echo(f"dpstudy: left out: {line}", err=True)
    click.echo(f"{merged.added} results added, {merged.already} already there")
    if merged.refused:
        raise SystemExit(EXIT_DAMAGED)


if __name__ == "__main__":
    sys.exit(main())
