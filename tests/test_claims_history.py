"""A claim's entry is older than the runs that decide it, or says that it is not.

Read from the history, where there is one that reaches back before the runs.
"""

import json
import subprocess
import time
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
import yaml

from dpstudy.lab import readings
from dpstudy.papers import EXPERIMENTS
from dpstudy.papers.claims import FOLDER, read

ROOT = Path(__file__).parents[1]
# Published numbers and quantities that have another name since, and are the same.
RENAMED = {
    "relu, in the tutorial": "baseline, in the tutorial",
    "norms.gradient": "gradient_norm",
    "norms.activation": "activation_norm",
}


def git(*arguments):
    """Return what git says of this checkout; nothing where there is no git or no checkout."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def what_decides(text):
    """Return all on which verdicts depend beside the runs, by an entry's id and dataset."""
    parts = ("rule", "experiment", "published")
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    entries = yaml.safe_load(text)
    return {
        f"{one['id']}-{dataset}" if dataset else one["id"]: json.dumps(
            [one.get(part) for part in parts], sort_keys=True
        )
        for one in entries
        for dataset in one.get("datasets", [None])
    }


def since(versions):
    """Return the time of the version since when each has been decided so, by the same."""
    found = {}
    for moment, text in versions:
        now = what_decides(text)
        found = {
            name: found[name] if name in found and found[name][0] == rule else (rule, moment)
            for name, rule in now.items()
        }
    return {name: moment for name, (_, moment) in found.items()}


def versions_of(path):
    """Yield the time and text of each version of a file, the oldest first, the present one last.

    Under whatever name it had: the files moved into the papers' folders.
    """
    log = ("log", "--follow", "--no-merges", "--name-only", "--format=%H %at", "--", str(path))
    words = git(*log).split()
    for commit, moment, name in reversed(list(zip(*[iter(words)] * 3, strict=True))):
        if text := git("show", f"{commit}:{name}"):
            yield int(moment), text
    yield time.time(), path.read_text()


@cache
def stored(experiment, dataset):
    if experiment not in EXPERIMENTS or dataset not in EXPERIMENTS[experiment].datasets:
        return []
    return readings.read(EXPERIMENTS[experiment], dataset=dataset).found


def finished(claim):
    """Return when each stored run ended that decides a claim, or will."""
    return [
        datetime.fromisoformat(result.provenance["finished"]).timestamp()
        for selector in claim.rule.selectors
        for label, result in stored(selector.experiment or claim.experiment, claim.dataset)
        if fnmatchcase(label, selector.variant)
    ]


def test_a_claim_is_older_than_the_runs_that_decide_it_or_says_so(monkeypatch):
    monkeypatch.delenv("DPSTUDY_RESULTS", raising=False)
    path = FOLDER / "tempered_sigmoids" / "tempered-sigmoids.yaml"
    times = {claim: finished(claim) for claim in read(path)}
    decided = {claim: ended for claim, ended in times.items() if ended}
    assert decided, "the study's results decide claims"
    versions = list(versions_of(path))
    if git("rev-parse", "--show-toplevel") != str(ROOT) or versions[0][0] > max(
        map(max, decided.values())
    ):
        pytest.skip("no history that reaches back before the runs")
    written, unsaid = since(versions), []
    for claim, ended in decided.items():
        # An entry with one dataset has the claim's id alone.
        name = claim.id if claim.id in written else f"{claim.id}-{claim.dataset}"
        if min(ended) < written[name] and not claim.rule_after_runs:
            unsaid.append(claim.id)
    assert unsaid == []


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


def test_a_dataset_that_joins_an_entry_is_as_old_as_its_joining():
    versions = [
        (1, yaml.safe_dump([{"id": "a", "rule": "one", "datasets": ["mnist"]}])),
        (2, yaml.safe_dump([{"id": "a", "rule": "one", "datasets": ["mnist", "cifar-10"]}])),
    ]
    assert since(versions) == {"a-mnist": 1, "a-cifar-10": 2}
