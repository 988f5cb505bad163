"""Training: the loop, evaluation, and the interface for one's own network."""
