"""Explainers made of gradients. Image and, where the method defines it, words."""

from __future__ import annotations

from assay.explainers.gradient.activation import ContrastiveGradXAct, GradXAct
from assay.explainers.gradient.deeplift import DeepLift
from assay.explainers.gradient.fullgrad import FullGrad
from assay.explainers.gradient.integrated import IntegratedGradients
from assay.explainers.gradient.plain import Gradient, GradientNorm, InputXGradient
from assay.explainers.gradient.rectified import Deconvnet, GuidedBackprop
from assay.explainers.gradient.sampled import GradientShap, SmoothGrad

__all__ = [
    "ContrastiveGradXAct",
    "Deconvnet",
    "DeepLift",
    "FullGrad",
    "GradXAct",
    "Gradient",
    "GradientNorm",
    "GradientShap",
    "GuidedBackprop",
    "InputXGradient",
    "IntegratedGradients",
    "SmoothGrad",
]
