"""Protocol `grid`: can the explainer tell a model that reasons from a twin that takes a shortcut? (gridvqax2026)"""

from karat.protocols.grid.protocol import Grid

__all__ = ["Grid"]
