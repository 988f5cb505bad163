"""Opacus by `PrivacyEngine.make_private`: ghost clipping."""

from __future__ import annotations

from peers.opacus_hooks import VARIANTS, Opacus
from problem import Problem

__all__ = ["VARIANTS", "build"]


def build(problem: Problem, variant: str) -> Opacus:
    """Build it with ghost clipping."""
    return Opacus(problem, "ghost")
