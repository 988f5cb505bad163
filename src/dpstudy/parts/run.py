"""Run: the parts that determine one training run, and what they make together.

The content hash of a run is its identity: it names its result file.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int

from dpstudy.errors import meant
from dpstudy.gradients.layers import Losses
from dpstudy.parts.accountable import check_range
from dpstudy.parts.data.dataset import Data, Images
from dpstudy.parts.loss import CrossEntropy, Loss
from dpstudy.parts.measure import Examples, Measure, Snapshot
from dpstudy.parts.mechanism import FlatClipping, Mechanism, gaussian_noise
from dpstudy.parts.networks.network import Network, SmallCnn
from dpstudy.parts.optimizer import Optimizer, Sgd
from dpstudy.parts.part import Part, SpecError, at_least, checked, number, part, static, value_of
from dpstudy.parts.sampling import Poisson, Sampling

# Of the key of a run whose dataset draws: no image has so large a number.
_TRAINING = 2**32 - 1


@part()
class Run(Part):
    """One training run, complete; by default a common one for MNIST, at an epsilon of about 3.

    >>> run = Run(epochs=2)
    >>> run.to_dict(), run.identity, run.steps_per_epoch
    ({'epochs': 2}, 'e2826b0417c39ae7', 117)

    `seed` is of initialisation, sampling and noise together. `measures` are taken before the first
    step and after each epoch, and epsilon is reported at `delta`.
    """

    dataset: Data = Images()
    network: Network = SmallCnn()
    loss: Loss = CrossEntropy()
    mechanism: Mechanism = FlatClipping()
    sampling: Sampling = Poisson()
    optimizer: Optimizer = Sgd()
    epochs: int = 40
    seed: int = number(0)
    measures: tuple[Measure, ...] = ()
    delta: float = static(1e-5)

    def check(self) -> None:
        if self.network.image_shape != self.dataset.image_shape:
            raise SpecError(
                f"network {self.network.kind!r} does not take the {self.dataset.kind} of "
                f"{self.dataset.name!r}"
            )
        if self.sampling.batch > self.dataset.examples:
            raise SpecError(
                f"batch must be at most the {self.dataset.examples} examples of "
                f"{self.dataset.name}, got {self.sampling.batch}"
            )
        if self.dataset.release_noise and not isinstance(self.sampling, Poisson):
            raise SpecError("what a dataset releases is accounted for with Poisson batches only")
        at_least(self, 1, "epochs")
        if not 0 <= self.seed < 2**31:
            raise SpecError(f"seed must be in [0, 2^31), got {self.seed}")
        if not 0 < self.delta < 1:
            raise SpecError(f"delta must be in (0, 1), got {self.delta}")
        kinds = [measure.kind for measure in self.measures]
        for measure in self.measures:
            measure.check_mechanism(self.mechanism)
        if len(set(kinds)) < len(kinds):
            raise SpecError(f"a measure is taken once, got {', '.join(map(str, kinds))}")

    @functools.cached_property
    def identity(self) -> str:
        """The content hash, 16 hexadecimal digits of SHA-256 over the canonical JSON.

        Raises:
            SpecError: a part has a value that cannot be. So no such run is trained or stored.
        """
        canonical = json.dumps(checked(self).to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def private(self) -> bool:
        """Whether an epsilon can be stated for the run."""
        return self.mechanism.noise_over_sensitivity is not None and not self.dataset.leaks

    @property
    def sampling_probability(self) -> float:
        """The probability q with which an example takes part in one step."""
        return self.sampling.batch / self.dataset.examples

    @property
    def key(self) -> Array:
        """The key by which training draws weights, batches and noise."""
        key = jax.random.key(self.seed)
        # Another where the dataset draws by that of the seed: features must not tell of noise.
        return jax.random.fold_in(key, _TRAINING) if self.dataset.draws else key

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps in one epoch."""
        return self.sampling.steps_per_epoch(self.dataset.examples)

    def check_accountable(self) -> None:
        """Raise UserError where the run is private, and no epsilon could be stated at its end."""
        if self.private:
            noise, steps = self.mechanism.noise_over_sensitivity, self.epochs * self.steps_per_epoch
            check_range(self.sampling_probability, noise, steps)

    def at_seed(self, seed: int) -> Run:
        """Return the run with another seed, by which its dataset draws as well, if it does."""
        return dataclasses.replace(self, seed=seed, dataset=self.dataset.at_seed(seed))

    def of_a_step(self) -> Run:
        """Return the run without length, delta and measures: no step's program depends on them."""
        return dataclasses.replace(self, epochs=1, measures=(), delta=0.5)

    def losses(self, epoch: Float[Array, ""]) -> Losses:
        """Return the function from module, stored images and labels to per-example losses."""

        def losses(module: nnx.Module, images: Array, labels: Array) -> Float[Array, "batch"]:
            logits, hidden = self.network.outputs(module, self.dataset.prepare(images))
            return self.loss(logits, hidden, labels, epoch)

        return losses

    def snapshot(self, params: nnx.State, epoch: Float[Array, ""], train: Examples) -> Snapshot:
        """Return what a measure may look at after that many epochs; see `Snapshot`."""
        parts = self.network, self.dataset, self.mechanism, self.losses(epoch)
        return Snapshot(*parts, params, train)

    def epoch_of(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """Return the number of the epoch that a step, the first being 0, belongs to, from 1."""
        return (step // self.steps_per_epoch + 1).astype(jnp.float32)

    def update_rule(self, params: nnx.State, noise_key: Array) -> optax.GradientTransformation:
        """Return what becomes of a sum: noise by `noise_key`, the mean, the optimizer."""
        mean, rule = optax.scale(1 / self.sampling.batch), self.optimizer.transformation()
        deviations = self.mechanism.noise(params)
        if deviations is None:
            return optax.chain(mean, rule)
        return optax.chain(gaussian_noise(deviations, noise_key, apart=False), mean, rule)


def vary(run: Run, **changes: Any) -> Run:
    """Return the run with fields changed, each given by name: its own, or that of one part.

    >>> run = vary(Run(), learning_rate=8.0, batch=1024)
    >>> run.optimizer, run.sampling
    (Sgd(learning_rate=8.0, momentum=0.9), Poisson(batch=1024))
    >>> vary(Run(), speed=1.0)
    Traceback (most recent call last):
    dpstudy.parts.part.SpecError: no parts of the run have a field 'speed'; the nearest is 'seed'

    Raises:
        SpecError: no part of the run, or more than one, has a field of that name.
    """
    for name, value in changes.items():
        run = _replaced(run, _path_to(run, name), value)
    return run


def vary_as_written(run: Run, written: Mapping[str, str]) -> Run:
    """Return the run with fields changed as `vary`, each to what a text says, and checked.

    A part is named by its kind, or written in JSON: see `dpstudy.parts.part.value_of`.

    >>> vary_as_written(Run(), {"clip_norm": "0.5", "activation": "relu"}).to_dict()
    {'network': {...'kind': 'relu'}}, 'mechanism': {'kind': 'flat', 'clip_norm': 0.5}}
    >>> vary_as_written(Run(), {"clip_norm": "half"})
    Traceback (most recent call last):
    dpstudy.parts.part.SpecError: clip_norm must be a number, got 'half'

    Raises:
        SpecError: no part of the run has such a field, or it takes no such value.
    """
    for name, text in written.items():
        path = _path_to(run, name)
        owner = functools.reduce(getattr, path[:-1], run)
        run = _replaced(run, path, value_of(owner, name, text))
    return checked(run).at_seed(run.seed)


def fields_of(of: Part) -> set[str]:
    """Return the names of all fields of a run, or of a part, and of the parts in it."""
    own = [field.name for field in dataclasses.fields(of)]
    inner = [one for name in own if isinstance(one := getattr(of, name), Part)]
    return {*own}.union(*map(fields_of, inner))


def _path_to(run: Run, name: str) -> tuple[str, ...]:
    paths = _paths_to(run, name)
    if not paths:
        near = meant(name, sorted(fields_of(run)))
        raise SpecError(f"no parts of the run have a field {name!r}; {near}")
    if len(paths) > 1:
        raise SpecError(f"{len(paths)} parts of the run have a field {name!r}")
    return paths[0]


def _paths_to(of: Part, name: str) -> list[tuple[str, ...]]:
    fields = [field.name for field in dataclasses.fields(of)]
    if name in fields:
        return [(name,)]
    return [
        (field, *rest)
        for field in fields
        if isinstance(inner := getattr(of, field), Part)
        for rest in _paths_to(inner, name)
    ]


def _replaced(of: Any, path: tuple[str, ...], value: Any) -> Any:
    first, *rest = path
    inner = _replaced(getattr(of, first), tuple(rest), value) if rest else value
    return dataclasses.replace(of, **{first: inner})


def cohort_of(run: Run) -> Any:
    """Return what the runs of one cohort share: the structure of their parts, and the data.

    >>> cohort_of(Run()) == cohort_of(vary(Run(), seed=1, learning_rate=2.0))
    True
    >>> cohort_of(Run()) == cohort_of(vary(Run(), batch=256))
    False
    """
    return jax.tree.structure(run), run.dataset


def setting(run: Run, name: str) -> Any:
    """Return the field of that name, of the run or of one of its parts; see `vary`.

    >>> setting(Run(), "noise_multiplier")
    1.23

    Raises:
        SpecError: no part of the run, or more than one, has a field of that name.
    """
    return functools.reduce(getattr, _path_to(run, name), run)


def stream(key: Array, name: str) -> Array:
    """Return one of the independent streams of randomness of a run's key."""
    return jax.random.fold_in(key, ("initial", "sampling", "noise").index(name))
