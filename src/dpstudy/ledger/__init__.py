"""The ledger of claims: what the papers state, what was measured, and the verdict.

Verdicts are computed by rules (`rules/`) from stored results, and typed nowhere. A paper enters
with its numbers in a `published.py` and a file named by its key, both in its own folder, its line
in `papers/claims.py`, and a section of `notebooks/10_claims.py`; a claim about a theorem needs only
its rule, of kind `statement`.
"""
