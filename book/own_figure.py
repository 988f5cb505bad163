"""Draw your own activation beside tanh: two seeds each, on MNIST-5k."""

from pathlib import Path

from own_activation import Softsign

from dpstudy.lab.experiment import Experiment
from dpstudy.lab.train import prepare
from dpstudy.page.curves import curves
from dpstudy.page.quantity import ACCURACY
from dpstudy.page.results import lines_of
from dpstudy.parts.run import Run, vary

experiment = Experiment(
    name="own-activation",
    title="An activation of your own beside tanh",
    variants={"tanh": (Run(),), "softsign": (vary(Run(), activation=Softsign(scale=2.0)),)},
    seeds={"mnist": 3},
)
reading = prepare(experiment, "smoke")  # "full": three seeds each, on MNIST
lines = lines_of(reading, {"tanh": 0, "softsign": 1})
figure = curves(lines, ACCURACY, name="own-activation", shown="softsign beside tanh")
Path("own-activation.png").write_bytes(figure.png)
print(figure.alt)
