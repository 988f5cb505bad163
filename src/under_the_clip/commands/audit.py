"""`dpstudy audit`."""

from __future__ import annotations

import json

import click

from under_the_clip.commands import stopping
from under_the_clip.commands.shell import complain, say

EXIT_REFUTED = 1


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--store", "keep", is_flag=True, help="Store the outcomes with the results.")
@click.option("--list", "list_names", is_flag=True, help="Print the names of all audits, and stop.")
@stopping.terminated_as_by_ctrl_c()
def audit(names: tuple[str, ...], as_json: bool, keep: bool, list_names: bool) -> None:
    """Bound from below what each mechanism gives away.

    Canaries are put in or left out of simulated runs, and told apart by the noisy sums of the step
    that trains. Each NAME is one audit; without a name all are carried out, in an hour or two. The
    exit code is 1 where more is shown than is proven possible: code or proof are wrong.
    """
    import time

    from dpstudy.lab import records, store
    from under_the_clip.audits import AUDITS, carry_out, find

    if list_names:
        click.echo("\n".join(AUDITS))
        return
    audits = [find(name) for name in dict.fromkeys(names or AUDITS)]
    if keep:
        for kind in {one.kind for one in audits}:
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
        complain(
            f"more leaks than is proven possible, code or proof are wrong: {', '.join(refuted)}"
        )
        raise SystemExit(EXIT_REFUTED)
