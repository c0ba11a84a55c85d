"""`vlm`: an image-text-to-text model of transformers as a model of Karat; its parameters and its recipe."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge, Gt

from karat.kernel.card import Card
from karat.kernel.constraints import AsItIs
from karat.kernel.errors import BadInput
from karat.kernel.registry import load_object
from karat.kernel.typing import Scalar
from karat.models.discovery import LEVELS, Discovered
from karat.models.families import FAMILIES, Family, MergedPatches, Tiles
from karat.models.hub import (
    DType,
    Quantisation,
    adapted,
    configuration,
    load,
    local_folder,
    shares_weights,
    weights_bytes,
    weights_revision,
)
from karat.models.keywords import takes
from karat.models.vlm_adapter import CAPABILITIES, VLM
from karat.models.vlm_whole import HEADS, Head, WholeAnswerVLM

if TYPE_CHECKING:
    from karat.models.discovery.model import DiscoveredVLM

    AnyVLM = VLM | DiscoveredVLM | WholeAnswerVLM
DISCOVERED = "discovered"  # as `family`: find out
_FOUND_OUT = "family:2"  # how: what was found out in an older way is not remembered


@dataclass(frozen=True, kw_only=True)
class VLMParameters:
    """How a vision-language model is loaded, asked and answers: keywords of `vlm`, fields of a model in a spec.

    Attributes:
        hub_revision: The commit or tag of a hub id.
        dtype: Of its weights and of what is computed with them.
        device: "cpu", "cuda", "cuda:1", "mps"; "auto" spreads the layers over the GPUs there are.
        gpus: Over how many GPUs "auto" spreads one worker of a run; with "cuda" the share of one that a worker takes.
        quantised: Weights of "8bit" or "4bit", by bitsandbytes.
        family: How it is built: a `Family`, "package.module:NAME" of one, a file that `karat check --model` wrote, or
            "discovered" to find out even where the architecture is known. By default what is known here of the
            architecture; of any other it is found out, and remembered.
        adapter: A directory of a PEFT adapter (`adapter_config.json`, safetensors), merged into the weights.
        max_pixels: Bounds what a model of dynamic resolution sees (Qwen; fsyn2026 has 313600). By default what its
            processor says.
        max_tiles: Bounds the tiles of InternVL (fsyn2026 has 2). By default what its processor says.
        suffix: An instruction that follows every question and is no part of it.
        max_new_tokens: At most so many tokens are decoded for an answer.
        options: If given, the answer is the most probable of these, instead of what is decoded greedily.
    """

    hub_revision: str | None = None
    dtype: DType = "float32"
    device: str = "cpu"
    gpus: Annotated[float, Gt(0)] | None = field(default=None, metadata={"identity": False})
    quantised: Quantisation | None = None
    family: str | Annotated[Family, AsItIs()] | Annotated[Discovered, AsItIs()] | None = None
    adapter: str | None = None
    max_pixels: Annotated[int, Ge(1)] | None = None
    max_tiles: Annotated[int, Ge(1)] | None = None
    suffix: str = ""
    max_new_tokens: Annotated[int, Ge(1)] = 8
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class VLMRecipe(VLMParameters):
    """A vision-language model by name. `path` is a directory or a hub id."""

    card: ClassVar[Card] = Card(
        name="vlm",
        summary="a vision-language model of transformers, from a directory or the hub",
        kind="model",
        version=2,  # a choice is explained in the context of what was said before it
        extra="vlm",
    )
    path: str = ""

    @property
    def label(self) -> str:
        return Path(self.path).name or "vlm"

    @property
    def facts(self) -> dict[str, Scalar]:
        return {"family": "vlm", "path": self.path, "dtype": self.dtype, "quantised": self.quantised}

    @property
    def capabilities(self) -> frozenset[str]:
        """Those of its family, where that was found out before; of an unknown one, all: they are checked once more when
        it is loaded."""
        if self._head is not None:
            return self._head.capabilities
        family = self._found_out()
        return CAPABILITIES if family is None else family.capabilities

    @property
    def level(self) -> str | None:
        family = self._found_out()
        if family is not None:
            return family.level
        if self._head is not None:
            return LEVELS[1]
        known = self.family != DISCOVERED if self.family is not None else _model_type(self.path) in FAMILIES
        return LEVELS[-1] if known else None  # families written by hand open

    def discovered(self) -> str | None:
        family = self._found_out()
        return None if family is None else family.text()

    def _found_out(self) -> Discovered | None:
        """What was discovered of it, where it was and counts."""
        if isinstance(self.family, Discovered):
            return self.family
        if isinstance(self.family, str) and self.family.endswith(".json"):
            return Discovered.load(self.family)
        if self.family == DISCOVERED or (self.family is None and _model_type(self.path) not in FAMILIES):
            return recalled(self.path, self.hub_revision)
        return None

    @property
    def _head(self) -> Head | None:
        return HEADS.get(_architecture(self.path, self.hub_revision)) if self.path else None

    @property
    def revision(self) -> str:
        given = self._found_out() if isinstance(self.family, str) and self.family.endswith(".json") else self.family
        described = repr(given) if isinstance(given, Family | Discovered) else ""
        tuned = "" if self.adapter is None else weights_revision(self.adapter, None, "adapter")
        return weights_revision(self.path, self.hub_revision, self.dtype + described + tuned)

    def weights_bytes(self) -> int | None:
        return weights_bytes(self.path, self.hub_revision, self.dtype, self.quantised)

    def shares_weights(self) -> bool:
        return self.adapter is None and shares_weights(
            self.path, self.hub_revision, self.dtype, self.device, self.quantised
        )

    def configuration(self) -> dict[str, Any] | None:
        held = configuration(self.path, self.hub_revision) if self.path else None
        if held is None:
            return None
        return {**held, "max_pixels": self.max_pixels or held["max_pixels"], "max_tiles": self.max_tiles}

    def load(self) -> AnyVLM:
        if not self.path:
            raise BadInput("vlm: give `path`, a directory or a hub id.")
        return _loaded(self.path, self.label, None, self)


@takes(VLMParameters)
def vlm(
    source: str | Path | Any, processor: Any, name: str | None, mechanism: str | None, parameters: VLMParameters
) -> AnyVLM:
    """A vision-language model from a directory, a hub id, or a (module, processor) pair that you have loaded.

    Only safetensors are loaded, and no code of the repository is run.

        model = vlm("llava-hf/llava-1.5-7b-hf", dtype="bfloat16", device="cuda")
        model.answer(samples)

    Args:
        source: A directory, a hub id, or a loaded module; a module is put into evaluation mode.
        processor: What goes with a loaded module: tokenizer, images and chat template.
        name: How tables call it; by default the last part of the path.
        mechanism: How it reasons, where that is known.
        parameters: The fields of `VLMParameters`, each as a keyword of its own.

    Returns:
        A model that answers token by token and can be looked into.
    """
    if isinstance(source, str | Path):
        return _loaded(str(source), name or Path(source).name, mechanism, parameters)
    if processor is None:
        raise BadInput("vlm(module, processor): a loaded module needs its processor (tokenizer, images, template).")
    return _wrapped(source.eval(), processor, name or type(source).__name__, mechanism, parameters)


def _loaded(path: str, name: str, mechanism: str | None, given: VLMParameters) -> AnyVLM:
    architecture = _architecture(path, given.hub_revision, download=True)
    module, processor = load(
        "vision-language model", architecture if architecture in HEADS else "AutoModelForImageTextToText", path,
        given.dtype, given.device, given.hub_revision, given.quantised,
    )  # fmt: skip
    if given.adapter is not None:
        module = adapted(module, given.adapter, given.quantised)
    return _wrapped(module, processor, name, mechanism, given, path)


def _wrapped(
    module: Any, processor: Any, name: str, mechanism: str | None, given: VLMParameters, path: str | None = None
) -> AnyVLM:
    from karat.models.discovery.discover import discover
    from karat.models.discovery.model import DiscoveredVLM, OneForwardVLM

    if type(module).__name__ in HEADS:
        if given.family is not None:
            raise BadInput(f"{type(module).__name__} scores its answers at once: it has no family; leave it out.")
        return WholeAnswerVLM(module, processor, name, mechanism, given)
    family = _known(module, given.family)
    if family is None:
        family = None if path is None else recalled(path, given.hub_revision)
    if family is None:
        family = discover(module, processor, name, given).family
        memory = None if path is None else remembered(path, given.hub_revision)
        if memory is not None:
            family.save(memory)
    if isinstance(family, Discovered):
        made = DiscoveredVLM if family.saying == "singly" else OneForwardVLM
        return made(module, processor, family, name, mechanism, given)
    _limit(processor, family, given.max_pixels, given.max_tiles)
    return VLM(module, processor, family, name, mechanism, given)


def _model_type(path: str) -> str | None:
    """What the configuration in a directory says; None where there is none."""
    held = Path(path) / "config.json"
    return str(json.loads(held.read_text(encoding="utf-8")).get("model_type")) if path and held.is_file() else None


def _architecture(path: str, hub_revision: str | None, download: bool = False) -> str:
    """The class that the configuration names; "" where it names none, or is not here and shall not be downloaded."""
    folder = local_folder(path, hub_revision)
    if folder is not None and (folder / "config.json").is_file():
        held = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    elif download and importlib.util.find_spec("transformers") is not None:
        from transformers import PretrainedConfig

        try:
            held, _ = PretrainedConfig.get_config_dict(path, revision=hub_revision)
        except (OSError, ValueError):  # whoever loads it says what is wrong
            return ""
    else:
        return ""
    return str((held.get("architectures") or [""])[0])


def remembered(path: str, hub_revision: str | None) -> Path | None:
    """Where what was found out about these weights is kept; None for weights that may change under their name."""
    if not Path(path).is_dir() and hub_revision is None:
        return None
    held = weights_revision(path, hub_revision, f"{_FOUND_OUT}:" + ("" if Path(path).is_dir() else path))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "karat" / "families" / f"{hashlib.sha256(held.encode()).hexdigest()[:24]}.json"


def recalled(path: str, hub_revision: str | None) -> Discovered | None:
    """What was found out about these weights before; None where nothing was, or in another version."""
    memory = remembered(path, hub_revision)
    if memory is None or not memory.is_file():
        return None
    with suppress(BadInput):
        return Discovered.load(memory)
    return None


def _known(module: Any, family: Family | Discovered | str | None) -> Family | Discovered | None:
    """The family that was given, or that is known of the architecture; None where it must be found out."""
    if family == DISCOVERED:
        return None
    if isinstance(family, str):
        family = Discovered.load(family) if family.endswith(".json") else load_object(family)
    kind = module.config.model_type
    tower = getattr(getattr(module.config, "vision_config", None), "model_type", "")
    chosen = family or FAMILIES.get(f"{kind}/{tower}") or FAMILIES.get(kind)
    if chosen is None:
        return None
    if isinstance(chosen, Discovered):
        parts = chosen.parts
        names = [name for name in (parts.decoder_layers, parts.words, parts.head, parts.vision_layers) if name]
    elif isinstance(chosen, Family):
        names = [chosen.vision, chosen.vision_layers, chosen.decoder, chosen.decoder_layers, chosen.words, chosen.head]
    else:
        raise BadInput(f"family must be a Family or what was discovered; got {type(chosen).__name__}.")
    known = {name for name, _ in module.named_modules()}
    if absent := [name for name in names if name not in known]:
        near = [name for name in known if name.endswith(absent[0].rsplit(".", 1)[-1])][:5]
        raise BadInput(
            f"{type(module).__name__} ({kind}) has no part {absent[0]!r}; parts of that name: "
            f"{', '.join(sorted(near)) or 'none'}. Override it with family=dataclasses.replace(FAMILIES[...], ...), or "
            f"have it found out with family={DISCOVERED!r}."
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
        if not isinstance(family.sight, Tiles):
            raise BadInput("max_tiles is for models that cut tiles (InternVL); this one cuts none.")
        processor.image_processor.max_patches = max_tiles
