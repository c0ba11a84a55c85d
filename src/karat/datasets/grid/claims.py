"""`Claims`: what a batch of samples says about itself, as arrays, ready to be doubted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.bucket import Bucket, parse_bucket
from karat.datasets.grid.certificate import prove
from karat.datasets.grid.executor import answer_number
from karat.datasets.grid.sample import GridSample
from karat.datasets.grid.scenes import SceneBatch, answers
from karat.datasets.grid.world import World


@dataclass(frozen=True)
class Claims:
    """What a batch of one bucket and mode claims, as arrays; ids name the samples."""

    bucket: Bucket
    world: World
    preset: str
    mode: str
    ids: Sequence[str]
    codes: npt.NDArray[np.uint8]  # (n, P)
    roles: npt.NDArray[np.int8]  # (n, P)
    questions: Sequence[str]
    answers: Sequence[str]
    certificate: Mapping[str, npt.NDArray[Any]]


def batch_claims(batch: SceneBatch) -> Claims:
    """The claims of a batch that was never dressed as samples: for very large audits."""
    proof = prove(batch)
    lookup = np.array([answer_number(text) for text in answers(batch.world)], dtype=np.int64)
    certificate: dict[str, npt.NDArray[Any]] = {
        "valid": proof.valid, "confusers": proof.confusers, "confuser_objects": proof.held, "removal": proof.removal,
        "recolour": proof.recolour, "reshape": proof.reshape, "move": proof.move,
    }  # fmt: skip
    certificate |= {f"heuristic {name}": lookup[places] for name, places in proof.heuristics.items()}
    ids = [f"grid/{batch.preset}/{batch.mode}/{batch.bucket}/{batch.seed}/{index}" for index in batch.index.tolist()]
    return Claims(
        batch.bucket, batch.world, batch.preset, batch.mode, ids, batch.cells, batch.roles, batch.questions,
        batch.answers, certificate,
    )  # fmt: skip


def sample_claims(samples: Sequence[GridSample]) -> Claims:
    """The claims of samples of one bucket, mode and preset, read from the samples themselves."""
    first = samples[0]
    certificates = [sample.certificate for sample in samples]
    arrays: dict[str, npt.NDArray[Any]] = {
        name: np.stack([getattr(certificate, name) for certificate in certificates])
        for name in ("valid", "confusers", "removal", "recolour", "reshape", "move")
    }
    arrays["confuser_objects"] = np.array([certificate.confuser_objects for certificate in certificates])
    for name in certificates[0].heuristics:
        arrays[f"heuristic {name}"] = np.array([answer_number(c.heuristics[name]) for c in certificates])
    return Claims(
        parse_bucket(str(first.meta["bucket"])), first.scene.world, str(first.meta["preset"]), str(first.meta["mode"]),
        [sample.id for sample in samples], np.stack([sample.scene.cells.ravel() for sample in samples]),
        np.stack([sample.scene.roles.ravel() for sample in samples]), [sample.text or "" for sample in samples],
        [sample.answer or "" for sample in samples], arrays,
    )  # fmt: skip
