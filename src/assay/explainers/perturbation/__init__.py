"""Explainers that alter the image or the words and watch the answer. They need nothing but scores."""

from __future__ import annotations

from assay.explainers.perturbation.extremal import Extremal
from assay.explainers.perturbation.leave_one_out import LeaveOneOut
from assay.explainers.perturbation.lime import Lime
from assay.explainers.perturbation.occlusion import Occlusion
from assay.explainers.perturbation.rise import Rise

__all__ = ["Extremal", "LeaveOneOut", "Lime", "Occlusion", "Rise"]
