"""The chapter on losing less: the code that it shows is the loss that was trained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from results_for_tests import figures_in

from under_the_clip.losing_less import figures
from under_the_clip.losing_less.loss import Composite

pytestmark = pytest.mark.usefixtures("of_the_study")


@pytest.mark.parametrize("epoch", [1, 5, 30])
def test_the_loss_in_the_text_is_the_one_that_was_trained(epoch):
    shown = figures_in("03_losing_less").composite
    keys = jax.random.split(jax.random.key(epoch), 3)
    logits, labels = jax.random.normal(keys[0], (6, 10)), jax.random.randint(keys[1], 6, 0, 10)
    hidden = [jax.random.normal(keys[2], (6, 4, 3)), jnp.ones((6, 5))]
    trained = Composite(focusing=5.0, turning_epoch=7.0, divisor=11.0)
    ours = jax.vmap(shown, in_axes=(0, 0, 0, None))(logits, hidden, labels, epoch)
    np.testing.assert_allclose(ours, trained(logits, hidden, labels, epoch), rtol=1e-5)


def test_measures_cost_less_than_a_fifth_of_the_training_they_watch():
    rows = figures.cost().data.set_index("loss")
    assert set(rows.index) == {"composite", "cross-entropy"}
    assert (rows["measures add"] < 1 / 5).all()
