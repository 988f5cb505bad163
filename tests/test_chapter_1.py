"""Chapter 1: the code that it shows is what the package proves, and its sliders show that too."""

import json
import math

import numpy as np
import pytest
from results_for_tests import figures_in

from dpstudy.privacy.accounting import epsilon
from dpstudy.privacy.shuffling import least_epsilon_curve
from under_the_clip.accounting import epsilons


@pytest.mark.parametrize(("q", "sigma", "steps"), [(512 / 60_000, 1.23, 4680), (0.1, 4.0, 100)])
def test_the_accountant_in_the_text_agrees_with_the_package(q, sigma, steps):
    ours = figures_in("01_accounting").pld(q, sigma, steps, 1e-5)
    run = {"sampling_probability": q, "noise_multiplier": sigma, "steps": steps, "delta": 1e-5}
    assert ours == pytest.approx(epsilon(**run), abs=0.002)


def test_the_attack_in_the_text_is_worth_what_the_package_says_of_one_epoch():
    alarm, threshold = figures_in("01_accounting").alarm, np.linspace(0, 12, 10_000)
    found, false = (alarm(mine, threshold) for mine in (2, 1))
    leaked = np.log(np.maximum(found - 1e-5, 1e-300) / false).max()
    run = {"examples": 60_000, "batch": 512, "noise_multiplier": 1.23, "delta": 1e-5}
    assert [leaked] == pytest.approx(least_epsilon_curve(**run, epochs=[1]), rel=0.002)


STORED = {tuple(row[:3]): row[3:] for row in json.loads(epsilons.STORED.read_text())}


@pytest.mark.parametrize("cell", [(0.7, 2048, 5), (1.23, 512, 40), (5.0, 128, 100)])
def test_what_the_sliders_show_is_what_the_accountants_say(cell):
    assert STORED[cell] == list(epsilons.rows(*cell[:2], cell[2:])[0][3:])
    sigma, batch, epochs = cell
    run = {"sampling_probability": batch / 60_000, "steps": epochs * round(60_000 / batch)}
    spent = epsilon(**run, noise_multiplier=sigma, delta=1e-5)
    assert spent <= STORED[cell][0] < spent + 0.0011
    [least] = least_epsilon_curve(
        examples=60_000, batch=batch, noise_multiplier=sigma, epochs=[epochs], delta=1e-5
    )
    assert STORED[cell][1] == math.floor(1000 * least) / 1000


def test_the_sliders_have_every_combination():
    table = epsilons.by_sliders().data
    assert len(table) == len(STORED) == 8 * 5 * 6
    assert len(table.groupby(list(epsilons.STARTS))) == len(table)
    assert (table[epsilons.SHUFFLED] > table[epsilons.SAMPLED]).all()
