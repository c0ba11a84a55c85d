"""`gridvlm` from its parts: a LLaVA of about a million parameters with a CLIP vision tower, tokenizer and processor.

A token a word, and one a patch:

    <s> USER : [36 image tokens] How many red circles are left of blue square ? ASSISTANT : 3 </s>
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from karat.datasets.grid.render import glyphs
from karat.datasets.grid.scenes import answers
from karat.datasets.grid.world import World
from karat.models.gridnet.vocabulary import words
from karat.models.small_llava import SPECIAL, llava_processor, make_llava, word_tokenizer

GRID, PATCH, SIDE = 6, 16, 96
VISION_WIDTH, VISION_LAYERS = 96, 1
WIDTH, LAYERS, HEADS, HEAD, HIDDEN = 128, 6, 4, 48, 192
LONGEST = 128
ROPE = 1e8  # most of a head turns so slowly that words find cells by what they show, however far they stand


def vocabulary() -> tuple[str, ...]:
    """Every token in the order of its number: special ones, the template's, the questions', the answers'."""
    spoken = (*words()[2:], *answers(World()))
    return tuple(dict.fromkeys((*SPECIAL, "USER", "ASSISTANT", ":", *spoken)))


def make_processor() -> Any:
    """Images to 96 x 96 by antialiased bilinear scaling, values from -1 to 1; 36 image tokens for `<image>`."""
    tokenizer = word_tokenizer(vocabulary(), longest=LONGEST)
    return llava_processor(tokenizer, SIDE, PATCH, resample=2, mean=[0.5] * 3, std=[0.5] * 3)


def make_model() -> Any:
    """An untrained LLaVA. Seed torch before; positions of patches start as row + column, which learns far faster."""
    from transformers import CLIPVisionConfig

    vision = CLIPVisionConfig(
        hidden_size=VISION_WIDTH,
        intermediate_size=2 * VISION_WIDTH,
        num_hidden_layers=VISION_LAYERS,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=PATCH,
        projection_dim=WIDTH,
        hidden_act="gelu",
    )
    model = make_llava(
        vision, vocabulary(), read=-1, patches=GRID, longest=LONGEST, width=WIDTH, hidden=HIDDEN, layers=LAYERS,
        heads=HEADS, head=HEAD, rope=ROPE, spread=0.06,
    )  # fmt: skip
    tower = model.model.vision_tower
    with torch.no_grad():
        table = tower.embeddings.position_embedding.weight
        row, column = torch.randn(2, GRID, VISION_WIDTH) * 0.3
        table[1:] = (row[:, None] + column[None, :]).reshape(GRID * GRID, -1)
        model.model.language_model.embed_tokens.weight.normal_(std=0.5)
    # It sees the class token alone, which LLaVA drops.
    tower.post_layernorm.requires_grad_(False)
    return model


def glyph_tiles(processor: Any) -> Tensor:
    """(17, 3, 16, 16) every object code as the vision tower sees it, cut from whole images that passed the processor.

    Scaling reaches 2 pixels into the neighbouring cell, and the outer 6 pixels of every cell are white, so a cell
    looks the same whatever stands beside it.
    """
    world = World()
    tiles = np.tile(glyphs(world), (1, world.size, world.size, 1))
    pixels = processor.image_processor(images=list(tiles), return_tensors="pt")["pixel_values"]
    return pixels[:, :, 2 * PATCH : 3 * PATCH, 2 * PATCH : 3 * PATCH].contiguous()
