"""gridprog, the compiled twin: a small attention network that executes the question, by construction."""

from __future__ import annotations

from karat.models.gridprog.recipe import GridProg

__all__ = ["GridProg"]
