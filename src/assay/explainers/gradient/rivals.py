"""`rivals`: the answer that an explanation is contrasted with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from assay.kernel.errors import BadInput
from assay.models.torch_model import Inputs
from assay.probe.hooks import evaluating
from assay.probe.session import Session


@runtime_checkable
class _Tabled(Protocol):
    """A model that scores every answer it has in one pass."""

    def logits(self, inputs: Inputs, /) -> Tensor: ...


def rivals(session: Session, candidates: Sequence[str]) -> list[str]:
    """creg2026 Eq. 9: the highest-scoring candidate; where that is the target itself, the next one."""
    with torch.no_grad(), evaluating(session.torch_model.module):
        names, scores = _scores(session, candidates)
    if len(names) < 2:
        raise BadInput(f"a contrast needs two candidates or more; got {', '.join(names) or 'none'}.")
    chosen = []
    for target, row in zip(session.targets, scores, strict=True):
        order = [names[k] for k in row.argsort(descending=True, stable=True)[:2].tolist()]
        chosen.append(order[1] if order[0] == target else order[0])
    return chosen


def _scores(session: Session, candidates: Sequence[str]) -> tuple[list[str], Tensor]:
    """Candidates and their raw scores (n, candidates)."""
    model, inputs = session.torch_model, session.inputs
    if not candidates and isinstance(model, _Tabled):
        table = model.logits(inputs)
        listed = getattr(model, "answers", None) or getattr(model, "labels", None)
        return list(listed or map(str, range(table.shape[1]))), table
    names = list(candidates or getattr(model, "answers", ()))
    if not names:
        raise BadInput(f"{model.name!r} has no list of answers; name candidates, e.g. ('left', 'right').")
    return names, torch.stack([model.readout(inputs, [name] * len(session.samples)) for name in names], 1)
