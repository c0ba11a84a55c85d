"""The architectures that `vlm` knows, by the `model_type` of their configuration.

Where a tower of another kind than usual has its layers elsewhere, by both: "llava/vit".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from karat.models.families.family import Family, Sight, Size, View
from karat.models.families.fixed import FixedGrid
from karat.models.families.merged import MergedPatches
from karat.models.families.tiled import Tiles

__all__ = ["FAMILIES", "Family", "FixedGrid", "MergedPatches", "Sight", "Size", "Tiles", "View"]

_LLAVA = Family("model.vision_tower", "model.vision_tower.encoder.layers", FixedGrid())
_QWEN = Family("model.visual", "model.visual.blocks", MergedPatches(), positions="grid")

FAMILIES: Mapping[str, Family] = {
    "llava": _LLAVA,
    "llava/vit": replace(_LLAVA, vision_layers="model.vision_tower.layers"),
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": Family("model.visual", "model.visual.blocks", MergedPatches(windowed=True), positions="grid"),
    "qwen3_vl": _QWEN,
    "qwen3_vl_moe": _QWEN,
    "internvl": Family("model.vision_tower", "model.vision_tower.encoder.layer", Tiles(), image="{start}{tokens}{end}"),
    "gemma3": Family(
        "model.vision_tower",
        "model.vision_tower.encoder.layers",
        FixedGrid(),
        before_mlp="pre_feedforward_layernorm",
        image="\n\n{start}{tokens}{end}\n\n",
        bidirectional_image=True,
    ),
}
