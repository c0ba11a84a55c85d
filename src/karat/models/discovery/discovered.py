"""`Discovered`: what was found out about a model, as data: kept in a file, printed in words, given as `family`."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from karat.kernel.errors import BadInput
from karat.models.families.family import Size, View

Level = Literal["asks", "differentiates", "opens"]
LensKind = Literal["pixels", "linear", "exact"]  # see `karat.models.discovery.lens`
# "masked": the attention mask tells all; "counted": positions must be told too; "apart": rows of one length at a time;
# "alone": one row at a time, since the images of a batch see each other.
Padding = Literal["masked", "counted", "apart", "alone"]
# "no": nothing; "tables": keys and values, and tables by token go on; "keys": keys and values, tables are left out.
Reuse = Literal["no", "tables", "keys"]
# "together": one forward for all tokens; "singly": one each, since tokens said later would be seen; "decoder": by a
# decoder of its own (encoder-decoder models).
Saying = Literal["together", "singly", "decoder"]
LEVELS: tuple[Level, ...] = ("asks", "differentiates", "opens")
_CAPABILITIES: Mapping[Level, frozenset[str]] = {
    "asks": frozenset({"scores", "autoregressive", "text"}),
    "differentiates": frozenset({"scores", "autoregressive", "text", "gradients"}),
    "opens": frozenset({"scores", "autoregressive", "text", "gradients", "attention", "activations"}),
}


@dataclass(frozen=True)
class Parts:
    """Dotted names; "" where there is no such part. `norms[k]` stands between attention and MLP of decoder layer k,
    `attention_layers` are those over the sequence that the decoder runs over, `without_attention` the decoder layers
    that have none, `cross_attention` those that look at the image from there."""

    decoder: str
    decoder_layers: str
    norms: tuple[str, ...]
    attention_layers: tuple[str, ...]
    without_attention: tuple[str, ...]
    cross_attention: tuple[str, ...]
    words: str
    head: str
    vision: str
    vision_layers: str


@dataclass(frozen=True)
class Sighting:
    """What was measured for pixels of one size: the image tokens over the image, and the patches of the tower, if its
    layers hold them."""

    tokens: View | None
    patches: View | None = None


@dataclass(frozen=True)
class Discovered:
    """A family found by looking and probing.

    Attributes:
        model_type: Of its configuration.
        level: "asks", "differentiates" or "opens"; `reasons` say why not more.
        parts: Dotted names inside the module.
        lens: How pixels become what the model takes for images; `moving` names these tensors, `along`
            the axes along which several images' are joined, where that is not the first, and `counting` those whose
            numbers go on from image to image.
        padding, reuse, saying: How questions of several lengths, an image that stays, and answers are run.
        image_first: Whether all visual tokens stand before the question.
        shift: Positions that the model puts before those of the prompt.
        sightings: By the size of pixels ("56×84"). Sizes that are not there are measured when first met.
        same_grid: Whether every size that was tried has the same grid.
        passes: Batched passes of the tower that finding out took.
        reasons: What could not be had, and what was seen.
    """

    model_type: str
    level: Level
    parts: Parts
    lens: LensKind
    moving: tuple[str, ...]
    along: tuple[tuple[str, int], ...]
    padding: Padding
    reuse: Reuse
    saying: Saying
    start: int | None
    axes: int
    image_first: bool
    shift: int
    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    same_grid: bool = False
    passes: int = 0
    reasons: tuple[str, ...] = ()
    counting: tuple[str, ...] = field(default=(), repr=False)

    @property
    def capabilities(self) -> frozenset[str]:
        return _CAPABILITIES[self.level]

    def in_words(self) -> str:
        """What was found, a sentence a line."""
        parts, lines = self.parts, [f"{self.model_type}: {self.level}"]
        if self.level == "opens":
            grids = ", ".join(
                f"{key} pixels → {view.tokens.grid[0]} × {view.tokens.grid[1]} of {view.tokens.count} tokens"
                for key, view in self.sightings.items()
                if view.tokens is not None
            )
            lines.append(f"visual tokens: {grids}")
        if parts.decoder_layers:
            attending = f"attention in {len(parts.attention_layers)} of {len(parts.norms)} layers"
            lines.append(f"decoder: {parts.decoder_layers}, {attending}")
        if parts.vision_layers:
            lines.append(f"vision tower: {parts.vision_layers}")
        how = {"pixels": "as one picture", "linear": "cut up by its processor", "exact": "processed anew each time"}
        lines.append(f"image: {how[self.lens]} ({', '.join(self.moving)})")
        where = "before the question" if self.image_first else "not wholly before the question"
        kept = "its keys and values are reused" if self.reuse != "no" else "nothing of it is reused"
        lines.append(f"prompt: the image stands {where}; {kept}")
        return "\n".join([*lines, *(f"not: {reason}" for reason in self.reasons)])

    def save(self, path: str | Path) -> None:
        """A whole file or none: another process may be reading it."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=Path(path).parent, delete=False) as file:
            file.write(self.text())
        os.replace(file.name, path)

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def load(path: str | Path) -> Discovered:
        try:
            held = json.loads(Path(path).read_text(encoding="utf-8"))
            names: dict[str, Any] = held.pop("parts")
            told: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in names.items()}
            parts = Parts(**told)
            sightings = {
                key: Sighting(_view(each["tokens"]), _view(each["patches"]))
                for key, each in held.pop("sightings").items()
            }
            lists: dict[str, Any] = {name: tuple(held.pop(name)) for name in ("moving", "reasons")}
            along = tuple((str(name), int(axis)) for name, axis in held.pop("along"))
            counting = tuple(held.pop("counting", ()))
            return Discovered(parts=parts, sightings=sightings, along=along, counting=counting, **lists, **held)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{path} is not a discovered family: {type(error).__name__}: {error}") from None


def key_of(size: Size) -> str:
    return f"{size[0]}×{size[1]}"


def _view(held: dict[str, Any] | None) -> View | None:
    if held is None:
        return None
    rows, columns = held["grid"]
    return View((int(rows), int(columns)), tuple(held["order"]), int(held["count"]))
