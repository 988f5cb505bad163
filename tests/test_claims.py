"""The ledger: claims are complete, verdicts follow the store, page and terminal show them."""

import fnmatch
import json
import re
from pathlib import Path

import jupytext
import pytest
from prose import study_ledger
from results_for_tests import dpstudy, figures_in, result_of, rewrite

from dpstudy.claims.claim import NO_DATASET
from dpstudy.claims.ledger import Ledger
from dpstudy.lab import records, store
from dpstudy.lab.verdict import Verdict
from dpstudy.page.figure import Captioned
from under_the_clip.claims import CLAIMS, KEYS, ledger
from under_the_clip.experiments import EXPERIMENTS
from under_the_clip.ledger import figures as page
from under_the_clip.statements import STATEMENTS
from under_the_clip.tempered_sigmoids.published import NUMBERS

ROOT = Path(__file__).parents[1]
FIGURE_3 = EXPERIMENTS["tempered-sigmoids-figure-3"]
EVERY = [(paper, claim) for paper, claims in CLAIMS.items() for claim in claims]
REPRODUCED, PARTLY, UNDECIDED, NOT_REPRODUCED = list(Verdict)[:4]
REFUTED, MISPRINT, NOT_YET_RUN, NOT_TESTED = list(Verdict)[4:]


def fill_figure_3(tanh=0.981, relu=0.966, seeds=10):
    paths = []
    spent = {name: [2.95] * 40 for name in ("pld", "rdp", "rdp-2019")} | {"pld": [2.3] * 40}
    for label, run in FIGURE_3.labelled(dataset="mnist", seeds=seeds):
        accuracy = {"tanh": tanh, "relu": relu}[label]
        classes = [accuracy, accuracy - 0.02] * 5
        result = result_of(run, accuracy=accuracy, epsilon=spent, class_accuracy=classes)
        paths.append((label, store.write(store.runs_folder(), result)))
    return paths


def alter_tanh(paths, epoch, accuracy):
    """Seal tanh's files again with another accuracy after an epoch."""
    for label, path in paths:
        if label == "tanh":
            rewrite(path, lambda of: of["curve"]["test_accuracy"].__setitem__(epoch, accuracy))


def verdicts():
    return {one.id: one.outcome.verdict for one in ledger("tempered-sigmoids").entries}


def test_a_changed_result_changes_its_verdict(results):
    """Claims of the study's own ledger, on results that are altered and sealed again."""
    paths = fill_figure_3()
    before = verdicts()
    assert before["figure-3-tanh-mnist"] == before["above-relu-shared-mnist"] == REPRODUCED
    alter_tanh(paths, -1, 0.95)
    after = verdicts()
    assert after["figure-3-tanh-mnist"] == after["above-relu-shared-mnist"] == NOT_REPRODUCED
    assert after["table-3-relu-shared-mnist"] == before["table-3-relu-shared-mnist"] == REPRODUCED


def test_one_seed_far_off_leaves_it_undecided(results):
    alter_tanh(fill_figure_3()[:2], -1, 0.9)
    assert verdicts()["above-relu-shared-mnist"] == UNDECIDED


def test_a_verdict_follows_the_last_epoch_not_the_best(results):
    alter_tanh(fill_figure_3(), 20, 0.999)
    assert verdicts()["figure-3-tanh-mnist"] == REPRODUCED
    alter_tanh(fill_figure_3(tanh=0.97), 20, 0.981)
    assert verdicts()["figure-3-tanh-mnist"] == NOT_REPRODUCED


def test_without_results_every_claim_is_not_yet_run(results):
    for one in ledger().entries:
        if one.rule.kind in ("accounted", "times-one"):  # Of published settings alone.
            assert one.outcome.verdict in (NOT_REPRODUCED, PARTLY) and not one.rule.sides
            continue
        assert one.outcome.verdict in (NOT_YET_RUN, NOT_TESTED) and one.outcome.found == 0
        assert not one.outcome.ours and not one.outcome.shown
        assert one.outcome.finding.startswith(("Not yet run: ", "Not tested: "))


def test_some_seeds_are_not_enough_and_are_counted(results):
    fill_figure_3(seeds=3)
    [one] = [e for e in ledger().entries if e.id == "figure-3-tanh-mnist"]
    assert (one.outcome.found, one.outcome.needed) == (3, 10)
    assert one.outcome.short == "not yet run (3 of 10)"
    assert f"dpstudy run {FIGURE_3.name} --profile full --dataset mnist" in one.outcome.finding


