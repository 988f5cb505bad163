"""What makes a class a part: written down by its kind, and a pytree of its numbers."""

import subprocess
import sys
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from results_for_tests import environment

import under_the_clip
from dpstudy.parts.measure import Norms
from dpstudy.parts.mechanism import NoPrivacy
from dpstudy.parts.networks.activation import TANH, Activation, LayerWise, Linear, Relu, Tempered
from dpstudy.parts.part import KINDS, Part, SpecError, checked, number, part, static
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson, Shuffled


@pytest.fixture(autouse=True)
def kinds():
    """Those of the package alone, after each test as before it."""
    with mock.patch.dict(KINDS):
        yield


class Base(Part):
    pass


@part("toy")
class Toy(Base):
    rate: float = 0.5
    size: float = static(2.0)
    count: int = 3
    seed: int = number(0)
    on: bool = True
    inner: tuple[Base, ...] = ()


def test_numbers_and_inner_parts_are_traced_and_all_else_is_static():
    toy = Toy(rate=0.25, size=4.0, count=7, seed=9, on=False, inner=(Toy(),))
    assert jax.tree.leaves(toy) == [0.25, 9, 0.5, 0]
    assert jax.tree.map(lambda x: x, toy) == toy
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(toy)]
    assert paths == [".rate", ".seed", ".inner[0].rate", ".inner[0].seed"]
    structure = jax.tree.structure
    assert structure(toy) == structure(Toy(0.1, 4.0, 7, 8, False, (Toy(rate=0.2),)))
    for other in (Toy(size=3.0), Toy(count=4), Toy(on=False), Toy(inner=(Toy(),))):
        assert structure(other) != structure(Toy())


def test_parts_of_two_classes_have_two_structures_and_two_programs():
    """Not so by `jax.tree_util.register_dataclass`: jit then mixes them up now and then."""
    for one, other in ((Relu(), Linear()), (Poisson(9), Shuffled(9)), (NoPrivacy(), Norms())):
        assert jax.tree.structure(one) != jax.tree.structure(other)
    run = jax.jit(lambda activation, x: activation(x))
    assert [float(run(one, -2.0)) for one in (Relu(), Relu(), Linear())] == [0.0, 0.0, -2.0]


def test_a_run_passes_into_compiled_programs_and_stacks():
    """JAX builds parts by their `__init__`, from tracers and from whatever else it likes."""
    runs = [vary(Run(), scale=scale, seed=seed) for seed, scale in enumerate((1.0, 2.5))]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs)
    x = jnp.linspace(-1, 1, 5)
    found = jax.jit(jax.vmap(lambda run: run.network.activation(x)))(stacked)
    for row, run in zip(found, runs, strict=True):
        np.testing.assert_allclose(row, run.network.activation(x), rtol=1e-6)
    assert jax.tree.map(lambda _: None, Run()).seed is None
    assert jax.tree.map(lambda _: object(), LayerWise((TANH, Relu()))).layers[1] == Relu()
    slopes = jax.grad(lambda run: run.optimizer.learning_rate * run.mechanism.clip_norm)(
        vary(Run(), learning_rate=3.0, clip_norm=5.0, seed=0.0)
    )
    assert (slopes.optimizer.learning_rate, slopes.mechanism.clip_norm) == (5.0, 3.0)


def test_a_part_is_read_back_from_what_is_written_of_it():
    toy = Toy(rate=1, inner=(Toy(seed=2), Toy()))
    written = {"kind": "toy", "rate": 1.0, "inner": [{"kind": "toy", "seed": 2}, {"kind": "toy"}]}
    assert toy.to_dict() == written
    KINDS["toy"] = Toy
    assert Base.from_dict(written) == Toy.from_dict(written) == toy
    assert Tempered.from_dict(Tempered(3.0).to_dict()) == Tempered(3.0)
    with pytest.raises(SpecError, match="unknown relu 'linear'; one of: relu"):
        Relu.from_dict(Linear().to_dict())


@pytest.mark.parametrize(
    ("toy", "message"),
    [
        (Toy(rate="1"), "rate must be a number, got '1'"),
        (Toy(size=True), "size must be a number, got True"),
        (Toy(count=1.0), "count must be a whole number, got 1.0"),
        (Toy(on=1), "on must be true or false, got 1"),
        (Toy(inner=3), "inner must be a tuple of parts, got 3"),
        (Toy(inner=(TANH,)), "inner must be a part of a run, Base, got Tempered"),
        (Toy(inner=(Toy(seed=0.5),)), "seed must be a whole number, got 0.5"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_fields_of_the_wrong_type_are_refused_wherever_they_are(toy, message):
    with pytest.raises(SpecError) as caught:
        checked(toy)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("base", [Activation, Tempered])
def test_a_class_without_a_kind_of_its_own_is_refused_by_name(base):
    with pytest.raises(SpecError, match=r"no kind: put @part\(...\) above class Bare"):
        _ = vary(Run(), activation=type("Bare", (base,), {})()).identity


def test_two_kinds_cannot_have_one_name_but_a_cell_may_run_twice():
    def declare(name):
        return part("norms-of-mine")(type(name, (Part,), {}))

    first, second = declare("Mine"), declare("Mine")
    assert KINDS["norms-of-mine"] is second is not first
    with pytest.raises(ValueError, match="two kinds of part are called 'norms-of-mine'"):
        declare("Other")
    with pytest.raises(ValueError, match="'norms'"):
        part("norms")(type("Norms", (Part,), {}))
    assert KINDS["norms"] is Norms


def output_of(*arguments):
    """What a process of its own says."""
    done = subprocess.run(
        [sys.executable, *arguments], env=environment(), capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def test_the_package_and_its_command_line_s_help_start_without_jax():
    code = "import sys, dpstudy; print({'jax', 'flax', 'optax'} & set(sys.modules))"
    assert output_of("-c", code) == "set()\n"
    lines = output_of("-X", "importtime", "-m", "under_the_clip.cli", "--help").splitlines()
    assert not {line.split("|")[-1].strip() for line in lines} & {"jax", "flax", "optax"}


def test_every_module_with_a_kind_of_part_is_known_by_name():
    """Else a stored run that has one could not be read by a process that has not imported it."""
    source = Path(under_the_clip.__path__[0]).parent
    declaring = {
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path in source.rglob("*.py")
        if '\n@part("' in path.read_text()
    }
    code = "import under_the_clip; from dpstudy import kinds; import dpstudy.parts.run; "
    code += "kinds.declare_all(); import sys; print(*sys.modules)"
    assert declaring <= set(output_of("-c", code).split())
