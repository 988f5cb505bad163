"""The chapter on tempered sigmoids: its code is the family; what other pages say of its runs."""

import json
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from prose import ROOT, prose_of, reading, said_by
from results_for_tests import figures_in

from dpstudy.parts.networks.activation import Tempered

page = figures_in("02_tempered_sigmoids")

pytestmark = pytest.mark.usefixtures("of_the_study")


@pytest.mark.parametrize("member", [(2.0, 2.0, 1.0), (4.2, 1.0, 2.8), (0.9, 8.0, 0.2)])
def test_the_activation_in_the_text_is_the_one_that_was_trained(member):
    x = jnp.linspace(-5, 5, 31)
    np.testing.assert_allclose(page.tempered(x, *member), Tempered(*member)(x), atol=1e-6)


def test_a_last_layer_of_a_tanh_network_has_no_longer_gradient_than_is_said():
    tanh, relu = (page.gradient_norm(one, 100.0) for one in (page.tempered, jax.nn.relu))
    assert tanh == pytest.approx(8.124, abs=1e-3) and relu > 90 * tanh


def test_every_winner_of_the_search_lies_at_an_edge():
    for dataset in ("mnist", "fashion-mnist"):
        shown = page.table_3_search(reading("tempered-sigmoids-table-3-search", dataset))
        assert len(shown.data) == 4
        for edge in shown.data["at an edge"]:
            assert {"filters", "batch", "epochs"} <= set(edge.split(", "))


@cache
def stored():
    files = (ROOT / "results" / "runs").glob("*.json")
    return [json.loads(path.read_text()) for path in files]


def test_how_to_read_says_what_the_runs_were_trained_on():
    told = said_by("book/how_to_read.md")
    told("A run was trained on CPU cores or on an NVIDIA H100 or H200;")
    devices = {one["provenance"]["device"] for one in stored()}
    others = {device for device in devices if "cpu" not in device.lower()}
    assert devices > others == {"1 x NVIDIA H200 (gpu)", "1 x NVIDIA H100 80GB HBM3 (gpu)"}


def test_how_to_rerun_says_how_much_faster_an_accelerator_is():
    told = said_by("book/how_to_rerun.md")
    told("took a minute or two for its 30 epochs on an NVIDIA H200 that other programs shared")
    told("and an hour or two on a CPU core.")
    minutes = {"H200": [], "1 x CPU": []}
    for one in stored():
        network = one["run"].get("network", {}).get("kind")
        if network == "tempered-cifar" and len(one["curve"]["epoch"]) == 31:
            for device, taken in minutes.items():
                if device in one["provenance"]["device"]:
                    taken.append(one["provenance"]["wall_seconds"] / 60)
    taken_by_gpu, taken_by_core = (np.median(taken) for taken in minutes.values())
    assert 0.5 < taken_by_gpu < 2.5
    assert 50 < taken_by_core < 130


@pytest.mark.parametrize("notebook", ["02_tempered_sigmoids", "09_performance"])
def test_nothing_is_to_be_looked_at(notebook):
    assert "ook at" not in prose_of(notebook)
