"""The public engine: any flax network, in an optax loop."""

import re
import runpy
import warnings
from functools import cache
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracles
import pytest
from flax import linen, nnx

from dpstudy import poisson, private_gradient
from dpstudy.gradients import devices, layer_rules, per_example
from dpstudy.gradients.applicability import why_not_by_rules
from dpstudy.parts.sampling import Draw

pytestmark = [
    pytest.mark.usefixtures("compiled_in_haste"),
    pytest.mark.filterwarnings("ignore::dpstudy.gradients.per_example.FallbackWarning"),
]

BOOK = Path(__file__).parents[1] / "book"
SCRIPT = BOOK / "own_network.py"
CLIP = 0.5


def losses(network, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(network(x), y)


def small_network():
    conv = nnx.Conv(2, 3, (3, 3), strides=2, rngs=nnx.Rngs(0))
    dense = nnx.Linear(27, 4, rngs=nnx.Rngs(1))
    return nnx.Sequential(conv, jnp.tanh, lambda h: h.reshape(len(h), -1), dense)


def dense(inputs, outputs, seed=0, kind=nnx.Linear):
    return kind(inputs, outputs, rngs=nnx.Rngs(seed))


class Network(nnx.Module):
    """Parts, and how a test applies them to vectors of 50 numbers, the first 6 features first."""

    def __init__(self, apply, **parts):
        self.apply = apply
        for name, part in {"first": dense(50, 6), **parts}.items():
            setattr(self, name, part)

    def __call__(self, x):
        return self.apply(self, jnp.tanh(self.first(x.reshape(len(x), -1))))


def layer_normalised():
    norm = nnx.LayerNorm(6, rngs=nnx.Rngs(1))
    return Network(lambda n, h: n.last(n.norm(h)), norm=norm, last=dense(6, 4))


def rms_normalised():
    """A network with a layer that has parameters and no rule."""
    norm = nnx.RMSNorm(6, rngs=nnx.Rngs(1))
    return Network(lambda n, h: n.last(n.norm(h)), norm=norm, last=dense(6, 4))


def twice_applied():
    """A network that applies one layer twice: its gradient is the sum of two."""
    return Network(lambda n, h: n.again(jnp.tanh(n.again(h))), again=dense(6, 6))


def mixed(n, h):
    """Two experts, weighted by a gate."""
    gates = jax.nn.softmax(n.gate(h))
    return gates[:, :1] * n.left(h) + gates[:, 1:] * n.right(h)


def ensemble():
    members = nnx.vmap(lambda key: nnx.Linear(6, 4, rngs=nnx.Rngs(key)))
    each = nnx.vmap(lambda member, h: member(h), in_axes=(0, None))
    members = members(jax.random.split(jax.random.key(1), 3))
    return Network(lambda n, h: each(n.members, h).mean(0), members=members)


def batch_normalised(training=False):
    norm = nnx.BatchNorm(6, use_running_average=not training, rngs=nnx.Rngs(1))
    norm.mean[...], norm.var[...] = jnp.linspace(-1, 1, 6), jnp.linspace(0.5, 2, 6)
    return Network(lambda n, h: n.last(n.norm(h)), norm=norm, last=dense(6, 4))


def dropping(deterministic=False):
    drop = nnx.Dropout(0.5, deterministic=deterministic, rngs=nnx.Rngs(1))
    return Network(lambda n, h: n.last(n.drop(h)), drop=drop, last=dense(6, 4))


def fixed(*names):
    """A network with weights that are held, and no parameters."""
    last = dense(6, 4)
    for name in names:
        setattr(last, name, nnx.Variable(getattr(last, name)[...] + 0.1))
    return Network(lambda n, h: n.last(h) + n.last(-2 * h[:, None])[:, 0], last=last)


def wrapped(kind, **options):
    return Network(lambda n, h: n.last(h), last=kind(dense(6, 4), rngs=nnx.Rngs(1), **options))


BY_RULES = {
    "convolution": small_network,
    "layer normalisation": layer_normalised,
    "residual": lambda: Network(
        lambda n, h: n.last(h + jnp.tanh(n.inner(h))), inner=dense(6, 6), last=dense(6, 4)
    ),
    "mixture of experts": lambda: Network(
        mixed, gate=dense(6, 2), left=dense(6, 4, 1), right=dense(6, 4, 2)
    ),
    "sequence": lambda: Network(
        lambda n, h: n.last(h.reshape(-1, 3, 2)).max(axis=1), last=dense(2, 4)
    ),
    "dropout in evaluation": lambda: dropping(deterministic=True),
    "a buffer": lambda: Network(
        lambda n, h: n.last(h * n.scale), scale=nnx.Variable(jnp.arange(6.0)), last=dense(6, 4)
    ),
    "arrays": lambda: Network(
        lambda n, h: n.last(h * n.scale + n.shift),
        scale=jnp.arange(6.0),
        shift=np.ones(6, np.float32),
        last=dense(6, 4),
    ),
    "fixed layer": lambda: fixed("kernel", "bias"),
}
BY_VMAP = {
    "RMS normalisation": rms_normalised,
    "applied twice": twice_applied,
    "ensemble": ensemble,
    "LoRA": lambda: Network(
        lambda n, h: n.last(h),
        last=nnx.LoRA(
            6, 2, 4, base_module=dense(6, 4), b_initializer=nnx.initializers.ones, rngs=nnx.Rngs(1)
        ),
    ),
    "spectral normalisation": lambda: wrapped(nnx.SpectralNorm, update_stats=False),
    "batch normalisation in evaluation": batch_normalised,
}
# What the rules are kept from is as above: once that is seen, so are the gradients.
NO_RULE = BY_VMAP | {
    "PReLU": lambda: Network(lambda n, h: n.last(n.act(h)), act=nnx.PReLU(), last=dense(6, 4)),
    "Einsum": lambda: Network(
        lambda n, h: n.last(h.reshape(-1, 2, 3)),
        last=nnx.Einsum("bij,ijk->bk", (2, 3, 4), (4,), rngs=nnx.Rngs(1)),
    ),
    "weight normalisation": lambda: wrapped(nnx.WeightNorm),
    "LoRA in a layer": lambda: Network(
        lambda n, h: n.last(h), last=nnx.LoRALinear(6, 4, lora_rank=2, rngs=nnx.Rngs(1))
    ),
    "fixed kernel": lambda: fixed("kernel"),
}
NETWORKS = BY_RULES | NO_RULE
# By the rules and by vmap, with and without states beside the parameters.
SHARED = {"convolution", "a buffer", "RMS normalisation", "batch normalisation in evaluation"}


def examples():
    x = jax.random.normal(jax.random.key(3), (9, 5, 5, 2))
    return 3 * x, jnp.arange(9) % 4


@cache
def gradients_by_hand(build, losses=losses):
    """Each example's gradient, by vmap of grad on the model as the user wrote it."""
    graph, params, rest = nnx.split(build(), nnx.Param, ...)
    rest = nnx.to_pure_dict(rest)

    def gradient(x, y):
        return jax.grad(lambda p: losses(nnx.merge(graph, p, rest), x[None], y[None])[0])(params)

    return oracles.quick_jit(jax.vmap(gradient))(*examples())


def assert_same_as_by_hand(build, losses=losses, by_hand=None, shared=False, wrt=nnx.Param):
    """Clipped sums on one device; if shared, on the two of conftest.py, unevenly."""
    x, y = examples()
    each = oracles.flat(nnx.filter_state(gradients_by_hand(build, by_hand or losses), wrt))
    chosen, draw = [1, 4, 5, 7, 8], Draw(jnp.array([1, 4, 5, 7, 8, 0, 0]), 5, jnp.bool_(False))
    # All of these but one are clipped, or all: a norm that is wrong makes the sum wrong.
    assert np.sort(np.linalg.norm(each[chosen], axis=1))[1] > CLIP
    expected = oracles.clipped(each[chosen], CLIP).sum(0)
    for mesh in (None, devices.mesh_for(1)) if shared else (None,):
        gradient, params = private_gradient(
            build(), losses, clip_norm=CLIP, wrt=wrt, microbatch=2, mesh=mesh
        )
        run = gradient if mesh else oracles.quick_jit(gradient)
        total = oracles.flat_sum(run(params, x, y, draw))
        assert np.linalg.norm(total - expected) < 1e-5 * np.linalg.norm(expected), mesh


@pytest.mark.parametrize("name", BY_RULES | BY_VMAP)
def test_clipped_sums_are_those_of_vmap_grad(name):
    assert_same_as_by_hand(NETWORKS[name], shared=name in SHARED)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_goes_by_the_rules_if_they_hold(name):
    assert (why_not(NETWORKS[name]()) is None) == (name in BY_RULES)


def why_not(model, wrt=nnx.Param):
    gradient, params = private_gradient(model, losses, clip_norm=CLIP, wrt=wrt)
    return why_not_by_rules(gradient.graph, losses, params, *examples(), gradient.rest)


LAST, BIASES = {"last.kernel", "last.bias"}, {f"{k}.bias" for k in ("first", "inner", "last")}


@pytest.mark.parametrize(
    ("name", "wrt", "trained", "by_rules"),
    [
        ("LoRA", nnx.LoRAParam, {"last.lora_a", "last.lora_b"}, False),
        ("residual", nnx.PathContains("last"), LAST, True),
        ("residual", lambda path, _: path[0] == "first", {"first.kernel", "first.bias"}, True),
        (
            "layer normalisation",
            nnx.Not(nnx.PathContains("norm")),
            LAST | {"first.kernel", "first.bias"},
            True,
        ),
        ("residual", nnx.PathContains("bias"), BIASES, False),
        ("convolution", nnx.PathContains(3), {"layers.3.kernel", "layers.3.bias"}, True),
    ],
)
def test_only_what_a_filter_chooses_is_trained(name, wrt, trained, by_rules):
    assert_same_as_by_hand(NETWORKS[name], shared=wrt is nnx.LoRAParam, wrt=wrt)
    model = NETWORKS[name]()
    assert (why_not(model, wrt) is None) == by_rules
    gradient, params = private_gradient(model, losses, clip_norm=CLIP, wrt=wrt)
    assert {".".join(map(str, path)) for path, _ in nnx.to_flat_state(params)} == trained
    # All else is as it was.
    again = nnx.merge(gradient.graph, params, gradient.rest)
    jax.tree.map(
        np.testing.assert_array_equal, *(oracles.plain(nnx.state(m)) for m in (model, again))
    )


def test_a_filter_that_chooses_no_parameter_is_refused():
    for wrt in (nnx.LoRAParam, nnx.BatchStat, lambda path, _: False):
        with pytest.raises(ValueError, match=r"no parameters \(nnx.Param\) that pass wrt="):
            private_gradient(batch_normalised(), losses, clip_norm=CLIP, wrt=wrt)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (linen.Dense(3), "^Dense is a flax.linen module.*ToNNX"),
        (lambda x: x, "^an nnx module is wanted as the model, got function$"),
    ],
)
def test_what_is_no_nnx_module_is_refused_with_what_to_do(model, words):
    with pytest.raises(ValueError, match=words):
        private_gradient(model, losses, clip_norm=CLIP)


