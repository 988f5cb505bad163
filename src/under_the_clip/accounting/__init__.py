"""Chapter 1: what an ε depends on besides σ, and what the four papers' settings cost."""
