"""Train at a true epsilon of 3 on 4,000 images, with relu and with tanh."""

from pathlib import Path

from dpstudy.lab import store
from dpstudy.lab.campaign import train_missing
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.networks.activation import TANH, Relu
from dpstudy.parts.run import Run, vary
from dpstudy.privacy.accounting import noise_multiplier_for

digits = Images("mnist-5k")
start = vary(Run(), dataset=digits, batch=200, epochs=12, learning_rate=1.0)
noise = noise_multiplier_for(
    3.0,
    sampling_probability=start.sampling_probability,
    steps=start.epochs * start.steps_per_epoch,
    delta=start.delta,
)
private = vary(start, noise_multiplier=noise)
relu, tanh = (vary(private, activation=one) for one in (Relu(), TANH))
runs = {"relu": relu, "tanh": tanh}
folder = Path("first-private-runs")
train_missing(runs.values(), folder, finish=store.with_epsilon)
for name, run in runs.items():
    result = store.read(folder / f"{run.identity}.json")
    accuracy = result.curve["test_accuracy"][-1]
    epsilon = result.epsilon["pld"][-1]
    print(f"{name}: test accuracy {accuracy:.3f} at epsilon {epsilon:.2f}")
