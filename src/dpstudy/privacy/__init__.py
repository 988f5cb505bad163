"""Accountants, shuffled batches, the ε of a run."""
