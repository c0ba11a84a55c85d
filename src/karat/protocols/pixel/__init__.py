"""Protocol `pixel`: does it rank the very pixels that decided? And its neighbours, which delete (pixelrules2024)."""

from karat.protocols.pixel.deletion import Deletion
from karat.protocols.pixel.protocol import Pixel

__all__ = ["Deletion", "Pixel"]
