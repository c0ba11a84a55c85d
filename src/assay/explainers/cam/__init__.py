"""Class activation maps: one layer's activations, weighted. Words too, on layers over the joint sequence."""

from __future__ import annotations

from assay.explainers.cam.ablation import AblationCam
from assay.explainers.cam.score import ScoreCam
from assay.explainers.cam.single import EigenCam, EigenGradCam, GradCam, GradCamPlusPlus, LayerCam, XGradCam

__all__ = [
    "AblationCam",
    "EigenCam",
    "EigenGradCam",
    "GradCam",
    "GradCamPlusPlus",
    "LayerCam",
    "ScoreCam",
    "XGradCam",
]
