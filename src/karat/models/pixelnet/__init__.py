"""`pixelnet`: small classifiers that were trained on a planted shortcut, and the recipes to train others."""

from karat.models.pixelnet.recipe import PixelNet

__all__ = ["PixelNet"]
