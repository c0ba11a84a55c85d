"""Protocol `lineup`: which rule was it? Models whose rule is known, on photographs with independent cues."""

from karat.protocols.lineup.protocol import Lineup

__all__ = ["Lineup"]
