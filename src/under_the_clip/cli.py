"""The command line: `dpstudy`.

Every mistake a user can mend is one line on standard error and exit code 2.
"""

from __future__ import annotations

from under_the_clip.commands import stopping  # the first, for Ctrl-C while the others load

# isort: split
import collections
import itertools
import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dpstudy.errors import UserError, meant
from under_the_clip.commands import answers, checks, privacy, recipe, results
from under_the_clip.commands.shell import (
    EXIT_DAMAGED,
    EXIT_INTERRUPTED,
    EXIT_MISTAKE,
    JSON,
    Group,
    complain,
    one_line,
)

if TYPE_CHECKING:
    from distributed import Client

    from dpstudy.claims.ledger import Entry
    from dpstudy.lab.experiment import Experiment
    from dpstudy.parts.run import Run


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpstudy")
def main() -> None:
    """Under the Clip: re-run, account for and check the study's experiments."""
    from dpstudy.files import given_folder

    given_folder("DPSTUDY_RESULTS")  # before anything else: it may be no folder


for _command in (
    checks.audit,
    checks.theorems,
    privacy.epsilon,
    privacy.noise,
    results.data,
    recipe.recipe,
    results.results,
):
    main.add_command(_command)


@main.command("list")
@JSON
def list_experiments(as_json: bool) -> None:
    """List each experiment: runs stored, runs needed."""
    text, damaged = answers.kept(f"list {as_json}", lambda: _listed(as_json))
    click.echo(text)
    if not as_json:
        results.say_where_they_are()
    results.end_with(damaged)


def _listed(as_json: bool) -> tuple[str, list[str]]:
    """Return what `list` prints, and what it leaves out."""
    from dpstudy.lab import readings
    from under_the_clip.experiments import EXPERIMENTS

    rows = []
    for experiment in EXPERIMENTS.values():
        for dataset in experiment.datasets:
            reading = readings.read(experiment, dataset=dataset)
            row = {"experiment": experiment.name, "dataset": dataset}
            row |= {"stored": len(reading.found), "needed": reading.needed}
            rows.append(row | {"damaged": reading.damaged, "title": experiment.title})
    damaged = list(dict.fromkeys(line for row in rows for line in row["damaged"]))
    if as_json:
        return json.dumps(rows, indent=2), damaged
    lines = []
    for name, of_one in itertools.groupby(rows, key=lambda row: row["experiment"]):
        datasets = list(of_one)
        lines.append(f"{name}: {datasets[0]['title']}")
        for row in datasets:
            counts = f"{row['stored']:>3} of {row['needed']:>3} runs stored"
            lines.append(f"  {row['dataset']:13}  {counts}")
    return "\n".join(lines), damaged


@main.command()
@click.option("--paper", metavar="KEY", help="Only this paper, for instance tempered-sigmoids.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every finding.")
def claims(paper: str | None, as_json: bool) -> None:
    """Judge what the papers claim by the stored results.

    A claim's verdict is computed by its rule, from all the seeds that its experiment asks for; with
    fewer it is "not yet run", with the number of runs stored.
    """
    width = shutil.get_terminal_size().columns
    question = f"claims {paper} {as_json or width}"
    text, damaged = answers.kept(question, lambda: _judged(paper, as_json, width))
    click.echo(text)
    if not as_json:
        results.say_where_they_are()
    results.end_with(damaged)


def _judged(paper: str | None, as_json: bool, width: int) -> tuple[str, list[str]]:
    """Return what `claims` prints, and what it leaves out."""
    from under_the_clip.claims import ledger

    judged = ledger(paper)
    damaged = list(judged.damaged)
    if as_json:
        return json.dumps([entry.to_dict() for entry in judged.entries], indent=2), damaged
    lines = []
    for name, of_one in itertools.groupby(judged.entries, key=lambda entry: entry.paper):
        lines += _claims_of(name, list(of_one), width)
    counts = [f"{count} {verdict}" for verdict, count in judged.counts.items() if count]
    claims, verdicts = len(judged.by_claim), len(judged.entries)
    lines.append(f"{claims} claims, {verdicts} verdicts: {', '.join(counts)}")
    return "\n".join(lines), damaged


