"""What adding a part costs, and what adding a paper.

A part is under forty lines in a file of one's own, and no edit of the package: the files are those
that the page "Add a remedy of your own" shows. A paper is a folder, a notebook and a line in the
list of chapters: those of `fifth_paper`.
"""

import json
import re
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx
from results_for_tests import environment, result_of, seeds

from dpstudy.lab import campaign, experiment, store
from dpstudy.parts import measure
from dpstudy.parts.data import images as data
from dpstudy.parts.loss import CrossEntropy
from dpstudy.parts.mechanism import Microbatch, gaussian_noise
from dpstudy.parts.part import KINDS, SpecError
from dpstudy.parts.run import Run, cohort_of, vary
from dpstudy.privacy.run_epsilon import epsilon_curve

pytestmark = pytest.mark.usefixtures("few_batches", "few_thresholds")

BOOK = Path(__file__).parents[1] / "book"
PAGE = (BOOK / "add_a_remedy.md").read_text()
ADDED = {
    "own_activation": "Softsign",
    "own_loss": "FadingSmoothing",
    "own_mechanism": "ElementWise",
    "own_measure": "GradientNorms",
}
COUNT = 2 * measure.CHUNK


@pytest.fixture(scope="module", autouse=True)
def added():
    """The four classes, from the page's files."""
    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(KINDS):
        patch.syspath_prepend(BOOK)
        yield [getattr(import_module(file), name) for file, name in ADDED.items()]


@pytest.fixture(scope="module")
def trained(added, tmp_path_factory):
    """The page's runs and their results, read back."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        runs = runpy.run_path(str(BOOK / "own_runs.py"))["runs"]
    results, errors = store.read_all(folder / "own-results")
    assert not errors
    return {name: (run, results[run.identity]) for name, run in runs.items()}


def test_the_page_shows_the_files_in_full_and_an_addition_is_less_than_forty_lines():
    shown = re.findall(r"\{literalinclude\} (\w+)\.py\n:language: python\n```", PAGE)
    audited = [*ADDED]
    audited.insert(audited.index("own_mechanism") + 1, "own_audit")
    assert shown == [*audited, "own_runs", "own_figure"]
    assert all(len((BOOK / f"{file}.py").read_text().splitlines()) < 40 for file in ADDED)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["activation", "loss", "mechanism", "measure"])
def test_a_run_with_an_addition_is_trained_stored_and_read_back(trained, name):
    run, result = trained[name]
    assert result.run == run
    assert Run.from_dict(run.to_dict()) == run
    assert result.curve["epoch"] == list(range(run.epochs + 1))
    assert result.curve["step"] == [2 * epoch for epoch in result.curve["epoch"]]
    assert result.epsilon == epsilon_curve(run, result.curve["step"])
    assert result.epsilon["pld"][0] == 0 < result.epsilon["pld"][-1]


@pytest.mark.smoke
def test_the_mechanism_is_audited_below_what_is_proven_and_near_it(added):
    page = runpy.run_path(str(BOOK / "own_audit.py"))
    assert 0.7 * page["proven"] < page["bounds"]["gaussian"] <= page["proven"]
    assert page["bounds"]["clopper-pearson"] <= page["proven"]


def test_an_addition_is_drawn_beside_the_study_s_own(added, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Trained are the runs above; of these a result is there, and none is missing.
    monkeypatch.setattr(campaign, "train_cohort", None)
    for run in (Run(), vary(Run(), activation=added[0](scale=2.0))):
        for of_a_seed in seeds(experiment.SMOKE_SEEDS, vary(run, **experiment.SMOKE)):
            store.write(store.runs_folder("smoke"), result_of(of_a_seed))
    figure = runpy.run_path(str(BOOK / "own_figure.py"))["figure"]
    assert list(figure.data.line.unique()) == ["tanh", "softsign"]
    assert (tmp_path / "own-activation.png").read_bytes() == figure.png


def test_bad_values_are_refused_by_name(added):
    softsign, smoothing, clipping, norms = added
    for bad, message in (
        (vary(Run(), activation=softsign(0.0)), r"scale must be > 0, got 0\.0"),
        (vary(Run(), loss=smoothing(1.0)), r"smoothing must be in \[0, 1\), got 1\.0"),
        (vary(Run(), mechanism=clipping(bound="x")), r"bound must be a number, got 'x'"),
        (vary(Run(), measures=(norms(0),)), "bins must be at least 1, got 0"),
    ):
        with pytest.raises(SpecError, match=message):
            _ = bad.identity


def test_runs_that_differ_in_an_addition_s_numbers_are_a_cohort(added):
    softsign, smoothing, clipping, norms = added
    for one, other in (
        ({"activation": softsign(1.0)}, {"activation": softsign(3.0)}),
        ({"loss": smoothing(0.1)}, {"loss": smoothing(0.3)}),
        ({"mechanism": clipping(0.1, 1.0)}, {"mechanism": clipping(0.2, 2.0)}),
    ):
        first, second = vary(Run(), **one), vary(Run(), **other)
        assert cohort_of(first) == cohort_of(second) != cohort_of(Run())
        assert first.identity != second.identity
    different = (vary(Run(), measures=(norms(bins),)) for bins in (30, 31))
    assert len({cohort_of(run) for run in different}) == 2


@pytest.mark.smoke
def test_the_loss_fades_from_epoch_to_epoch(added, trained):
    """Smoothing takes its share of a label's logit and spreads it over all classes."""
    draw = np.random.default_rng(0)
    logits, labels = np.float32(draw.normal(size=(6, 10))), draw.integers(0, 10, 6)
    plain = CrossEntropy()(logits, (), labels, 0)
    all_classes = np.mean([CrossEntropy()(logits, (), np.full(6, k), 0) for k in range(10)], axis=0)
    for epoch, share in ((0, 0.1), (1, 0.1), (2, 0.05), (10, 0.01)):
        found = added[1](smoothing=0.1)(logits, (), labels, jnp.float32(epoch))
        np.testing.assert_allclose(found, (1 - share) * plain + share * all_classes, rtol=1e-5)
    # So it reaches the loop: the two epochs of the stored run are not those of a constant loss.
    run, result = trained["loss"]
    assert result.curve["test_loss"][2] < result.curve["test_loss"][1]
    assert run.epochs == 2


