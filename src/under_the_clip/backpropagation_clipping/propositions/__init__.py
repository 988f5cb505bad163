"""The propositions of backpropagation clipping."""
