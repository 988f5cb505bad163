"""Per-example gradients, fast: arrays and flax layers, no run and no paper."""
