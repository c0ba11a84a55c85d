"""Masked inputs as tensors: pixels of the encoded image or of its encoded absence, tokens kept or replaced."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from karat.kernel.errors import BadInput
from karat.kernel.typing import Keep, Values
from karat.models.torch_model import Inputs, ReadsSpans, ReusesImage, TorchModel
from karat.probe.coalitions import FadedBlock, ModelGames, Setting, Shades, with_always_kept
from karat.probe.evaluator import Block
from karat.probe.hooks import evaluating
from karat.probe.inputs import frames_of, join, take

Features = Mapping[str, Tensor]  # what a model keeps of an image (`ReusesImage`), one row per image
ImageKey = tuple[int, bytes]  # what the visual players show, and which of them are kept
AnyBlock = TypeVar("AnyBlock", Block, FadedBlock)
# Below this share of new images in a batch, encoding each once and gathering is cheaper than running all rows whole.
_WORTH_REUSING = 0.75


@runtime_checkable
class HasMaskToken(Protocol):
    """A model whose tokenizer has a token for masked words."""

    @property
    def mask_token(self) -> int | None: ...


@dataclass(eq=False)
class MaskedInputs:
    """One setting, encoded: everything a coalition or a soft mask needs is a choice between these tensors."""

    model: TorchModel
    setting: Setting

    @cached_property
    def base(self) -> Inputs:
        inputs = self.model.encode([self.setting.sample])
        words = len(inputs.words[0]) if inputs.words else 0
        if inputs.tokens is not None and words != len(self.setting.sample.words):
            raise BadInput(f"{self.model.name!r} encoded {words} words of {self.setting.sample.text!r}.")
        return inputs

    @cached_property
    def absent_pixels(self) -> Tensor:
        absent = replace(self.setting.sample, image=self.setting.absence.image_of(self.setting.sample))
        return self.model.encode([absent]).pixels

    @cached_property
    def player_of_pixel(self) -> Tensor:
        """(h · w,); pixels of nobody have the number after the last player's."""
        height, width = self.base.pixels.shape[-2:]
        labels = self.setting.visual.labels_at(height, width, frames_of(self.base)[0])
        return torch.from_numpy(np.where(labels < 0, self.setting.visual.count, labels).ravel()).to(
            self.base.pixels.device
        )

    @cached_property
    def tokens_of_player(self) -> Tensor:
        """(text players, T), True where a token belongs to the player."""
        assert self.base.tokens is not None
        owned = torch.zeros(self.setting.text.count, self.base.tokens.shape[1], dtype=torch.bool)
        for player, members in enumerate(self.setting.text.groups):
            for member in members:
                start, stop = (member, member + 1) if self.setting.text.unit == "tokens" else self.base.words[0][member]
                owned[player, start:stop] = True
        return owned

    def pixels(self, visual_keep: Keep) -> Tensor:
        """(m, 3, h, w) of coalitions (m, n_visual)."""
        if visual_keep.all():
            return self.base.pixels.expand(len(visual_keep), -1, -1, -1)
        if self.base.frames is None:  # a transform of the user's: only it knows what a pixel becomes
            full_text = np.ones((len(visual_keep), self.setting.text.count), dtype=np.bool_)
            return self.model.encode(self.setting.altered(visual_keep, full_text)).pixels
        full, empty = self.base.pixels, self.absent_pixels
        height, width = full.shape[-2:]
        rows, columns = self.setting.visual.grid or (height + 1, width + 1)
        if height % rows == 0 and width % columns == 0:  # whole patches: broadcast the mask, never write it out
            patched = (1, -1, rows, height // rows, columns, width // columns)
            kept = torch.from_numpy(visual_keep.reshape(-1, 1, rows, 1, columns, 1)).to(full.device)
            mixed = torch.where(kept, full.reshape(patched), empty.reshape(patched))
            return mixed.reshape(len(visual_keep), -1, height, width)
        kept = torch.from_numpy(with_always_kept(visual_keep)).to(full.device, full.dtype)
        # exactly `full` at 1 and `empty` at 0, and several times as fast as `where` with a mask of bools
        return torch.lerp(empty, full, kept.index_select(1, self.player_of_pixel).view(-1, 1, height, width))

    def faded_pixels(self, shades: Shades) -> Tensor:
        """(m, 3, h, w) of soft masks (m, h, w)."""
        if self.base.frames is None:
            return self.model.encode(self.setting.faded(shades)).pixels
        full = self.base.pixels
        return torch.lerp(self.absent_pixels, full, torch.from_numpy(shades).to(full.device, full.dtype)[:, None])

    def texts(self, text_keep: Keep) -> Inputs:
        """m rows with the texts of the coalitions; their pixels are the full image, not copied."""
        base, absence = self.base, self.setting.absence.text
        if absence == "auto":
            absence = "delete" if self.model.neutral_token is None else "pad"
        if base.tokens is None or text_keep.all():
            return _repeated(base, len(text_keep))
        if absence in ("delete", "given"):
            distinct, inverse = distinct_rows(text_keep)
            samples = [
                replace(self.setting.sample, text=self.setting.text_without(row), phrases=()) for row in distinct
            ]
            return replace(take(self.model.encode(samples), torch.from_numpy(inverse)), words=())
        drop = torch.from_numpy(~text_keep).float() @ self.tokens_of_player.float() > 0
        tokens = base.tokens.masked_fill(drop.to(base.tokens.device), _absent_token(self.model, absence))
        return replace(_repeated(base, len(text_keep)), tokens=tokens)


@dataclass
class ImageMemory:
    """Features of images that later batches may need again, the least recently used dropped first."""

    limit_bytes: int = 256 * 2**20
    features: OrderedDict[ImageKey, Features] = field(default_factory=OrderedDict)
    used_bytes: int = 0

    def get(self, key: ImageKey) -> Features | None:
        if key in self.features:
            self.features.move_to_end(key)
        return self.features.get(key)

    def put(self, key: ImageKey, features: Features) -> None:
        # A slice would keep its whole batch alive, so what is kept is copied.
        self.features[key] = {name: tensor.clone() for name, tensor in features.items()}
        self.used_bytes += _bytes(features)
        while self.used_bytes > self.limit_bytes:
            _, dropped = self.features.popitem(last=False)
            self.used_bytes -= _bytes(dropped)


def coalition_values(games: ModelGames, model: TorchModel, blocks: Sequence[Block]) -> Values:
    """Values of all coalitions, in order."""
    return _values(games, model, blocks, lambda some: _coalitions(games, model, some))


def faded_values(games: ModelGames, model: TorchModel, blocks: Sequence[FadedBlock]) -> Values:
    """Values of all soft masks, in order; texts are whole."""
    return _values(games, model, blocks, lambda some: _faded(games, model, some))


def _values(
    games: ModelGames, model: TorchModel, blocks: Sequence[AnyBlock], inputs_of: Callable[[list[AnyBlock]], Inputs]
) -> Values:
    """Values of all rows, in order. Blocks that ask for logits cost a forward of their own beside the others."""
    if isinstance(model, ReadsSpans) and games.spans.shares(blocks):
        return games.spans.values(games, model, blocks, inputs_of, _as_kind)
    values: list[Values] = [np.empty(0)] * len(blocks)
    for logits in (False, True):
        chosen = [k for k, block in enumerate(blocks) if (games.settings[block.game].kind == "logit") == logits]
        if not chosen:
            continue
        targets = [games.settings[blocks[k].game].target for k in chosen for _ in range(blocks[k].rows)]
        with torch.no_grad(), evaluating(model.module):
            inputs = inputs_of([blocks[k] for k in chosen])
            scores = model.readout(inputs, targets) if logits else model.log_probability(inputs, targets)
        flat = scores.double().cpu().numpy()
        for k in chosen:
            part, flat = np.split(flat, [blocks[k].rows])
            values[k] = _as_kind(part, games.settings[blocks[k].game].kind)
    return np.concatenate(values)


def _as_kind(scores: Values, kind: str) -> Values:
    if kind == "probability":
        return np.exp(scores)
    if kind == "log_odds":
        return scores - np.log(np.maximum(-np.expm1(scores), np.finfo(np.float64).eps / 2))
    return scores


def _coalitions(games: ModelGames, model: TorchModel, blocks: Sequence[Block]) -> Inputs:
    """One batch of all coalitions of the blocks."""
    masked = [games.masked_inputs(model, block.game) for block in blocks]
    texts = [part.texts(block.text_keep) for part, block in zip(masked, blocks, strict=True)]
    pad = model.neutral_token or 0
    if games.reuses is not None and (reused := _reused_features(games, games.reuses, masked, blocks)) is not None:
        features, image_of_row = reused
        joined = join(texts, pad, pixels=False)  # copying images that nobody reads would cost more than the forward
        return replace(joined, reuse={name: tensor[image_of_row] for name, tensor in features.items()})
    parts = [
        replace(text, pixels=part.pixels(block.visual_keep))
        for part, text, block in zip(masked, texts, blocks, strict=True)
    ]
    games.images.made += sum(block.rows for block in blocks)
    return join(parts, pad)


def _faded(games: ModelGames, model: TorchModel, blocks: Sequence[FadedBlock]) -> Inputs:
    """One batch of all soft masks of the blocks."""
    parts = []
    for block in blocks:
        masked = games.masked_inputs(model, block.game)
        whole = masked.texts(np.ones((block.rows, masked.setting.text.count), dtype=np.bool_))
        parts.append(replace(whole, pixels=masked.faded_pixels(block.shades)))
    return join(parts, model.neutral_token or 0)


def _reused_features(
    games: ModelGames, model: ReusesImage, masked: Sequence[MaskedInputs], blocks: Sequence[Block]
) -> tuple[Features, Tensor] | None:
    """Features of each distinct image, computed once or remembered, and which of them every row has; None if computing
    them apart is not worth it."""
    order: dict[ImageKey, int] = {}
    image_of_row: list[int] = []
    fresh: list[tuple[int, int]] = []  # (block, row) of images without features
    for b, block in enumerate(blocks):
        picture = games.picture(block.game)
        for r, bits in enumerate(np.packbits(block.visual_keep, axis=1)):
            key = (picture, bits.tobytes())
            if key not in order:
                order[key] = len(order)
                if games.image_memory.get(key) is None:
                    fresh.append((b, r))
            image_of_row.append(order[key])
    if len(fresh) > _WORTH_REUSING * len(image_of_row):
        return None
    known: dict[ImageKey, Features] = {
        key: features for key in order if (features := games.image_memory.get(key)) is not None
    }
    if fresh:
        images = [_repeated(masked[b].base, 1, masked[b].pixels(blocks[b].visual_keep[r : r + 1])) for b, r in fresh]
        computed = model.reuse_image(join(images)).reuse
        for place, (b, r) in enumerate(fresh):
            key = (games.picture(blocks[b].game), np.packbits(blocks[b].visual_keep[r]).tobytes())
            known[key] = {name: tensor[place : place + 1] for name, tensor in computed.items()}
            games.image_memory.put(key, known[key])
    games.images.made += len(fresh)
    games.images.saved += len(image_of_row) - len(fresh)
    names = next(iter(known.values()))
    return {name: torch.cat([known[key][name] for key in order]) for name in names}, torch.tensor(image_of_row)


def distinct_rows(keep: Keep) -> tuple[Keep, npt.NDArray[np.int64]]:
    """The distinct rows, in order of appearance, and for every row which of them it is."""
    numbers: dict[bytes, int] = {}
    inverse = np.array(
        [numbers.setdefault(bits.tobytes(), len(numbers)) for bits in np.packbits(keep, axis=1)], dtype=np.int64
    )
    firsts = np.unique(inverse, return_index=True)[1]
    return keep[firsts], inverse


def _repeated(inputs: Inputs, rows: int, pixels: Tensor | None = None) -> Inputs:
    """One row `rows` times, without copying."""

    def wide(tensor: Tensor) -> Tensor:
        return tensor.expand(rows, *tensor.shape[1:])

    return replace(
        inputs,
        pixels=wide(inputs.pixels) if pixels is None else pixels,
        tokens=None if inputs.tokens is None else wide(inputs.tokens),
        token_keep=None if inputs.token_keep is None else wide(inputs.token_keep),
        words=(),
        other={name: wide(tensor) for name, tensor in inputs.other.items()},
        frames=(),
    )


def _absent_token(model: TorchModel, absence: str) -> int:
    if absence == "mask":
        token = model.mask_token if isinstance(model, HasMaskToken) else None
    else:
        token = model.neutral_token
    if token is None:
        raise BadInput(f"{model.name!r} has no {absence} token; use text absence 'delete'.")
    return int(token)


def _bytes(features: Features) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in features.values())
