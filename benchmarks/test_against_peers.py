"""Do all contestants compute the same? Run by `make bench` before it measures."""

from __future__ import annotations

import importlib
from dataclasses import replace

import jax
import numpy as np
import pytest
from torch.utils.flop_counter import FlopCounterMode

from dpstudy import models, per_example, training
from peers import ours
from peers.jax_training import with_weights
from problem import NETWORKS, Problem, flops

SMALL = {name: Problem(name, batch=16, examples=32, noise_multiplier=0.0) for name in NETWORKS}
PRIVATE = (
    "ours_own_network",
    "vmap_grad",
    "jax_privacy_clipped_grad",
    "opacus_hooks",
    "opacus_ghost",
    "torch_func",
)
NON_PRIVATE = ("jax_non_private", "torch_non_private")


def after_two_steps(peer: str, problem: Problem, variant: str | None = None):
    """Loss before, and weights after two steps without noise."""
    module = importlib.import_module(f"peers.{peer}")
    made = module.build(problem, module.VARIANTS[0] if variant is None else variant)
    first, second = problem.batches()[:2]
    loss = made.loss(first)
    made.step(first)
    made.step(second)
    made.wait()
    return loss, made.weights()


def assert_close(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        for name in ("kernel", "bias"):
            scale = np.abs(other[name]).max()
            assert one[name].shape == other[name].shape
            assert np.abs(one[name] - other[name]).max() <= tolerance * scale, name


@pytest.mark.parametrize("name", NETWORKS)
def test_private_peers_take_the_same_steps(name):
    loss, weights = after_two_steps("ours", SMALL[name])
    for peer in PRIVATE:
        peer_loss, peer_weights = after_two_steps(peer, SMALL[name])
        assert peer_loss == pytest.approx(loss, rel=1e-4), peer
        assert_close(peer_weights, weights, 1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_peers_without_privacy_take_the_same_steps(name):
    loss, weights = after_two_steps("ours_non_private", SMALL[name])
    for peer in NON_PRIVATE:
        peer_loss, peer_weights = after_two_steps(peer, SMALL[name])
        assert peer_loss == pytest.approx(loss, rel=1e-4), peer
        assert_close(peer_weights, weights, 1e-5)


def test_clipping_changes_the_steps():
    clipped = after_two_steps("ours", SMALL["mnist"])[1]
    unclipped = after_two_steps("ours_non_private", SMALL["mnist"])[1]
    assert np.abs(clipped[0]["kernel"] - unclipped[0]["kernel"]).max() > 1e-4


@pytest.mark.parametrize("peer", ["vmap_grad", "opacus_hooks", "opacus_ghost", "torch_func"])
def test_noise_is_added(peer):
    loud = replace(SMALL["mnist"], noise_multiplier=100.0)
    quiet = after_two_steps(peer, SMALL["mnist"])[1]
    noisy = after_two_steps(peer, loud)[1]
    # One step's noise on the mean gradient, 1.9 times over by momentum, in standard deviations.
    expected = 100 * 0.1 / 16 * 0.1 * np.sqrt(1 + 1.9**2)
    found = np.std(noisy[2]["kernel"] - quiet[2]["kernel"])
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", NETWORKS)
def test_per_example_gradients_are_opacus_per_sample_gradients(name):
    problem = SMALL[name]
    opacus = importlib.import_module("peers.opacus_hooks").build(problem, "channels first")
    indices = problem.batches()[0]
    images, labels = opacus.batch(indices)
    # A sum, since Opacus undoes the division by the batch size that it assumes.
    opacus.criterion(opacus.private(images), labels).backward()

    run = ours.run_of(problem)
    numbers = ours.numbers_of(problem, run)
    params = with_weights(training.start(run).params, problem.weights())
    stored = [array[indices] for array in problem.data()]
    graph, losses = models.structure(run.model), training.objective(run.shape, numbers)
    _, gradients = per_example.gradients(graph, losses, params, *stored)
    layers = jax.tree.leaves(gradients.written_out())
    mine = iter(layers)
    for layer in opacus.network.layers():
        weight = opacus.network.in_our_layout(layer, layer.weight.grad_sample.numpy())
        for expected in (layer.bias.grad_sample.numpy(), weight):
            found = np.asarray(next(mine))
            assert found.shape == expected.shape
            scale = np.abs(expected).reshape(len(expected), -1).max(axis=1)
            worst = np.abs(found - expected).reshape(len(expected), -1).max(axis=1)
            assert (worst <= 1e-5 * scale).all()


def test_networks_are_the_papers():
    assert NETWORKS["mnist"].parameters == 26_010
    assert NETWORKS["cifar-10"].parameters == 550_570


@pytest.mark.parametrize("name", NETWORKS)
def test_flops_agree_with_those_that_torch_counts(name):
    made = importlib.import_module("peers.torch_non_private").build(SMALL[name], "channels first")
    with FlopCounterMode(display=False) as counter:
        made.step(SMALL[name].batches()[0])
    assert flops(SMALL[name].network, SMALL[name].batch) == counter.get_total_flops()
