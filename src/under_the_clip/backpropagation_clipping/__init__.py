"""Backpropagation clipping (Stevens et al. 2022)."""
