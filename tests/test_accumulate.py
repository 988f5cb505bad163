"""A step's sum over its examples, however they are cut into microbatches and shared by devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import convolving
from jax.sharding import PartitionSpec

from dpstudy.gradients import devices
from dpstudy.parts.sampling import Draw
from dpstudy.training import accumulate

VALUES = np.random.default_rng(0).integers(-50, 50, 40).astype(np.float32)


@pytest.mark.parametrize("core_each", [True, False], ids=["core each", "cores abreast"])
@pytest.mark.parametrize("microbatch", [1, 4, 7, 100])
def test_each_drawn_example_counts_once(microbatch, core_each):
    indices = np.random.default_rng(1).permutation(len(VALUES))[:20]

    def total(values, mask):
        return jnp.stack([values @ mask, mask.sum()])

    @jax.jit
    def summed(values, count):
        draw = Draw(jnp.asarray(indices), count, jnp.bool_(False))
        return accumulate.over_examples(total, jnp.zeros(2), draw, (values,), microbatch)

    with convolving(core_each):
        for count in (0, 1, 4, 5, 8, 9, 19, 20):
            found = summed(VALUES, np.int32(count))
            assert found.tolist() == [VALUES[indices[:count]].sum(), count]


EACH_ITS_OWN = PartitionSpec(devices.EXAMPLES)


@pytest.fixture(scope="module")
def mesh():
    made = devices.mesh_for(1)
    assert made.shape == {"runs": 1, "examples": 2}
    return made


@pytest.mark.parametrize("capacity", [6, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 6])
def test_each_drawn_example_is_in_one_share(mesh, capacity, count):
    indices = np.random.default_rng(0).permutation(20)[:capacity]

    def mine(draw):
        part = accumulate.mine(draw, mesh)
        return jnp.where(jnp.arange(len(part.indices)) < part.count, part.indices, -1)

    draw = Draw(jnp.asarray(indices), jnp.int32(count), jnp.bool_(False))
    parts = np.asarray(devices.on_each(mine, mesh, EACH_ITS_OWN)(draw)).reshape(2, -1)
    taken = [part[part >= 0].tolist() for part in parts]
    assert abs(len(taken[0]) - len(taken[1])) <= 1
    assert sorted(taken[0] + taken[1]) == sorted(indices[:count].tolist())


def test_every_device_gets_every_part_and_adds_them_up(mesh):
    like = {"a": np.float32([[1, 2], [3, 4]]), "b": np.float32(5)}

    def part(tree):
        return accumulate.flat(tree) * (1 + jnp.float32(jax.lax.axis_index("examples")))

    parts = devices.on_each(part, mesh, EACH_ITS_OWN)(like)
    exchanged = accumulate.exchanged(parts, mesh)
    for device, copies in enumerate(zip(*(p.addressable_shards for p in exchanged), strict=True)):
        assert {shard.device for shard in copies} == {mesh.devices.flat[device]}
        for factor, shard in enumerate(copies, start=1):
            assert np.asarray(shard.data).tolist() == [factor * x for x in (1, 2, 3, 4, 5)]

    total = devices.on_each(lambda tree, parts: accumulate.added(parts, tree), mesh)(
        like, exchanged
    )
    assert np.asarray(total["a"]).tolist() == [[3, 6], [9, 12]]
    assert total["b"] == 15
    assert [float(shard.data) for shard in total["b"].addressable_shards] == [15, 15]
