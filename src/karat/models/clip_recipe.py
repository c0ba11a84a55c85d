"""Recipe `clip`: a CLIP or SigLIP by name, with its classes, from a directory, the hub or open_clip."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from karat.kernel.card import Card
from karat.kernel.errors import BadInput, ExtraMissing, UnknownName
from karat.kernel.typing import Scalar
from karat.models.clip import CAPABILITIES, Clip, ClipParameters, load_clip
from karat.models.clip_towers import OPEN_CLIP, OPENAI_MEAN, OPENAI_STD
from karat.models.hub import describe_preprocessing, shares_weights, weights_bytes, weights_revision


@dataclass(frozen=True)
class ClipRecipe(ClipParameters):
    """A CLIP by name. `path` is a directory, a hub id or "open_clip:ARCHITECTURE/WEIGHTS"."""

    card: ClassVar[Card] = Card(
        "clip", "CLIP or SigLIP as a zero-shot classifier, from a directory, the hub or open_clip", "model", extra="vlm"
    )
    path: str = ""

    @property
    def label(self) -> str:
        return Path(self.path.removeprefix(OPEN_CLIP)).name or "clip"

    @property
    def facts(self) -> dict[str, Scalar]:
        return {"family": "clip", "path": self.path, "dtype": self.dtype, "prompt": self.prompt}

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    @property
    def revision(self) -> str:
        listed = self.labels if isinstance(self.labels, str) else ""
        content = Path(listed).read_text(encoding="utf-8") if listed and Path(listed).is_file() else ""
        return weights_revision(self.path, self.hub_revision, self.dtype + content)

    def sees(self) -> str:
        if self.path.startswith(OPEN_CLIP):
            return _open_clip_preprocessing(self.path)
        return describe_preprocessing(self.path, self.hub_revision)

    def weights_bytes(self) -> int | None:
        return weights_bytes(self.path, self.hub_revision, self.dtype)

    def shares_weights(self) -> bool:
        return shares_weights(self.path, self.hub_revision, self.dtype, self.device)

    def load(self) -> Clip:
        if not self.path:
            raise BadInput("clip: give `path`, a directory, a hub id or open_clip:ARCHITECTURE/WEIGHTS.")
        return load_clip(self.path, None, self.label, None, self)


def _open_clip_preprocessing(source: str) -> str:
    """What open_clip's table of weights says, without the weights."""
    try:
        import open_clip
    except ImportError:
        raise ExtraMissing(f"clip('{OPEN_CLIP}...')", "open_clip_torch", "clip") from None
    architecture, _, weights = source.removeprefix(OPEN_CLIP).partition("/")
    config: Any = open_clip.get_model_config(architecture)
    if config is None:
        raise UnknownName("open_clip model", architecture, open_clip.list_models())
    about = (open_clip.get_pretrained_cfg(architecture, weights) if weights else None) or {}
    size = config["vision_cfg"]["image_size"]
    part = "the whole image" if about.get("resize_mode") == "squash" else "the centre of the image"
    mean, std = about.get("mean") or OPENAI_MEAN, about.get("std") or OPENAI_STD
    numbers = (", ".join(f"{value:.4g}" for value in values) for values in (mean, std))
    return "{} at {}×{}, mean {}, std {}".format(part, size, size, *numbers)
