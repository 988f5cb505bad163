"""Bring results of the former form (format 1, one folder an experiment) into the store.

    python tools/bring_in_former.py FOLDER

FOLDER is a `results/` as a checkout up to 906d3dc wrote it. Every run and choice is read, its
checksum and its former identity verified, and stored in the present form: curve, epsilon and
provenance as they were, the former identity beside them. Of a run that is stored already the
earlier result counts; the other is kept in `results/repeats`. Nothing stored is replaced.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from dpstudy.lab import choices, records, store
from dpstudy.lab.choices import Choice, Kept
from dpstudy.lab.store import Result
from dpstudy.parts.activation import Activation, LayerWise, Linear, Relu, Tempered
from dpstudy.parts.dataset import Images
from dpstudy.parts.measure import Norms
from dpstudy.parts.mechanism import FlatClipping, NoPrivacy
from dpstudy.parts.optimizer import Adam, Sgd
from dpstudy.parts.part import KINDS
from dpstudy.parts.run import Run
from dpstudy.parts.sampling import Poisson, Shuffled

# What the former form left out.
DEFAULTS = {
    "dataset": "mnist", "model": "tempered-mnist", "activation": "tempered", "scale": 2.0,
    "inverse_temperature": 2.0, "offset": 1.0, "loss": "cross-entropy", "mechanism": "flat",
    "clip_norm": 0.1, "noise_multiplier": 1.23, "sampling": "poisson", "batch": 512, "epochs": 40,
    "optimizer": "sgd", "learning_rate": 0.5, "momentum": 0.9, "delta": 1e-5, "seed": 0,
    "width": 1.0, "record": "", "scale_2": 2.0, "inverse_temperature_2": 2.0, "offset_2": 1.0,
    "scale_3": 2.0, "inverse_temperature_3": 2.0, "offset_3": 1.0, "init": "glorot",
    "normalization": "",
}  # fmt: skip
MEASURED = {"gradient_norm": "norms.gradient", "activation_norm": "norms.activation"}


def digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of canonical JSON."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file in the former form; exit if it is not intact."""
    content = json.loads(path.read_text())
    stated = content.pop("checksum")
    if content["format"] != 1 or stated != digest(content):
        sys.exit(f"{path}: not an intact file of format 1")
    return content


def activation_of(old: dict[str, Any]) -> Activation:
    """Return the activation of a run in the former form."""

    def tempered(layer: str = "") -> Tempered:
        return Tempered(*(old[name + layer] for name in ("scale", "inverse_temperature", "offset")))

    return {
        "tempered": tempered,
        "relu": Relu,
        "none": Linear,
        "layer-wise": lambda: LayerWise(tuple(map(tempered, ("", "_2", "_3")))),
    }[old["activation"]]()


def run_of(fields: dict[str, Any]) -> Run:
    """Return the run that was written down in the former form."""
    old = DEFAULTS | fields
    private = old["mechanism"] == "flat"
    sgd = old["optimizer"] == "sgd"
    return Run(
        dataset=Images(old["dataset"], old["normalization"]),
        network=KINDS[old["model"]](activation_of(old), old["width"], old["init"]),
        mechanism=FlatClipping(old["clip_norm"], old["noise_multiplier"])
        if private
        else NoPrivacy(),
        sampling={"poisson": Poisson, "shuffled": Shuffled}[old["sampling"]](old["batch"]),
        optimizer=Sgd(old["learning_rate"], old["momentum"]) if sgd else Adam(old["learning_rate"]),
        epochs=old["epochs"],
        seed=old["seed"],
        measures=(Norms(),) if old["record"] == "norms" else (),
        delta=old["delta"],
    )


def result_of(path: Path) -> Result:
    """Return a result in the former form as one in the present."""
    content = read(path)
    former = digest(content["run"])[:16]
    if former != path.stem:
        sys.exit(f"{path}: holds the run {former}, which its name does not say")
    curve, recorded = content["curve"], content["run"].get("record") == "norms"
    return Result(
        run=run_of(content["run"]),
        curve={(MEASURED.get(k, k) if recorded else k): v for k, v in curve.items()},
        class_accuracy=content["class_accuracy"],
        diverged_at=content["diverged_at"],
        epsilon=content["epsilon"],
        provenance=content["provenance"] | {"former": f"{path.parent.name}/{former}"},
    )


def store_result(result: Result) -> str:
    """Store a result, or keep it as a repeat; say which."""
    folder, name = store.runs_folder(), result.name
    if (folder / name).exists():
        stored = store.read(folder / name)
        if stored.curve == result.curve:
            return "stored already"
        folder = store.results_folder() / "repeats"
        if (folder / name).exists():
            known = store.read(folder / name).curve == result.curve
            return "a repeat, kept already" if known else sys.exit(f"{name}: repeated twice")
    store.write(folder, store.completed(result))
    return f"to {folder.name}"


def choice_of(path: Path) -> Kept:
    """Return a choice in the former form as one in the present."""
    old = read(path)
    point = old["point"] and tuple(old["point"])
    chosen = Choice(run_of(old["run"]), old["by"], point)
    return Kept(old["experiment"], old["dataset"], old["label"], chosen)


def main(folder: Path) -> None:
    """Bring in what lies in `folder`."""
    paths = [path for path in sorted(folder.glob("tempered-sigmoids-*/*.json"))]
    results = [result_of(path) for path in paths]
    # The earlier of two counts.
    results.sort(key=lambda result: result.provenance["finished"])
    print(Counter(map(store_result, results)))
    kept = Counter()
    for path in sorted((folder / "searches").glob("*.json")):
        choice = choice_of(path)
        place = records.folder(choices.KIND)
        if not (place / choice.name).exists() or (place / choice.name) == path.resolve():
            choices.write(place, choice)
            kept["choices"] += 1
    print(kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
