"""Scores and positions of targets: what models of every kind do about a `Target`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.target import Target, TargetLike, whole_answer
from karat.models.torch_model import AnswersByToken, Layout

if TYPE_CHECKING:
    from torch import Tensor


def whole_scores(
    score: Callable[[Sequence[str]], Tensor], targets: Sequence[TargetLike], model: str, log: bool
) -> Tensor:
    """(n,) scores of targets for a model that answers as a whole: `score(answers)` gives (n,) raw scores or, if `log`,
    log-probabilities, and is asked a second time where there are contrasts."""
    own = score([whole_answer(target, model) for target in targets])
    contrasts = [target.contrast if isinstance(target, Target) else None for target in targets]
    if not any(contrasts):
        return own
    answers = [whole_answer(target, model) for target in targets]
    other = score([contrast or answer for contrast, answer in zip(contrasts, answers, strict=True)])
    return against(own, other, [contrast is not None for contrast in contrasts], log)


def answer_columns(table: Tensor, labels: Sequence[str], answers: Sequence[str]) -> Tensor:
    """(n,) of a table (n, labels), the entry of each row's answer."""
    import torch

    for answer in answers:
        if answer not in labels:
            raise UnknownName("label", answer, labels)
    columns = torch.tensor([labels.index(answer) for answer in answers], device=table.device)
    return table.gather(1, columns[:, None])[:, 0]


def against(own: Tensor, other: Tensor, contrasted: Sequence[bool], log: bool) -> Tensor:
    """Scores of targets and of their contrasts as one: the difference of raw scores; of log-probabilities, the
    log-probability of the target if it is known to be one of the two, log P / (P + Q) = log sigmoid(log P - log Q)."""
    import torch
    from torch.nn import functional

    difference = own - other
    chosen = functional.logsigmoid(difference) if log else difference
    return torch.where(torch.tensor(contrasted, device=own.device), chosen, own)


def explained_positions(model: object, layout: Layout, targets: Sequence[TargetLike]) -> list[range]:
    """For every target, the positions of the sequence that predict what is explained: those of its span's tokens, each
    of which has seen the answer up to there; the reading position of a model that answers as a whole."""
    if layout.readout is None:
        raise BadInput("this model has no reading position: its answer is read from all of its patches.")
    if not isinstance(model, AnswersByToken):
        return [range(layout.readout, layout.readout + 1)] * len(targets)
    tokens = [model.target_tokens(target) for target in targets]
    return [range(layout.readout + each.first, layout.readout + len(each.numbers)) for each in tokens]
