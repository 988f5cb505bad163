"""The chapter on audits shows what is stored, and what its own small attack finds."""

from functools import partial

import numpy as np
import pytest
import test_audit_catches
from prose import said_by
from scipy import stats

from under_the_clip.audits import figures as page

says = said_by("07_audits")
pytestmark = pytest.mark.usefixtures("of_the_study")


def test_the_histograms_say_how_many_are_guessed_to_be_in():
    inside = np.arange(40_000) % 2 == 0
    scores = np.random.default_rng(0).normal(size=inside.size) + inside
    shares = page.histograms({"noise": scores}, inside, 2.0).data["guessed in"]
    assert shares.tolist() == pytest.approx([stats.norm.sf(2), stats.norm.sf(1)], abs=0.01)


def test_what_was_broken_on_purpose_is_what_is_tested():
    broken = {of.__name__ for _, of in test_audit_catches.BROKEN}
    as_said = "less_noise clipped_after_averaging in_a_fixed_cycle repeated_noise"
    assert broken == set(as_said.split())
    says("Seven tenths of the noise, gradients clipped after they were averaged, batches dealt in")
    says("a fixed cycle, and the same noise at every step are all seen so.")


def test_the_figure_and_the_tables_show_what_is_stored(monkeypatch, tmp_path):
    drawn = page.claimed_proven_audited()
    assert drawn.data.what.tolist() == [what.replace("\n", " ") for what in page.OPENING.values()]
    clips = page.by_canary("Backpropagation clipping").data
    assert len(clips) == sum(name.startswith("backprop") for name in page.stored())
    filtered = page.by_canary("Tanh filter, σ 1.1").data
    assert len(filtered) == 5 and (filtered["canary"] == "weights searched").sum() == 1
    flat = page.by_canary("Flat clipping").data
    assert len(flat) == len(page.GROUPS["Flat clipping"]) and (flat["gradient"] > 0.99).all()
    assert page.shuffled().data["trials"].sum() == 81_920 + 3 * 4000
    assert page.black_box().data["models"].tolist() == [300, 300]
    assert page.layers().data.shape[0] == 2 * len(page.stored("attacks"))
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path))
    pages = (
        page.claimed_proven_audited,
        partial(page.by_canary, "Backpropagation clipping"),
        page.shuffled,
        page.black_box,
        page.layers,
    )
    for show in pages:
        assert show().title == "Not yet run"
