"""Chapter 2: the tempered sigmoid family, and what it does for DP-SGD."""
