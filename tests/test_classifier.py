"""The recipe as an estimator: what it trains by, what it refuses, keeps and says."""

import json
import math
import pickle
import time
import warnings
from dataclasses import fields, replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.utils import estimator_checks

from dpstudy.errors import DataError, UserError
from dpstudy.parts.data import images, released_statistics, synthetic_images
from dpstudy.parts.part import SpecError
from dpstudy.privacy import accounting
from dpstudy.recipe import PrivacyWarning, PrivateImageClassifier, classifier, head, load, settings
from dpstudy.recipe.features import SyntheticFeatures
from dpstudy.recipe.whitened import OWN

SMALL = SyntheticFeatures("mnist-5k", "both", 300, 40, small=12, large=6)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A cache for all tests of this file, and noise found to a tenth of a per mille."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(accounting, "_INTERVAL", 20 * accounting._INTERVAL)
        yield


@pytest.fixture(scope="module")
def digits():
    """Noughts and ones: 300 to train on, 100 others."""
    data = images.load("mnist-5k")
    chosen = np.flatnonzero(data.train_labels < 2)
    mixed = np.random.default_rng(0).permutation(chosen)
    pixels, labels = data.train_images[mixed, ..., 0], data.train_labels[mixed]
    return pixels[:300], labels[:300], pixels[300:400], labels[300:400]


def small(**changes):
    return PrivateImageClassifier(**{"epsilon": 3.0, "features": SMALL} | changes)


@pytest.fixture(scope="module")
def fitted(digits):
    return small().fit(*digits[:2])


@pytest.mark.smoke
def test_few_digits_are_told_apart(fitted, digits):
    assert fitted.score(*digits[2:]) > 0.9
    likely = fitted.predict_proba(digits[2])
    assert likely.shape == (100, 2) and likely.sum(1) == pytest.approx(1)
    assert (fitted.classes_[likely.argmax(1)] == fitted.predict(digits[2])).all()
    assert fitted.predict(digits[2]).dtype == np.int64


def test_its_epsilon_is_that_of_what_was_done(fitted):
    numbers = fitted.statement_.numbers
    assert numbers["sampling_probability"] == 1 and numbers["steps"] == 100
    assert fitted.epsilon_ == accounting.epsilon(**numbers)
    assert 2.98 < fitted.epsilon_ <= 3
    text = " ".join(str(fitted.statement_).split())
    assert "(3, 1e-05)-differential privacy" in text
    assert "the number of examples and which classes there are" in text
    assert "a secret seed that is not kept" in text
    assert "a grid search, cost privacy of their own" in text
    assert "printed on the way, of pictures, time or memory" in text


def test_noise_and_clip_of_its_training_are_those_that_it_states(digits, monkeypatch):
    seen = {}
    private = head.private_gradient

    def gradient(*args, clip_norm, **options):
        seen["clip"] = clip_norm
        return private(*args, clip_norm=clip_norm, **options)

    class Watched(head.Seeded):
        def noise(self, standard_deviation):
            seen["noise"] = standard_deviation
            return super().noise(standard_deviation)

    monkeypatch.setattr(head, "private_gradient", gradient)
    monkeypatch.setattr(head, "Seeded", Watched)
    said = small().fit(*digits[:2]).statement_
    assert f"norm of {seen['clip']:g}" in said.bound
    assert seen["noise"] / seen["clip"] == pytest.approx(said.numbers["noise_multiplier"])


@pytest.mark.parametrize("secure", [False, True], ids=["seeded", "secure"])
def test_two_fits_differ(fitted, digits, secure):
    other = small(secure=secure).fit(*digits[:2])
    noise = fitted.decision_function(digits[2]) - other.decision_function(digits[2])
    # By the noise of two: each score's is about 1, some of which shrinks again.
    assert 0.3 < noise.std() < 3
    assert secure == ("operating system" in other.statement_.randomness)


