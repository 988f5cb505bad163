"""A recipe of the study's own: whitened features of drawn images, and a linear head.

As an estimator it trains on images of one's own::

    from dpstudy.recipe import PrivateImageClassifier

    model = PrivateImageClassifier(epsilon=3).fit(images, labels)
    model.predict(others)
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "PrivateImageClassifier": "dpstudy.recipe.classifier",
    "PrivacyWarning": "dpstudy.recipe.classifier",
    "PictureNote": "dpstudy.recipe.pictures",
    "load": "dpstudy.recipe.classifier",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    # On demand: what trains a given run needs neither an accountant nor scikit-learn.
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
