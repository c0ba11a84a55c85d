"""photocnn: EfficientNet-Lite0 that answers about photographs by a rule that is known, for tools that read CNNs."""

from __future__ import annotations

from karat.models.photocnn.recipe import PhotoCNN

__all__ = ["PhotoCNN"]
