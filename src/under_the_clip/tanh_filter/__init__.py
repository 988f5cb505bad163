"""The tanh gradient filter (Amian 2022)."""
