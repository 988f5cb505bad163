"""Training: the loop, and the interface for one's own network."""