def test_a_linen_module_trains_as_the_refusal_says():
    x, _ = examples()
    bridged = nnx.bridge.ToNNX(linen.Dense(4), rngs=nnx.Rngs(0))
    model = nnx.bridge.lazy_init(bridged, x.reshape(len(x), -1))
    assert_same_as_by_hand(lambda: model, lambda n, x, y: losses(n, x.reshape(len(x), -1), y))


@pytest.mark.parametrize(
    "transformed",
    [
        lambda n, x, y: jax.vmap(lambda x, y: losses(n, x[None], y[None])[0])(x, y),
        lambda n, x, y: nnx.vmap(
            lambda n, x, y: losses(n, x[None], y[None])[0], in_axes=(None, 0, 0)
        )(n, x, y),
        lambda n, x, y: losses(lambda x: nnx.remat(lambda n, x: n(x))(n, x), x, y),
    ],
    ids=["jax.vmap", "nnx.vmap", "nnx.remat"],
)
def test_a_loss_may_transform_the_network_itself(transformed):
    assert_same_as_by_hand(batch_normalised, transformed, by_hand=losses)


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (lambda: batch_normalised(training=True), r"norm\.mean \(BatchStat\)"),
        (lambda: wrapped(nnx.SpectralNorm), r"last\.batch_stats\.\('kernel', 'u'\) \(BatchStat\)"),
        (dropping, r"drop\.rngs\.count \(RngCount\)"),
    ],
    ids=["batch normalisation", "spectral normalisation", "dropout"],
)
def test_a_network_that_changes_what_its_examples_share_is_refused(build, names):
    x, y = examples()
    gradient, params = private_gradient(build(), losses, clip_norm=CLIP)
    draw = Draw(jnp.arange(9), jnp.int32(9), jnp.bool_(False))
    with pytest.raises(ValueError, match=f"^{names} changes in the forward pass.*eval\\(\\)"):
        gradient(params, x, y, draw)
    if "Rng" not in names:  # A key helps where it is random numbers that change.
        with pytest.raises(ValueError, match=f"^{names} changes.*without such state"):
            gradient(params, x, y, draw, jax.random.key(0))


