"""Coalitions on tensors: pixels are those of the encoded image or of its encoded absence, tokens kept or replaced."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike
from karat.kernel.typing import Keep, Values
from karat.models.torch_model import Inputs, ReusesImage, TorchModel
from karat.probe.batches import frames_of, join, take
from karat.probe.coalitions import ModelGames, Setting, with_always_kept
from karat.probe.evaluator import Block
from karat.probe.hooks import evaluating

Reuse = Mapping[str, Tensor]
ImageKey = tuple[int, bytes]
# Below this share of new images in a batch, looking at each once and gathering is cheaper than running all rows whole.
_WORTH_REUSING = 0.75


@dataclass(eq=False)
class Mixed:
    """One setting, encoded: everything a coalition needs is a `where` over these tensors."""

    model: TorchModel
    setting: Setting

    @cached_property
    def base(self) -> Inputs:
        inputs = self.model.encode([self.setting.sample])
        spoken = len(inputs.words[0]) if inputs.words else 0
        if inputs.tokens is not None and spoken != len(self.setting.sample.words):
            raise BadInput(f"{self.model.name!r} encoded {spoken} words of {self.setting.sample.text!r}.")
        return inputs

    @cached_property
    def absent_pixels(self) -> Tensor:
        absent = replace(self.setting.sample, image=self.setting.absence.image_of(self.setting.sample))
        return self.model.encode([absent]).pixels

    @cached_property
    def columns(self) -> Tensor:
        """(h · w,) the player of each pixel; pixels of nobody have the number after the last player's."""
        height, width = self.base.pixels.shape[-2:]
        labels = self.setting.visual.labels_at(height, width, frames_of(self.base)[0])
        return torch.from_numpy(np.where(labels < 0, self.setting.visual.count, labels).ravel()).to(
            self.base.pixels.device
        )

    @cached_property
    def tokens_of(self) -> Tensor:
        """(text players, T), True where a token belongs to the player."""
        assert self.base.tokens is not None
        owned = torch.zeros(self.setting.text.count, self.base.tokens.shape[1], dtype=torch.bool)
        for player, members in enumerate(self.setting.text.groups):
            for member in members:
                start, stop = (member, member + 1) if self.setting.text.unit == "tokens" else self.base.words[0][member]
                owned[player, start:stop] = True
        return owned

    def pixels(self, visual_keep: Keep) -> Tensor:
        """(m, 3, h, w)."""
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
        return torch.lerp(empty, full, kept.index_select(1, self.columns).view(-1, 1, height, width))

    def texts(self, text_keep: Keep) -> Inputs:
        """m rows with the texts of the coalitions; their pixels are the full image, not copied."""
        base, absence = self.base, self.setting.absence.text
        if absence == "auto":
            absence = "delete" if self.model.neutral_token is None else "pad"
        if base.tokens is None or text_keep.all():
            return _spread(base, len(text_keep))
        if absence in ("delete", "given"):
            distinct, inverse = distinct_rows(text_keep)
            samples = [
                replace(self.setting.sample, text=self.setting.text_without(row), phrases=()) for row in distinct
            ]
            return replace(take(self.model.encode(samples), torch.from_numpy(inverse)), words=())
        drop = torch.from_numpy(~text_keep).float() @ self.tokens_of.float() > 0
        tokens = base.tokens.masked_fill(drop.to(base.tokens.device), _absent_token(self.model, absence))
        return replace(_spread(base, len(text_keep)), tokens=tokens)


@dataclass
class Album:
    """Looked-at images that later batches may need again, the least recently used dropped first."""

    limit_bytes: int = 256 * 2**20
    pictures: OrderedDict[ImageKey, Reuse] = field(default_factory=OrderedDict)
    used: int = 0

    def get(self, key: ImageKey) -> Reuse | None:
        if key in self.pictures:
            self.pictures.move_to_end(key)
        return self.pictures.get(key)

    def put(self, key: ImageKey, reuse: Reuse) -> None:
        # A slice would keep its whole batch alive, so what is kept is copied.
        self.pictures[key] = {name: tensor.clone() for name, tensor in reuse.items()}
        self.used += _bytes(reuse)
        while self.used > self.limit_bytes:
            _, dropped = self.pictures.popitem(last=False)
            self.used -= _bytes(dropped)


