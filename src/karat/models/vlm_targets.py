"""`TargetScores`: raw scores and log-probabilities of targets in a decoder that is made to say what precedes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from karat.kernel.target import Target, TargetLike
from karat.models.targets import against
from karat.models.torch_model import Inputs, TargetTokens


@dataclass(frozen=True, eq=False)
class TargetScores:
    """`read` gives logits (n, E, vocabulary) of inputs, what is said (n, A) and the places (n, E) of it that matter, or
    all of them; `tokens` says which tokens a target has; `neutral` fills rows that are shorter than the longest."""

    read: Callable[[Inputs, Tensor, Tensor | None], Tensor]
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

    def spans(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool) -> Tensor:
        """(n, targets) the same of spans of one text, on every row, from one forward over all that is said. A contrast
        of several tokens costs a forward of its own."""
        spoken = [self.tokens(target) for target in targets]
        longest = max(spoken, key=lambda each: len(each.numbers))
        table = self._table(inputs, [TargetTokens(longest.numbers)] * len(inputs.pixels), log)  # (n, A, vocabulary)
        columns = []
        for target, each in zip(targets, spoken, strict=True):
            own = _at(table, each.first, each.explained)
            if isinstance(target, Target) and target.contrast:
                other = self.tokens(target.instead(target.contrast))
                if len(other.explained) == 1 and other.context == each.context:
                    rival = _at(table, other.first, other.explained)
                else:
                    rival = _at(self._table(inputs, [other] * len(inputs.pixels), log), 0, other.explained)
                own = against(own, rival, [True] * len(own), log)
            columns.append(own)
        return torch.stack(columns, 1)

    def _table(self, inputs: Inputs, spoken: Sequence[TargetTokens], log: bool) -> Tensor:
        """(n, E, vocabulary): what stands at the positions that predict the explained tokens; the head is run there
        only, since a context may be long."""
        longest = max(len(each.numbers) for each in spoken)
        rows = [[*each.numbers, *([self.neutral] * (longest - len(each.numbers)))] for each in spoken]
        places: Tensor | None = None
        if any(each.first for each in spoken):
            most = max(len(each.explained) for each in spoken)
            wanted = [[min(each.first + k, longest - 1) for k in range(most)] for each in spoken]
            places = torch.tensor(wanted, device=inputs.pixels.device)
        logits = self.read(inputs, torch.tensor(rows, device=inputs.pixels.device), places)
        return logits.log_softmax(-1) if log else logits


def _at(table: Tensor, first: int, explained: tuple[int, ...]) -> Tensor:
    """(n,) the entries of these tokens from place `first` on, summed."""
    places = torch.arange(first, first + len(explained), device=table.device)
    return table[:, places, torch.tensor(explained, device=table.device)].sum(1)


def _summed(table: Tensor, explained: Sequence[tuple[int, ...]]) -> Tensor:
    """The entries of each row's tokens, summed; rows may be shorter than the table is wide."""
    width = table.shape[1]
    numbers = torch.tensor([[*row, *([0] * (width - len(row)))] for row in explained], device=table.device)
    lengths = torch.tensor([len(row) for row in explained], device=table.device)
    real = torch.arange(width, device=table.device) < lengths[:, None]
    return (table.gather(2, numbers[..., None])[..., 0] * real).sum(1)
