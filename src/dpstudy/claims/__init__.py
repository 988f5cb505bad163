"""The ledger of claims: what the papers state, what was measured, and the verdict.

Verdicts are computed by rules (`rules/`) from stored results, and typed nowhere. A paper enters
with its numbers in `published.py` and its claims in `claims.py`, both in its own folder. A claim
about a proposition needs only the rule `Statement`.
"""
