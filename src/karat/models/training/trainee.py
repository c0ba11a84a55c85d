"""`Trainee`: what an architecture brings to the training loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import torch
from torch import Tensor, nn

from karat.models.training.batches import Batch


class Trainee(nn.Module, ABC):
    """One call a step, answers for evaluation, weights for shipping. `words` is the most a question may have."""

    words: int
    tiles: Tensor  # (object codes, 3, c, c) as the model sees them

    @property
    @abstractmethod
    def shipped(self) -> nn.Module:
        """What is exported: without what only training needs."""

    @abstractmethod
    def forward(self, batch: Batch, answering: bool) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """(loss, its parts, (n,) answers as places in the grid world's list). It is the whole training step, so that
        data-parallel wrappers see one call; without `answering`, grounding alone is trained."""

    @abstractmethod
    def answer(self, batch: Batch) -> Tensor:
        """(n,) answers as places in the grid world's list."""

    @abstractmethod
    def adopt(self, weights: Path) -> None:
        """Load weights that `export` wrote; what is not exported stays as it is."""

    @abstractmethod
    def export(self, directory: Path) -> Path:
        """The file or directory that the weights were written to, in half precision."""

    @torch.no_grad()
    def round(self) -> None:
        """Round what is shipped to half precision, so that what is evaluated is what is written."""
        for parameter in self.shipped.parameters():
            parameter.copy_(parameter.half())