def answer(games: ModelGames, model: TorchModel, blocks: Sequence[Block]) -> Values:
    """Values of all rows, in order. Blocks that ask for logits cost a forward of their own beside the others."""
    values: list[Values] = [np.empty(0)] * len(blocks)
    for logits in (False, True):
        chosen = [k for k, block in enumerate(blocks) if (games.settings[block.game].kind == "logit") == logits]
        if not chosen:
            continue
        with torch.no_grad(), evaluating(model.module):
            inputs, targets = _assembled(games, model, [blocks[k] for k in chosen])
            scores = model.readout(inputs, targets) if logits else model.log_probability(inputs, targets)
        flat = scores.double().cpu().numpy()
        for k in chosen:
            part, flat = np.split(flat, [len(blocks[k].visual_keep)])
            values[k] = _as_kind(part, games.settings[blocks[k].game].kind)
    return np.concatenate(values)


def _as_kind(scores: Values, kind: str) -> Values:
    if kind == "probability":
        return np.exp(scores)
    if kind == "log_odds":
        return scores - np.log(np.maximum(-np.expm1(scores), np.finfo(np.float64).eps / 2))
    return scores


def _assembled(games: ModelGames, model: TorchModel, blocks: Sequence[Block]) -> tuple[Inputs, list[TargetLike]]:
    """One batch of all rows of the blocks, with the answers they are scored on."""
    mixed = [games.mixed(model, block.game) for block in blocks]
    texts = [part.texts(block.text_keep) for part, block in zip(mixed, blocks, strict=True)]
    targets = [games.settings[block.game].target for block in blocks for _ in range(len(block.visual_keep))]
    pad = model.neutral_token or 0
    if games.reuses is not None and (looked := _looked(games, games.reuses, mixed, blocks)) is not None:
        rows, inverse = looked
        joined = join(texts, pad, pixels=False)  # copying images that nobody reads would cost more than the forward
        return replace(joined, reuse={name: tensor[inverse] for name, tensor in rows.items()}), targets
    shown = [
        replace(text, pixels=part.pixels(block.visual_keep))
        for part, text, block in zip(mixed, texts, blocks, strict=True)
    ]
    games.looks.made += len(targets)
    return join(shown, pad), targets


def _looked(
    games: ModelGames, model: ReusesImage, mixed: Sequence[Mixed], blocks: Sequence[Block]
) -> tuple[Reuse, Tensor] | None:
    """Each distinct image looked at once (or remembered), and which of them every row shows; None if not worth it."""
    order: dict[ImageKey, int] = {}
    rows: list[int] = []
    fresh: list[tuple[int, int]] = []  # (block, row) of images never looked at
    for b, block in enumerate(blocks):
        picture = games.picture(block.game)
        for r, bits in enumerate(np.packbits(block.visual_keep, axis=1)):
            key = (picture, bits.tobytes())
            if key not in order:
                order[key] = len(order)
                if games.album.get(key) is None:
                    fresh.append((b, r))
            rows.append(order[key])
    if len(fresh) > _WORTH_REUSING * len(rows):
        return None
    found: dict[ImageKey, Reuse] = {key: held for key in order if (held := games.album.get(key)) is not None}
    if fresh:
        shown = [_spread(mixed[b].base, 1, mixed[b].pixels(blocks[b].visual_keep[r : r + 1])) for b, r in fresh]
        seen = model.reuse_image(join(shown)).reuse
        for place, (b, r) in enumerate(fresh):
            key = (games.picture(blocks[b].game), np.packbits(blocks[b].visual_keep[r]).tobytes())
            found[key] = {name: tensor[place : place + 1] for name, tensor in seen.items()}
            games.album.put(key, found[key])
    games.looks.made += len(fresh)
    games.looks.saved += len(rows) - len(fresh)
    names = next(iter(found.values()))
    return {name: torch.cat([found[key][name] for key in order]) for name in names}, torch.tensor(rows)


def distinct_rows(keep: Keep) -> tuple[Keep, npt.NDArray[np.int64]]:
    """The distinct rows, in order of appearance, and for every row which of them it is."""
    seen: dict[bytes, int] = {}
    inverse = np.array(
        [seen.setdefault(bits.tobytes(), len(seen)) for bits in np.packbits(keep, axis=1)], dtype=np.int64
    )
    firsts = np.unique(inverse, return_index=True)[1]
    return keep[firsts], inverse


def _spread(inputs: Inputs, rows: int, pixels: Tensor | None = None) -> Inputs:
    """One row shown `rows` times without copying."""

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
    token = getattr(model, "mask_token", None) if absence == "mask" else model.neutral_token
    if token is None:
        raise BadInput(
            f"{model.name!r} has no {'mask' if absence == 'mask' else 'pad'} token; use text absence 'delete'."
        )
    return int(token)


def _bytes(reuse: Reuse) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in reuse.values())
