"""`vlm`: an image-text-to-text model of transformers as a model of Karat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.registry import load_object
from karat.models.families import FAMILIES, Family, MergedPatches, Tiles
from karat.models.hub import load, weights_revision
from karat.models.vlm_adapter import CAPABILITIES, VLM


def vlm(
    source: str | Path | Any,
    processor: Any = None,
    name: str | None = None,
    mechanism: str | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    revision: str | None = None,
    max_new_tokens: int = 8,
    max_pixels: int | None = None,
    max_tiles: int | None = None,
    suffix: str = "",
    extract: str | None = None,
    options: Sequence[str] = (),
    quantised: str | None = None,
    family: Family | str | None = None,
) -> VLM:
    """A vision-language model from a directory, a hub id, or a (module, processor) pair that you have loaded.

    Only safetensors are loaded, and no code of the repository is run. The probability of an answer is the product of
    the probabilities of its tokens; `answer` decodes greedily, or gives the most probable of `options`.

    - `max_pixels` bounds what a model of dynamic resolution sees (Qwen), `max_tiles` the tiles of InternVL; fsyn2026
      has 313600 and 2. By default what the processor says.
    - `suffix` is an instruction that follows every question and is no part of it; `extract` a pattern that finds the
      target in the answer, e.g. r"\\(?([A-D])\\)?".
    - `device` "auto" spreads the layers over what there is; `quantised` is "8bit" or "4bit".
    - `family` is for architectures that are not known here: a `Family`, or "package.module:NAME" of one.
    """
    if isinstance(source, str | Path):
        name = name or Path(source).name
        module, processor = load(
            "vision-language model", "AutoModelForImageTextToText", str(source), dtype, device, revision, quantised
        )
    else:
        module = source.eval()
    if processor is None:
        raise BadInput("vlm(module, processor): a loaded module needs its processor (tokenizer, images, template).")
    chosen = _family(module, family)
    _limit(processor, chosen, max_pixels, max_tiles)
    return VLM(
        module,
        processor,
        chosen,
        name or type(module).__name__,
        mechanism,
        max_new_tokens,
        suffix,
        extract,
        tuple(options),
    )


def _family(module: Any, family: Family | str | None) -> Family:
    if isinstance(family, str):
        family = load_object(family)
    kind = module.config.model_type
    tower = getattr(getattr(module.config, "vision_config", None), "model_type", "")
    chosen = family or FAMILIES.get(f"{kind}/{tower}") or FAMILIES.get(kind)
    if not isinstance(chosen, Family):
        parts = [name for name, _ in module.named_modules() if 0 < name.count(".") < 3][:6]
        raise BadInput(
            f"vlm knows {', '.join(FAMILIES)}; {type(module).__name__} is of type {kind!r}, with the parts "
            f"{', '.join(parts)}. Say where its parts are with family=karat.models.families.Family(...)."
        )
    names = (chosen.vision, chosen.vision_layers, chosen.decoder, chosen.decoder_layers, chosen.words, chosen.head)
    known = {name for name, _ in module.named_modules()}
    if absent := [name for name in names if name not in known]:
        near = [name for name in known if name.endswith(absent[0].rsplit(".", 1)[-1])][:5]
        raise BadInput(
            f"{type(module).__name__} ({kind}) has no part {absent[0]!r}; parts of that name: "
            f"{', '.join(sorted(near)) or 'none'}. Override it with family=dataclasses.replace(FAMILIES[...], ...)."
        )
    return chosen


def _limit(processor: Any, family: Family, max_pixels: int | None, max_tiles: int | None) -> None:
    """The processor is told, so that it stays the one place that knows."""
    if max_pixels is not None:
        if not isinstance(family.sight, MergedPatches):
            raise BadInput("max_pixels is for models of dynamic resolution (Qwen); this one has a size of its own.")
        size = dict(processor.image_processor.size)
        processor.image_processor.size = {
            "shortest_edge": min(size["shortest_edge"], max_pixels),
            "longest_edge": max_pixels,
        }
    if max_tiles is not None:
        if not isinstance(family.sight, Tiles) or max_tiles < 1:
            raise BadInput(f"max_tiles is 1 or more, for models that cut tiles (InternVL); got {max_tiles}.")
        processor.image_processor.max_patches = max_tiles


@dataclass(frozen=True)
class VLMRecipe:
    """`path` is a directory or a hub id; for a hub id, `hub_revision` pins the commit. The rest as for `vlm`.

    `family` is "package.module:NAME" of a `Family`, for architectures that are not known here.
    """

    card: ClassVar[Card] = Card(
        name="vlm",
        summary="a vision-language model of transformers, from a directory or the hub",
        kind="model",
        extra="vlm",
    )
    path: str = ""
    hub_revision: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    max_new_tokens: int = 8
    max_pixels: int | None = None
    max_tiles: int | None = None
    suffix: str = ""
    extract: str | None = None
    options: tuple[str, ...] = ()
    quantised: str | None = None
    family: str | None = None

    @property
    def label(self) -> str:
        return Path(self.path).name or "vlm"

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    @property
    def revision(self) -> str:
        return weights_revision(self.path, self.hub_revision, self.dtype)

    def load(self) -> VLM:
        if not self.path:
            raise BadInput("vlm: give `path`, a directory or a hub id.")
        return vlm(
            self.path,
            name=self.label,
            dtype=self.dtype,
            device=self.device,
            revision=self.hub_revision,
            max_new_tokens=self.max_new_tokens,
            max_pixels=self.max_pixels,
            max_tiles=self.max_tiles,
            suffix=self.suffix,
            extract=self.extract,
            options=self.options,
            quantised=self.quantised,
            family=self.family,
        )