def of_vmap(run, images, labels):
    """Parameters, and each example's gradient by `vmap(grad)` over the network in stock lax."""
    drawn = nnx.eval_shape(lambda: run.network.module(nnx.Rngs(params=0)))
    params = oracles.random_like(nnx.state(drawn, nnx.Param))
    by_hand = oracles.per_example(oracles.NETWORKS[run.network.kind], jnp.tanh)
    x = np.float32(images) / 255
    return params, oracles.quick_jit(by_hand)(nnx.to_pure_dict(params), x, labels)[1]


@pytest.mark.smoke
def test_the_mechanism_clips_every_number_and_its_noise_covers_the_sensitivity(trained):
    run, _ = trained["mechanism"]
    images, labels = oracles.random_images("tempered-mnist", 6)
    params, gradients = of_vmap(run, images, labels)
    mask, bound = np.float32([1, 1, 0, 1, 0, 1]), 0.05
    mechanism = vary(run, bound=bound).mechanism
    graph, losses = run.network.graph(), run.losses(jnp.float32(1))
    total, seen = oracles.quick_jit(
        lambda *arrays: mechanism.sum(Microbatch(graph, losses, *arrays), mask)
    )(params, images, labels)
    clipped = jax.tree.map(lambda g: np.clip(g, -bound, bound), oracles.plain(gradients))
    expected = jax.tree.map(lambda g: np.tensordot(mask, g, 1), clipped)
    assert oracles.distance(total, expected) < 1e-5
    assert seen.examples == seen.clipped == 4

    deviations = oracles.plain(mechanism.noise(params))
    for scale in (1, 1e9):  # of the gradients: at the second, every number reaches its bound
        scaled = jax.tree.map(
            lambda g, s, scale=scale: np.clip(scale * g, -bound, bound) / s,
            oracles.plain(gradients),
            deviations,
        )
        longest = np.linalg.norm(oracles.flat(scaled), axis=1).max()
        assert longest <= 1 / mechanism.noise_over_sensitivity * (1 + 1e-6)
    noise = gaussian_noise(mechanism.noise(params), jax.random.key(0))
    drawn, _ = noise.update(jax.tree.map(jnp.zeros_like, params), noise.init(params))
    standard = jax.tree.map(lambda x, s: x / s, oracles.plain(drawn), deviations)
    assert abs(oracles.flat_sum(standard).std() - 1) < 0.02


