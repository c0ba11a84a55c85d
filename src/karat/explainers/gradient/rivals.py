"""`rivals`: the answer that an explanation is contrasted with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike, instead
from karat.models.torch_model import Inputs
from karat.probe.hooks import evaluating
from karat.probe.session import Session


@runtime_checkable
class _Tabled(Protocol):
    """A model that scores every answer it has in one pass."""

    def logits(self, inputs: Inputs, /) -> Tensor: ...


def rivals(session: Session, candidates: Sequence[str]) -> tuple[list[TargetLike], int]:
    """creg2026 Eq. 9: the highest-scoring candidate; where that is the target itself, the next one. A candidate stands
    in the target's place, in its context.

    And how many passes a sample it took to find out.
    """
    with torch.no_grad(), evaluating(session.torch_model.module):
        names, scores, passes = _scores(session, candidates)
    if len(names) < 2:
        raise BadInput(f"a contrast needs two candidates or more; got {', '.join(names) or 'none'}.")
    chosen: list[TargetLike] = []
    for target, row in zip(session.targets, scores, strict=True):
        order = [names[k] for k in row.argsort(descending=True, stable=True)[:2].tolist()]
        chosen.append(instead(target, order[1] if order[0] == str(target) else order[0]))
    return chosen, passes


def _scores(session: Session, candidates: Sequence[str]) -> tuple[list[str], Tensor, int]:
    """Candidates, their raw scores (n, candidates), and passes a sample. What is no choice of a sample scores -inf."""
    model, inputs = session.torch_model, session.inputs
    if not candidates and isinstance(model, _Tabled):
        table = model.logits(inputs)
        listed = getattr(model, "answers", None) or getattr(model, "labels", None)
        return list(listed or map(str, range(table.shape[1]))), table, 1
    names = list(candidates or getattr(model, "answers", ()))
    choices = [sample.choices for sample in session.samples]
    if not names and min(map(len, choices)) < 2:
        raise BadInput(
            f"{model.name!r} has no list of answers, and not all of its samples have two choices or more: name "
            "candidates, e.g. ('left', 'right')."
        )
    among = names or list(dict.fromkeys(choice for each in choices for choice in each))
    columns = [model.readout(inputs, [instead(target, name) for target in session.targets]) for name in among]
    table = torch.stack(columns, 1)
    if not names:
        allowed = torch.tensor([[name in each for name in among] for each in choices], device=table.device)
        table = table.masked_fill(~allowed, -torch.inf)
    return among, table, len(among)
