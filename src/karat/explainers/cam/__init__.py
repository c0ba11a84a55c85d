"""Class activation maps: one layer's activations, weighted. Words too, on layers over the joint sequence."""

from __future__ import annotations

from karat.explainers.cam.ablation import AblationCam
from karat.explainers.cam.score import ScoreCam
from karat.explainers.cam.single import EigenCam, EigenGradCam, GradCam, GradCamPlusPlus, LayerCam, XGradCam

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
