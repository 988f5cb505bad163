"""`dpstudy recipe`: a private classifier of images, trained, kept in a file, and used."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpstudy import files
from dpstudy.errors import DataError, UserError
from under_the_clip.commands import stopping
from under_the_clip.commands.privacy import warn_of_delta
from under_the_clip.commands.shell import JSON, complain

if TYPE_CHECKING:
    from dpstudy.recipe import PrivateImageClassifier


@click.command()
@click.argument("source")
@click.argument("pictures", nargs=-1, metavar="[PICTURE]...")
@click.option("--epsilon", type=float, help="The ε to spend.")
@click.option(
    "--delta",
    type=float,
    help="The δ of (ε, δ); by default 1e-5, or less for 100,000 images or more.",
)
@click.option(
    "--test",
    type=click.Path(path_type=Path),
    metavar="FOLDER|FILE",
    help="Labelled pictures to state an accuracy on; ε does not cover them.",
)
@click.option(
    "--features",
    metavar="small|DATASET",
    help="Whose features to take of pictures: by default fashion-mnist's for grey ones, cifar-10's "
    "for others. Small ones are few, and take less than a minute; mnist's make digits upright, as "
    "mnist-5k's do, which are few.",
)
@click.option(
    "--filters",
    type=int,
    metavar="N",
    help="How many filters the features of photographs have: 600 if you name none. Fewer take less "
    "time and memory; chapter 8 shows what each number is worth.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    help="Of batches and noise, which are then known. By default a secret one, not kept.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Noise and batches from the operating system's generator, safe against attacks on "
    "floating point.",
)
@click.option(
    "--save",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the model, as a .npz file.",
)
@click.option("--classify", is_flag=True, help="Classify the PICTUREs that follow.")
@JSON
@stopping.terminated_as_by_ctrl_c()
def recipe(
    source: str,
    pictures: tuple[str, ...],
    epsilon: float | None,
    classify: bool,
    path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a private classifier of images: a linear head on features of drawn images, by DP-SGD.

    SOURCE is a folder with a folder of pictures for each class (or with two such, `train` and
    `test`); a .npz file of `images` and `labels`; one of mnist, fashion-mnist, cifar-10, and
    mnist-5k, which needs no download and half a minute; or a saved model, to classify by. Features
    take minutes the first time: what is public of them is kept in the user's cache.

    dpstudy recipe pictures/ --epsilon 3 --save model.npz

    dpstudy recipe model.npz --classify one.png other.jpg
    """
    from dpstudy.parts.data.images import DATASETS

    started = time.monotonic()
    if options["secure"] and options["seed"] is not None:
        raise UserError("the noise of --secure has no seed: leave --seed out")
    if not source:
        raise UserError("SOURCE is empty: name a folder, a file or a dataset")
    if classify != bool(pictures):
        raise UserError("name pictures after --classify, and nothing else after SOURCE")
    if path is not None:
        files.check_new(path, DataError)
    with _warnings_as_lines():
        if source not in DATASETS and _is_model(Path(source)):
            if _given() - {"source", "pictures", "classify", "as_json"} or not classify:
                raise UserError(
                    f"{source} is a trained model: give it --classify, pictures and nothing else"
                )
            from dpstudy.recipe import load

            model, said = load(source), {}
        else:
            model, said = _trained(source, epsilon, pictures, options)
            said |= _spent(model, started)
        said |= {"classified": _classified(model, pictures)} if classify else {}
    if path is not None:  # first: whatever becomes of what is printed, ε is spent once
        # What has come to be there during the training is kept as well.
        path = files.free_name(path)
        model.save(path)
    click.echo(json.dumps(said, ensure_ascii=False) if as_json else _in_words(said))
    if path is not None:
        click.echo(f"the model is in {path}", err=as_json)


