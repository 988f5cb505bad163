"""The laboratory: what to train, training it, storing it, reading it back."""
