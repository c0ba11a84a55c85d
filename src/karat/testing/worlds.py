"""Worlds of known answer: models of which it is known what they look at, with samples to ask them about.

In the worlds called "spotlight" one cell of sixteen decides, and one word where there are words: whatever else an
explanation shows, it does not show the model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.roles import Model
from karat.kernel.sample import Phrase, Region, Sample, Uses
from karat.models.blackbox import blackbox

if TYPE_CHECKING:
    from torch import Tensor

SIDE, CELL = 4, 4  # cells per side, pixels per cell
LIT = (1, 2)  # row and column of the cell that decides
WORD = "red"
_INSIDE = frozenset({"gradients", "activations", "attention", "autoregressive", "boxes"})
_TEXTS = ("is it red", "red or blue", "is there any red now")


@dataclass(frozen=True, eq=False)
class World:
    """A model and samples that it can be asked about. `answers` are the answers to explain, one per sample."""

    name: str
    model: Model
    samples: tuple[Sample, ...]
    answers: tuple[str, ...]

    @property
    def inside(self) -> bool:
        """Whether the model can be looked into."""
        return bool(_INSIDE & self.model.capabilities)


def worlds_for(needs: Collection[str]) -> tuple[World, ...]:
    """The worlds that offer what an explainer needs, and no more of the inside than that.

    Who only asks meets plain functions, which have no inside: needs that were left out show at once. Who looks inside
    meets networks.

    Args:
        needs: capabilities, as on the explainer's card.

    Returns:
        Worlds: a model, samples, and what it answers.

    Example:
        >>> [world.name for world in worlds_for(["text"])]
        ['spotlight']
    """
    asks = not _INSIDE & set(needs)
    known = (spotlight(), spotlight_of_images()) if asks else (spotlight_network(), grid_world())
    return tuple(world for world in known if set(needs) <= world.model.capabilities)


@cache
def spotlight() -> World:
    """A function: p(yes) = 0.1 + 0.5 · brightness of the cell + 0.3 · (the word is there)."""

    def decide(images: np.ndarray[Any, Any], texts: list[str | None]) -> np.ndarray[Any, Any]:
        has_word = np.array([WORD in (text or "").split() for text in texts])
        return _both(0.1 + 0.5 * _brightness(images) + 0.3 * has_word)

    model = blackbox(decide, answers=["yes", "no"], name="spotlight", mechanism="reasons")
    return World("spotlight", model, _samples(_TEXTS), ("yes",) * len(_TEXTS))


@cache
def spotlight_of_images() -> World:
    """The same function of the image alone: its samples have no text."""

    def decide(images: np.ndarray[Any, Any], _: list[str | None]) -> np.ndarray[Any, Any]:
        return _both(0.1 + 0.8 * _brightness(images))

    model = blackbox(decide, answers=["yes", "no"], name="spotlight of images", text=False, mechanism="reasons")
    return World("spotlight of images", model, _samples((None, None)), ("yes", "yes"))


@cache
def spotlight_network() -> World:
    """A network of one convolution (1 × 1, with ReLU) whose maps are read in that cell only."""
    import torch
    from torch import nn

    from karat.models.classifier import classifier

    class Network(nn.Module):
        lit: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.maps = nn.Conv2d(3, 4, 1)
            self.rectify = nn.ReLU()
            self.head = nn.Linear(4, 2)
            mask = torch.zeros(1, 1, SIDE * CELL, SIDE * CELL)
            mask[:, :, _LIT_ROWS, _LIT_COLUMNS] = 1.0
            self.register_buffer("lit", mask)

        def forward(self, pixels: Tensor) -> Tensor:
            return self.head((self.rectify(self.maps(pixels)) * self.lit).sum((2, 3)) / CELL**2)

    module = Network()
    with torch.no_grad():  # three channels brighten, the last darkens: both signs of evidence occur
        module.maps.weight.copy_(
            torch.tensor([[0.9, 0.2, 0.1], [0.1, 0.8, 0.2], [0.2, 0.1, 0.7], [-0.3, -0.2, 0.6]])[..., None, None]
        )
        module.maps.get_parameter("bias").copy_(torch.tensor([0.05, 0.05, 0.05, 0.3]))
        module.head.weight.copy_(torch.tensor([[-0.5, -0.5, -0.5, 0.2], [1.0, 0.8, 0.9, -0.1]]))
        module.head.bias.zero_()
    model = classifier(module, _pixels, ["no", "yes"], "spotlight network", layer="maps", mechanism="reasons")
    return World("spotlight network", model, _samples((None, None)), ("yes", "yes"))


@cache
def grid_world() -> World:
    """The compiled twin that reasons, on two questions of the grid world: attention, words and a known mechanism."""
    from karat.datasets import grid
    from karat.models import load_model

    samples = tuple(grid.generate("D1_M_F0_d0.3", 2))
    return World("gridprog.pure", load_model("gridprog.pure"), samples, tuple(str(s.answer) for s in samples))


_LIT_ROWS = slice(LIT[0] * CELL, (LIT[0] + 1) * CELL)
_LIT_COLUMNS = slice(LIT[1] * CELL, (LIT[1] + 1) * CELL)


def _brightness(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return images[:, _LIT_ROWS, _LIT_COLUMNS].mean(axis=(1, 2, 3)) / 255


def _both(yes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.stack([yes, 1 - yes], axis=1)


def _pixels(image: Any) -> Tensor:
    import torch

    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def _samples(texts: Sequence[str | None]) -> tuple[Sample, ...]:
    """Images of grey cells, one of them bright; the truth about them is the cell and the word that decide."""
    rng = np.random.default_rng(0)
    box = (LIT[1] * CELL, LIT[0] * CELL, CELL, CELL)
    samples = []
    for i, text in enumerate(texts):
        level = rng.integers(100, 200, (SIDE, 1, SIDE, 1, 1))
        level[LIT[0], 0, LIT[1]] = 250  # far from any average, which some methods put in place of what is absent
        image = np.broadcast_to(level, (SIDE, CELL, SIDE, CELL, 3)).reshape(SIDE * CELL, SIDE * CELL, 3)
        start = text.index(WORD) if text else 0
        samples.append(
            Sample(
                f"spotlight-{i}",
                image.astype(np.uint8),
                text,
                answer="yes",
                regions=(Region("lit", "target", boxes=(box,)),),
                phrases=(Phrase((start, start + len(WORD)), "target", ("lit",)),) if text else (),
                mechanisms={"reasons": Uses(frozenset({"target"}), frozenset({"target"}))},
            )
        )
    return tuple(samples)