def test_a_damaged_file_is_named_and_leaves_its_claims_undecided(results):
    (_, first), *_ = [pair for pair in fill_figure_3() if pair[0] == "tanh"]
    content = {"statement": "gradient-norm-binary", "verdict": "holds", "worst": 0.5}
    content |= {"looked": "Ten.", "finding": "Found.", "tightness": 0.9, "provenance": {}}
    bound = records.folder("theorems") / "gradient-norm-binary.json"
    records.write(bound, "theorems", content)
    assert verdicts()["gradient-norm-binary"] == REPRODUCED
    for path in (first, bound):
        path.write_text(path.read_text()[:100])
    judged = ledger()
    assert verdicts()["figure-3-tanh-mnist"] == verdicts()["gradient-norm-binary"] == NOT_YET_RUN
    assert verdicts()["table-3-relu-shared-mnist"] == REPRODUCED
    assert sorted(line.partition(":")[0] for line in judged.damaged) == [
        f"runs/{first.name}",
        "theorems/gradient-norm-binary.json",
    ]


@pytest.mark.parametrize(("paper", "claim"), EVERY, ids=[claim.id for _, claim in EVERY])
def test_every_claim_is_complete_and_types_no_verdict_and_no_number(paper, claim):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.id)
    assert claim.where
    for text in (claim.says, claim.remark):
        assert text.endswith(".") or text == claim.remark == ""
        assert not re.search("|".join(Verdict), text)
        # What runs are compared with stands in published.py.
        if NO_DATASET not in claim.rules and "aims at" not in text:
            assert not re.search(r"\d\s?%|\d\.\d", text)
    for dataset, rule in claim.rules.items():
        for runs in rule.sides:
            assert EXPERIMENTS[runs.experiment.name] is runs.experiment
            known = [*runs.experiment.labelled(dataset=dataset, seeds=1)]
            labels = [label for label, _ in known]
            labels += [label for _, label in runs.experiment.undecided(dataset=dataset)]
            assert fnmatch.filter(labels, runs.variant)
        for number in rule.numbers:
            assert number.source.key and number.source.where


def test_ids_are_given_once_and_a_paper_has_ten_to_fifteen_headlines():
    ids = [claim.id for _, claim in EVERY]
    assert len(ids) == len(set(ids))
    headlines = [claim for claim in CLAIMS["tempered sigmoids"] if claim.headline]
    assert 10 <= len(headlines) <= 15


def test_every_number_of_tempered_sigmoids_is_claimed():
    """What published.py holds of the paper is all in the ledger, but for what no run can test."""
    rules = [rule for claim in CLAIMS["tempered sigmoids"] for rule in claim.rules.values()]
    used = {number.name for rule in rules for number in rule.numbers}
    used |= {rule.epsilon.name for rule in rules if getattr(rule, "epsilon", None)}
    assert set(NUMBERS) <= used


def test_every_statement_of_a_paper_is_in_the_ledger_with_its_stored_outcome():
    judged = [entry for entry in study_ledger().entries if entry.rule.kind == "statement"]
    assert {entry.rule.name for entry in judged} == {
        name for name, statement in STATEMENTS.items() if not statement.ours
    }
    assert NOT_YET_RUN not in {entry.outcome.verdict for entry in judged}


def test_a_published_number_is_shown_as_printed():
    names = {"mnist, DP-SGD, tanh": "98.0%", "growth of relu's gradients": "5"}
    names |= {"cifar-10, DP-SGD, tanh": "63.84%", "mnist, epsilon": "2.93"}
    assert {name: str(NUMBERS[name]) for name in names} == names


def test_the_table_in_the_terminal_is_aligned_and_counts(results):
    fill_figure_3()
    done = dpstudy("claims", "--paper", "tempered-sigmoids")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    [head] = [line for line in lines if line.startswith("  claim ")]
    [row] = [line for line in lines if line.startswith("  figure-3-tanh-mnist ")]
    for word, value in {"published": "98.0%", "ours": "98.10%", "verdict": "reproduced"}.items():
        assert row.index(value) == head.index(word)
    assert max(map(len, lines)) <= 101
    judged = ledger("tempered-sigmoids")
    assert lines[-1] == (
        f"{len(judged.by_claim)} claims, {len(judged.entries)} verdicts: "
        + ", ".join(f"{count} {verdict}" for verdict, count in judged.counts.items() if count)
    )


def test_json_has_everything(results):
    fill_figure_3()
    rows = {row["id"]: row for row in json.loads(dpstudy("claims", "--json").stdout)}
    assert set(rows) == {entry.id for entry in ledger().entries}
    row = rows["table-3-relu-shared-mnist"]
    assert row["verdict"] == "reproduced" and row["experiments"] == [FIGURE_3.name]
    assert row["published"][0]["value"] == 0.966
    assert row["ours"] | {"median": 0.966, "lowest": 0.966, "highest": 0.966} == row["ours"]
    assert (row["found"], row["needed"], row["dataset"]) == (10, 10, "mnist")


