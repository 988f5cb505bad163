"""A run's examples shared out among the two devices of conftest.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from dpstudy.gradients import devices
from dpstudy.parts.sampling import Draw
from dpstudy.training import shares

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
        part = shares.mine(draw, mesh)
        return jnp.where(jnp.arange(len(part.indices)) < part.count, part.indices, -1)

    draw = Draw(jnp.asarray(indices), jnp.int32(count), jnp.bool_(False))
    parts = np.asarray(devices.on_each(mine, mesh, EACH_ITS_OWN)(draw)).reshape(2, -1)
    taken = [part[part >= 0].tolist() for part in parts]
    assert abs(len(taken[0]) - len(taken[1])) <= 1
    assert sorted(taken[0] + taken[1]) == sorted(indices[:count].tolist())


def test_every_device_gets_every_part_and_adds_them_up(mesh):
    like = {"a": np.float32([[1, 2], [3, 4]]), "b": np.float32(5)}

    def part(tree):
        return shares.flat(tree) * (1 + jnp.float32(jax.lax.axis_index("examples")))

    parts = devices.on_each(part, mesh, EACH_ITS_OWN)(like)
    exchanged = shares.exchanged(parts, mesh)
    for device, copies in enumerate(zip(*(p.addressable_shards for p in exchanged), strict=True)):
        assert {shard.device for shard in copies} == {mesh.devices.flat[device]}
        for factor, shard in enumerate(copies, start=1):
            assert np.asarray(shard.data).tolist() == [factor * x for x in (1, 2, 3, 4, 5)]

    total = devices.on_each(lambda tree, parts: shares.added(parts, tree), mesh)(like, exchanged)
    assert np.asarray(total["a"]).tolist() == [[3, 6], [9, 12]]
    assert total["b"] == 15
    assert [float(shard.data) for shard in total["b"].addressable_shards] == [15, 15]
