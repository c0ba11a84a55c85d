"""How long the sequence of a vision-language model gets, from its configuration: before any weight is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEMPLATE = 40  # tokens of a chat template, and of an answer
_PER_WORD = 1.5  # tokens of a word
_TILES = 12  # of models that cut tiles, where nothing bounds them


def sequence_length(
    configuration: Mapping[str, Any],
    height: int,
    width: int,
    words: int,
    max_pixels: int | None = None,
    max_tiles: int | None = None,
) -> tuple[int, int]:
    """(tokens of the whole sequence, patches of the vision tower) of an image and a question of so many words.

    Args:
        configuration: the plain data of a transformers config.json.
        height, width: of the image; decide where the resolution is dynamic.
        words: of the question.
        max_pixels: bounds a dynamic resolution.
        max_tiles: bounds the tiles of models that cut images into them.

    >>> llava = {"image_seq_length": 576, "vision_config": {"image_size": 336, "patch_size": 14}}
    >>> sequence_length(llava, 480, 640, words=8)
    (628, 576)
    >>> qwen = {"vision_config": {"patch_size": 14, "spatial_merge_size": 2}}
    >>> sequence_length(qwen, 448, 448, words=8), sequence_length(qwen, 448, 448, 8, max_pixels=100352)
    ((308, 1024), (180, 512))
    """
    text = _TEMPLATE + round(_PER_WORD * words)
    vision = configuration.get("vision_config")
    if not isinstance(vision, Mapping):
        return text, 0
    side = _one(vision.get("patch_size") or vision.get("spatial_patch_size") or 14)
    if merged := int(vision.get("spatial_merge_size") or configuration.get("spatial_merge_size") or 0):
        pixels = min(height * width, max_pixels or height * width)
        visual = max(1, round(pixels / (side * merged) ** 2))
        return text + visual, visual * merged**2
    patches = (_one(vision.get("image_size") or 336) // side) ** 2
    shrunk = float(configuration.get("downsample_ratio") or 1 / float(configuration.get("scale_factor") or 1))
    stated = configuration.get("image_seq_length") or configuration.get("mm_tokens_per_image")
    visual = int(stated or max(1, round(patches * shrunk**2)))
    tiles = (max_tiles or _TILES) + 1 if "downsample_ratio" in configuration else 1  # and a thumbnail
    return text + tiles * visual, tiles * patches


def _one(side: Any) -> int:
    """A side that may be given as (height, width)."""
    return int(side[0] if isinstance(side, list | tuple) else side)
