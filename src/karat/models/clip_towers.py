"""The two towers of a CLIP, whoever made them: what `Clip` asks of transformers' and open_clip's modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from karat.kernel.errors import BadInput, ExtraMissing
from karat.kernel.typing import Image
from karat.models.preprocessing import Preprocessing, image_frame
from karat.models.torch_model import Frame

if TYPE_CHECKING:
    from torch import Tensor, nn

OPEN_CLIP = "open_clip:"
OPENAI_MEAN, OPENAI_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class Towers(Protocol):
    """`vision` is the dotted name of the vision tower, `blocks` of its transformer blocks, `attention` inside each."""

    @property
    def module(self) -> nn.Module: ...
    @property
    def vision(self) -> str: ...
    @property
    def blocks(self) -> Sequence[str]: ...
    @property
    def attention(self) -> str: ...
    @property
    def scale(self) -> Tensor:
        """What cosines are multiplied with."""
        ...

    def pixels(self, images: Sequence[Image]) -> Tensor: ...
    def frame(self, height: int, width: int) -> Frame | None: ...
    def tokens(self, height: int, width: int) -> int:
        """Patches of pixels of that size."""
        ...

    def image_features(self, pixels: Tensor) -> Tensor: ...
    def text_features(self, texts: Sequence[str]) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class TransformersTowers:
    """CLIPModel, SiglipModel and their like, with their processor."""

    module: Any
    processor: Any

    def __post_init__(self) -> None:
        known = {name for name, _ in self.module.named_modules()}
        if "vision_model.encoder.layers" not in known or not hasattr(self.module, "get_text_features"):
            kind = getattr(getattr(self.module, "config", None), "model_type", "of no known type")
            raise BadInput(
                f"clip() takes transformers' CLIP and SigLIP; {type(self.module).__name__} ({kind}) has the parts "
                f"{', '.join(sorted(name for name in known if name and '.' not in name))}. Use karat.models.vlm() for "
                "models that answer in words, .classifier() for others."
            )

    @property
    def vision(self) -> str:
        return "vision_model"

    @property
    def attention(self) -> str:
        return "self_attn"

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        layers = "vision_model.encoder.layers"
        return tuple(f"{layers}.{k}" for k in range(len(self.module.get_submodule(layers))))

    @property
    def scale(self) -> Tensor:
        scale: Tensor = self.module.logit_scale.exp()
        return scale

    def pixels(self, images: Sequence[Image]) -> Tensor:
        pixels: Tensor = self.processor.image_processor(images=list(images), return_tensors="pt")["pixel_values"]
        return pixels

    def frame(self, height: int, width: int) -> Frame | None:
        return image_frame(self.processor.image_processor, height, width)

    def tokens(self, height: int, width: int) -> int:
        side = self.module.config.vision_config.patch_size
        return int((height // side) * (width // side))

    def image_features(self, pixels: Tensor) -> Tensor:
        return _pooled(self.module.get_image_features(pixel_values=pixels))

    def text_features(self, texts: Sequence[str]) -> Tensor:
        # SigLIP was trained on padded text only, and has no mask for it.
        padding = "max_length" if self.module.config.model_type.startswith("siglip") else True
        encoded = self.processor.tokenizer(list(texts), padding=padding, truncation=True, return_tensors="pt")
        device = next(self.module.parameters()).device
        tokens = {name: encoded[name].to(device) for name in ("input_ids", "attention_mask") if name in encoded}
        if padding == "max_length":
            tokens.pop("attention_mask", None)
        return _pooled(self.module.get_text_features(**tokens))


@dataclass(frozen=True, eq=False)
class OpenClipTowers:
    """open_clip's CLIP with a ViT, and the tokenizer that goes with it."""

    module: Any
    tokenizer: Any

    def __post_init__(self) -> None:
        if "visual.transformer.resblocks" not in {name for name, _ in self.module.named_modules()}:
            raise BadInput(
                f"{type(self.module).__name__}: of open_clip's models, those with its own ViT are supported."
            )

    @property
    def vision(self) -> str:
        return "visual"

    @property
    def attention(self) -> str:
        return "attn"

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        layers = "visual.transformer.resblocks"
        return tuple(f"{layers}.{k}" for k in range(len(self.module.get_submodule(layers))))

    @property
    def scale(self) -> Tensor:
        scale: Tensor = self.module.logit_scale.exp()
        return scale

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """What open_clip's own transform does, from the settings that its models carry."""
        settings = getattr(self.module.visual, "preprocess_cfg", None) or {}
        size = self.module.visual.image_size
        return Preprocessing(
            (size, size) if isinstance(size, int) else tuple(size),
            tuple(settings.get("mean", OPENAI_MEAN)),
            tuple(settings.get("std", OPENAI_STD)),
            settings.get("interpolation", "bicubic"),
            squash=settings.get("resize_mode", "shortest") == "squash",
        )

    def pixels(self, images: Sequence[Image]) -> Tensor:
        return self.preprocessing(images)

    def frame(self, height: int, width: int) -> Frame | None:
        return self.preprocessing.frame(height, width)

    def tokens(self, height: int, width: int) -> int:
        tall, wide = self.module.visual.patch_size
        return int((height // tall) * (width // wide))

    def image_features(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.module.encode_image(pixels)
        return features

    def text_features(self, texts: Sequence[str]) -> Tensor:
        tokens = self.tokenizer(list(texts)).to(next(self.module.parameters()).device)
        features: Tensor = self.module.encode_text(tokens)
        return features


def load_open_clip(source: str, dtype: str, device: str) -> OpenClipTowers:
    """`source` is ARCHITECTURE/WEIGHTS; without weights they are random."""
    try:
        import open_clip
        import torch
    except ImportError:
        raise ExtraMissing(f"clip('{OPEN_CLIP}...')", "open_clip_torch", "clip") from None
    architecture, _, weights = source.partition("/")
    try:
        module = open_clip.create_model(architecture, pretrained=weights or None)
        tokenizer = open_clip.get_tokenizer(architecture)
    except (OSError, ValueError, RuntimeError) as error:
        known = ", ".join(open_clip.list_models()[:5])
        raise BadInput(f"open_clip cannot make {source!r}: {error} It knows {known} and others.") from None
    return OpenClipTowers(module.to(device, getattr(torch, dtype)), tokenizer)


def _pooled(output: Any) -> Tensor:
    """Older releases give the tensor itself."""
    features: Tensor = getattr(output, "pooler_output", output)
    return features
