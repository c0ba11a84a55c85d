"""`vlm`: an image-text-to-text model of transformers as a model of Assay. LLaVA's architecture; others are data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from assay.kernel.card import Card
from assay.kernel.errors import BadInput, ExtraMissing
from assay.models.vlm_adapter import CAPABILITIES, VLM, Family

FAMILIES: Mapping[str, Family] = {
    "llava": Family(
        vision="model.vision_tower",
        vision_layers="model.vision_tower.encoder.layers",
        decoder="model.language_model",
        decoder_layers="model.language_model.layers",
        attention="self_attn",
        words="model.language_model.embed_tokens",
        head="lm_head",
    ),
}
DTYPES = ("float32", "bfloat16", "float16", "float64")


def vlm(
    source: str | Path | Any,
    processor: Any = None,
    name: str | None = None,
    mechanism: str | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    revision: str | None = None,
    max_new_tokens: int = 8,
) -> VLM:
    """A vision-language model from a directory, a hub id, or a (module, processor) pair that you have loaded.

    Only safetensors are loaded, and no code of the repository is run. The probability of an answer is the product of
    the probabilities of its tokens; `answer` decodes greedily.
    """
    if isinstance(source, str | Path):
        module, processor = _loaded(str(source), dtype, device, revision)
        name = name or Path(source).name
    else:
        module = source
    if processor is None:
        raise BadInput("vlm(module, processor): a loaded module needs its processor (tokenizer, images, template).")
    kind = module.config.model_type
    if kind not in FAMILIES:
        raise BadInput(f"vlm knows {', '.join(FAMILIES)}; {type(module).__name__} is of type {kind!r}.")
    module.eval()
    return VLM(module, processor, FAMILIES[kind], name or type(module).__name__, mechanism, max_new_tokens)


def _loaded(source: str, dtype: str, device: str, revision: str | None) -> tuple[Any, Any]:
    try:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForImageTextToText, AutoProcessor
    except ImportError as error:
        raise ExtraMissing("vlm()", error.name or "transformers", "vlm") from None
    if dtype not in DTYPES:
        raise BadInput(f"dtype is one of {', '.join(DTYPES)}; got {dtype!r}.")
    try:
        processor = AutoProcessor.from_pretrained(source, revision=revision, trust_remote_code=False)
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            source,
            revision=revision,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BadInput(f"cannot load a vision-language model from {source}: {reason}") from None
    module, report = loaded
    # transformers would fill what is missing with random numbers and only warn.
    if missing := sorted(report["missing_keys"]):
        raise BadInput(f"cannot load a vision-language model from {source}: no weights for {', '.join(missing[:5])}.")
    return module.to(device), processor


@dataclass(frozen=True)
class VLMRecipe:
    """`path` is a directory or a hub id; for a hub id, `hub_revision` pins the commit."""

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

    @property
    def label(self) -> str:
        return Path(self.path).name or "vlm"

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    @property
    def revision(self) -> str:
        """A digest of every file of a directory; for a hub id, what it is pinned to."""
        folder = Path(self.path)
        if not folder.is_dir():
            return f"1:{self.hub_revision or 'latest'}:{self.dtype}"
        digest = hashlib.sha256(self.dtype.encode())
        for file in sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".jinja")):
            with file.open("rb") as content:
                digest.update(file.name.encode() + hashlib.file_digest(content, "sha256").digest())
        return f"1:{digest.hexdigest()[:16]}"

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
        )
