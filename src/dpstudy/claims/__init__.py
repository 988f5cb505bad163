"""The ledger of claims: what the papers state, what was measured, and the verdict.

Verdicts are computed by rules (`rules.py`) from stored results, and typed nowhere.
"""
