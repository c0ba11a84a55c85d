"""Explainers made for vision-language models that answer token by token."""

from __future__ import annotations

from karat.explainers.vlm.llava_cam import LlavaCam
from karat.explainers.vlm.tam import Tam

__all__ = ["LlavaCam", "Tam"]
