"""The noise that is typed in for an ε costs it, and no less noise does."""

import pytest

from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import steps_per_epoch
from dpstudy.privacy import accounting
from under_the_clip.designs import NOISE, at_epsilon, noise_multiplier

COSTS = [
    (release, examples, epsilon, batch, epochs, noise)
    for (examples, epsilon, release), batches in NOISE.items()
    for batch, row in batches.items()
    for epochs, noise in row.items()
]


@pytest.mark.parametrize(("release", "examples", "epsilon", "batch", "epochs", "noise"), COSTS)
def test_it_costs_the_epsilon_and_no_less_by_pld(release, examples, epsilon, batch, epochs, noise):
    spent = accounting.epsilon(
        sampling_probability=batch / examples,
        noise_multiplier=noise,
        steps=epochs * steps_per_epoch(examples, batch),
        delta=Run().delta,
        release_noise=release,
    )
    assert 0.9995 * epsilon < spent <= epsilon


def test_a_run_is_at_an_epsilon_by_its_noise_alone():
    run = vary(Run(), batch=256, epochs=20)
    calibrated = at_epsilon(3.0, run)
    assert calibrated == vary(run, noise_multiplier=noise_multiplier(3.0, 60_000, 256, 20))
