"""`gridvlm` as the training loop sees it: answers as tokens, and pointers that show it where to look.

A causal decoder reads the image before the question, so image tokens cannot know what is asked. What can be grounded
are the words: an anchor's last word looks at its anchor, then knows the region its relation allows; the last token of
the prompt looks at the targets. What is shown is the attention itself, one head for each kind of look. Left to find it
alone, the model had not learned to count after 5,000 steps. Heads that read regions and places off the hidden states
exist in training only and are not shipped.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from karat.datasets.grid.bucket import parse_bucket
from karat.datasets.grid.scenes import ADVERSARIAL, ADVERSARIAL_2, TARGET, TARGET_2, answers
from karat.datasets.grid.world import World
from karat.models.gridnet import vocabulary as gridnet_words
from karat.models.gridnet.trainee import supervision
from karat.models.gridvlm import build
from karat.models.training.batches import BUCKETS, MOST_ANCHORS, WORD_ROLES, Batch
from karat.models.training.images import cell_spread, draw, hide_cells
from karat.models.training.recipe import Recipe
from karat.models.training.twins import Trainee
from karat.models.weights import check_whole

IMAGE_START = 3  # <s> USER :
CELLS = build.GRID**2
QUESTION_START = IMAGE_START + CELLS
# Layers (0 = first) whose attention is shown where to look; `REGIONS_AT` reads what the anchors' words then know.
NOUNS_AT, REGIONS_AT, TARGETS_AT = 1, 2, 3
# The two layers after it count again, each target by halves of the grid: left and right, then top and bottom. A share
# of attention is a noisy count; several of them, each of few cells, can be told apart where one of many cannot.
HALVES_AT = (4, 5)
SINK, ALONE, FAR = 8.0, 0.1, 5.0
EVEN, COUNTED = 0.3, 0.5
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

    spreads: Tensor

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.words = 32
        self.model = build.make_model()
        self.processor = build.make_processor()
        self.glyph = nn.Linear(build.WIDTH, World().n_classes + 1)
        self.region = Pointer(build.WIDTH)
        self.place = nn.Linear(build.WIDTH, 4)
        tokens = {token: number for number, token in enumerate(build.vocabulary())}
        self.token = tokens
        spoken = [tokens.get(word, tokens["<unk>"]) for word in gridnet_words.words()]
        self.question_token = np.array([tokens["<pad>"], tokens["<unk>"], *spoken[2:]])
        self.answer_token = np.array([tokens[name] for name in answers(World())])
        self.register_buffer("tiles", build.glyph_tiles(self.processor), persistent=False)
        # small images are shown as they are, large ones are scaled
        spreads = [cell_spread(build.SIDE, build.GRID, source) for source in (None, World().size * World().cell)]
        self.register_buffer("spreads", torch.stack(spreads), persistent=False)

    @property
    def shipped(self) -> nn.Module:
        return self.model

    def forward(self, batch: Batch, answering: bool) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        pixels, tokens, last = self.inputs(batch)
        device = pixels.device
        out = self.model.model(input_ids=tokens, pixel_values=pixels, output_hidden_states=True, use_cache=False)
        rows = torch.arange(len(tokens), device=device)
        clean = torch.from_numpy(~batch.altered).to(device)
        parts = self._grounding(batch, out.hidden_states, last, clean)
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

    def _grounding(self, batch: Batch, states: tuple[Tensor, ...], last: Tensor, clean: Tensor) -> dict[str, Tensor]:
        """Where the mode's mechanism has to look, over the samples that hide nothing."""
        device = last.device
        roles, word_roles, relations = supervision(batch, self.recipe.mode)
        rows = torch.arange(len(last), device=device)
        glyphs = self.glyph(states[0][:, IMAGE_START:QUESTION_START])
        codes = torch.from_numpy(np.where(batch.cell_keep, batch.cells, 0).astype(np.int64)).to(device)
        visible = torch.from_numpy(batch.cell_keep | batch.emptied[:, None]).to(device)
        parts = {"glyph": F.cross_entropy(glyphs[visible], codes[visible])}

        # Nouns look at whatever matches them, anchors at their one object.
        at, has = _last_words(word_roles, WORD_ROLES["anchor"], MOST_ANCHORS, clean)
        is_anchor = torch.from_numpy(batch.anchors[:, :, None] == np.arange(CELLS)).to(device)
        nouns, named = _last_words(word_roles, WORD_ROLES["target"], 2, clean)
        looks = self._looks(states, NOUNS_AT, torch.cat([at, nouns], dim=1))
        parts["anchor"] = _looked(looks[:, 0, :MOST_ANCHORS], is_anchor, looks.new_full((1, 1, 1), ALONE), has)
        matches = np.stack([np.isin(roles, (TARGET, ADVERSARIAL)), np.isin(roles, (TARGET_2, ADVERSARIAL_2))], axis=1)
        directed = torch.from_numpy(np.isin(batch.bucket, DIRECTED)).to(device)
        sink = torch.where(directed, ALONE, SINK)[:, None, None]  # asked for a direction, there is nothing to count
        parts["noun"] = _looked(looks[:, 1, MOST_ANCHORS:], torch.from_numpy(matches).to(device), sink, named)
        words = states[REGIONS_AT][rows[:, None], at]
        scores = self.region(words, states[REGIONS_AT][:, IMAGE_START:QUESTION_START])
        holds = torch.from_numpy(batch.holds).to(device).transpose(1, 2)
        parts["region"] = _pointed(scores, holds, has & torch.from_numpy(relations).to(device))

        is_target = torch.from_numpy(np.stack([roles == TARGET, roles == TARGET_2], axis=1)).to(device)
        looks = self._looks(states, TARGETS_AT, last[:, None])[:, :2, 0]
        parts["target"] = _looked(looks, is_target, sink, clean[:, None].expand(-1, 2), even=True)
        for layer, halves in zip(HALVES_AT, _halves(device), strict=True):
            looks = self._looks(states, layer, last[:, None])[:, :4, 0]
            half_targets = (is_target[:, :, None] & halves).flatten(1, 2)
            parts[f"half {layer}"] = _looked(looks, half_targets, sink, clean[:, None].expand(-1, 4), even=True)
        parts["place"] = self._place(states[TARGETS_AT + 1][rows, last], is_target, is_anchor, directed & clean)
        return parts

    def _looks(self, states: tuple[Tensor, ...], layer: int, at: Tensor) -> Tensor:
        """(n, heads, q, L) log of the attention that the tokens at places `at` (n, q) pay in a layer (0 = first)."""
        decoder = self.model.model.language_model
        block = decoder.layers[layer]
        state = block.input_layernorm(states[layer])
        attention, rows = block.self_attn, torch.arange(len(state), device=state.device)[:, None]
        places = torch.arange(state.shape[1], device=state.device)
        cos, sin = decoder.rotary_emb(state, position_ids=places[None])
        split = (*state.shape[:2], -1, attention.head_dim)
        keys = _turn(attention.k_proj(state).view(split), cos[0, :, None], sin[0, :, None])
        asking = attention.q_proj(state[rows, at]).view(*at.shape, -1, attention.head_dim)
        queries = _turn(asking, cos[0, at][:, :, None], sin[0, at][:, :, None])
        scores = torch.einsum("nqhd,nlhd->nhql", queries, keys) * attention.scaling
        hidden = places > at[:, :, None]
        return scores.masked_fill(hidden[:, None], -torch.inf).log_softmax(dim=-1)

    def _place(self, state: Tensor, is_target: Tensor, is_anchor: Tensor, directed: Tensor) -> Tensor:
        """Asked for a direction, the last token (n, d) must know where target and anchor stand: squared error."""
        there = torch.cat([_where(is_target[:, 0]), _where(is_anchor[:, 0])], dim=1)
        known = slice(0, 4 if self.recipe.mode == "pure" else 2)  # to the shortcut twin there are no anchors
        missed = (self.place(state) - there)[:, known].square().sum(dim=1)
        return (missed * directed).sum() / directed.sum().clamp(min=1)

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
        pixels = hide_cells(draw(batch.cells, self.tiles.cpu(), grid), batch, self.spreads.cpu()).to(device)
        lengths = batch.keep.sum(axis=1)
        longest = int(lengths.max())
        token = self.token
        ids = np.full((len(batch), QUESTION_START + longest + 3), token["<pad>"], dtype=np.int64)
        ids[:, :IMAGE_START] = token["<s>"], token["USER"], token[":"]
        ids[:, IMAGE_START:QUESTION_START] = token["<image>"]
        words = np.where(batch.word_keep, self.question_token[batch.tokens], token["<pad>"])[:, :longest]
        ids[:, QUESTION_START : QUESTION_START + longest] = np.where(batch.keep[:, :longest], words, token["<pad>"])
        rows = np.arange(len(batch))
        last = QUESTION_START + lengths + 1
        ids[rows, last - 1], ids[rows, last] = token["ASSISTANT"], token[":"]
        ids[rows, last + 1] = self.answer_token[batch.answer]
        return pixels, torch.from_numpy(ids).to(device), torch.from_numpy(last).to(device)

    def adopt(self, weights: Path) -> None:
        from transformers import LlavaForConditionalGeneration

        check_whole(weights / "model.safetensors")
        given = LlavaForConditionalGeneration.from_pretrained(weights, dtype=torch.float32, trust_remote_code=False)
        self.model.load_state_dict(given.state_dict())

    def export(self, directory: Path) -> Path:
        """A directory that `AutoModelForImageTextToText.from_pretrained` and `AutoProcessor` open."""
        path = directory / self.recipe.label
        save(self.model, self.processor, path)
        return path


