"""`TargetScores`: raw scores and log-probabilities of targets in a decoder that is made to say what precedes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from karat.kernel.target import Target, TargetLike
from karat.models.targets import against
from karat.models.torch_model import Inputs, TargetTokens
from karat.models.vlm_decoder import Decoder


@dataclass(frozen=True, eq=False)
class TargetScores:
    """`tokens` says which tokens a target has; `neutral` fills rows that are shorter than the longest."""

    decoder: Decoder
    tokens: Callable[[TargetLike], TargetTokens]
    neutral: int

    def scores(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool) -> Tensor:
        """(n,) logits of the explained tokens or, if `log`, their log-probabilities, summed over each target.

        One forward. A contrast costs a second one, unless it is a single token after the same context: that is read off
        the same logits.
        """
        spoken = [self.tokens(target) for target in targets]
        table = self._table(inputs, spoken, log)
        own = _summed(table, [each.explained for each in spoken])
        contrasts = [
            self.tokens(target.instead(target.contrast)) if isinstance(target, Target) and target.contrast else None
            for target in targets
        ]
        contrasted = [contrast is not None for contrast in contrasts]
        if not any(contrasted):
            return own
        others = [contrast or each for contrast, each in zip(contrasts, spoken, strict=True)]
        if all(len(o.explained) == 1 and o.context == each.context for o, each in zip(others, spoken, strict=True)):
            other = _summed(table, [each.explained for each in others])
        else:
            other = _summed(self._table(inputs, others, log), [each.explained for each in others])
        return against(own, other, contrasted, log)

    def _table(self, inputs: Inputs, spoken: Sequence[TargetTokens], log: bool) -> Tensor:
        """(n, E, vocabulary): what stands at the positions that predict the explained tokens; the head is run there
        only, since a context may be long."""
        longest = max(len(each.numbers) for each in spoken)
        rows = [[*each.numbers, *([self.neutral] * (longest - len(each.numbers)))] for each in spoken]
        states = self.decoder.states(inputs, torch.tensor(rows, device=inputs.pixels.device))
        if any(each.first for each in spoken):
            most = max(len(each.explained) for each in spoken)
            last = longest - 1
            places = [[min(each.first + k, last) for k in range(most)] for each in spoken]
            index = torch.tensor(places, device=states.device)
            states = states.gather(1, index[..., None].expand(-1, -1, states.shape[-1]))
        logits = self.decoder.logits(states)
        return logits.log_softmax(-1) if log else logits


def _summed(table: Tensor, explained: Sequence[tuple[int, ...]]) -> Tensor:
    """The entries of each row's tokens, summed; rows may be shorter than the table is wide."""
    width = table.shape[1]
    numbers = torch.tensor([[*row, *([0] * (width - len(row)))] for row in explained], device=table.device)
    lengths = torch.tensor([len(row) for row in explained], device=table.device)
    real = torch.arange(width, device=table.device) < lengths[:, None]
    return (table.gather(2, numbers[..., None])[..., 0] * real).sum(1)