def _given() -> set[str]:
    """Return the names of the arguments and options that were typed."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    return {name for name in context.params if context.get_parameter_source(name) is typed}


def _is_model(source: Path) -> bool:
    """Say whether a file is one that was saved: sealed, or it is something else."""
    try:
        files.check_seal(source)
    except (OSError, ValueError):
        return False
    return True


def _trained(
    source: str, epsilon: float | None, pictures: tuple[str, ...], options: dict[str, Any]
) -> tuple[PrivateImageClassifier, dict[str, Any]]:
    """Return the trained classifier, and what is to be said of its data and accuracy."""
    from dpstudy.parts.data.images import DATASETS

    if epsilon is None:
        cut = f"; if {source} is a model, it was altered or cut short"
        cut = cut if pictures and Path(source).is_file() else ""
        raise UserError(f"--epsilon is missing: how much privacy may be spent{cut}")
    if source in DATASETS:
        return _on_dataset(source, epsilon, pictures, options)
    if not Path(source).exists():
        raise UserError(
            f"{source} is no folder or file here, and none of the datasets {', '.join(DATASETS)}"
        )
    return _on_pictures(Path(source), epsilon, pictures, options)


def _on_dataset(
    source: str, epsilon: float, pictures: tuple[str, ...], options: dict[str, Any]
) -> tuple[PrivateImageClassifier, dict[str, Any]]:
    from dpstudy.recipe import on_dataset
    from dpstudy.recipe.pictures import check
    from dpstudy.recipe.run import recipe_at

    if options["test"] or options["features"]:
        raise UserError(f"{source} has a test set and features of its own: leave out the option")
    check(pictures)
    # Whatever draws the noise: a saved model names the seed of its features.
    run = recipe_at(source, epsilon, delta=options["delta"], filters=options["filters"])
    warn_of_delta(run.delta, run.dataset.examples)
    model, accuracy = on_dataset.train(run, seed=options["seed"], secure=options["secure"])
    return model, {"dataset": source, "test_accuracy": accuracy}


def _on_pictures(
    source: Path, epsilon: float, pictures: tuple[str, ...], options: dict[str, Any]
) -> tuple[PrivateImageClassifier, dict[str, Any]]:
    from dpstudy.recipe import PrivateImageClassifier
    from dpstudy.recipe.classifier import paired
    from dpstudy.recipe.pictures import check, of_source

    data = of_source(source)
    test = of_source(options["test"]) if options["test"] else data.test
    if test and (strange := set(test.labels) - set(data.labels)):
        raise UserError(f"the test set has a class {sorted(strange)[0]!r}, and {source} has none")
    check(pictures)
    if test:
        check(paired(test.pictures, test.labels))
    model = PrivateImageClassifier(
        epsilon,
        delta=options["delta"],
        features=options["features"],
        filters=options["filters"],
        random_state=options["seed"],
        secure=options["secure"],
    ).fit(data.pictures, data.labels)
    return model, {
        "dataset": str(source),
        "test_accuracy": model.score(test.pictures, test.labels) if test else None,
    }


def _spent(model: PrivateImageClassifier, started: float) -> dict[str, Any]:
    from dpstudy.lab import store

    return {
        "epsilon": model.epsilon_,
        "delta": model.delta_,
        "noise_multiplier": model.statement_.numbers["noise_multiplier"],
        "seconds": round(time.monotonic() - started, 1),
        "peak_megabytes": store.peak_megabytes(),
        "statement": model.statement_.to_dict(),
    }


def _classified(model: PrivateImageClassifier, pictures: tuple[str, ...]) -> list[dict[str, Any]]:
    found = model.predict_proba(list(pictures))
    classes = model.classes_.tolist()
    return [
        {"picture": name, "label": classes[row.argmax()], "probability": round(float(row.max()), 4)}
        for name, row in zip(pictures, found, strict=True)
    ]


def _in_words(said: dict[str, Any]) -> str:
    from dpstudy.lab.wording import rounded_up
    from dpstudy.privacy.statement import Statement

    lines = []
    if "epsilon" in said:
        peak, accuracy = said["peak_megabytes"], said["test_accuracy"]
        held = f" and {peak / 1000:.1f} GB" if peak is not None else ""
        reached = f"test accuracy {accuracy:.2%}" if accuracy is not None else "trained"
        lines += [
            f"{said['dataset']}: {reached} at ε = {rounded_up(said['epsilon'], 3)}, "
            f"δ = {said['delta']}, in {said['seconds']:.0f} s{held}",
            "",
            str(Statement.from_dict(said["statement"])),
        ]
    lines += [
        f"{one['picture']}: {one['label']} ({one['probability']:.0%})"
        for one in said.get("classified", ())
    ]
    return "\n".join(lines)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print what the classifier warns of as lines, each once; other warnings as ever."""
    from dpstudy.recipe import PictureNote, PrivacyWarning

    with warnings.catch_warnings():
        for kind in (PictureNote, PrivacyWarning):
            warnings.simplefilter("always", kind)
        shown = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any) -> None:
            if issubclass(category, PictureNote | PrivacyWarning):
                complain(f"warning: {message}" if category is PrivacyWarning else str(message))
            else:
                shown(message, category, *where)

        warnings.showwarning = show
        yield
