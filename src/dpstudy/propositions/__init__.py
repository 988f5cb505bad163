"""Statements that can fail: the search for a counterexample, the verdict, storing it."""
