"""`dpstudy audit` and `dpstudy theorems`: check what is proven or claimed, one after the other."""

import json
import time

import click

from under_the_clip.commands import stopping
from under_the_clip.commands.shell import JSON, complain, options, say

EXIT_REFUTED = 1

_of_checks = options(
    click.argument("names", nargs=-1, metavar="[NAME…]"),
    JSON,
    click.option("--store", "keep", is_flag=True, help="Store the outcomes with the results."),
    click.option("--list", "list_names", is_flag=True, help="Print the names of all, and stop."),
    stopping.terminated_as_by_ctrl_c(),
)


@click.command()
@_of_checks
def audit(names: tuple[str, ...], as_json: bool, keep: bool, list_names: bool) -> None:
    """Bound from below what each mechanism gives away.

    Canaries are put in or left out of simulated runs, and told apart by the noisy sums of the step
    that trains. Each NAME is one audit; without a name all are carried out, in an hour or two. Most
    take the full MNIST, which is downloaded where it is missing. The exit code is 1 where more is
    shown than is proven possible: code or proof are wrong.
    """
    from dpstudy.lab import records, store
    from under_the_clip.audits import AUDITS, carry_out, find

    if list_names:
        click.echo("\n".join(AUDITS))
        return
    audits = [find(name) for name in dict.fromkeys(names or AUDITS)]
    for kind in {one.kind for one in audits} if keep else ():
        store.check_writable(records.folder(kind))
    done, refuted, started = [], [], time.monotonic()
    for one, content in carry_out(audits):
        done.append(content)
        refuted += [one.name] * one.refuted(content)
        seconds, started = time.monotonic() - started, time.monotonic()
        if keep:
            versions = records.provenance(seconds, "scipy", "dp-accounting", "jax-privacy")
            path = records.folder(one.kind) / f"{one.name}.json"
            records.write(path, one.kind, content | {"provenance": versions})
        if not as_json:
            say(one.line(content))
    if as_json:
        click.echo(json.dumps(done, indent=2))
    if refuted:
        named = ", ".join(refuted)
        complain(f"more leaks than is proven possible, code or proof are wrong: {named}")
        raise SystemExit(EXIT_REFUTED)


@click.command()
@_of_checks
def theorems(names: tuple[str, ...], as_json: bool, keep: bool, list_names: bool) -> None:
    """Search the papers' propositions for counterexamples.

    Each NAME is one statement; without a name all of them are searched, in some minutes.
    What they say, and what would refute them, is in the book's chapter on propositions.
    """
    from dpstudy.lab import records, store
    from dpstudy.propositions import proposition
    from under_the_clip.statements import STATEMENTS, find

    if list_names:
        click.echo("\n".join(STATEMENTS))
        return
    statements = [find(name) for name in dict.fromkeys(names or STATEMENTS)]
    if keep:
        store.check_writable(records.folder(proposition.KIND))
    rows = []
    for statement, outcome, seconds in proposition.run(statements):
        rows.append(row := proposition.content(statement, outcome))
        if keep:
            proposition.keep(statement, outcome, seconds)
        if not as_json:
            say(f"{row['verdict']:12}  {row['statement']}: {row['finding']}")
    if as_json:
        click.echo(json.dumps(rows, indent=2))
