"""A rule is older than the runs that decide it, or its claim says that it is not."""

import json
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from dpstudy.claims.claim import read_claims
from dpstudy.claims.evidence import Evidence
from dpstudy.claims.ledger import FOLDER

ROOT = Path(__file__).parents[1]
FILES = sorted(FOLDER.glob("*.yaml"))
# Published numbers that have another name since, and are the same.
RENAMED = {"relu, in the tutorial": "baseline, in the tutorial"}


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def what_decides(text):
    """Return, by the id of an entry, all on which its verdict depends beside the runs."""
    parts = ("rule", "experiment", "published")
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    entries = yaml.safe_load(text)
    return {
        one["id"]: json.dumps([one.get(part) for part in parts], sort_keys=True) for one in entries
    }


def since(versions):
    """Return, by the id of an entry, the time of the version since when it has been decided so."""
    found = {}
    for moment, text in versions:
        now = what_decides(text)
        found = {
            name: found[name] if name in found and found[name][0] == rule else (rule, moment)
            for name, rule in now.items()
        }
    return {name: moment for name, (_, moment) in found.items()}


def versions_of(path):
    """Yield the time and text of each version of a file, the oldest first, the present one last."""
    name = path.relative_to(ROOT).as_posix()
    for line in git("log", "--reverse", "--format=%H %at", "--", name).splitlines():
        commit, moment = line.split()
        if text := git("show", f"{commit}:{name}"):
            yield int(moment), text
    yield time.time(), path.read_text()


def last_finished(evidence, claim):
    """Return when the last of the runs that decide a claim ended; None if some are missing."""
    sides = [
        evidence.side(selector, claim.experiment, claim.dataset)
        for selector in claim.rule.selectors
    ]
    if not sides or not all(side.variants for side in sides):
        return None
    return max(
        datetime.fromisoformat(result.provenance["finished"]).timestamp()
        for side in sides
        for trained in side.variants
        for _, result in trained.reading.found
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_rule_is_older_than_the_runs_that_decide_it_or_says_so(path):
    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("needs the history")
    written, evidence = since(versions_of(path)), Evidence()
    wrong = []
    for claim in read_claims(path):
        finished = last_finished(evidence, claim)
        entry = claim.id if claim.id in written else claim.id.removesuffix(f"-{claim.dataset}")
        if finished is not None and claim.rule_after_runs != (finished < written[entry]):
            wrong.append(claim.id)
    assert wrong == []


def test_a_rule_is_as_old_as_its_present_wording():
    def one(rule, **fields):
        return yaml.safe_dump([{"id": "a", "rule": rule, "says": "So."} | fields])

    versions = [
        (1, one("old")),
        (2, one("new")),
        (3, one("new", says="So it is.")),
        (4, one("new", published="x")),
        (5, one("new", published="x")),
    ]
    assert since(versions[:2]) == {"a": 2}
    assert since(versions[:3]) == {"a": 2}
    assert since(versions) == {"a": 4}
