"""An experiment with fields of its runs changed, as somebody asks for on the command line.

Such runs are stored by their own identity, beside all others: an experiment reads what it asks for
by name, so that none of its rows, choices and claims is ever one of these.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from dpstudy.errors import UserError, meant
from dpstudy.lab.experiment import Experiment
from dpstudy.parts.run import Run, fields_of, vary_as_written


@dataclass(frozen=True, kw_only=True)
class Changed(Experiment):
    """An experiment's runs, those that a search has chosen so far among them, with changes.

    It chooses nothing, and gives up no run.

    Attributes:
        changes: by field of a run, its new value as text: see `vary_as_written`.
        left_out: labels of the variants that lack one of the fields.

    >>> plain = Experiment("tanh", "Plain", {"tanh": (Run(),)}, seeds={"mnist": 2})
    >>> [run.mechanism.clip_norm for run in Changed.of(plain, {"clip_norm": "0.5"}).runs()]
    [0.5, 0.5]
    """

    changes: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, experiment: Experiment, changes: Mapping[str, str]) -> Self:
        """Return an experiment with changes; UserError, with the nearest field, if it has none."""
        variants: dict[str, dict[Run, None]] = {}
        for label, run in experiment.labelled():
            variants.setdefault(label, {})[run.at_seed(0)] = None
        has = {label: set.intersection(*map(fields_of, runs)) for label, runs in variants.items()}
        for name in changes:
            if not any(name in fields for fields in has.values()):
                near = meant(name, sorted(set().union(*has.values())))
                raise UserError(f"no run of {experiment.name} has a field {name!r}; {near}")
        kept = [label for label, fields in has.items() if fields.issuperset(changes)]
        if not kept:
            raise UserError(f"no run of {experiment.name} has all of: {', '.join(changes)}")
        return cls(
            name=f"{experiment.name} with {', '.join(map('='.join, changes.items()))}",
            title=experiment.title,
            variants={label: tuple(variants[label]) for label in kept},
            seeds=experiment.seeds,
            in_smoke=tuple(label for label in experiment.in_smoke if label in kept),
            changes=changes,
            left_out=tuple(label for label in has if label not in kept),
        )

    def labelled(
        self, profile: str = "full", *, dataset: str | None = None, seeds: int | None = None
    ) -> list[tuple[str, Run]]:
        """Return (variant label, changed run) pairs; SpecError if a field has no such value."""
        plain = super().labelled(profile, dataset=dataset, seeds=seeds)
        return [(label, vary_as_written(run, self.changes)) for label, run in plain]


def changes_of(written: Iterable[str]) -> dict[str, str]:
    """Return changes by field from texts such as "clip_norm=0.5"; UserError of others.

    A field that is given twice is one too.

    >>> changes_of(["clip_norm=0.5", "epochs=3"])
    {'clip_norm': '0.5', 'epochs': '3'}
    """
    changes: dict[str, str] = {}
    for text in written:
        name, equals, value = map(str.strip, text.partition("="))
        if not (name and equals and value):
            raise UserError(f"a change is written FIELD=VALUE, such as clip_norm=0.5, got {text!r}")
        if name in changes:
            raise UserError(f"{name} is set twice, to {changes[name]} and to {value}")
        changes[name] = value
    return changes
