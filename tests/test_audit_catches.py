"""Audits of code that was broken on purpose: what goes wrong in the step that trains is seen."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import optax
import pytest
from results_for_tests import TINY, OneDense, dpstudy

from dpstudy.parts import mechanism
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Among, Draw
from dpstudy.privacy import auditing, canaries
from under_the_clip import audits
from under_the_clip.audits.white_box import Audit, first_image

pytestmark = pytest.mark.usefixtures("compiled_in_haste", "few_batches")

SMALL = {"dataset": TINY["dataset"], "network": OneDense()}
RUN = vary(Run(), **SMALL, batch=1000, epochs=5, noise_multiplier=2.0)
SAID = {"name": "small", "mechanism": "flat clipping", "setting": "a small run"}
AUDIT = Audit(**SAID, run=RUN, canary=first_image, claimed_by="pld", runs=4, canaries=4000)


def less_noise(deviations, key, **options):
    less = jax.tree.map(lambda s: 0.7 * s, deviations)
    return mechanism.gaussian_noise(less, key, **options)


def repeated_noise(deviations, key, **options):
    """The same in every step."""
    right = mechanism.gaussian_noise(deviations, key, **options)

    def update(total, state, params=None):
        noisy, _ = right.update(total, state._replace(count=0 * state.count), params)
        return noisy, state._replace(count=state.count + 1)

    return optax.GradientTransformation(right.init, update)


def clipped_after_averaging(clipping, batch, mask):
    """The mean's gradient is clipped, and no example's."""
    total, seen = mechanism.ByNorm.sum(replace(clipping, clip_norm=1e9), batch, mask)
    mean = optax.tree.norm(total) / jnp.maximum(mask.sum(), 1)
    factor = mechanism.clip_coefficients(mean, clipping.clip_norm)
    return jax.tree.map(lambda x: factor * x, total), seen


def in_a_fixed_cycle(sampling, key, examples, order, step):
    indices = (step * sampling.batch + jnp.arange(sampling.batch)) % examples
    return Draw(indices, jnp.int32(sampling.batch), jnp.bool_(False), Among(examples))


NOISE = "dpstudy.parts.run.gaussian_noise"
BROKEN = [
    (NOISE, less_noise),
    (NOISE, repeated_noise),
    ("dpstudy.parts.mechanism.FlatClipping.sum", clipped_after_averaging),
    ("dpstudy.parts.sampling.Poisson.draw", in_a_fixed_cycle),
]


@pytest.fixture
def audited(monkeypatch):
    """Carry out the audit on the command line; what was traced before knows nothing of patches."""
    monkeypatch.setattr(audits, "AUDITS", {"small": AUDIT})
    # They take a second, and are looked at elsewhere.
    monkeypatch.setattr(auditing, "ONE_RUN", {})
    forget_programs()
    yield lambda: dpstudy("audit")
    forget_programs()


def forget_programs():
    for program in (canaries._differences, canaries._simulated):
        program.clear_cache()


def test_of_a_sound_step_no_more_is_shown_than_is_proven(audited):
    done = audited()
    assert done.exit_code == 0, done.output
    assert "proven 2.80, at least " in done.stdout and "leaks" not in done.stderr


@pytest.mark.parametrize(("place", "broken"), BROKEN, ids=lambda of: getattr(of, "__name__", ""))
def test_a_broken_step_is_caught(audited, monkeypatch, place, broken):
    monkeypatch.setattr(place, broken)
    done = audited()
    assert done.exit_code == 1, done.output
    said = done.stderr.splitlines()[-1]
    assert said.startswith("dpstudy: ") and said.endswith("wrong: small")
