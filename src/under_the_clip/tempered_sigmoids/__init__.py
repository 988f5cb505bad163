"""Tempered sigmoids (Papernot et al., AAAI 2021)."""
