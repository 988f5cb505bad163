"""Time the recipe from an empty cache to a trained head, and store its time, memory and accuracy.

Needs the study's environment alone: `.venv/bin/python benchmarks/recipe.py cifar-10`, with the
dataset where DPSTUDY_DATA says. Wants a quiet machine. The leaderboard's chapter reads it. With
other filters than the recipe's the accuracy is not kept: of such a run the study looks at held-out
images alone.
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
from dpstudy.recipe.run import FILTERS

_KEPT = ("dataset", "epsilon", "seconds", "peak_megabytes")


@click.command(context_settings={"show_default": True})
@click.argument("dataset")
@click.option("--epsilon", default=3.0, help="The ε to spend.")
@click.option("--filters", type=int, help="Other filters than the recipe's, so many.")
def main(dataset: str, epsilon: float, filters: int | None) -> None:
    """Run `dpstudy recipe` on DATASET with an empty cache, and store what it cost."""
    filters = None if filters == FILTERS else filters
    command = [Path(sys.executable).with_name("dpstudy"), "recipe", dataset, "--json"]
    command += ["--epsilon", str(epsilon), *(["--filters", str(filters)] if filters else [])]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.returncode)
    said = json.loads(done.stdout)
    name = f"{dataset}-{filters}-filters" if filters else dataset
    path = records.folder("recipes") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    other = {"filters": filters} if filters else {"test_accuracy": said["test_accuracy"]}
    content = {name: said[name] for name in _KEPT} | other
    records.write(path, "recipes", content | {"provenance": records.provenance(said["seconds"])})
    click.echo(f"{content['seconds']:.0f} s. Stored {path}")


if __name__ == "__main__":
    main()
