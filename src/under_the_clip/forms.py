"""What the study's records hold, as types: benchmarks, audits, and what a recipe costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Timed:
    """What one entry of a benchmark showed: times in seconds, memory in bytes.

    Attributes:
        name: its name, the same for all its variants.
        batch: examples a step.
        width: of the network, as a multiple of the paper's.
        variant: its setting.
        processes: how many ran at once.
        pinned: whether each was kept on a core.
        first_step: compilation included.
        baseline: memory once the libraries are imported.
        start_peak: the most memory up to the end of the first step.
        peak: the most memory while it trained.
        idle: processor time while others were timed.
        rounds: seconds a step, by round, by process.
        loss: of the first batch, if it was asked.
    """

    name: str
    batch: int
    width: float
    variant: str
    processes: int
    pinned: bool
    first_step: float
    baseline: int
    start_peak: int
    peak: int
    idle: float
    rounds: tuple[tuple[float, ...], ...]
    loss: float | None = None

    def __post_init__(self) -> None:
        if {len(burst) for burst in self.rounds} != {self.processes} or self.processes < 1:
            raise ValueError("not the seconds of each process in each round")
        if self.batch < 1 or min(map(min, self.rounds)) <= 0:
            raise ValueError("a batch or a time that is not above 0")


@dataclass(frozen=True, kw_only=True)
class Product(Timed):
    """A matrix product: a step is one, of that many operations."""

    flops: int


@dataclass(frozen=True, kw_only=True)
class Contestant(Timed):
    """An entry of a comparison, private if it clips and adds noise."""

    private: bool


Network = Literal["mnist", "cifar-10"]


@dataclass(frozen=True, kw_only=True)
class Point(Timed):
    """An entry of a series in which our step varies, with the operations in its products."""

    network: Network
    flops: int


@dataclass(frozen=True)
class Contest:
    """All contestants on one network.

    Attributes:
        network: name of the network.
        batch: examples a step.
        parameters: of the network.
        flops: operations in the matrix products of one step.
        contestants: each in each of its variants.
        failed: why the contestants that are missing are missing, by name.
    """

    network: Network
    batch: int
    parameters: int
    flops: int
    contestants: tuple[Contestant, ...]
    failed: dict[str, str]


@dataclass(frozen=True)
class Machine:
    """What the numbers of a benchmark depend on."""

    processor: str
    cores: int
    memory: int
    system: str
    python: str
    versions: dict[str, str]
    commit: str
    date: str

    def __str__(self) -> str:
        return f"{self.cores} cores of {self.processor}, {self.date}"


@dataclass(frozen=True)
class Settings:
    """How long was measured."""

    rounds: int
    burst_seconds: float


@dataclass(frozen=True)
class Measurement:
    """A record of `make bench`."""

    machine: Machine
    settings: Settings
    products: tuple[Product, ...]
    comparisons: tuple[Contest, ...]
    by_batch: tuple[Point, ...] = ()
    by_width: tuple[Point, ...] = ()
    side_by_side: tuple[Point, ...] = ()
    undone: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Audited:
    """A record of `dpstudy audit --store`: what an audit shows of a mechanism's epsilon.

    Attributes:
        audit: its name.
        box: "white box" if noisy sums are seen, "black box" if trained models alone are.
        mechanism: what is audited, in words.
        setting: on what, with which canary, in words.
        claimed: epsilon, by the accountant that its paper or its setting goes by.
        proven: epsilon, as proven here for what was run.
        lower_bound: epsilon, at the confidence and without assumptions on the mechanism.
        bounds: each lower bound by its method, as in `privacy.auditing`; each at the confidence.
        most_shown: the lower bound if all of the trials' guesses had been right.
        delta: of all these epsilons.
        confidence: of each bound.
        trials: canaries in all runs together, or models.
        seen: what was seen, in words.
        runs: simulated, of a white box.
        strength: the canary's gradient over the noise of a step, of a white box.
        attained: the canary's gradient over the most that is proven possible, of a white box.
        models: trained, of a black box.
        loss: the poisoned example's, in the mean over models with it, "in", and without it, "out".
    """

    audit: str
    box: Literal["white box", "black box"]
    mechanism: str
    setting: str
    claimed: float
    proven: float
    lower_bound: float
    bounds: dict[str, float]
    most_shown: float
    delta: float
    confidence: float
    trials: int
    seen: str
    provenance: dict[str, Any]
    runs: int | None = None
    strength: float | None = None
    attained: float | None = None
    models: int | None = None
    loss: dict[str, float] | None = None

    def __post_init__(self) -> None:
        seen = {"white box": (self.runs, self.strength, self.attained)}
        if None in seen.get(self.box, (self.models, self.loss)):
            raise ValueError(f"what a {self.box} shows is missing")
        if not 0 < self.delta < 1 or not 0 < self.confidence < 1:
            raise ValueError("a delta or a confidence outside (0, 1)")


@dataclass(frozen=True)
class Attacked:
    """A record of `dpstudy audit --store`: how near examples come to what is proven of layers.

    Attributes:
        attack: its name.
        setting: on what, in words.
        drawn: the longest gradient found over what is proven, by layer, at weights as drawn.
        free: the same with free weights.
        together: the same of all layers' gradients together, "drawn" and "free".
        looked: how hard was looked, in words.
    """

    attack: str
    setting: str
    drawn: dict[str, float]
    free: dict[str, float]
    together: dict[str, float]
    looked: str
    provenance: dict[str, Any]


@dataclass(frozen=True)
class TimedMechanisms:
    """A record of `benchmarks/mechanisms.py`: seconds an epoch, by mechanism and round."""

    epoch_seconds: dict[str, tuple[float, ...]]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class RecipeCost:
    """A record of `benchmarks/recipe.py`: the recipe from an empty cache to a trained head.

    Attributes:
        dataset: its name.
        epsilon: spent.
        test_accuracy: as a fraction.
        seconds: of everything, synthetic images and features included.
        peak_megabytes: of memory.
    """

    dataset: str
    epsilon: float
    test_accuracy: float
    seconds: float
    peak_megabytes: float
    provenance: dict[str, Any]


@dataclass(frozen=True)
class MethodCosts:
    """A record of `benchmarks/methods.py`: what a run costs on one core, by method.

    Attributes:
        dataset: its name.
        minutes: of all epochs, the test set after each included; without features.
        peak_megabytes: of memory.
    """

    dataset: str
    minutes: dict[str, float]
    peak_megabytes: dict[str, float]
    provenance: dict[str, Any]
