"""Chapter 10, the ledger: each claim with its verdict."""
