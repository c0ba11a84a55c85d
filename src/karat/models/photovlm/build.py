"""`photovlm` from its parts: DeiT-tiny as LLaVA's tower, a projector, a small Llama decoder, tokenizer and processor.

The tower is transformers' `ViTModel`: DeiT's own class expects a second special token, of which LLaVA would take only
one away, and the published DeiT-tiny without distillation has one. LLaVA reads two of its layers, an early one for what
is drawn and a late one for what is meant. Positions are resized to 12 × 12 patches of 192 pixels.

    <s> user : [144 image tokens] is this a cat ? please answer . assistant : yes </s>
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from karat.models.photovlm.vocabulary import vocabulary
from karat.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD
from karat.models.small_llava import llava_processor, make_llava, word_tokenizer

GRID, PATCH, SIDE = 12, 16, 192
VISION_WIDTH, VISION_LAYERS, VISION_HEADS = 192, 12, 3
READ = [3, 11]  # hidden states of the tower that the projector gets; 0 is the embedding
WIDTH, LAYERS, HEADS, HIDDEN = 96, 3, 4, 192
LONGEST = 256
ROPE = 1e6  # heads turn slowly: words find places by what they show, however far they stand
TOWER = "model.vision_tower."


def make_processor() -> Any:
    """Whole images to 192 × 192, never cropped; ImageNet's mean and standard deviation."""
    tokenizer = word_tokenizer(vocabulary(), longest=LONGEST, lowercase=True)
    return llava_processor(tokenizer, SIDE, PATCH, resample=3, mean=IMAGENET_MEAN, std=IMAGENET_STD)


def make_model(tower: Mapping[str, Tensor] | None = None) -> Any:
    """A LLaVA whose decoder and projector are untrained (seed torch before). `tower` are weights by ViTModel's names;
    without them the tower is untrained too."""
    from transformers import ViTConfig

    vision = ViTConfig(
        hidden_size=VISION_WIDTH,
        intermediate_size=4 * VISION_WIDTH,
        num_hidden_layers=VISION_LAYERS,
        num_attention_heads=VISION_HEADS,
        image_size=SIDE,
        patch_size=PATCH,
        layer_norm_eps=1e-6,
    )
    model = make_llava(
        vision, vocabulary(), read=list(READ), patches=GRID, longest=LONGEST, width=WIDTH, hidden=HIDDEN, layers=LAYERS,
        heads=HEADS, rope=ROPE, spread=0.05,
    )  # fmt: skip
    with torch.no_grad():
        model.model.language_model.embed_tokens.weight.normal_(std=0.5)
    if tower is not None:
        model.model.vision_tower.load_state_dict({name: tensor.float() for name, tensor in tower.items()})
    return model


def tower_of_timm(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of timm's deit_tiny_patch16_224 by the names of transformers' ViTModel, positions resized to the grid.

    The classification head is left out; the pooler, which LLaVA does not read, is zero.
    """
    position = state["pos_embed"].float()
    side = round((position.shape[1] - 1) ** 0.5)
    patches = position[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    resized = F.interpolate(patches, size=(GRID, GRID), mode="bicubic", antialias=True, align_corners=False)
    tower = {
        "embeddings.cls_token": state["cls_token"],
        "embeddings.position_embeddings": torch.cat([position[:, :1], resized.flatten(2).transpose(1, 2)], 1),
        "embeddings.patch_embeddings.projection.weight": state["patch_embed.proj.weight"],
        "embeddings.patch_embeddings.projection.bias": state["patch_embed.proj.bias"],
        "layernorm.weight": state["norm.weight"],
        "layernorm.bias": state["norm.bias"],
        "pooler.dense.weight": torch.zeros(VISION_WIDTH, VISION_WIDTH),
        "pooler.dense.bias": torch.zeros(VISION_WIDTH),
    }
    renamed = {
        "norm1": "layernorm_before", "norm2": "layernorm_after", "attn.proj": "attention.o_proj",
        "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2",
    }  # fmt: skip
    for k in range(VISION_LAYERS):
        for kind in ("weight", "bias"):
            for old, new in renamed.items():
                tower[f"layers.{k}.{new}.{kind}"] = state[f"blocks.{k}.{old}.{kind}"]
            parts = state[f"blocks.{k}.attn.qkv.{kind}"].chunk(3)
            for name, part in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
                tower[f"layers.{k}.attention.{name}.{kind}"] = part
    return {name: tensor.half().contiguous() for name, tensor in tower.items()}
