"""`gridvlm` from its parts: a LLaVA of about a million parameters, its tokenizer and its processor.

Nothing here is our own architecture: `LlavaForConditionalGeneration` with a CLIP vision tower and a Llama decoder,
saved with `save_pretrained`, so that every tool for LLaVA meets a model whose reasoning is known.

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
from karat.models.small_llava import llava_processor, word_tokenizer

GRID, PATCH, SIDE = 6, 16, 96
VISION_WIDTH, VISION_LAYERS = 96, 1
WIDTH, LAYERS, HEADS, HEAD, HIDDEN = 128, 6, 4, 48, 192
ROPE = 1e8  # most of a head turns so slowly that words find cells by what they show, however far they stand
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<image>")


def vocabulary() -> tuple[str, ...]:
    """Every token in the order of its number: special ones, the template's, the questions', the answers'."""
    spoken = (*words()[2:], *answers(World()))
    return tuple(dict.fromkeys((*SPECIAL, "USER", "ASSISTANT", ":", *spoken)))


def make_processor() -> Any:
    """Images to 96 x 96 by antialiased bilinear scaling, values from -1 to 1; 36 image tokens for `<image>`."""
    tokenizer = word_tokenizer(vocabulary(), longest=128)
    return llava_processor(tokenizer, SIDE, PATCH, resample=2, mean=[0.5] * 3, std=[0.5] * 3)


def make_model() -> Any:
    """An untrained LLaVA. Seed torch before; positions of patches start as row + column, which learns far faster."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    names = vocabulary()
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=VISION_WIDTH,
            intermediate_size=2 * VISION_WIDTH,
            num_hidden_layers=VISION_LAYERS,
            num_attention_heads=4,
            image_size=SIDE,
            patch_size=PATCH,
            projection_dim=WIDTH,
            hidden_act="gelu",
        ),
        text_config=LlamaConfig(
            vocab_size=len(names),
            hidden_size=WIDTH,
            intermediate_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            head_dim=HEAD,
            max_position_embeddings=128,
            rope_parameters={"rope_type": "default", "rope_theta": ROPE},
            initializer_range=0.06,
            pad_token_id=names.index("<pad>"),
            bos_token_id=names.index("<s>"),
            eos_token_id=names.index("</s>"),
            tie_word_embeddings=False,
        ),
        image_token_index=names.index("<image>"),
        image_seq_length=GRID * GRID,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,
    )
    model = LlavaForConditionalGeneration(config)
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
