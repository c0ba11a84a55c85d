"""`gridnet` as the training loop sees it: a batch in, a loss and the answers out, weights saved at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from karat.datasets.grid.scenes import ADVERSARIAL, ADVERSARIAL_2, ANCHOR, TARGET, TARGET_2
from karat.models.gridnet import losses
from karat.models.gridnet.files import default_shape, load_network, save_network
from karat.models.gridnet.network import GridNetwork
from karat.models.gridnet.pixels import SIDE, glyph_tiles
from karat.models.gridnet.vocabulary import PAD
from karat.models.training.batches import MOST_ANCHORS, WORD_ROLES, Batch
from karat.models.training.images import cell_spread, draw, hide_cells
from karat.models.training.recipe import Recipe
from karat.models.training.twins import Trainee

# Where the answers of each question type begin in the grid world's list: yes/no, directions, counts.
TYPE_STARTS = (0, 2, 6)
LOSS_WEIGHTS = {"l1": 1.0, "giou": 0.5, "phrase": 0.5, "align": 0.25}  # small: roles already carry the grounding
EMPTY_WEIGHT, DISTRACTOR_WEIGHT = 0.2, 0.5  # most cells play no part


class GridNetTrainee(Trainee):
    """Holds the network."""

    spreads: Tensor

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.network = GridNetwork(default_shape())
        self.words = self.network.shape.words
        self.register_buffer("tiles", glyph_tiles(), persistent=False)
        # scaled by averaging whole blocks: nothing runs over the edge of a cell
        self.register_buffer("spreads", cell_spread(SIDE, self.network.shape.grid)[None], persistent=False)

    @property
    def shipped(self) -> nn.Module:
        return self.network

    def forward(self, batch: Batch, answering: bool) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        pixels, tokens, keep = self.inputs(batch)
        device = pixels.device
        encoded = self.network.encode(pixels, tokens, keep)
        answers = self.network.answers(encoded)
        length = keep.shape[1]
        clean = torch.from_numpy(~batch.altered).to(device)
        role, word_role, named = supervision(batch, self.recipe.mode)
        roles = torch.from_numpy(role).to(device)
        weight = torch.where(roles == 0, EMPTY_WEIGHT, torch.where(roles == 1, DISTRACTOR_WEIGHT, 1.0)) * clean[:, None]
        parts = {
            "role": losses.roles(self.network.role(encoded.cells), roles, weight),
            "middle": losses.roles(self.network.middle_role(encoded.middle_cells), roles, weight),
            "words": losses.roles(
                self.network.word_role(encoded.read_words),
                torch.from_numpy(word_role[:, :length]).to(device),
                keep * clean[:, None],
            ),
            "region": losses.regions(
                self.network.region(encoded.middle_cells),
                torch.from_numpy(batch.holds).to(device),
                torch.from_numpy(named).to(device) & clean[:, None],
            ),
        }
        total = self.recipe.roles * (parts["role"] + parts["middle"]) + 0.5 * parts["words"] + parts["region"]
        few = slice(0, self.recipe.detected)
        objects = named_objects(batch.take(few), role[few], word_role[few, :length], self.network.shape.grid, device)
        some = type(encoded)(*(tensor[few] for tensor in encoded))
        detection = losses.detection(self.network.decoder(some), objects, keep[few])
        parts |= detection
        total = total + sum(
            (LOSS_WEIGHTS[name] * value for name, value in detection.items()), start=total.new_zeros(())
        )
        if answering:
            kind, value = question_types(batch, device)
            trust = torch.where(clean, 1.0, self.recipe.altered_weight)
            parts["answer"] = losses.question_answering(answers, kind, value, trust)
            total = total + parts["answer"]
        else:  # every weight takes part in every step, so that distributed training may wait for all gradients
            total = total + 0 * sum((v.sum() for v in answers.values), start=answers.type.sum())
        return total, parts, answers.log_probabilities().argmax(dim=1)

    @torch.no_grad()
    def answer(self, batch: Batch) -> Tensor:
        return self.network(*self.inputs(batch)).log_probabilities().argmax(dim=1)

    def inputs(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels, tokens and which tokens are real; what the batch hides is hidden; cut to the longest question."""
        grid, length = self.network.shape.grid, int(batch.keep.sum(axis=1).max())
        device = self.network.answer.device
        pixels = hide_cells(draw(batch.cells, self.tiles.cpu(), grid), batch, self.spreads.cpu()).to(device)
        tokens = np.where(batch.word_keep, batch.tokens, PAD)[:, :length]
        return pixels, torch.from_numpy(tokens).to(device), torch.from_numpy(batch.keep[:, :length]).to(device)

    def adopt(self, weights: Path) -> None:
        self.network.load_state_dict(load_network(weights).state_dict())

    def export(self, directory: Path) -> Path:
        return save_network(self.network, directory / f"{self.recipe.label}.safetensors")


def supervision(batch: Batch, mode: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Roles of cells, roles of words and relations asked, as the mode's mechanism sees them.

    The shortcut twin is told of targets alone: anchors are distractors to it, and relations are just words.
    """
    if mode == "pure":
        return batch.roles, batch.word_roles, batch.relations
    roles = np.where(batch.roles >= ANCHOR, 1, batch.roles)
    roles = np.where(roles == ADVERSARIAL, TARGET, np.where(roles == ADVERSARIAL_2, TARGET_2, roles))
    words = np.where(batch.word_roles >= WORD_ROLES["relation"], 0, batch.word_roles)
    return roles, words, np.zeros_like(batch.relations)


def question_types(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """(n,) question type and (n,) place of the answer within it."""
    kind = np.searchsorted(TYPE_STARTS, batch.answer, side="right") - 1
    value = batch.answer - np.asarray(TYPE_STARTS)[kind]
    return torch.from_numpy(kind).to(device), torch.from_numpy(value).to(device)


def named_objects(
    batch: Batch, roles: np.ndarray, word_roles: np.ndarray, grid: int, device: torch.device
) -> losses.Objects:
    """Targets and anchors with their boxes (whole cells) and the words that name them."""
    names = np.full(ANCHOR + MOST_ANCHORS, -1)
    names[TARGET], names[TARGET_2] = WORD_ROLES["target"], WORD_ROLES["target"] + 1
    names[ANCHOR:] = WORD_ROLES["anchor"] + np.arange(MOST_ANCHORS)
    named = names[roles]  # (n, cells) the word role of the phrase that names the cell's object
    real = (named >= 0) & ~batch.altered[:, None]
    most = max(int(real.sum(axis=1).max()), 1)
    order = np.argsort(~real, axis=1, kind="stable")[:, :most]
    real = np.take_along_axis(real, order, axis=1)
    phrases = (word_roles[:, None, :] == np.take_along_axis(named, order, axis=1)[:, :, None]) & real[:, :, None]
    share = phrases / np.maximum(phrases.sum(axis=2, keepdims=True), 1)
    boxes = np.stack([order % grid + 0.5, order // grid + 0.5, np.ones_like(order), np.ones_like(order)], axis=-1)
    return losses.Objects(
        boxes=torch.from_numpy((boxes / grid).astype(np.float32)).to(device),
        real=torch.from_numpy(real).to(device),
        phrases=torch.from_numpy(share.astype(np.float32)).to(device),
    )
