"""Every number that the chapter on performance says in prose is what the benchmark stored."""

import pytest
from prose import said_by
from results_for_tests import figures_in

from under_the_clip.backpropagation_clipping import figures as backpropagation_clipping
from under_the_clip.performance import timings
from under_the_clip.performance.timings import OURS

says, chapter = said_by("09_performance"), figures_in("09_performance")
MNIST, CIFAR = "mnist", "cifar-10"
OPACUS = ("Opacus, hooks", "Opacus, ghost clipping")


pytestmark = pytest.mark.usefixtures("of_the_study")


def column(name, of):
    """A column of one contestant, on MNIST and on CIFAR-10."""
    data = timings.contestants(timings.stored()).set_index(["network", "name"])[of]
    return data[MNIST, name], data[CIFAR, name]


def beyond_libraries(name):
    peaks, libraries = column(name, "peak"), column(name, "baseline")
    return [peak - of_it for peak, of_it in zip(peaks, libraries, strict=True)]


def test_clipping_is_nearly_free():
    mnist, cifar = column("ours, not private", "ratio")
    says(f"noise a step takes {mnist:.2f} and {cifar:.2f} times as long, and rounds")
    quartiles = (column("ours, not private", f"ratio_{of}") for of in ("low", "high"))
    for low, high in zip(*quartiles, strict=True):
        assert low < 1 < high
    there = backpropagation_clipping.times().data.set_index("gradients")["times as fast"]
    least, most = (100 * (free - 1) for free in there["no privacy"])  # by batch
    says(f"clipping and noise add {least:.0f} and {most:.0f} % at batches of 256 and 4,096.")
    says("Poisson sampling adds a fifth on MNIST, and nothing that shows on CIFAR-10.")
    assert column("ours, with sampling", "ratio")[0] == pytest.approx(1.2, abs=0.02)
    low, high = (column("ours, with sampling", f"ratio_{of}")[1] for of in ("low", "high"))
    assert low < 1 < high


def test_how_long_the_others_take():
    data = timings.contestants(timings.stored())
    modes = data[data.name.isin(OPACUS)].sort_values("seconds").groupby("network").ratio.first()
    faster = modes[[MNIST, CIFAR]]
    says("of Opacus takes {:.2f} and {:.2f} times as long as our private step".format(*faster))
    says("`vmap(grad)` {:.2f} and {:.2f} times".format(*column("vmap(grad)", "ratio")))
    says("jax-privacy {:.2f} and {:.2f} times".format(*column("jax-privacy", "ratio")))
    nearest = column("torch.func", "ratio")
    says("takes {:.2f} times as long as ours on MNIST and {:.2f} times on CIFAR".format(*nearest))
    private = data[data.private & ~data.name.str.startswith("ours")].groupby("network").ratio.min()
    assert tuple(private[[MNIST, CIFAR]]) == nearest
    assert column("torch.func", "variant") == ("whole batch", "whole batch")
    plain = column("PyTorch, not private", "ratio")
    says("PyTorch without privacy takes {:.2f} and {:.2f} times as long".format(*plain))
    assert plain[1] < 1


def test_the_machine_s_rate_and_memory():
    (_, ours), (_, plain) = column(OURS, "rate"), column("PyTorch, not private", "rate")
    says(f"reaches {100 * ours:.0f} % of the machine's rate")
    says(f"PyTorch without privacy {100 * plain:.0f} %")
    leaner = map(min, zip(*map(beyond_libraries, OPACUS), strict=True))
    shares = [one / other for one, other in zip(beyond_libraries(OURS), leaner, strict=True)]
    said = "Our peak memory, libraries left out, is {:.2f} and {:.2f} times that of the leaner"
    says(said.format(*shares))


def test_what_is_undone():
    undone = timings.undone(timings.stored()).set_index(["network", "name"]).ratio
    whole, convolution, pooling = (
        "the whole batch in one pass",
        "the library's convolution",
        "the library's pooling",
    )
    says(f"takes {undone[MNIST, whole]:.2f} and {undone[CIFAR, whole]:.2f} times as long")
    says(
        f"our convolution {undone[MNIST, convolution]:.2f}, our pooling "
        f"{undone[MNIST, pooling]:.2f}, small portions {undone[MNIST, whole]:.2f}"
    )
    assert (undone[MNIST] >= 3).sum() == 3
    says(f"On CIFAR-10 it is the convolution and its gradients, {undone[CIFAR, convolution]:.2f}.")
    products = undone[CIFAR, "products for all convolutions"]
    says(f"products would take {products:.2f} times as long on the CIFAR-10 network")


def test_growth():
    batches = timings.series(timings.stored(), "by_batch")
    speeds = batches.set_index(["network", "batch"]).examples_per_second
    says(
        f"{speeds[MNIST, 64]:,.0f} examples a second at batch 64 and {speeds[MNIST, 2048]:,.0f} at"
    )
    assert speeds[CIFAR].max() / speeds[CIFAR].min() < 1.15
    side = timings.series(timings.stored(), "side_by_side").set_index(["network", "processes"])
    together = side.examples_per_second[MNIST, 2]
    says(f"{together:,.0f} examples a second on MNIST, where one run has {speeds[MNIST, 512]:,.0f}")
    assert together > speeds[MNIST, 512]
    together = side.examples_per_second[CIFAR, 2]
    widths = timings.series(timings.stored(), "by_width").set_index(["network", "width"])
    alone = sorted((widths.examples_per_second[CIFAR, 1.0], speeds[CIFAR, 256]))
    said = "it is open: two have {:,.0f}, and one had {:,.0f} and {:,.0f} at two times."
    says(said.format(together, *alone))
    assert side.batch[CIFAR, 2] == widths.batch[CIFAR, 1.0] == 256


def test_repeats():
    data = chapter.repeats().data
    most = 100 * data["most apart"].max()
    says(f"differ by at most {most:.2f} points after any epoch, over {len(data)} runs")
