"""gridvlm, the trained twin for vision-language tools: a LLaVA of a million parameters that answers with tokens."""

from __future__ import annotations

from karat.models.gridvlm.recipe import GridVLM

__all__ = ["GridVLM"]
