"""Explainers that pass the answer's relevance back through the network, by modified backward rules written here."""

from __future__ import annotations

from karat.explainers.relevance.lrp import AttnLrp, CpLrp

__all__ = ["AttnLrp", "CpLrp"]
