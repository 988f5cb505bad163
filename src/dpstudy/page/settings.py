"""The settings of a paper's private runs, a column a dataset."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dpstudy.page.figure import Table
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.run import Run, setting

NAMES = {
    "clipping norm C": "clip_norm",
    "noise multiplier σ": "noise_multiplier",
    "expected batch size": "batch",
    "epochs": "epochs",
    "learning rate": "learning_rate",
    "momentum": "momentum",
}


def settings_of(runs: Mapping[str, Run], *, name: str, caption: str) -> Table:
    """Return the settings of runs of DP-SGD by flat clipping and SGD, by dataset."""
    data = pd.DataFrame({"setting": list(NAMES)})
    for dataset, run in runs.items():
        data[DATASETS[dataset]] = [setting(run, field) for field in NAMES.values()]
    formats = dict.fromkeys(data.columns[1:], "{:g}")
    return Table(name=name, caption=caption, data=data, formats=formats)