def test_a_penalty_on_weights_is_clipped_with_the_rest_of_each_example_s_loss():
    def penalised(network, x, y):
        weights = jax.tree.leaves(nnx.state(network, nnx.Param))
        return losses(network, x, y) + sum((w**2).sum() for w in weights) / 2

    assert_same_as_by_hand(small_network, penalised)


def test_an_overflowing_draw_poisons_the_sum():
    x, y = examples()
    gradient, params = private_gradient(small_network(), losses, clip_norm=CLIP)
    draw = poisson(jax.random.key(0), examples=9, batch=6, capacity=1)
    assert np.isnan(oracles.flat_sum(gradient(params, x, y, draw))).all()


@pytest.mark.parametrize(
    ("build", "names"), [(rms_normalised, "RMSNorm"), (twice_applied, "again")]
)
def test_a_layer_without_a_rule_falls_back_and_says_so_once(build, names):
    x, y = examples()
    per_example._warn_once.cache_clear()
    gradient, params = private_gradient(build(), losses, clip_norm=CLIP)
    draw = Draw(jnp.arange(9), jnp.int32(9), jnp.bool_(False))
    with pytest.warns(per_example.FallbackWarning, match=names):
        gradient(params, x, y, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient(params, x, y, draw)


def test_indices_are_no_draw():
    x, y = examples()
    gradient, params = private_gradient(small_network(), losses, clip_norm=CLIP)
    with pytest.raises(ValueError, match=r"^a draw is what `poisson` returns, got ArrayImpl$"):
        gradient(params, x, y, jnp.arange(4))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *(
            ({"clip_norm": wrong}, f"clip_norm must be from 1e-12 to 1e\\+18, got {wrong!r}")
            for wrong in (0.0, -1.0, np.inf, np.nan, "1", None)
        ),
        *(
            (
                {"clip_norm": 1.0, "microbatch": wrong},
                f"microbatch must be a whole number from 1 to 1,024, got {wrong!r}",
            )
            for wrong in (0, 1025, 2.0, True)
        ),
    ],
)
def test_a_wrong_bound_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        private_gradient(small_network(), losses, **wrong)


