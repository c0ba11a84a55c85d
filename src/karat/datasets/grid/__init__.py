"""The grid world: questions about coloured shapes on a grid, with a proof in every sample (gridvqax2026)."""

from __future__ import annotations

from karat.datasets.grid.audit import AuditReport, audit, audit_generated
from karat.datasets.grid.bucket import Bucket, buckets, parse_bucket
from karat.datasets.grid.certificate import Certificate, Effect
from karat.datasets.grid.executor import execute
from karat.datasets.grid.export import export
from karat.datasets.grid.generate import generate, generate_batch, make_world
from karat.datasets.grid.render import render
from karat.datasets.grid.sample import GridSample, Scene, SceneObject
from karat.datasets.grid.scenes import SceneBatch, answers
from karat.datasets.grid.sheet import answer_histograms, contact_sheet
from karat.datasets.grid.world import PALETTE, RELATIONS, SHAPES, World

__all__ = [
    "PALETTE",
    "RELATIONS",
    "SHAPES",
    "AuditReport",
    "Bucket",
    "Certificate",
    "Effect",
    "GridSample",
    "Scene",
    "SceneBatch",
    "SceneObject",
    "World",
    "answer_histograms",
    "answers",
    "audit",
    "audit_generated",
    "buckets",
    "contact_sheet",
    "execute",
    "export",
    "generate",
    "generate_batch",
    "make_world",
    "parse_bucket",
    "render",
]
