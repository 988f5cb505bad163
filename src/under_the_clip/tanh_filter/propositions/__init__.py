"""The propositions of the tanh filter."""
