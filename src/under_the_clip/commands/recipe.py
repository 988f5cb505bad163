"""`dpstudy recipe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from under_the_clip.commands import stopping
from under_the_clip.commands.privacy import warn_of_delta
from under_the_clip.commands.shell import JSON

if TYPE_CHECKING:
    from dpstudy.parts.run import Run
    from dpstudy.recipe.model import Model


@click.command()
@click.argument("dataset")
@click.option("--epsilon", type=float, required=True, help="The ε to spend, at δ = 1e-5.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Of features, batches and noise. Keep it secret where the images are: it draws the noise.",
)
@click.option(
    "--save",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the model, as a .npz file. It holds the seed, by which its noise is drawn.",
)
@JSON
@stopping.terminated_as_by_ctrl_c()
def recipe(dataset: str, epsilon: float, seed: int, path: Path | None, as_json: bool) -> None:
    """Train a linear head on features of synthetic images, by DP-SGD.

    DATASET is mnist, fashion-mnist, cifar-10, or mnist-5k, which needs no download and half a
    minute. Features of the others take minutes, once: they are kept in the user's cache.

    dpstudy recipe mnist-5k --epsilon 3 --save digits.npz
    """
    import time

    from dpstudy.lab import store
    from dpstudy.privacy.run_epsilon import epsilon_curve
    from dpstudy.recipe import model
    from dpstudy.recipe.run import recipe_at

    started = time.monotonic()
    if path is not None:
        model.check_place(path)
    run = recipe_at(dataset, epsilon, seed)
    warn_of_delta(run.delta, run.dataset.examples)
    trained, accuracy = _train(run)
    said = {
        "dataset": dataset,
        "test_accuracy": accuracy,
        "epsilon": epsilon_curve(run, [run.epochs * run.steps_per_epoch])["pld"][0],
        "delta": run.delta,
        "noise_multiplier": run.mechanism.noise_multiplier,
        "seconds": round(time.monotonic() - started, 1),
        "peak_megabytes": store.peak_megabytes(),
    }
    click.echo(json.dumps(said) if as_json else _in_words(said))
    if path is not None:
        trained.save(path)
        click.echo(f"the model is in {path}", err=as_json)


def _in_words(said: dict[str, Any]) -> str:
    from dpstudy.lab.wording import rounded_up

    peak = said["peak_megabytes"]
    held = f" and {peak / 1000:.1f} GB" if peak is not None else ""
    spent = rounded_up(said["epsilon"], 3)
    return (
        f"{said['dataset']}: test accuracy {said['test_accuracy']:.2%} at ε = "
        f"{spent}, δ = {said['delta']:g}, in {said['seconds']:.0f} s{held}"
    )


def _train(run: Run) -> tuple[Model, float]:
    """Return the trained model and its test accuracy, with a bar over the epochs."""
    from tqdm import tqdm

    from dpstudy.recipe.model import Model, witness_of
    from dpstudy.training import loop

    # Before the examples are in memory, which take as much.
    witness = witness_of(run.dataset, run.dataset.basis())
    data, mean = run.dataset.load_with_mean()
    epochs = loop.train([run], data, run.network.examples_at_once())
    for seen, states in tqdm(epochs, desc="head", total=run.epochs + 1, unit="epoch"):
        last, params = seen[0], states.params
        kernel = np.asarray(loop.item(0, params)["dense1"]["kernel"][...])
    return Model(run.dataset, kernel, mean, witness), last.row["test_accuracy"]
