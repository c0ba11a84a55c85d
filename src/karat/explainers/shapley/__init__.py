"""Explainers that share the answer out among patches and words, fairly. They need nothing but scores."""

from __future__ import annotations

from karat.explainers.shapley.pixelshap_tokenshap import PixelShapTokenShap
from karat.explainers.shapley.values import KernelShap, Permutation

__all__ = ["KernelShap", "Permutation", "PixelShapTokenShap"]
