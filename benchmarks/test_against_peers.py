"""Do all contestants compute the same? Run by `make bench` before it measures."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

# Compiling takes longer than computing here. Read by XLA when it is first used.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
os.environ["JAX_NUM_CPU_DEVICES"] = "2"

import jax
import numpy as np
import pytest
import torch
from flax import nnx
from opacus import GradSampleModule
from peers import ours
from peers.jax_training import with_weights
from problem import NETWORKS, Problem, flops
from roster import LESSONS, OURS, PEERS
from torch.utils.flop_counter import FlopCounterMode

from dpstudy.gradients import convolution, per_example

BOOK = Path(__file__).parents[1] / "book"
SMALL = {name: Problem(name, batch=16, examples=32, noise_multiplier=0.0) for name in NETWORKS}


def build(peer, problem, variant=None):
    module = importlib.import_module(f"peers.{peer.module}")
    return module.build(problem, peer.variants[0] if variant is None else variant)


def after_two_steps(peer, problem, variant=None):
    """Loss before, and weights after two steps without noise."""
    made = build(peer, problem, variant)
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


@pytest.fixture(scope="module", params=NETWORKS)
def ours_after(request):
    """Our loss and weights, private and not, by whether private."""
    problem = SMALL[request.param]
    names = {True: OURS, False: "ours, not private"}
    after = {private: after_two_steps(PEERS[name], problem) for private, name in names.items()}
    return problem, after


OTHERS = {
    name: peer
    for name, peer in PEERS.items()
    if peer.fixed_batch and peer.quick and name not in (OURS, "ours, not private")
}


@pytest.mark.parametrize("name", OTHERS)
def test_peer_takes_the_same_steps(ours_after, name):
    problem, after = ours_after
    loss, weights = after[OTHERS[name].private]
    peer_loss, peer_weights = after_two_steps(OTHERS[name], problem)
    assert peer_loss == pytest.approx(loss, rel=1e-4)
    assert_close(peer_weights, weights, 1e-5)


@pytest.mark.parametrize("name", [OURS, "ours, not private"])
@pytest.mark.parametrize("variant", ["4", "4, a device a core", "5, a device a core"])
def test_our_variants_take_the_same_steps(ours_after, name, variant):
    problem, after = ours_after
    _, weights = after[PEERS[name].private]
    assert_close(after_two_steps(PEERS[name], problem, variant)[1], weights, 1e-5)


@pytest.mark.parametrize("lesson", LESSONS.variants)
def test_with_a_lesson_undone_it_is_the_same_step(ours_after, lesson, monkeypatch):
    # What building the contestant changes for good is put back after the test.
    monkeypatch.setattr(convolution.Window, "rows", convolution.Window.rows)
    monkeypatch.setattr(convolution, "gather", convolution.gather)
    problem, after = ours_after
    loss, weights = after_two_steps(LESSONS, problem, lesson)
    assert loss == pytest.approx(after[True][0], rel=1e-4)
    assert_close(weights, after[True][1], 1e-5)


def test_other_widths_have_the_study_s_layers():
    """A network of one's own, at a width just off 1, is as deep and steps as far."""
    widened = replace(SMALL["mnist"], width=1.001)
    loss, weights = after_two_steps(PEERS[OURS], SMALL["mnist"])
    other_loss, other_weights = after_two_steps(PEERS[OURS], widened)
    assert other_loss == pytest.approx(loss, rel=1e-6)
    assert_close(other_weights, weights, 1e-6)


def test_clipping_changes_the_steps(ours_after):
    _, after = ours_after
    assert np.abs(after[True][1][0]["kernel"] - after[False][1][0]["kernel"]).max() > 1e-4


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.private])
def test_noise_is_added(name):
    problem = replace(SMALL["mnist"], batch=32, examples=64, noise_multiplier=100.0)
    _, weights = after_two_steps(PEERS[name], problem)
    start = problem.weights()
    # The noise of two steps on the mean gradient, the first 1.9 times over by momentum.
    expected = 100 * 0.1 / 32 * 0.1 * np.sqrt(1 + 1.9**2)
    assert np.std(weights[2]["kernel"] - start[2]["kernel"]) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", NETWORKS)
def test_per_example_gradients_are_opacus_per_sample_gradients(name):
    problem = SMALL[name]
    opacus = build(PEERS["Opacus, hooks"], problem)
    indices = problem.batches()[0]
    images, labels = opacus.batch(indices)
    opacus.criterion(opacus.private(images), labels).backward()

    graph, params = nnx.split(ours.network_of(problem), nnx.Param)
    params = with_weights(params, problem.weights())

    @jax.jit
    def written_out(params, images, labels):
        each = per_example.gradients(graph, ours.losses, params, images, labels)
        return each[1].written_out()

    found = iter(jax.tree.leaves(written_out(params, *(x[indices] for x in problem.data()))))
    for layer in opacus.network.layers():
        weight = opacus.network.in_our_layout(layer, layer.weight.grad_sample.numpy())
        for theirs in (layer.bias.grad_sample.numpy(), weight):
            mine = np.asarray(next(found))
            assert mine.shape == theirs.shape
            scale = np.abs(theirs).reshape(len(theirs), -1).max(axis=1)
            worst = np.abs(mine - theirs).reshape(len(theirs), -1).max(axis=1)
            assert (worst <= 1e-5 * scale).all()


def test_the_book_s_script_with_jax_privacy_trains():
    command = [sys.executable, str(BOOK / "own_network_jax_privacy.py")]
    optimised = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    said = subprocess.run(command, env=optimised, capture_output=True, text=True, check=True).stdout
    assert float(re.fullmatch(r"test accuracy (0\.\d+) at epsilon 3\n", said)[1]) > 0.7


@pytest.mark.parametrize(
    ("layout", "right"), [(torch.contiguous_format, True), (torch.channels_last, False)]
)
def test_opacus_per_sample_gradients_are_wrong_for_channels_last(layout, right):
    """Why the peer keeps channels first, and what the chapter warns of. Red once it is repaired."""
    layer = torch.nn.Conv2d(3, 4, 3)
    wrapped = GradSampleModule(layer, loss_reduction="sum")
    wrapped(torch.randn(5, 3, 8, 8).contiguous(memory_format=layout)).pow(2).sum().backward()
    error = (layer.weight.grad_sample.sum(dim=0) - layer.weight.grad).abs().max()
    assert (error < 1e-5 * layer.weight.grad.abs().max()) == right


def test_networks_are_the_papers():
    assert NETWORKS["mnist"].parameters == 26_010
    assert NETWORKS["cifar-10"].parameters == 550_570


@pytest.mark.parametrize("name", NETWORKS)
def test_flops_agree_with_those_that_torch_counts(name):
    made = build(PEERS["PyTorch, not private"], SMALL[name])
    with FlopCounterMode(display=False) as counter:
        made.step(SMALL[name].batches()[0])
    assert flops(SMALL[name].network, SMALL[name].batch) == counter.get_total_flops()
