"""Chapter 8: which method, at the same ε, and which remedies add up."""