def save(model: Any, processor: Any, path: Path) -> None:
    """Write the model in half precision, with its processor; the model itself stays as it is."""
    path.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).half().save_pretrained(path)
    processor.save_pretrained(path)


def _last_words(word_roles: np.ndarray, first: int, most: int, clean: Tensor) -> tuple[Tensor, Tensor]:
    """(n, most) places of the last words of up to `most` phrases whose roles start at `first`, and which are there."""
    named = word_roles[:, :, None] == first + np.arange(most)
    place = named.shape[1] - 1 - named[:, ::-1].argmax(axis=1)
    there = named.any(axis=1)
    at = torch.from_numpy(np.where(there, place, 0)).to(clean.device) + QUESTION_START
    return at, torch.from_numpy(there).to(clean.device) & clean[:, None]


def _halves(device: torch.device) -> Tensor:
    """(2, 2, cells) left and right, top and bottom."""
    row, column = np.divmod(np.arange(CELLS), build.GRID)
    first = np.stack([column, row]) < build.GRID // 2
    return torch.from_numpy(np.stack([first, ~first], axis=1)).to(device)


def _looked(looks: Tensor, truth: Tensor, sink: Tensor, count: Tensor, even: bool = False) -> Tensor:
    """How far attention (n, q, L), as logs, is from equal shares for the cells meant (n, q, cells).

    `sink` is the share of the first token beside them: with it, n cells get n / (n + sink) of the attention, which is
    how a softmax can count. Divergence alone says little about cells while the first token takes most, so a cell that
    is far on the wrong side of it is pushed on its own, until it is near enough for the divergence to take over. Where
    cells are counted, `even` asks for equal odds and for the number that the odds add up to: both hardly show in the
    divergence, and both decide whether nine can be told from ten.
    """
    first, cells = looks[:, :, :1], looks[:, :, IMAGE_START:QUESTION_START]
    truth = truth.to(looks.dtype)
    wanted = torch.cat([sink.expand_as(first), truth], dim=2)
    wanted = wanted / wanted.sum(dim=2, keepdim=True)
    paid = torch.cat([first, cells], dim=2).clamp(min=-30)
    apart = (torch.xlogy(wanted, wanted) - wanted * paid).sum(dim=2)
    odds = cells - first + sink.log()  # 0 where a cell gets its share
    pushed = torch.where(truth > 0, F.relu(-odds - 0.5), 0.3 * F.relu(odds + FAR)).square()
    loss = 4 * apart + pushed.mean(dim=2)
    if even:
        odds = odds.clamp(-2, 2)
        total = (odds.exp() * (odds > -2)).sum(dim=2)
        apart = EVEN * (truth * odds.square()).sum(dim=2) + COUNTED * F.huber_loss(
            total, truth.sum(dim=2), reduction="none"
        )
        loss = loss + apart * (sink[:, :, 0] > 1)
    return (loss * count).sum() / count.sum().clamp(min=1)


def _turn(vectors: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Llama's rotary positions, for tokens picked from anywhere."""
    first, second = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat([-second, first], dim=-1) * sin


def _where(cells: Tensor) -> Tensor:
    """(n, 2) row and column, about 0, of the first cell meant."""
    cell = cells.to(torch.uint8).argmax(dim=1)
    return torch.stack([cell // build.GRID, cell % build.GRID], dim=1) / build.GRID - 0.5


def _pointed(scores: Tensor, truth: Tensor, count: Tensor) -> Tensor:
    """Binary cross-entropy over the cells of the pointers that count (n, q)."""
    loss = F.binary_cross_entropy_with_logits(scores, truth.to(scores.dtype), reduction="none")
    weight = count[:, :, None].to(scores.dtype)
    return (loss * weight).sum() / (weight.sum() * scores.shape[-1]).clamp(min=1)
