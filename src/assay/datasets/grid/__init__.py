"""The grid world: questions about coloured shapes on a grid, with a proof in every sample (gridvqax2026)."""

from __future__ import annotations

from assay.datasets.grid.audit import AuditReport, audit, audit_generated
from assay.datasets.grid.bucket import Bucket, buckets, parse_bucket
from assay.datasets.grid.certificate import Certificate, Effect
from assay.datasets.grid.executor import execute
from assay.datasets.grid.export import export
from assay.datasets.grid.generate import generate, generate_batch, make_world
from assay.datasets.grid.render import render
from assay.datasets.grid.sample import GridSample, Scene, SceneObject
from assay.datasets.grid.scenes import SceneBatch, answers
from assay.datasets.grid.sheet import answer_histograms, contact_sheet
from assay.datasets.grid.world import PALETTE, RELATIONS, SHAPES, World

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
