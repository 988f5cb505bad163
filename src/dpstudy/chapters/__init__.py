"""What cuts across papers: accounting, propositions, performance, the ledger."""
