"""Chapter 9 says what the stored benchmark says: best settings, ratios by round, gaps."""

from functools import reduce
from operator import getitem

import pytest
from results_for_tests import dpstudy, figures_in, rewrite

from dpstudy.lab import records
from dpstudy.page.figure import Figure, Note
from under_the_clip.performance import timings

chapter = figures_in("09_performance")
FIGURES = (chapter.in_short, chapter.growth)


def contestant(name, seconds, *, variant="", private=True, peak=300, **fields):
    """A contestant as `make bench` stores it, from its seconds a step in each round."""
    one = {
        "name": name,
        "batch": 512,
        "width": 1.0,
        "variant": variant,
        "processes": 1,
        "pinned": False,
        "loss": 2.3,
        "first_step": 3.0,
        "baseline": 200_000_000,
        "start_peak": 250_000_000,
        "peak": peak * 1_000_000,
        "idle": 0.01,
        "rounds": [[second] for second in seconds],
        "private": private,
    }
    return one | fields


def point(*arguments, flops=1, network=None, **fields):
    """An entry that is no contestant."""
    one = contestant(*arguments, **fields) | {"flops": flops}
    del one["private"]
    return one | ({"network": network} if network else {})


# The second round was disturbed: everyone took twice as long.
CONTESTANTS = [
    contestant("ours", (0.030, 0.060, 0.030), variant="16"),
    contestant("ours", (0.020, 0.040, 0.020), variant="32"),
    contestant("ours, not private", (0.025, 0.050, 0.025), private=False, variant="32"),
    contestant("ours, not private", (0.018, 0.036, 0.019), private=False, variant="64"),
    contestant("Opacus, hooks", (0.100, 0.200, 0.110), peak=600),
    contestant("Opacus, ghost clipping", (0.080, 0.160, 0.090), peak=800),
    contestant("jax-privacy", (0.300, 0.600, 0.300), variant="whole batch"),
    contestant("vmap(grad)", (0.200, 0.400, 0.200)),
    contestant("PyTorch, not private", (0.030, 0.060, 0.032), private=False),
]


