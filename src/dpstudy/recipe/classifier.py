"""The recipe as an estimator: fit, predict, and a statement of the privacy that it cost."""

import math
import warnings
from collections.abc import Hashable, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import InputTags, Tags
from sklearn.utils.validation import check_is_fitted

from dpstudy.parts.data.images import IMAGE_SHAPE
from dpstudy.parts.part import SpecError, checked
from dpstudy.privacy import accounting
from dpstudy.privacy.statement import Statement
from dpstudy.recipe import head, pictures, settings
from dpstudy.recipe.model import Model
from dpstudy.recipe.model import load as load_model
from dpstudy.recipe.run import latest, small
from dpstudy.recipe.settings import Settings
from dpstudy.recipe.spent import statement_of
from dpstudy.recipe.whitened import Drawn

# Whose features are taken of pictures without and with colours.
_GREY, _COLOUR = "fashion-mnist", "cifar-10"
_SMALL = "small"


LEAKS = "features must be drawn from a seed, and fitted to no private image"


class PrivacyWarning(UserWarning):
    """Something that makes a guarantee weaker than it sounds, or a model of little use."""


def noise_is_known(name: str, seed: int) -> str:
    """Return what to warn of where the seed of the noise was given, under that name."""
    return (
        f"{name} = {seed} draws the noise: whoever knows it can take the noise away again, and "
        "nothing is private from them"
    )