def test_small_features_are_those_of_grey_or_of_colour_pictures(digits, monkeypatch):
    asked = []
    monkeypatch.setattr(classifier, "small", lambda colour: asked.append(colour) or SMALL)
    coloured = np.stack([digits[0], digits[0] // 2, digits[0]], axis=-1)
    for pixels in (digits[0], coloured):
        few = small(features="small").fit(pixels, digits[1])
        assert "whether there are colours" in " ".join(str(few.statement_).split())
    assert asked == [False, True]


def test_a_seed_repeats_a_fit_and_is_warned_of(digits):
    with pytest.warns(PrivacyWarning, match="random_state = 5 draws the noise"):
        one, other = (small(random_state=5).fit(*digits[:2]) for _ in range(2))
    assert (one.model_.blocks[0].maps == other.model_.blocks[0].maps).all()
    assert "a seed that was given" in one.statement_.randomness


def test_a_saved_model_says_the_same_without_the_cache(fitted, digits, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as stored:
        about = json.loads(str(stored["about"]))
    assert set(about) == {"format", "features", "classes", "statement"}
    assert about["features"] == replace(SMALL, released=0.0).to_dict()  # 0 is drawn, for all
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    again = load(tmp_path / "model.npz")
    assert (again.predict(digits[2]) == fitted.predict(digits[2])).all()
    assert again.statement_ == fitted.statement_ and again.epsilon_ == fitted.epsilon_
    assert again.delta == fitted.delta_
    with pytest.raises(DataError, match="is there already"):
        again.save(tmp_path / "model.npz")


def test_labels_are_of_any_hashable_kind(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(head, "train", lambda found, labels, classes, *_: np.eye(40, classes))
    pixels, labels = digits[0], [("digit", int(one)) for one in digits[1]]
    model = small(delta=1e-4).fit(pixels, labels)
    assert set(model.predict(digits[2])) <= {("digit", 0), ("digit", 1)}
    assert model.score(digits[2], [("digit", int(one)) for one in digits[3]]) >= 0
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").classes_.tolist() == model.classes_.tolist()
    mixed = small().fit(pixels, [frozenset([one]) if one else "nought" for one in labels])
    with pytest.raises(DataError, match="must be a number or a text to be kept"):
        mixed.save(tmp_path / "other.npz")
    assert not (tmp_path / "other.npz").exists()


def test_classes_that_are_given_are_not_read_off(digits, monkeypatch):
    monkeypatch.setattr(head, "train", lambda found, labels, classes, *_: np.eye(40, classes))
    model = small(classes=[2, 1, 0]).fit(*digits[:2])
    assert model.classes_.tolist() == [2, 1, 0]
    assert model.predict_proba(digits[2][:1]).shape == (1, 3)
    assert model.statement_.not_covered[0].startswith("the number of examples: taken")


PIXELS, LABELS = np.zeros((4, 28, 28), np.uint8), ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("changes", "given", "message"),
    [
        ({"epsilon": 0}, (PIXELS, LABELS), "epsilon must be > 0 and finite, got 0"),
        ({"epsilon": math.inf}, (PIXELS, LABELS), "epsilon must be > 0"),
        ({"epsilon": "3"}, (PIXELS, LABELS), "epsilon must be a number"),
        ({"delta": 1.0}, (PIXELS, LABELS), "delta must be in"),
        ({"random_state": -1}, (PIXELS, LABELS), "random_state must be at least 0"),
        ({"random_state": 1, "secure": True}, (PIXELS, LABELS), "noise has no seed"),
        ({"features": "imagenet"}, (PIXELS, LABELS), "unknown features 'imagenet'; one of"),
        ({"features": replace(SMALL, scenes=OWN)}, (PIXELS, LABELS), "fitted to no private"),
        ({"features": 7}, (PIXELS, LABELS), "features must be drawn"),
        ({"filters": 600}, (PIXELS, LABELS), "of small features or of a part"),
        ({"features": "small", "filters": 600}, (PIXELS, LABELS), "of small features or of a"),
        (
            {"features": None, "filters": 600},
            (PIXELS, LABELS),
            "for cifar-10 alone, not for fashion-mnist",
        ),
        ({"features": "cifar-10", "filters": 9}, (PIXELS, LABELS), "10 to 5,000, got 9"),
        ({"features": "cifar-10", "filters": 600.0}, (PIXELS, LABELS), "a whole number"),
        ({"colour": True}, (PIXELS, LABELS), "colour is True"),
        ({"classes": ["a", "c"]}, (PIXELS, LABELS), "a label 'b' is not one of the classes"),
        ({"classes": ["a", "b", "a"]}, (PIXELS, LABELS), "classes must differ"),
        ({}, (PIXELS, LABELS[:3]), "4 pictures with 3 labels"),
        ({}, (PIXELS, ["a"] * 4), "at least 2 classes, got 1"),
        ({}, (PIXELS, [["a"]] * 4), "labels must be hashable"),
        *(
            ({}, (PIXELS, labels), "a label is missing")
            for labels in (
                [0.0, math.nan] * 2,
                pd.Series(["a", None] * 2, dtype="string"),
                np.array(["2026", "NaT"] * 2, "datetime64[D]"),
            )
        ),
        ({}, (PIXELS, np.eye(4)), "one for each picture, got an array"),
        ({"delta": "1e-5"}, (PIXELS, LABELS), "delta must be a number"),
        ({"classes": 2}, (PIXELS, LABELS), "classes must be in a sequence, got 2"),
        ({"classes": "ab"}, (PIXELS, LABELS), "classes must be in a sequence, got 'ab'"),
        *(
            ({}, (PIXELS, labels), "labels must be in a sequence, one for each picture, got")
            for labels in (None, 7, "abab", {"a": 0, "b": 1, "c": 2, "d": 3}, {0, 1, 2, 3})
        ),
        *(
            ({}, (given, LABELS), "pictures must be uint8")
            for given in (
                *(
                    np.float32(PIXELS),
                    PIXELS[0],
                    None,
                    7,
                    np.uint8(7),
                    "pictures",
                    Path("pictures"),
                ),
                *((one for one in PIXELS), dict(enumerate(PIXELS)), [jnp.ones((8, 8))] * 4),
            )
        ),
    ],
)
def test_mistakes_are_told_before_anything_is_computed(changes, given, message, monkeypatch):
    monkeypatch.setattr(SyntheticFeatures, "vectors", None)
    with pytest.raises(UserError, match=message) as caught:
        small(**changes).fit(*given)
    assert "\n" not in str(caught.value)


def test_it_warns_first_where_noise_drowns_what_there_is(monkeypatch):
    monkeypatch.setattr(SyntheticFeatures, "vectors", lambda *_: 1 / 0)
    with (
        pytest.warns(PrivacyWarning, match=r"4 images of 2 classes are too few for an epsilon of"),
        pytest.warns(PrivacyWarning, match="not below 1/n = 0.25"),
        pytest.raises(ZeroDivisionError),
    ):
        small(delta=0.5, epsilon=0.1).fit(PIXELS, LABELS)


def test_a_cache_that_cannot_be_written_is_told_before_anything_is_computed(tmp_path, monkeypatch):
    (tmp_path / "gone").symlink_to(tmp_path / "unmounted")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "gone"))
    monkeypatch.setattr(synthetic_images, "draw", None)
    with pytest.raises(DataError, match=r"cannot be written \(.*or set XDG_CACHE_HOME to another"):
        replace(SMALL, drawn=1).basis()


def test_two_labels_have_one_score(fitted, digits):
    scores = fitted.decision_function(digits[2])
    assert scores.shape == (100,)
    assert (fitted.classes_[(scores > 0).astype(int)] == fitted.predict(digits[2])).all()
    assert get_scorer("roc_auc")(fitted, *digits[2:]) > 0.9


def test_the_seed_of_the_noise_is_not_that_which_a_model_names(digits):
    seeded = small(features=replace(SMALL, drawn=7), random_state=7)
    with pytest.raises(SpecError, match="a model names what drew its features, 7: not the noise"):
        seeded.fit(*digits[:2])


def test_it_is_an_estimator_as_scikit_learn_knows_them(digits):
    model = small(epsilon=2.0, delta=1e-6)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(epsilon=1.0).epsilon == 1.0
    assert is_classifier(model)
    assert "epsilon=1.0" in repr(model)
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(PIXELS)
    with pytest.raises(NotFittedError):
        model.save("model.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        once = ShuffleSplit(1, test_size=0.5, random_state=0)
        found = GridSearchCV(small(random_state=0), {"epsilon": [0.01, 3.0]}, cv=once).fit(
            *digits[:2]
        )
    assert found.best_params_ == {"epsilon": 3.0} and found.best_score_ > 0.85
    assert found.score(*digits[2:]) > 0.9


# Those of scikit-learn's checks that do not fit to tables of numbers.
OF_ANY_ESTIMATOR = (
    *("estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr"),
    *("no_attributes_set_in_init", "do_not_raise_errors_in_init_or_set_params", "mixin_order"),
    *("estimators_unfitted", "parameters_default_constructible"),
    *("get_params_invariance", "set_params"),
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OF_ANY_ESTIMATOR)
def test_it_passes_the_checks_of_scikit_learn_that_need_no_table(name):
    getattr(estimator_checks, f"check_{name}")("PrivateImageClassifier", small())


def test_scikit_learn_knows_that_it_takes_no_tables():
    with pytest.warns(SkipTestWarning, match="two_d_array=False"):
        assert len(list(estimator_checks.estimator_checks_generator(small()))) == 1


def test_a_prediction_is_of_its_picture_alone_and_the_same_unpickled(fitted, digits):
    whole = fitted.decision_function(digits[2])
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_allclose(again.decision_function(digits[2][::-9]), whole[::-9], atol=1e-4)
    assert again.statement_ == fitted.statement_


def test_an_accuracy_is_of_pictures_with_a_label_each(fitted):
    for given, message in (((PIXELS, LABELS[:3]), "4 pictures with 3"), (([], []), "no pictures")):
        with pytest.raises(UserError, match=message):
            fitted.score(*given)


# The rule.


@pytest.mark.parametrize(
    ("examples", "epsilon"), [(200, 0.5), (200, 8.0), (3_600, 3.0), (12_000, 0.5), (60_000, 8.0)]
)
def test_settings_hold_from_few_examples_to_many(examples, epsilon):
    started = time.monotonic()
    found = settings.settings_for(epsilon, examples=examples, features=8_000)
    assert time.monotonic() - started < 60
    assert 1 <= found.batch <= examples and found.delta * examples < 1
    assert accounting.epsilon(**found.spent) <= epsilon
    assert accounting.epsilon(**found.spent) > 0.98 * epsilon
    noise_of_a_score = (
        found.learning_rate * found.clip_norm * found.noise_multiplier * math.sqrt(found.steps)
    ) / ((1 - found.momentum) * found.batch)
    assert noise_of_a_score == pytest.approx(1) or found.learning_rate == 110
    # A mean is released only where its noise is short beside it.
    length = 20 * math.sqrt(8_000) / examples
    assert (found.release_noise is not None) == (length <= 0.2)


def test_noise_of_a_score_is_as_the_rule_says():
    """By pure noise through the same optimizer: what its weights' deviation is."""
    found = settings.Settings(50, 50, 400, 1e-5, 10.0, 0.3, None)
    zeros, labels = np.zeros((50, 5_000), np.float16), np.zeros(50, np.int32)
    kernel = head.train(zeros, labels, 2, found, head.Seeded(0))
    # The noise of a step goes on for as many steps as are left, by 0.9 each.
    left = math.sqrt(sum((1 - 0.9**steps) ** 2 for steps in range(1, 401)))
    exact = 0.3 * 0.25 * 10.0 / 50 / 0.1 * left
    assert kernel.std() == pytest.approx(exact, rel=0.03)
    assert exact == pytest.approx(0.3 * 0.25 * 10.0 * math.sqrt(400) / (0.1 * 50), rel=0.03)


def test_settings_agree_with_the_searched_recipe():
    """Its own rates: 40 at 3 on 60,000 images, in proportion to epsilon."""
    rates = [settings.settings_for(e, examples=60_000, features=8_000) for e in (1.0, 3.0, 8.0)]
    assert [one.learning_rate for one in rates] == pytest.approx([40 / 3, 40, 320 / 3], rel=0.25)
    assert rates[0].batch == 8_192 and abs(rates[0].steps - 439) < 20


@pytest.mark.parametrize(("examples", "delta"), [(9, 1e-5), (99_999, 1e-5), (100_000, 1e-6)])
def test_delta_is_below_one_over_the_examples(examples, delta):
    assert settings.delta_for(examples) == delta < 1 / examples


def test_more_images_or_more_epsilon_are_named_where_there_are_too_few():
    few = settings.settings_for(1.0, examples=200, features=40)
    text = settings.too_little(few, 1.0, classes=10)
    assert "200 images of 10 classes are too few for an epsilon of 1" in text
    [wanted] = [int(one) for one in text.split() if one.isdigit() and int(one) not in (1, 10, 200)]
    enough = settings.settings_for(1.0, examples=wanted, features=40)
    assert settings.too_little(enough, 1.0, classes=10) is None
    assert settings.too_little(few, 1.0, classes=2) is None


# The mean.


def test_the_mean_is_the_noisy_one_scaled_by_no_more_than_it():
    found = np.float16(np.random.default_rng(0).normal(size=(400, 50)) / 7 + 0.1)

    class Fixed:
        def normal(self, count):
            return np.full(count, self.number)

    fixed = Fixed()
    fixed.number = 1.0

    exact = released_statistics.release_mean(found, 0.0, 0)
    noisy = exact + 2.0 / 400
    shrunk = 1 - 50 * (2.0 / 400) ** 2 / (noisy @ noisy)
    assert head.released_mean(found, 2.0, fixed) == pytest.approx(shrunk * noisy)
    fixed.number = 0.01  # shorter than noise is: nothing is known of the mean
    assert not head.released_mean(found, 1e6, fixed).any()


def test_a_mean_that_is_released_is_taken_away_and_counted(digits, monkeypatch):
    monkeypatch.setattr(settings, "_MOST_NOISE_OF_MEAN", 10.0)
    model = small().fit(*digits[:2])
    assert model.statement_.numbers["release_noise"] == 20
    assert model.model_.at_mean.any() and model.model_.features.released == 20
    spent = {f.name for f in fields(settings.Settings)} & set(model.statement_.numbers)
    assert spent == {"noise_multiplier", "steps", "delta", "release_noise"}
    without = accounting.epsilon(**{**model.statement_.numbers, "release_noise": None})
    assert without < model.epsilon_
    assert "the mean of the examples' features" in model.statement_.released_besides


def test_a_draw_beyond_its_capacity_ends_the_training(monkeypatch):
    how = settings.Settings(4, 2, 1, 1e-5, 1.0, 1.0, None)
    randomness = head.Seeded(0)
    beyond = randomness.poisson(0, 4, 2)._replace(overflow=np.bool_(True))
    monkeypatch.setattr(randomness, "poisson", lambda *_: beyond)
    with pytest.raises(RuntimeError, match="exceeded its capacity in step 1"):
        head.train(np.zeros((4, 3), np.float16), np.zeros(4, np.int32), 2, how, randomness)


def test_numbers_of_labels_follow_their_order():
    numbers, classes = classifier.numbered(np.array([[3], [1], [3]]), None)
    assert (numbers.tolist(), classes) == ([1, 0, 1], (1, 3))
    with pytest.raises(SpecError, match="hashable"):
        classifier.numbered([{}], None)


@pytest.mark.parametrize(
    "labels", [[frozenset({0}), frozenset({14})], [True, 0, 1], [1, "a", None]]
)
def test_classes_do_not_tell_which_label_came_first(labels):
    _, classes = classifier.numbered(labels, None)
    _, backwards = classifier.numbered(labels[::-1], None)
    assert list(map(repr, classes)) == list(map(repr, backwards))


def test_a_mean_that_takes_most_of_epsilon_is_not_released():
    found = settings.settings_for(0.1, examples=8_000, features=1_000)
    assert found.release_noise is None and accounting.epsilon(**found.spent) <= 0.1
