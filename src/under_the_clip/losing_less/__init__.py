"""Losing less (Shamsabadi & Papernot, PoPETs 2023)."""
