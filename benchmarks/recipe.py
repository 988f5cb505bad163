"""Time the recipe from an empty cache to a trained head, and store its time, memory and accuracy.

Needs the study's environment alone: `.venv/bin/python benchmarks/recipe.py cifar-10`, with the
dataset where DPSTUDY_DATA says. Wants a quiet machine. The leaderboard's chapter reads it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

import under_the_clip  # noqa: F401 - its kinds of record
from dpstudy.lab import records

_KEPT = ("dataset", "epsilon", "test_accuracy", "seconds", "peak_megabytes")


@click.command(context_settings={"show_default": True})
@click.argument("dataset")
@click.option("--epsilon", default=3.0, help="The ε to spend.")
def main(dataset: str, epsilon: float) -> None:
    """Run `dpstudy recipe` on DATASET with an empty cache, and store what it cost."""
    command = [Path(sys.executable).with_name("dpstudy"), "recipe", dataset, "--json"]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache}
        done = subprocess.run(
            [*command, "--epsilon", str(epsilon)], env=environment, stdout=subprocess.PIPE
        )
    if done.returncode:
        sys.exit(done.returncode)
    said = json.loads(done.stdout)
    path = records.folder("recipes") / f"{dataset}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {name: said[name] for name in _KEPT}
    records.write(path, "recipes", content | {"provenance": records.provenance(said["seconds"])})
    click.echo(f"{done.stdout.decode().strip()}\nStored {path}")


if __name__ == "__main__":
    main()