def _claims_of(paper: str, entries: list[Entry], width: int) -> Iterator[str]:
    """Yield a paper's claims: one aligned line each, and under it where and what it says."""
    rows = [("claim", "published", "ours", "verdict")]
    rows += [(e.id, e.rule.stated, e.outcome.shown, e.outcome.short) for e in entries]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    yield f"{paper}\n"
    for row, entry in zip(rows, (None, *entries), strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True))
        yield f"  {'  '.join(cells)}"
        if entry is not None:
            said = f"{entry.claim.where}: {entry.claim.says} {entry.claim.remark}".rstrip()
            yield click.wrap_text(said, width, "    ", "    ")
    yield ""


def parse_budget(text: str | None) -> float:
    """Return seconds from "90s", "9m", "1.5h" or "90", else UserError; infinity from None."""
    if text is None:
        return math.inf
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UserError(f"budget must be a time such as 90s, 9m or 1.5h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


@main.command()
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT…]")
@click.option(
    "--profile",
    default="full",
    show_default=True,
    metavar="NAME",
    help="full: the paper's scale; smoke: tiny runs on MNIST-5k, a minute, no dataset needed.",
)
@click.option("--dataset", metavar="NAME", help="Only this dataset (full profile).")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="Seeds 0 to N-1, instead of the experiment's number.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Change a field of the runs, such as clip_norm=0.5; may be given several times.",
)
@click.option(
    "--budget", metavar="TIME", help="Stop cleanly after 90s, 9m or 1.5h; run again to go on."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Train N at a time, each on a core of its own.  [default: on a CPU, its cores]",
)
@click.option(
    "--cohort",
    type=click.IntRange(min=1),
    metavar="N",
    help="Runs that one program trains together.  [default: on a GPU, what its memory holds]",
)
@click.option("--scheduler", metavar="ADDRESS", help="Train on a Dask cluster, tcp://host:port.")
@click.option("--missing", is_flag=True, help="Without EXPERIMENT: all with runs missing.")
@click.option("--dry-run", is_flag=True, help="Print the runs that are missing, and train nothing.")
@stopping.terminated_as_by_ctrl_c()
def run(
    experiments: tuple[str, ...],
    budget: str | None,
    workers: int | None,
    cohort: int | None,
    scheduler: str | None,
    missing: bool,
    dry_run: bool,
    changes: tuple[str, ...],
    **wanted: Any,  # profile, dataset and seeds, as `Experiment.runs` takes them
) -> None:
    """Train what each EXPERIMENT still needs, and store it.

    `dpstudy list` names the experiments; "all" stands for every one of them, and so does --missing
    without a name. Runs already stored are not trained again, and a run that was interrupted goes
    on at its last epoch.

    With --set the runs are others, and stored under names of their own beside those there are: list
    and claims do not count them, chapters do not show them. What they reach is printed at the end,
    with the true ε of what was run. A FIELD that they lack is answered with those that they have; a
    part is named by its kind (activation=relu), or written in JSON.

    dpstudy run losing-less-adam --dataset mnist --set clip_norm=0.5
    """
    from dpstudy.lab import store
    from dpstudy.parts.data import images as datasets

    if not (experiments or missing or dry_run):
        raise click.UsageError("name an EXPERIMENT (see `dpstudy list`), or give --missing")
    chosen = _chosen(experiments or ("all",), wanted["dataset"])
    if changes:
        if missing or "all" in (experiments or ("all",)):
            raise click.UsageError("--set changes the runs of experiments that are named")
        chosen = _changed(chosen, changes)
    seconds, profile = parse_budget(budget), wanted["profile"]
    work = [(e, e.runs(**wanted)) for e in chosen]
    waiting, damaged = [], False
    for experiment, runs in work:
        stored, errors = store.read_all(store.runs_folder(profile), [one.identity for one in runs])
        for error in errors:
            complain(f"{error}; to train the run again, remove this file first")
        damaged |= bool(errors)
        left = [one for one in runs if one.identity not in stored]
        waiting += left
        if dry_run:
            _print_missing(experiment, left, wanted)
            if experiments and not (left or errors):
                click.echo(f"{experiment.name}: all that was chosen is stored", err=True)
    if dry_run:
        raise SystemExit(EXIT_DAMAGED if damaged else 0)
    later = [name for experiment in chosen for name, _ in experiment.undecided(**wanted)]
    # Before anything else starts: fetched once, and a damaged file is found at once.
    for name in dict.fromkeys([one.dataset.name for one in waiting] + later):
        datasets.load(name)
    if scheduler is None:
        from dpstudy.gradients import devices

        devices.one_device_a_core()
        # By all runs of the campaign, also those stored before: a run that was stopped goes on as
        # it began, on a core or on all of them, and so ends with the same bits.
        workers = min(workers or _workers_for(profile), len(later) + sum(len(of) for _, of in work))
    if scheduler is None and (workers <= 1 or not (waiting or later)):
        _train(chosen, wanted, seconds, None, cohort)
    else:
        from dpstudy.lab import workers as cluster

        with cluster.connect(scheduler, min(workers or 1, len(waiting) + len(later))) as client:
            _train(chosen, wanted, seconds, client, cohort)
    if changes:
        _print_ends(chosen, wanted)
    if damaged:
        raise SystemExit(EXIT_DAMAGED)


