"""photovlm: a LLaVA with a pretrained tower that answers about photographs by a rule that is known."""

from __future__ import annotations

from karat.models.photovlm.recipe import PhotoVLM

__all__ = ["PhotoVLM"]
