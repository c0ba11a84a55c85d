"""Protocol `semantic`: how much of the explanation lies on things that have nothing to do with the label?"""

from assay.protocols.semantic.protocol import Semantic
from assay.protocols.semantic.sweep import SemanticSweep

__all__ = ["Semantic", "SemanticSweep"]
