"""Perturbation-based explainers: alter the image or the words and watch the answer. They need nothing but scores."""

from __future__ import annotations

from karat.explainers.perturbation.extremal import Extremal
from karat.explainers.perturbation.lime import Lime
from karat.explainers.perturbation.occlusion import LeaveOneOut, Occlusion
from karat.explainers.perturbation.rise import Rise

__all__ = ["Extremal", "LeaveOneOut", "Lime", "Occlusion", "Rise"]
