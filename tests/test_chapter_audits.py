"""Every number that the chapter on audits says in prose is what is stored."""

from functools import cache
from pathlib import Path

import pytest

from dpstudy.chapters.audits import page

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "07_audits.py"
PUBLISHED = "backpropagation-clipping-{}-claims-{}"
CORRECTED = "backpropagation-clipping-corrected-aims-at-{}"


@pytest.fixture(autouse=True)
def of_the_study(monkeypatch):
    monkeypatch.delenv("DPSTUDY_RESULTS", raising=False)


@cache
def prose():
    return " ".join(
        " ".join(line.removeprefix("#") for line in NOTEBOOK.read_text().splitlines()).split()
    )


def says(fragment):
    assert fragment in prose(), fragment


def audited(name, digits=3):
    return f"{page.stored()[name]['lower_bound']:.{digits}g}"


def test_in_short():
    mnist, fashion = PUBLISHED.format("mnist", 0.07), PUBLISHED.format("fashion-mnist", 0.87)
    says("claims ε = 0.07 on MNIST and 0.87 on Fashion-MNIST")
    says(f"at least {audited(mnist)} and {audited(fashion)}, the most")
    for name in (mnist, fashion):
        for suffix in ("", "-trained-weights"):
            record = page.stored()[name + suffix]
            assert record["lower_bound"] > 0.99 * record["most_shown"]
    says(
        f"aims at ε = 3 and 1. The audit shows at least {audited(CORRECTED.format(3))} and "
        f"{audited(CORRECTED.format(1))}. Its aims of 0.2 and 0.1 stand"
    )
    for target in (3, 1, 0.2, 0.1):
        assert (page.stored()[CORRECTED.format(target)]["lower_bound"] > target) == (target >= 1)
    flat = page.stored()["flat-clipping"]
    says(f"proven for {flat['proven']:.2f}, and at least {flat['lower_bound']:.2f} leaks")


def test_no_sound_mechanism_is_above_what_is_proven():
    for name, record in page.stored().items():
        assert record["lower_bound"] <= record["proven"], name


def test_backpropagation_clipping():
    drawn = page.stored()[PUBLISHED.format("mnist", 0.07) + "-drawn-weights"]
    says(f"it reaches {100 * drawn['attained']:.1f} % of the bound on MNIST")
    says(f"and yet at least {drawn['lower_bound']:.3g} leaks where 0.07 is claimed")
    says(f"at least {audited(PUBLISHED.format('mnist', 0.3) + '-drawn-weights')} leaks there")
    says(f"at least {audited(CORRECTED.format(3) + '-trained-weights')} leaks where it aims at 3")
    trials = {record["trials"] for record in page.stored().values()}
    says(f"{max(trials):,} canaries are tried")
    assert len(trials) == 1


def test_layers():
    found = page.stored("attacks")
    free = {name: 100 * share for name, share in found["layers-mnist-corrected"]["free"].items()}
    assert min(free["dense1"], free["dense2"]) > 95  # what the chapter was asked to reach
    says(f"comes to {free['dense1']:.1f} % of it in both dense layers")
    assert f"{free['dense1']:.1f}" == f"{free['dense2']:.1f}"
    says(f"and to {free['conv1']:.1f} % and {free['conv2']:.1f} % in the convolutions")
    last = found["layers-mnist-as-published"]["free"]["dense2"]
    says(f"the last layer reaches {100 * last:.1f} %")
    assert last <= 2**0.5 / 40.96


def test_the_figure_and_the_tables_show_what_is_stored(monkeypatch, tmp_path):
    drawn = page.claimed_proven_audited()
    assert drawn.data.what.tolist() == list(page.SHOWN.values())
    table = page.by_canary().data
    assert len(table) == sum(name.startswith("backprop") for name in page.stored())
    assert page.layers().data.shape[0] == 2 * len(page.stored("attacks"))
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path))
    for show in (page.claimed_proven_audited, page.by_canary, page.layers):
        assert show().title == "Not yet run"