class PrivateImageClassifier(ClassifierMixin, BaseEstimator):
    """A private classifier of images: DP-SGD on a linear head, by a rule in place of a search.

    The features are of images drawn from a public seed, and computed once: their basis takes
    minutes and is kept in the user's cache, which features of private images never enter. A trained
    model needs it no more.

    Each fit spends its own epsilon: k fits on the same images, as of cross-validation or a grid
    search, together up to k times as much, and `epsilon_` is of the last alone.

    Args:
        epsilon: the privacy to spend; neighbours differ by adding or removing one image.
        delta: by default 1e-5, or the largest power of ten below one over the number of images.
        classes: all labels that there may be. By default those of the data: then it is public
            which these are.
        colour: whether pictures are taken as colour. By default if any of them is.
        features: other features than those of the recipe for clothes or for photographs: a part, or
            the name of the dataset whose recipe has them. "small" stands for few of them, which
            take less than a minute: to try it by. "mnist" makes digits upright, as "mnist-5k" does,
            whose are few.
        filters: how many the features of photographs have: by default 600. Fewer take less time
            and memory.
        random_state: a seed, of noise and batches. By default a secret one, which is not kept.
        secure: whether noise and batches come from the generator of the operating system, safe
            against attacks on floating point; see `dpstudy.privacy.secure`.

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
        epsilon_: what was spent, by the privacy loss distribution: at most `epsilon`.
        delta_: at which delta.
        statement_: all that the guarantee depends on, as text and JSON.
        model_: the head and what it needs, as it is kept in a file.

    >>> PrivateImageClassifier(epsilon=1.0)
    PrivateImageClassifier(epsilon=1.0)
    """

    def __init__(
        self,
        epsilon: float = 3.0,
        *,
        delta: float | None = None,
        classes: Sequence[Hashable] | None = None,
        colour: bool | None = None,
        features: Drawn | str | None = None,
        filters: int | None = None,
        random_state: int | None = None,
        secure: bool = False,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.colour = colour
        self.features = features
        self.filters = filters
        self.random_state = random_state
        self.secure = secure

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = InputTags(two_d_array=False, three_d_array=True, string=True)
        tags.non_deterministic = True
        return tags

    def fit(self, X: Any, y: Sequence[Hashable]) -> Self:
        """Train on pictures and their labels.

        Args:
            X: an array of uint8, of shape (n, h, w), (n, h, w, 1) or (n, h, w, 3), or a sequence
                of files, of such arrays or of Pillow's images, each of any size.
            y: a label of any hashable kind for each.

        Raises:
            UserError: something of it cannot be: all is checked before the features are computed.
        """
        self._check()
        labels, classes = numbered(y, self.classes)
        X = paired(X, labels)
        features = self._features(X)
        check_seed(self.random_state, features)
        pixels = pictures.as_pixels(X, IMAGE_SHAPE[features.name], say=True)
        how = settings.settings_for(
            float(self.epsilon),
            examples=len(labels),
            features=features.image_shape[0],
            delta=None if self.delta is None else float(self.delta),
        )
        self._warn(how, len(classes))
        # What is released is that of the rule: the features' own setting is for the study's runs.
        features = replace(features, released=how.release_noise or 0.0, held_out=0)
        found = features.vectors(pixels)
        randomness = head.Secure() if self.secure else head.Seeded(self.random_state)
        kernel, mean = head.fit(found, labels, len(classes), how, randomness)
        spent = self._statement(how)
        return self._keep(Model.of_head(features, kernel, mean, classes, spent))

    def predict(self, X: Any) -> Shaped[np.ndarray, "n"]:
        """Return the label of each picture; pictures and errors as of `fit`.

        Raises:
            DataError: as well: features come out otherwise here than at the training.
        """
        best = self._scores(X).argmax(1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n classes"]:
        """Return the probability of each label, in the order of `classes_`; see `predict`."""
        scores = np.float64(self._scores(X))
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)

    def decision_function(self, X: Any) -> Float[np.ndarray, "n *classes"]:
        """Return a score for each label, a logit; see `predict`.

        Of two labels one, as scikit-learn wants: what the second is above the first.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _scores(self, X: Any) -> Float[np.ndarray, "n classes"]:
        check_is_fitted(self)
        return self.model_.scores(pictures.as_pixels(X, self.model_.image_shape))

    def score(self, X: Any, y: Sequence[Hashable], sample_weight: Any = None) -> float:
        """Return the accuracy on pictures with labels; see `predict`."""
        labels = _listed(y)
        found = self.predict(paired(X, labels))
        right = [one == other for one, other in zip(found, labels, strict=True)]
        return float(np.average(right, weights=sample_weight))

    def save(self, path: str | Path) -> None:
        """Write the model to a new file, without any seed of noise; see `Model.save`."""
        check_is_fitted(self)
        self.model_.save(path)

    def _check(self) -> None:
        spent = {"epsilon": self.epsilon} | ({} if self.delta is None else {"delta": self.delta})
        for name, value in spent.items():
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise SpecError(f"{name} must be a number, got {value!r}")
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise SpecError(f"epsilon must be > 0 and finite, got {self.epsilon}")
        if self.delta is not None:
            accounting.check_delta(self.delta)
        if self.random_state is not None:
            accounting.whole("random_state", self.random_state)
            if self.secure:
                raise SpecError("with secure=True noise has no seed: leave random_state out")

    def _features(self, X: Any) -> Drawn:
        features = self.features
        if features in (None, _SMALL):
            colour = pictures.in_colour(X) if self.colour is None else self.colour
            features = small(colour) if features else _COLOUR if colour else _GREY
        if isinstance(features, str):
            if features not in IMAGE_SHAPE:
                known = ", ".join((_SMALL, *IMAGE_SHAPE))
                raise SpecError(f"unknown features {features!r}; one of: {known}")
            features = latest(features, self.filters).dataset
        elif self.filters is not None:
            raise SpecError("filters cannot be chosen of small features or of a part: leave it out")
        if not isinstance(features, Drawn) or checked(features).leaks:
            raise SpecError(LEAKS)
        if self.colour is not None and self.colour != (IMAGE_SHAPE[features.name][-1] == 3):
            raise SpecError(f"colour is {self.colour}, and the features of {features.name} are not")
        return features

    def _warn(self, how: Settings, classes: int) -> None:
        if how.delta * how.examples >= 1:
            _warn(
                f"delta = {how.delta:g} is not below 1/n = {1 / how.examples:.3g}: to publish one "
                "of the images at random would count as private"
            )
        if too_few := settings.too_little(how, self.epsilon, classes):
            _warn(too_few)
        if self.random_state is not None:
            _warn(noise_is_known("random_state", self.random_state))

    def _statement(self, how: Settings) -> Statement:
        read_off = [] if self.classes is not None else ["which classes there are"]
        if self.colour is None and self.features in (None, _SMALL):
            read_off.append("whether there are colours")
        seeded = self.random_state is not None
        return statement_of(how, read_off=read_off, seeded=seeded, secure=self.secure)

    @classmethod
    def of(cls, model: Model) -> Self:
        """Return a model as a classifier that is fitted."""
        spent = model.statement
        return cls(spent.epsilon, delta=spent.delta, features=model.features)._keep(model)

    def _keep(self, model: Model) -> Self:
        """Take over what `fit` found, or a file holds."""
        self.model_, self.statement_ = model, model.statement
        self.classes_ = _array(model.classes)
        self.epsilon_, self.delta_ = model.statement.epsilon, model.statement.delta
        return self


def check_seed(seed: int | None, features: Drawn) -> None:
    """Raise SpecError if the seed of the noise drew the features, which a model names.

    By 0 they are drawn whatever draws the noise.
    """
    if seed is not None and seed == features.drawn != 0:
        raise SpecError(f"a model names what drew its features, {seed}: not the noise, too")


def load(path: str | Path) -> PrivateImageClassifier:
    """Read a classifier that `PrivateImageClassifier.save` or `dpstudy recipe` wrote.

    Raises:
        DataError: there is no such file, or it is no model.
    """
    return PrivateImageClassifier.of(load_model(path))


def numbered(
    y: Sequence[Hashable], classes: Sequence[Hashable] | None
) -> tuple[Shaped[np.ndarray, "n"], tuple[Hashable, ...]]:
    """Return labels as numbers of classes, and the classes: given, or those of the labels.

    >>> numbered(["b", "a", "b"], None)
    (array([1, 0, 1], dtype=int32), ('a', 'b'))

    Raises:
        SpecError: a label that is missing, not hashable or not of the classes, or fewer than two
            classes.
    """
    labels = _listed(y)
    if classes is not None:
        classes = _listed(classes, "classes must be in a sequence")
    try:
        known = _in_order(labels) if classes is None else tuple(classes)
        number = {one: at for at, one in enumerate(known)}
    except TypeError as error:
        raise SpecError(f"labels must be hashable: {error}") from None
    if len(number) < len(known):
        raise SpecError("classes must differ from one another")
    if len(known) < 2:
        raise SpecError(f"there must be at least 2 classes, got {len(known)}")
    try:
        found = [number[one] for one in labels]
    except (KeyError, TypeError):
        strange = next(one for one in labels if one not in known)
        raise SpecError(f"a label {strange!r} is not one of the classes") from None
    return np.array(found, np.int32), known


def paired(X: Any, labels: Sized) -> Any:
    """Return pictures as `pictures.listed` does; SpecError unless each has a label."""
    X = pictures.listed(X)
    if len(X) != len(labels):
        raise SpecError(f"{len(X):,} pictures with {len(labels):,} labels")
    if not len(X):
        raise SpecError("there are no pictures")
    return X


def _listed(
    y: Any, wanted: str = "labels must be in a sequence, one for each picture"
) -> list[Any]:
    if hasattr(y, "__array__"):  # of JAX, PyTorch and pandas too
        y = np.asarray(y)
        if y.ndim != 1 and not (y.ndim == 2 and y.shape[1] == 1):
            raise SpecError(f"{wanted}, got an array of shape {y.shape}")
    elif isinstance(y, str | bytes) or not isinstance(y, Sequence):
        raise SpecError(f"{wanted}, got {y!r:.60}")
    found = y.ravel() if isinstance(y, np.ndarray) else y
    if any(map(_missing, found)):  # before `item`, which makes a None of NaT
        raise SpecError("a label is missing (NaN)")
    return [one.item() if isinstance(one, np.generic) else one for one in found]


def _missing(label: Any) -> bool:
    """Say whether a label is NaN, NaT or pandas' NA: it is not equal to itself."""
    try:
        return bool(label != label)
    except TypeError:  # of NA nothing is true
        return True
    except ValueError:  # of an array, which is no label
        return False


def _in_order(labels: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Return the classes of labels: the same, whichever label comes first."""
    spelled = sorted(
        {(type(one), one): one for one in labels}.values(),
        key=lambda one: (type(one).__name__, repr(one)),
    )
    found = list(dict.fromkeys(spelled))  # of equal ones, such as 1 and True, one
    if any(isinstance(one, frozenset) for one in found):
        return tuple(found)  # whose order is that of subsets
    try:
        return tuple(sorted(found))
    except TypeError:  # of several kinds
        return tuple(found)


def _array(classes: tuple[Hashable, ...]) -> Shaped[np.ndarray, "classes"]:
    kinds = {type(one) for one in classes}
    if len(kinds) == 1 and kinds <= {int, str, bool, float}:
        return np.array(classes)
    found = np.empty(len(classes), object)
    found[:] = classes
    return found


def _warn(text: str) -> None:
    warnings.warn(text, PrivacyWarning, stacklevel=4)