@pytest.mark.smoke
def test_the_histogram_counts_every_example_by_its_norm(trained):
    run, result = trained["measure"]
    counts = np.array(result.curve["gradient-norms.counts"])
    assert counts.shape == (2, 30)
    np.testing.assert_array_equal(counts.sum(axis=1), measure.EXAMPLES)

    stored = data.load("mnist-5k")
    examples = measure.Examples(stored.train_images[:COUNT], stored.train_labels[:COUNT])
    params, gradients = of_vmap(run, *examples)
    snapshot = run.snapshot(params, jnp.float32(1), examples)
    found = oracles.quick_jit(lambda params: run.measures[0](snapshot._replace(params=params)))
    norms = np.linalg.norm(oracles.flat(gradients), axis=1)
    expected, _ = np.histogram(norms, np.logspace(-3, 3, 31))
    np.testing.assert_array_equal(found(params)["counts"], expected)


FIFTH = Path(__file__).parent / "fifth_paper"
FIFTH_NAME = "automatic_clipping"


@pytest.fixture(scope="module")
def study_of_five(tmp_path_factory):
    """A copy of the study with a fifth paper, and what its lists and pages then have of it."""
    folder = tmp_path_factory.mktemp("five")
    study = folder / "under_the_clip"
    shutil.copytree(BOOK.parent / "src" / "under_the_clip", study)
    shutil.copytree(FIFTH / FIFTH_NAME, study / FIFTH_NAME)
    chapters = study / "chapters.py"
    listed = chapters.read_text().replace("CHAPTERS = (\n", f'CHAPTERS = (\n    "{FIFTH_NAME}",\n')
    chapters.write_text(listed)
    given = environment()
    given |= {"PYTHONPATH": f"{folder}:{given['PYTHONPATH']}", "DPSTUDY_RESULTS": str(folder / "r")}
    command = [sys.executable, FIFTH / "pages.py", FIFTH / f"11_{FIFTH_NAME}.py"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fifth_paper_is_a_folder_a_notebook_and_a_line():
    files = [*(FIFTH / FIFTH_NAME).glob("*.py"), FIFTH / f"11_{FIFTH_NAME}.py"]
    # With the line of the list of chapters, and that of the table of contents.
    assert sum(len(path.read_text().splitlines()) for path in files) + 2 <= 250


def test_the_lists_have_the_fifth_paper(study_of_five):
    [listed] = study_of_five["list"]
    assert (listed["stored"], listed["needed"]) == (9, 9)
    verdicts = {one["id"]: one["verdict"] for one in study_of_five["claims"]}
    assert verdicts == {
        "automatic-not-below-flat": "reproduced",
        "automatic-needs-no-norm": "reproduced",
        "automatic-on-language": "not tested",
    }


def test_the_pages_have_the_fifth_paper(study_of_five):
    name = "automatic clipping"
    shown = [one for one in study_of_five["verdicts"] if one["paper"] == name and one["count"]]
    assert [(one["verdict"], one["count"]) for one in shown] == [("reproduced", 1)]
    assert "{cite}`bu2023automatic`" in study_of_five["ledger"]
    assert 'id="claim-automatic-needs-no-norm"' in study_of_five["ledger"]
    link = "11_automatic_clipping.html#flat-and-automatic-clipping"
    assert (name, link) in {(one["paper"], one["link"]) for one in study_of_five["explorer"]}
    assert [one["paper"] for one in study_of_five["front page"]][4:] == [name]
    gain = "+1.00 points (1.00 to 1.00) on MNIST."
    assert study_of_five["front page"][4]["what is left"] == f"Against flat clipping: {gain}"
    assert study_of_five["guide"][-1]["points of accuracy gained"] == gain
    assert "automatic, C = 1" in study_of_five["figure"]
