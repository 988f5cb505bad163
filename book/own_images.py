"""Train the recipe's classifier on images of your own to epsilon = 3, with DP-SGD."""

from dpstudy.parts.data import images
from dpstudy.recipe import PrivateImageClassifier

data = images.load("mnist-5k")  # your arrays, or lists of files, in place of its four
# Digits have features that make them upright; leave these out for other pictures.
model = PrivateImageClassifier(epsilon=3, features="mnist")
model.fit(data.train_images, data.train_labels)
print(f"test accuracy {model.score(data.test_images, data.test_labels):.3f}")
print(model.statement_)
