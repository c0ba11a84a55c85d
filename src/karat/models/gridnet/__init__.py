"""gridnet, the trained twin: MDETR's design, small; `pure` reasons, `spur` matches words."""

from __future__ import annotations

from karat.models.gridnet.recipe import GridNet

__all__ = ["GridNet"]
