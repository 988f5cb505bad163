"""What the study's records hold, as types: benchmarks, audits, and what a recipe costs."""

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Timed:
    """What one entry of a benchmark showed: times in seconds, memory in bytes."""

    name: str  # its name, the same for all its variants
    batch: int  # examples a step
    width: float  # of the network, as a multiple of the paper's
    variant: str  # its setting
    processes: int  # how many ran at once
    pinned: bool  # whether each was kept on a core
    first_step: float  # compilation included
    baseline: int  # memory once the libraries are imported
    start_peak: int  # the most memory up to the end of the first step
    peak: int  # the most memory while it trained
    idle: float  # processor time while others were timed
    rounds: tuple[tuple[float, ...], ...]  # seconds a step, by round, by process
    loss: float | None = None  # of the first batch, if it was asked

    def __post_init__(self) -> None:
        if {len(burst) for burst in self.rounds} != {self.processes} or self.processes < 1:
            raise ValueError("not the seconds of each process in each round")
        if self.batch < 1 or min(map(min, self.rounds)) <= 0:
            raise ValueError("a batch or a time that is not above 0")


@dataclass(frozen=True, kw_only=True)
class Product(Timed):
    """A matrix product: a step is one, of that many operations."""

    flops: int
    precision: str = "float32"  # of its factors, as `benchmarks/peers/products_jax.py` names it


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
    runs: int = 1  # that a step is of, as one program


@dataclass(frozen=True)
class Contest:
    """All contestants on one network."""

    network: Network
    batch: int  # examples a step
    parameters: int
    flops: int  # operations in the matrix products of one step
    contestants: tuple[Contestant, ...]  # each in each of its variants
    failed: dict[str, str]  # why the contestants that are missing are missing, by name


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
    accelerator: str = ""  # how many of which; empty if the processor computed

    def __str__(self) -> str:
        computed = self.accelerator or f"{self.cores} cores of {self.processor}"
        return f"{computed}, {self.date}"


@dataclass(frozen=True)
class Settings:
    """How long was measured."""

    rounds: int
    burst_seconds: float


@dataclass(frozen=True)
class Measurement:
    """A record of `make bench`, or of `benchmarks/gpu.py`."""

    machine: Machine
    settings: Settings
    products: tuple[Product, ...]
    comparisons: tuple[Contest, ...]
    by_batch: tuple[Point, ...] = ()
    by_width: tuple[Point, ...] = ()
    side_by_side: tuple[Point, ...] = ()
    undone: tuple[Point, ...] = ()  # and what else was changed in our step
    cohorts: tuple[Point, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)  # against float64, by what was compared


@dataclass(frozen=True)
class AuditRecord:
    """A record of `dpstudy audit --store`: what an audit shows of a mechanism's epsilon."""

    audit: str
    # "white box" if noisy sums are seen, "black box" if trained models alone are.
    box: Literal["white box", "black box"]
    mechanism: str  # what is audited, in words
    setting: str  # on what, with which canary, in words
    claimed: float  # epsilon, by the accountant that its paper or its setting goes by
    proven: float  # epsilon, as proven here for what was run
    lower_bound: float  # epsilon, at the confidence and without assumptions on the mechanism
    # Each lower bound by its method, as in `privacy.auditing`; each at the confidence.
    bounds: dict[str, float]
    most_shown: float  # the lower bound if all of the trials' guesses had been right
    delta: float  # of all these epsilons
    confidence: float  # of each bound
    trials: int  # canaries in all runs together, or models
    seen: str  # what was seen, in words
    provenance: dict[str, Any]
    runs: int | None = None  # simulated, of a white box
    strength: float | None = None  # the canary's gradient over the noise of a step, of a white box
    # The canary's gradient over the most that is proven possible, of a white box.
    attained: float | None = None
    models: int | None = None  # trained, of a black box
    # The poisoned example's, in the mean over models with it, "in", and without it, "out".
    loss: dict[str, float] | None = None

    def __post_init__(self) -> None:
        seen = {"white box": (self.runs, self.strength, self.attained)}
        if None in seen.get(self.box, (self.models, self.loss)):
            raise ValueError(f"what a {self.box} shows is missing")
        if not 0 < self.delta < 1 or not 0 < self.confidence < 1:
            raise ValueError("a delta or a confidence outside (0, 1)")


@dataclass(frozen=True)
class AttackRecord:
    """A record of `dpstudy audit --store`: how near examples come to what is proven of layers."""

    attack: str
    setting: str  # on what, in words
    # The longest gradient found over what is proven, by layer, at weights as drawn.
    drawn: dict[str, float]
    free: dict[str, float]  # the same with free weights
    together: dict[str, float]  # the same of all layers' gradients together, "drawn" and "free"
    looked: str  # how hard was looked, in words
    provenance: dict[str, Any]


@dataclass(frozen=True)
class TimedMechanisms:
    """A record of `benchmarks/mechanisms.py`: seconds an epoch, by mechanism and round."""

    epoch_seconds: dict[str, tuple[float, ...]]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class RecipeCost:
    """A record of `benchmarks/recipe.py`: the recipe from an empty cache to a trained head."""

    dataset: str
    epsilon: float  # spent
    seconds: float  # of everything, synthetic images and features included
    peak_megabytes: float
    provenance: dict[str, Any]
    test_accuracy: float | None = None  # as a fraction; not kept of other filters
    filters: int | None = None  # if others than the edition's


@dataclass(frozen=True)
class MethodCosts:
    """A record of `benchmarks/methods.py`: what a run costs on one core, by method."""

    dataset: str
    minutes: dict[str, float]  # of all epochs, the test set after each included; without features
    peak_megabytes: dict[str, float]
    provenance: dict[str, Any]
