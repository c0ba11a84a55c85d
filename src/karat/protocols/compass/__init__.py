"""Protocol `compass`: does the evidence point from the reference object to the target? (creg2026)"""

from karat.protocols.compass.protocol import Compass

__all__ = ["Compass"]
