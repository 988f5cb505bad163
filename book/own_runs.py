"""Train a run with each part of your own, store it, and read it back."""

from pathlib import Path

from own_activation import Softsign
from own_loss import FadingSmoothing
from own_measure import GradientNorms
from own_mechanism import ElementWise

from dpstudy.lab import store
from dpstudy.lab.campaign import train_missing
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.run import Run, vary

small = vary(Run(), dataset=Images("mnist-5k"), batch=2_000, epochs=1)  # two steps
runs = {
    "activation": vary(small, activation=Softsign(scale=2.0)),
    "loss": vary(small, loss=FadingSmoothing(smoothing=0.1), epochs=2),
    "mechanism": vary(small, mechanism=ElementWise(bound=0.001)),
    "measure": vary(small, measures=(GradientNorms(),)),
}
folder = Path("own-results")
train_missing(runs.values(), folder, finish=store.with_epsilon)
for name, run in runs.items():
    result = store.read(folder / f"{run.identity}.json")
    print(f"{name}: accuracy {result.curve['test_accuracy'][-1]:.3f}, {sorted(result.curve)}")
