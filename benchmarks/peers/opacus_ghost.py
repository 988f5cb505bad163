"""Opacus by `PrivacyEngine.make_private`: ghost clipping."""

from __future__ import annotations

from problem import Problem

from peers.opacus_hooks import Opacus


def build(problem: Problem, variant: str) -> Opacus:
    """Build it with ghost clipping."""
    return Opacus(problem, "ghost")