def content(date="2026-01-02", cores=2, contestants=CONTESTANTS, failed=None):
    """A record of one comparison."""
    return {
        "machine": {
            "processor": "Abacus",
            "cores": cores,
            "memory": 2**34,
            "system": "Wood",
            "python": "3.11",
            "versions": {"jax": "1.2.3"},
            "commit": "0",
            "date": date,
        },
        "settings": {"rounds": 3, "burst_seconds": 0.5},
        "products": [
            point("JAX, all cores", (0.1, 0.1, 0.2), flops=10**10),
            point("PyTorch, all cores", (0.2, 0.2, 0.2), flops=10**10),
            point("JAX, one core", (0.2, 0.2, 0.2), flops=10**10, pinned=True),
        ],
        "comparisons": [
            {
                "network": "mnist",
                "batch": 512,
                "parameters": 26_010,
                "flops": 10**9,
                "contestants": contestants,
                "failed": failed or {},
            }
        ],
        "by_batch": [
            point(f"batch {batch}", (batch / 1e4,) * 3, batch=batch, network="mnist")
            for batch in (128, 64)
        ],
        "by_width": [point("width 2", (0.1,) * 3, width=2.0, network="mnist")],
        "side_by_side": [
            point("1 pinned", (0.1,) * 3, network="mnist"),
            point("2 pinned", (), network="mnist", processes=2, rounds=[[0.1, 0.2]] * 3),
        ],
    }


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Stores records where the chapter looks for them."""
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path))

    def store(name="cpu", **fields):
        path = records.folder("benchmarks") / f"{name}.json"
        records.write(path, "benchmarks", content(**fields))
        return timings.stored()

    return store


def cells(table):
    """The rows of a table of times by contestant, the cells by column."""
    head, *lines = table._repr_mimebundle_()["text/plain"].splitlines()
    rows = (dict(zip(head.split(" | "), line.split(" | "), strict=True)) for line in lines)
    return {row[""]: row for row in rows}


def test_each_contestant_counts_in_its_best_variant(keep):
    table = timings.contestants(keep())
    assert table.name.is_unique
    assert table.set_index("name").variant["ours"] == "32"
    assert table.set_index("name").seconds["ours, not private"] == 0.019
    assert table.seconds.is_monotonic_increasing


def test_ratios_are_taken_round_by_round(keep):
    contestants = [contestant("ours", (1.0, 20.0, 1.0)), contestant("other", (3.0, 60.0, 4.0))]
    table = timings.contestants(keep(contestants=contestants))
    ratio = table.set_index("name").loc["other"]
    # Not the ratio of the medians, 4 to 1.
    assert (ratio.ratio_low, ratio.ratio, ratio.ratio_high) == (3.0, 3.0, 3.5)


def test_the_figure_has_everyone_over_ours(keep):
    data = chapter.in_short(keep()).data.set_index("name")
    assert "ours" not in data.index and len(data) == 6
    assert data.ratio["Opacus, ghost clipping"] == pytest.approx(4)
    assert data.ratio["jax-privacy"] == pytest.approx(15)
    assert data.ratio["ours, not private"] == pytest.approx(0.9)


def test_memory_counts_from_the_start_of_the_process(keep):
    compiled = contestant("ours", (0.02,) * 3, peak=100, start_peak=500_000_000)
    assert timings.contestants(keep(contestants=[compiled])).peak[0] == 500_000_000


def test_times_table(keep):
    [table] = chapter.times(keep()).parts
    ours = cells(table)["ours (32)"]
    assert ours["private"] == "yes" and ours["ms a step"] == "20.0"
    assert ours["quartiles"] == "20.0–30.0" and ours["times ours"] == "1.00"
    assert ours["peak MB"] == "300" and ours["of it libraries"] == "200"
    assert ours["of the machine's rate"] == "50%" and ours["first step, s"] == "3.0"
    assert cells(table)["PyTorch, not private"]["private"] == "no"
    assert "batch 512" in table.caption
    assert "2 cores of Abacus, 2026-01-02" in table.caption


def on_gpu(batch):
    """A record of an accelerator: a comparison, products, and our step changed and together."""
    of = content()
    of["machine"]["accelerator"] = "1 x Abacus of light"
    of["comparisons"][0]["batch"] = batch
    of["products"] = [
        point("JAX", (0.1,) * 3, flops=10**13, precision=name) for name in ("float32", "bf16")
    ]
    of["products"][1]["rounds"] = [[0.05]] * 3
    return of | {
        "by_batch": [],
        "by_width": [],
        "side_by_side": [],
        "undone": [point("nothing changed", (0.02,) * 3, network="mnist", flops=10**11)],
        "cohorts": [point("4 runs", (0.04,) * 3, network="mnist", runs=4, flops=4 * 10**11)],
        "errors": {"mnist, sum": 1e-7},
    }


def test_an_accelerator_is_shown_beside_the_processor_and_not_in_its_place(keep):
    assert chapter.on_gpu(timings.stored(accelerated=True)).command == "python benchmarks/gpu.py"
    keep()
    records.write(records.folder("benchmarks") / "light.json", "benchmarks", on_gpu(1024))
    assert timings.stored().machine.accelerator == ""
    measured = timings.stored(accelerated=True)
    assert timings.product_rate(measured) == pytest.approx(1e14), "in float32"
    steps, rates = chapter.on_gpu(measured).parts
    assert "batch 1024" in steps.caption and "1 x Abacus of light, 2026-01-02" in steps.caption
    assert cells(steps)["ours (32)"]["ms a step"] == "20.0"
    found = {name: row["TFLOP/s"] for name, row in cells(rates).items()}
    assert found == {
        "product, float32": "100.0",
        "product, bf16": "200.0",
        "MNIST network, nothing changed": "5.0",
        "MNIST network, 4 runs": "10.0",
    }


def test_rate_is_a_part_of_the_faster_library_s_products_on_all_cores(keep):
    benchmark = keep()
    assert timings.product_rate(benchmark) == pytest.approx(1e11)
    table = timings.contestants(benchmark).set_index("name")
    assert table.rate["ours"] == pytest.approx(1e9 / 0.020 / 1e11)


def test_runs_side_by_side_add_up(keep):
    rows = timings.series(keep(), "side_by_side").set_index("processes")
    assert rows.examples_per_second[1] == pytest.approx(512 / 0.1)
    assert rows.examples_per_second[2] == pytest.approx(512 / 0.1 + 512 / 0.2)
    assert rows.seconds[2] == 0.2


@pytest.mark.parametrize("draw", FIGURES)
def test_figure_says_what_it_shows_and_where_it_was_measured(keep, draw):
    figure = draw(keep())
    assert isinstance(figure, Figure)
    assert "2 cores of Abacus" in figure.caption
    assert "MNIST network" in figure.alt
    assert figure.svg
    assert "nan" not in figure.alt


def test_growth_is_told_from_the_smallest_to_the_largest(keep):
    alt = chapter.growth(keep()).alt
    assert "from 10000 examples a second at 64 to 10000 at 128" in alt


@pytest.mark.parametrize("make", [chapter.times, chapter.undone, *FIGURES])
def test_nothing_stored_is_said_with_the_command(keep, make):
    assert timings.stored() is None
    note = make(timings.stored())
    assert isinstance(note, Note)
    assert note.title == "Not yet run"
    assert note.command == "make bench"


def test_what_failed_is_named_and_the_rest_is_shown(keep):
    without = [one for one in CONTESTANTS if not one["name"].startswith("Opacus")]
    benchmark = keep(contestants=without, failed={"Opacus, hooks": "killed (exit status -9)"})
    assert "MNIST network: Opacus, hooks, killed" in timings.warnings_of(benchmark).text
    shown = set(chapter.in_short(benchmark).data.name)
    assert "jax-privacy" in shown
    assert not any("Opacus" in name for name in shown)


def test_without_ours_there_are_times_and_no_ratios(keep):
    benchmark = keep(contestants=[one for one in CONTESTANTS if one["name"] != "ours"])
    [table] = chapter.times(benchmark).parts
    assert table.data["times ours"].isna().all()
    assert isinstance(chapter.in_short(benchmark), Note)


def test_the_last_measurement_counts(keep):
    keep("a", date="2026-01-02", cores=2)
    keep("c", date="2026-01-01", cores=3)
    assert keep("b", date="2026-01-02", cores=4).machine.cores == 4


def test_a_damaged_record_is_named_and_not_used(keep):
    benchmark = keep("good")
    path = records.folder("benchmarks") / "bad.json"
    path.write_text("{")
    assert timings.stored().machine == benchmark.machine
    assert timings.warnings_of(benchmark).text.startswith("Left out: bad.json")


def places(content, path=()):
    """The path to every value in a record; of each list, to the first."""
    for key in content if isinstance(content, dict) else range(isinstance(content, list)):
        yield (*path, key)
        yield from places(content[key], (*path, key))


def at(content, path):
    return reduce(getitem, path, content)


# One series stands for the others.
PLACES = [path for path in places(content()) if path[0] not in ("by_width", "side_by_side")]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_record_with_a_field_missing_or_of_another_type_is_named_with_the_field(keep, path):
    *before, last = path
    field = "".join("[0]" if key == 0 else f".{key}" for key in path).removeprefix(".")
    right = at(content(), path)
    wrong = [one for one in ("12", True, None, [["x"]]) if type(one) is not type(right)]
    keep("good")

    def damage(change, said):
        keep("later", date="2026-01-03")
        rewrite(
            records.folder("benchmarks") / "later.json", lambda record: change(at(record, before))
        )
        assert timings.stored().machine.date == "2026-01-02"
        assert said in timings.warnings_of(None).text

    for one in wrong:
        if not (last == "loss" and one is None):  # It need not be asked.
            damage(lambda within, one=one: within.__setitem__(last, one), f"field {field!r} is not")
    if isinstance(last, str) and path[-1] not in (*chapter.SERIES, "loss", "jax"):
        damage(lambda within: within.pop(last), f"no field {field!r}")


def test_results_verify_finds_such_a_record(keep):
    keep()
    path = records.folder("benchmarks") / "cpu.json"
    rewrite(path, lambda record: record["comparisons"][0].pop("flops"))
    done = dpstudy("results", "verify")
    assert done.exit_code == 1
    assert f"{path}: no field 'comparisons[0].flops'" in done.stderr


@pytest.mark.parametrize("rounds", [[], [[]], [[0.1], [0.1, 0.2]], [[0.0]]], ids=str)
def test_seconds_that_no_process_took_are_named(keep, rounds):
    keep(contestants=[contestant("ours", ()) | {"rounds": rounds}])
    assert "field 'comparisons[0].contestants[0]': " in timings.warnings_of(None).text


def test_the_stored_measurement_is_read(of_the_study):
    benchmark, damaged = timings.latest()
    assert benchmark is not None and not damaged


def test_nothing_wrong_is_not_mentioned(keep):
    assert timings.warnings_of(keep()) is None
