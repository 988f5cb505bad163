"""Statements as the book numbers them: each has a label, and a link to its claim in the ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpstudy.claims.rules import Statement as Rule
from dpstudy.page.figure import Several
from dpstudy.propositions.statement import Statement
from under_the_clip.claims import CLAIMS

_IN_LEDGER = {
    rule.name: claim.id
    for claims in CLAIMS.values()
    for claim in claims
    for rule in claim.rules.values()
    if isinstance(rule, Rule)
}


@dataclass(frozen=True, kw_only=True)
class Numbered(Several):
    """Tables of statements where a notebook is read; propositions with numbers in the book.

    Attributes:
        statements: by the title of the part that they stand for, each with what was found; see
            `storing.content`.
    """

    statements: Mapping[str, list[tuple[Statement, dict[str, Any]]]]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        shown = []
        for part, title in zip(self.parts, self.titles, strict=True):
            held = [_proposition(*one) for one in self.statements.get(title, [])]
            html = part.download() if held else part._repr_html_()
            body = "\n\n".join([*held, f"```{{raw}} html\n{html}\n```"])
            shown.append(f":::::{{dropdown}} {title}\n{body}\n:::::" if title else body)
        return super()._repr_mimebundle_() | {"text/markdown": "\n\n".join(shown)}


def _proposition(statement: Statement, found: dict[str, Any]) -> str:
    claim = _IN_LEDGER.get(statement.name)
    lines = [
        _plain(statement.says),
        f"*{found['verdict'].capitalize()}.* {_plain(found['finding'])}",
        f"Would fall to: {_plain(statement.refuted_by)}",
        f"Holds instead: {_plain(statement.instead)}" if statement.instead else "",
        f'<a href="10_claims.html#claim-{claim}">In the ledger</a>' if claim else "",
    ]
    body = "\n\n".join(line for line in lines if line)
    place = _plain(statement.where)
    return f"::::{{prf:proposition}} {place}\n:label: {statement.name}\n\n{body}\n::::"


def _plain(text: str) -> str:
    """Return text so that Markdown takes it as it is."""
    return re.sub(r"([\\`*_{}\[\]<>$#~^|])", r"\\\1", text)