def _changed(chosen: list[Experiment], written: tuple[str, ...]) -> list[Experiment]:
    """Return experiments with changes, and say which variants have no such field."""
    from dpstudy.lab.changed import Changed, changes_of

    changes = changes_of(written)
    changed = [Changed.of(experiment, changes) for experiment in chosen]
    for one in changed:
        if one.left_out:
            complain(f"{one.name}: left out, without such a field: {'; '.join(one.left_out)}")
    return list(changed)


def _print_ends(work: list[Experiment], wanted: dict[str, Any]) -> None:
    """Print what each stored run reached, what it spent, and where it is."""
    from dpstudy.lab import readings, store
    from dpstudy.lab.variant import Variant
    from dpstudy.lab.wording import rounded_up

    folder = store.runs_folder(wanted["profile"])
    for experiment in work:
        reading = readings.read(experiment, **wanted)
        for label, result in reading.found:
            one = Variant(replace(reading, found=[(label, result)]), label)
            spent = one.epsilon("shuffled-pld", "pld")
            at = "not private" if spent is None else f"ε = {rounded_up(spent)}"
            run, accuracy = result.run, one.accuracy.iloc[0]
            who = f"{label}, {run.dataset.name}, seed {run.seed}"
            click.echo(f"  {who}: {accuracy:.2%}, {at}, {folder / result.name}")


def _print_missing(experiment: Experiment, runs: list[Run], wanted: dict[str, Any]) -> None:
    """Print the runs that are missing, and how many a search will choose once these are stored."""
    for one in runs:
        click.echo(f"{experiment.name}  {one.identity}  {json.dumps(one.to_dict())}")
    later = collections.Counter(dataset for dataset, _ in experiment.undecided(**wanted))
    for dataset, count in later.items():
        click.echo(f"{experiment.name}  {dataset}: {_count(count, 'run')} more, not chosen yet")


def _workers_for(profile: str) -> int:
    if profile != "full":
        return 1  # A minute's work: starting workers would be a good part of it.
    from dpstudy.gradients import devices

    return devices.available_cores() if devices.backend() == "cpu" else 1


def _chosen(names: tuple[str, ...], dataset: str | None) -> list[Experiment]:
    from under_the_clip.experiments import EXPERIMENTS, find

    named = [find(name) for name in dict.fromkeys(names) if name != "all"]
    if "all" not in names:
        return named
    having = [e for e in EXPERIMENTS.values() if dataset is None or dataset in e.datasets]
    if not having:
        valid = dict.fromkeys(name for e in EXPERIMENTS.values() for name in e.datasets)
        raise UserError(f"no experiment has dataset {dataset!r}; {meant(dataset, valid)}")
    return having


def _train(
    work: list[Experiment], wanted: dict, seconds: float, client: Client | None, most: int | None
) -> None:
    import time

    from dpstudy.lab.train import train

    unfinished, refused = 0, False
    end = time.monotonic() + seconds
    try:
        for experiment in work:
            left, refusal = train(
                experiment, **wanted, end=end, client=client, most=most, tell=click.echo
            )
            unfinished += left
            if refusal is not None:
                complain(one_line(refusal))
                refused = True
    except KeyboardInterrupt:
        complain("stopped; what was done is kept, the same command goes on from there")
        raise SystemExit(EXIT_INTERRUPTED) from None
    if unfinished:
        click.echo(f"time is up: {_count(unfinished, 'run')} left; the same command goes on")
    if refused:
        raise SystemExit(EXIT_MISTAKE)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


stopping.loaded()

if __name__ == "__main__":
    main(prog_name="dpstudy")
