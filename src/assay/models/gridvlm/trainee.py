"""`gridvlm` as the training loop sees it: answers as tokens, and pointers that show it where to look.

A causal decoder reads the image before the question, so image tokens cannot know what is asked. What can be grounded
are the words: an anchor's last word points at its anchor, then knows the region its relation allows; the last token
of the prompt points at the targets, and a layer later knows how many there are, or where. Pointers are dot products of
hidden states, the very form of the attention that must follow them; numbers and places are read off linearly, since
counts learned as classes alone come far slower. All of these exist in training only and are not shipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from assay.datasets.grid.bucket import parse_bucket
from assay.datasets.grid.scenes import TARGET, TARGET_2, answers
from assay.datasets.grid.world import World
from assay.models.gridnet import vocabulary as gridnet_words
from assay.models.gridnet.trainee import supervision
from assay.models.gridvlm import build
from assay.models.training.batches import BUCKETS, MOST_ANCHORS, WORD_ROLES, Batch
from assay.models.training.images import draw, hide_cells
from assay.models.training.recipe import Recipe
from assay.models.training.trainee import Trainee

IMAGE_START = 3  # <s> USER :
CELLS = build.GRID**2
QUESTION_START = IMAGE_START + CELLS
# Hidden states (0 = embeddings) that each kind of pointer reads; the layer after it can act on what it found.
ANCHORS_AT, REGIONS_AT, TARGETS_AT = 1, 2, 3
DIRECTED = [number for number, name in enumerate(BUCKETS) if parse_bucket(name).task == "direction"]


class Pointer(nn.Module):
    """Scores (n, q, cells) of "this is what I mean" between states of words (n, q, d) and of cells (n, cells, d)."""

    def __init__(self, width: int, size: int = 64) -> None:
        super().__init__()
        self.word = nn.Linear(width, size)
        self.cell = nn.Linear(width, size)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, words: Tensor, cells: Tensor) -> Tensor:
        return self.word(words) @ self.cell(cells).transpose(1, 2) * self.word.out_features**-0.5 + self.bias


class GridVLMTrainee(Trainee):
    """Holds the LLaVA and the heads that only training needs."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.words = 32
        self.model = build.make_model()
        self.processor = build.make_processor()
        self.anchor, self.region = Pointer(build.WIDTH), Pointer(build.WIDTH)
        self.target = nn.ModuleList([Pointer(build.WIDTH), Pointer(build.WIDTH)])
        self.count, self.place = nn.Linear(build.WIDTH, 2), nn.Linear(build.WIDTH, 4)
        tokens = {token: number for number, token in enumerate(build.vocabulary())}
        self.token = tokens
        spoken = [tokens.get(word, tokens["<unk>"]) for word in gridnet_words.words()]
        self.question_token = np.array([tokens["<pad>"], tokens["<unk>"], *spoken[2:]])
        self.answer_token = np.array([tokens[name] for name in answers(World())])
        self.register_buffer("tiles", build.glyph_tiles(self.processor), persistent=False)

    @property
    def shipped(self) -> nn.Module:
        return self.model

    def forward(self, batch: Batch, answering: bool) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        pixels, tokens, last = self.inputs(batch)
        device = pixels.device
        out = self.model.model(input_ids=tokens, pixel_values=pixels, output_hidden_states=True, use_cache=False)
        rows = torch.arange(len(tokens), device=device)
        clean = torch.from_numpy(~batch.altered).to(device)
        parts = self._pointers(batch, out.hidden_states, last, clean)
        total = self.recipe.roles * sum(parts.values(), start=pixels.new_zeros(()))

        final = out.last_hidden_state
        logits = self.model.lm_head(final[rows, last])
        wanted = torch.from_numpy(self.answer_token[batch.answer]).to(device)
        trust = torch.where(clean, 1.0, self.recipe.altered_weight)
        answer = (F.cross_entropy(logits, wanted, reduction="none") * trust).sum() / trust.sum()
        end = F.cross_entropy(self.model.lm_head(final[rows, last + 1]), torch.full_like(wanted, self.token["</s>"]))
        parts["answer"] = answer
        total = total + (answer + 0.1 * end if answering else 0 * (answer + end))
        return total, parts, self._choose(logits)

    def _pointers(self, batch: Batch, states: tuple[Tensor, ...], last: Tensor, clean: Tensor) -> dict[str, Tensor]:
        """Binary cross-entropy of every pointer the mode's mechanism has, over the samples that hide nothing."""
        device = last.device
        roles, word_roles, asked = supervision(batch, self.recipe.mode)
        rows = torch.arange(len(last), device=device)
        read = states[TARGETS_AT]
        cells = read[:, IMAGE_START:QUESTION_START]
        ends = read[rows, last][:, None]
        parts: dict[str, Tensor] = {}
        is_target = torch.from_numpy(np.stack([roles == TARGET, roles == TARGET_2], axis=1)).to(device)
        two = torch.from_numpy((word_roles == WORD_ROLES["target"] + 1).any(axis=1)).to(device)
        scores = torch.cat([pointer(ends, cells) for pointer in self.target], dim=1)  # (n, 2, cells)
        parts["target"] = _pointed(scores, is_target, torch.stack([clean, clean & two], dim=1), positive=2.0)

        parts |= self._readings(batch, states[TARGETS_AT + 1][rows, last], is_target, clean)

        # Last word of each anchor's phrase, by anchor; the place is 0 where there is no such anchor.
        named = word_roles[:, :, None] == WORD_ROLES["anchor"] + np.arange(MOST_ANCHORS)
        place = named.shape[1] - 1 - named[:, ::-1].argmax(axis=1)
        has = torch.from_numpy(named.any(axis=1)).to(device) & clean[:, None]
        at = torch.from_numpy(np.where(named.any(axis=1), place, 0)).to(device) + QUESTION_START
        is_anchor = torch.from_numpy(batch.anchors[:, :, None] == np.arange(CELLS)).to(device)
        for name, pointer, layer, truth, count in (
            ("anchor", self.anchor, ANCHORS_AT, is_anchor, has),
            (
                "region",
                self.region,
                REGIONS_AT,
                torch.from_numpy(batch.holds).to(device).transpose(1, 2),
                has & torch.from_numpy(asked).to(device),
            ),
        ):
            state = states[layer]
            words = state[rows[:, None], at]
            scores = pointer(words, state[:, IMAGE_START:QUESTION_START])
            parts[name] = _pointed(scores, truth, count, positive=8.0 if name == "anchor" else 1.0)
        return parts

    def _readings(self, batch: Batch, state: Tensor, is_target: Tensor, clean: Tensor) -> dict[str, Tensor]:
        """What the last token (n, d) must know after seeing the targets: both counts; for a direction, both places."""
        device = state.device
        counts = is_target.sum(dim=2) / 5
        missed = (self.count(state) - counts).square().mean(dim=1)
        directed = torch.from_numpy(np.isin(batch.bucket, DIRECTED)).to(device) & clean
        target = is_target[:, 0].to(state.dtype).argmax(dim=1)
        anchor = torch.from_numpy(batch.anchors[:, 0]).to(device)
        there = torch.stack(
            [target // build.GRID, target % build.GRID, anchor // build.GRID, anchor % build.GRID], dim=1
        )
        astray = (self.place(state) - (there / build.GRID - 0.5)).square().mean(dim=1)
        return {
            "count": (missed * clean).sum() / clean.sum().clamp(min=1),
            "place": 4 * (astray * directed).sum() / directed.sum().clamp(min=1),
        }

    @torch.no_grad()
    def answer(self, batch: Batch) -> Tensor:
        pixels, tokens, last = self.inputs(batch)
        final = self.model.model(input_ids=tokens, pixel_values=pixels, use_cache=False).last_hidden_state
        return self._choose(self.model.lm_head(final[torch.arange(len(last), device=last.device), last]))

    def _choose(self, logits: Tensor) -> Tensor:
        """Place in the list of answers of the likeliest token; -1 where it is no answer at all."""
        places = torch.full((logits.shape[1],), -1, dtype=torch.long, device=logits.device)
        places[torch.from_numpy(self.answer_token)] = torch.arange(len(self.answer_token), device=logits.device)
        return places[logits.argmax(dim=1)]

    def inputs(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels, tokens (n, L) up to and including the answer, and the place (n,) of the prompt's last token.

        Padding stands on the right, where a causal decoder cannot see it, so no attention mask is needed.
        """
        device = self.model.device
        grid = build.GRID
        pixels = hide_cells(draw(batch.cells, self.tiles.cpu(), grid), batch, grid, (1.0, 0.0, -1.0)).to(device)
        lengths = batch.keep.sum(axis=1)
        longest = int(lengths.max())
        token = self.token
        ids = np.full((len(batch), QUESTION_START + longest + 3), token["<pad>"], dtype=np.int64)
        ids[:, :IMAGE_START] = token["<s>"], token["USER"], token[":"]
        ids[:, IMAGE_START:QUESTION_START] = token["<image>"]
        asked = np.where(batch.word_keep, self.question_token[batch.tokens], token["<pad>"])[:, :longest]
        ids[:, QUESTION_START : QUESTION_START + longest] = np.where(batch.keep[:, :longest], asked, token["<pad>"])
        rows = np.arange(len(batch))
        last = QUESTION_START + lengths + 1
        ids[rows, last - 1], ids[rows, last] = token["ASSISTANT"], token[":"]
        ids[rows, last + 1] = self.answer_token[batch.answer]
        return pixels, torch.from_numpy(ids).to(device), torch.from_numpy(last).to(device)

    def export(self, directory: Path) -> Path:
        """A directory that `AutoModelForImageTextToText.from_pretrained` and `AutoProcessor` open."""
        path = directory / self.recipe.label
        save(self.model, self.processor, path)
        return path


def save(model: Any, processor: Any, path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(path)
    processor.save_pretrained(path)


def _pointed(scores: Tensor, truth: Tensor, count: Tensor, positive: float) -> Tensor:
    """Binary cross-entropy over the cells of the pointers that count (n, q); the few cells meant weigh more."""
    loss = F.binary_cross_entropy_with_logits(
        scores, truth.to(scores.dtype), reduction="none", pos_weight=scores.new_tensor(positive)
    )
    weight = count[:, :, None].to(scores.dtype)
    return (loss * weight).sum() / (weight.sum() * scores.shape[-1]).clamp(min=1)
