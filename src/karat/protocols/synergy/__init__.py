"""Protocol `synergy`: do the features an explainer ranks first matter together, across image and text? (fsyn2026)"""

from karat.protocols.synergy.protocol import Synergy

__all__ = ["Synergy"]
