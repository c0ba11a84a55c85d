"""Explainers made of gradients. Image and, where the method defines it, words."""

from __future__ import annotations

from karat.explainers.gradient.activation import ContrastiveGradXAct, GradXAct
from karat.explainers.gradient.paths import DeepLift, GradientShap, IntegratedGradients, SmoothGrad
from karat.explainers.gradient.single_pass import (
    Deconvnet,
    FullGrad,
    Gradient,
    GradientNorm,
    GuidedBackprop,
    InputXGradient,
)

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
