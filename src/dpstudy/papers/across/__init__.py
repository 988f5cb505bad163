"""Runs that compare the papers' remedies with each other, at one true ε."""