def test_mistakes_and_damage_are_lines_on_standard_error(results):
    done = dpstudy("claims", "--paper", "mars")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"dpstudy: unknown paper 'mars'; one of: {', '.join(KEYS)}\n"
    fill_figure_3()[0][1].write_text("{")
    done = dpstudy("claims", "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)
    assert re.fullmatch(r"dpstudy: left out: runs/\w+\.json: .*\n", done.stderr)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda p: p.stem)
def test_no_verdict_is_typed_in_a_notebook(path):
    """Cells of facts, which hold sentences to verdicts, may name them."""
    cells = [c for c in jupytext.read(path).cells if "facts" not in c.metadata.get("tags", [])]
    assert not re.search("|".join(Verdict), "".join(cell.source for cell in cells))


def test_the_ledger_s_page_shows_every_paper():
    assert "page.every_paper(ledger)" in (ROOT / "notebooks/10_claims.py").read_text()
    bundle = page.every_paper(study_ledger())._repr_mimebundle_()
    for shown in (bundle["text/html"], bundle["text/markdown"]):
        assert re.findall(r'<h3 id="([\w-]+)">', shown) == list(KEYS)
        assert sorted(re.findall(r'id="claim-([\w-]+)"', shown)) == sorted(c.id for _, c in EVERY)


def test_the_page_has_a_row_a_claim_and_a_cell_a_dataset(results):
    fill_figure_3()
    html = page.chapter("tempered-sigmoids")._repr_html_()
    claims = CLAIMS["tempered sigmoids"]
    assert html.count('<tr role="row"') == len(claims)
    assert html.count('<td role="cell"') == sum(len(claim.rules) for claim in claims)
    headlines = html.partition("in detail</summary>")[0]
    assert headlines.count('<tr role="row"') == sum(claim.headline for claim in claims)
    assert '<span aria-hidden="true">●</span> MNIST: reproduced<br>' in html
    assert "not yet run (0 of 10)" in html
    assert set(page.SIGNS) == set(Verdict) and len(set(page.SIGNS.values())) == len(Verdict)


def test_every_remark_is_a_footnote_that_its_mark_leads_to(results):
    html = page.chapter("tempered-sigmoids")._repr_html_()
    for claim in CLAIMS["tempered sigmoids"]:
        if claim.remark:
            text = html[: html.index(f">{page.escape(claim.remark)}</li>")]
            target = re.findall(r'<li id="([^"]+)"', text)[-1]
            row = html[html.index(page.escape(claim.says)) :]
            assert f'href="#{target}"' in row[: row.index("</th>")]


def test_the_page_and_its_csv_follow_the_store(results):
    before = page.table("tempered sigmoids", ledger())
    fill_figure_3()
    after = page.table("tempered sigmoids", ledger())
    verdict = {
        name: shown.data.set_index("id").verdict["figure-3-tanh-mnist"]
        for name, shown in {"before": before, "after": after}.items()
    }
    assert verdict == {"before": "not yet run", "after": "reproduced"}
    assert "median = 0.981" in after.csv and "median = 0.981" not in before.csv
    assert "tolerance 0.40" in after._repr_html_()


def test_the_bars_of_the_front_page_are_the_counts(results):
    fill_figure_3()
    judged = ledger()
    drawn = page.by_paper(judged)
    counted = drawn.data.set_index(["paper", "verdict"])["count"]
    for paper in CLAIMS:
        for verdict, count in judged.of(paper).headlines.once.counts.items():
            assert counted[paper, verdict] == count
    widths = [patch.get_width() for patch in drawn.fig.axes[0].patches]
    assert sum(widths) == len(judged.headlines.once.entries)


def test_one_quantity_of_the_same_runs_counts_once_as_what_stands_least(results):
    """Above relu, but not by as much as is promised: both are about the same accuracies."""
    fill_figure_3(tanh=0.981, relu=0.976)
    judged = ledger("tempered-sigmoids")
    mine = {one.id: one for one in judged.entries}
    above, gain = (mine[f"{name}-shared-mnist"] for name in ("above-relu", "table-3-gain"))
    assert (above.outcome.verdict, gain.outcome.verdict) == (REPRODUCED, PARTLY)
    # Another quantity of the same runs is another question.
    other = mine["fairness-ordering-mnist"]
    assert Ledger((above, gain, other), ()).once.entries == (gain, other)
    assert Ledger((gain, other, above), ()).once.entries == (gain, other)


def test_every_rule_is_explained_on_the_page(results):
    shown = figures_in("10_claims").rule_kinds(ledger())
    assert isinstance(shown, Captioned)
    kinds = {rule.kind for _, claim in EVERY for rule in claim.rules.values()}
    assert set(shown.data["rule"]) == kinds


def test_damage_is_a_note_and_no_damage_is_none(results):
    assert figures_in("10_claims").damage(ledger()) is None
    (_, path) = fill_figure_3()[0]
    path.write_text("{")
    assert path.name in figures_in("10_claims").damage(ledger()).text
