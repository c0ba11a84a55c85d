"""Explainers made of gradients. Image and, where the method defines it, words."""

from __future__ import annotations

from karat.explainers.gradient.activation import ContrastiveGradXAct, GradXAct
from karat.explainers.gradient.deeplift import DeepLift
from karat.explainers.gradient.fullgrad import FullGrad
from karat.explainers.gradient.integrated import IntegratedGradients
from karat.explainers.gradient.plain import Gradient, GradientNorm, InputXGradient
from karat.explainers.gradient.rectified import Deconvnet, GuidedBackprop
from karat.explainers.gradient.sampled import GradientShap, SmoothGrad

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
