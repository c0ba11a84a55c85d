"""Conformance kits: what a third party runs on its own parts to prove them right."""

from __future__ import annotations

from assay.testing.vlm import Law, vlm_laws

__all__ = ["Law", "vlm_laws"]
