"""A recipe of the study's own: whitened features of synthetic images, and a linear head."""