@pytest.mark.smoke
def test_the_script_of_the_book_trains_a_network_in_under_forty_lines(capsys):
    assert len(SCRIPT.read_text().splitlines()) < 40
    runpy.run_path(str(SCRIPT))
    assert float(re.search(r"test accuracy (\d\.\d+)", capsys.readouterr().out)[1]) > 0.8


def test_devices_that_share_a_step_see_an_overflow_and_are_sent_off_from_outside_a_program():
    mesh = devices.mesh_for(1)
    assert mesh.devices.size == 2
    x, y = devices.everywhere(examples(), mesh)
    drawn = Draw(jnp.array([1, 4, 5, 7, 8, 0, 0, 0]), jnp.int32(5), jnp.bool_(True))
    gradient, params = private_gradient(
        small_network(), losses, clip_norm=CLIP, microbatch=2, mesh=mesh
    )
    assert np.isnan(oracles.flat_sum(gradient(params, x, y, drawn))).all()
    with pytest.raises(ValueError, match=r"outside jax\.jit"):
        jax.jit(gradient)(params, x, y, drawn)


@pytest.mark.smoke
def test_the_script_of_the_book_gives_a_layer_a_rule_that_agrees_with_vmap(capsys):
    with mock.patch.dict(layer_rules.RULES):
        runpy.run_path(str(BOOK / "own_layer.py"))
    difference = re.fullmatch(r"largest difference of norms (\S+)\n", capsys.readouterr().out)
    assert float(difference[1]) < 1e-5


@pytest.mark.smoke
def test_the_examples_of_the_page_on_networks_run_in_its_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", (BOOK / "networks_further.md").read_text())
    assert len(blocks) == 10
    within = {}
    for block in blocks:
        exec(block, within)
        if "total" in within:
            found = oracles.flat_sum(within["total"])
            assert np.isfinite(found).all() and np.abs(found).max() > 0
    assert within["begun"] == 10
