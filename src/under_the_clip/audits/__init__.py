"""What can be proven against each mechanism's epsilon, and how near networks come to its bound.

`dpstudy audit` runs them; pages show what is stored of them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from tqdm.auto import tqdm

from dpstudy.errors import check_known
from dpstudy.gradients import devices
from under_the_clip.audits import mechanisms
from under_the_clip.audits.white_box import Audited, LayerAttack

AUDITS: dict[str, Audited | LayerAttack] = {
    audit.name: audit for audit in (*mechanisms.AUDITS, *mechanisms.LAYER_ATTACKS)
}


def find(name: str) -> Audited | LayerAttack:
    """Return the audit of that name, or raise UserError that lists the names."""
    check_known("audit", name, AUDITS)
    return AUDITS[name]


def carry_out(
    audits: Iterable[Audited | LayerAttack],
) -> Iterator[tuple[Audited | LayerAttack, dict[str, Any]]]:
    """Carry out one audit after the other, with a bar; yield each with what it came to."""
    devices.backend()
    with tqdm(list(audits), unit="audit", dynamic_ncols=True) as bar:
        for audit in bar:
            bar.set_description(audit.name)
            yield audit, audit.carry_out()
