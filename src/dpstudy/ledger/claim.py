"""A claim of a paper, as the ledger's YAML files state it: one file a paper, checked on reading.

An entry with several `datasets` is one claim a dataset: the dataset's name is appended to the id,
and stands for `{dataset}` in the names of published numbers and in what the claim says. Under
`rule_after_runs` stand those of its datasets on which some of the runs that decide it ended before
the rule was written, or mended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from dpstudy.errors import UserError
from dpstudy.ledger.evidence import Selector
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules import KINDS
from dpstudy.ledger.rules.rule import Field, Rule
from dpstudy.ledger.wording import QUANTITIES, Quantity
from dpstudy.parts.images import DATASETS
from dpstudy.parts.part import KINDS as PARTS
from dpstudy.parts.run import Run

_REQUIRED = ("id", "where", "says", "rule")
_OPTIONAL = ("published", "experiment", "datasets", "rule_after_runs")
# Each once, in an order that is the same every time: a message lists them.
_FIELDS = tuple(dict.fromkeys(f.name for part in (Run, *PARTS.values()) for f in fields(part)))


class ClaimError(UserError):
    """An entry that cannot be: the message names the file, the claim and the field."""


@dataclass(frozen=True)
class Claim:
    """One number, ordering or bound that a paper states.

    Attributes:
        id: lower-case words joined by hyphens, unique in the ledger.
        paper: its short name.
        where: the place in the paper.
        says: what it says, in the study's words.
        published: its numbers, in the order that the rule takes them.
        experiment: whose runs test it; None for statements, and for what nothing tests.
        dataset: on which; None for statements.
        rule: what turns stored results into a verdict.
        rule_after_runs: whether runs that decide it ended before the rule was written or mended.
    """

    id: str
    paper: str
    where: str
    says: str
    published: tuple[Number, ...]
    experiment: str | None
    dataset: str | None
    rule: Rule
    rule_after_runs: bool = False


def read_claims(path: Path, paper: str, numbers: Mapping[str, Number]) -> list[Claim]:
    """Return the claims of one paper's file, in its order.

    Args:
        path: the file.
        paper: the paper's short name.
        numbers: what the paper published, by the names that the file has for it.

    Raises:
        ClaimError: the file or one of its entries is malformed.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ClaimError(f"{path.name}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise ClaimError(f"{path.name}: not intact YAML{where}") from error
    if not isinstance(entries, list):
        raise ClaimError(f"{path.name}: not a list of claims")
    claims = [
        claim
        for place, entry in enumerate(entries, start=1)
        for claim in _Reader(path.name, paper, numbers, place, entry).claims()
    ]
    for claim in claims:
        if [other.id for other in claims].count(claim.id) > 1:
            raise ClaimError(f"{path.name}: claim {claim.id}: field 'id': given twice")
    return claims


class _Reader:
    """Reads one entry; every complaint names the file, the claim and the field."""

    def __init__(
        self, file: str, paper: str, numbers: Mapping[str, Number], place: int, entry: Any
    ) -> None:
        self.file, self.paper, self.numbers = file, paper, numbers
        if not isinstance(entry, dict):
            raise ClaimError(f"{file}: claim number {place}: not a table of fields")
        self.name = str(entry.get("id", f"number {place}"))
        self.entry: dict[str, Any] = entry

    def claims(self) -> list[Claim]:
        """Return the entry's claims, one a dataset."""
        for name in self.entry:
            if name not in _REQUIRED and name not in _OPTIONAL:
                valid = ", ".join((*_REQUIRED, *_OPTIONAL))
                raise self.error(str(name), f"unknown; one of: {valid}")
        for name in _REQUIRED:
            if name not in self.entry:
                raise self.error(name, "missing")
        datasets = self._datasets()
        for name in self._typed(self._late, "rule_after_runs", list, "a list of names"):
            self._one_of(name, "rule_after_runs", filter(None, datasets))
        if len(datasets) == 1:
            return [self._claim(datasets[0], self.text("id"))]
        return [self._claim(dataset, f"{self.text('id')}-{dataset}") for dataset in datasets]

    def error(self, field: str, problem: str) -> ClaimError:
        """Return what to raise about a field."""
        return ClaimError(f"{self.file}: claim {self.name}: field {field!r}: {problem}")

    def text(self, name: str) -> str:
        """Return a field that must be text."""
        value = self.entry[name]
        if not isinstance(value, str) or not value.strip():
            raise self.error(name, f"must be text, got {value!r}")
        return " ".join(value.split())

    @property
    def _late(self) -> list[str]:
        return self.entry.get("rule_after_runs", [])

    def _datasets(self) -> list[str | None]:
        datasets = self.entry.get("datasets", [None])
        if not isinstance(datasets, list) or not datasets:
            raise self.error("datasets", f"must be a list of names, got {datasets!r}")
        if "datasets" in self.entry:
            for name in datasets:
                self._one_of(name, "datasets", DATASETS)
        return datasets

    def _claim(self, dataset: str | None, name: str) -> Claim:
        given = self.entry.get("published", [])
        names = given if isinstance(given, list) else [given]
        numbers = tuple(self._number(item, dataset, "published") for item in names)
        rule = self._rule(dataset)
        if len(numbers) not in rule.takes:
            takes = " or ".join(map(str, rule.takes))
            problem = f"rule {rule.kind} takes {takes} numbers, got {len(numbers)}"
            raise self.error("published", problem)
        if rule.selectors and dataset is None:
            raise self.error("datasets", f"missing, and rule {rule.kind} needs one")
        return Claim(
            id=name,
            paper=self.paper,
            where=self.text("where"),
            says=self.text("says").replace("{dataset}", DATASETS.get(dataset or "", "")),
            published=numbers,
            experiment=self.text("experiment") if "experiment" in self.entry else None,
            dataset=dataset,
            rule=rule,
            rule_after_runs=dataset in self._late,
        )

    def _number(self, name: Any, dataset: str | None, field: str) -> Number:
        if not isinstance(name, str):
            problem = f"must name a published number, got {name!r}; numbers live in published.py"
            raise self.error(field, problem)
        name = name.replace("{dataset}", dataset or "")
        if name not in self.numbers:
            raise self.error(field, f"no published number {name!r} of {self.paper}")
        return self.numbers[name]

    def _rule(self, dataset: str | None) -> Rule:
        given = self.entry["rule"]
        kind = given.get("kind") if isinstance(given, dict) else None
        rule = KINDS[self._one_of(kind, "rule.kind", KINDS)]
        wanted = {item.name: item for item in fields(rule)}
        hints = get_type_hints(rule)
        for name in given:
            if name != "kind" and name not in wanted:
                raise self.error(f"rule.{name}", f"unknown; one of: {', '.join(wanted)}")
        for name, item in wanted.items():
            if name not in given and item.default is MISSING:
                raise self.error(f"rule.{name}", "missing")
        parsers = self._parsers(dataset)
        return rule(
            **{
                name: parsers[hints[name]](value, f"rule.{name}")
                for name, value in given.items()
                if name != "kind"
            }
        )

    def _parsers(self, dataset: str | None) -> Mapping[Any, Callable[[Any, str], Any]]:
        """Return, by the type of a rule's field, what makes its value from YAML."""
        return {
            Selector: self._selector,
            Number | None: lambda value, field: self._number(value, dataset, field),
            Quantity: lambda value, field: self._one_of(value, field, QUANTITIES),
            Field: lambda value, field: self._one_of(value, field, _FIELDS),
            tuple[Field, ...]: lambda value, field: tuple(
                self._one_of(item, field, _FIELDS)
                for item in self._typed(value, field, list, "a list of names")
            ),
            str: lambda value, field: self._typed(value, field, str, "text"),
            bool: lambda value, field: self._typed(value, field, bool, "true or false"),
        }

    def _typed(self, value: Any, field: str, kind: type, words: str) -> Any:
        if not isinstance(value, kind):
            raise self.error(field, f"must be {words}, got {value!r}")
        return value

    def _one_of(self, value: Any, field: str, valid: Iterable[str]) -> str:
        valid = list(valid)
        if value not in valid:
            raise self.error(field, f"unknown: {value!r}; one of: {', '.join(valid)}")
        return value

    def _selector(self, value: Any, field: str) -> Selector:
        if isinstance(value, str):
            return Selector(value)
        parts = value if isinstance(value, dict) else {}
        if set(parts) != {"experiment", "variant"} or not all(
            isinstance(part, str) for part in parts.values()
        ):
            raise self.error(field, f"must be a variant, or experiment and variant, got {value!r}")
        return Selector(**parts)
