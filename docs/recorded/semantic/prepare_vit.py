"""From the published parts of the pets ViT to one file of weights that the model `classifier` reads.

    python prepare_vit.py DINOV2_VITS14 data/pets_vit.safetensors

DINOV2_VITS14 holds the backbone (weights in whole numbers of eight bits, with their scales) and linear heads on its
class token.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

source, out = (Path(arg) for arg in sys.argv[1:3])
stored = load_file(source / "vit_small_patch14_dinov2_224_int8w.safetensors")
heads = load_file(source / "heads_pets.safetensors")
tensors = {"head.weight": heads["breed37.weight"].float(), "head.bias": heads["breed37.bias"].float()}
for name, values in stored.items():
    if name.endswith(".scale"):
        continue
    scale = stored[f"{name}.scale"].view(-1, *[1] * (values.dim() - 1)) if values.dtype == torch.int8 else 1
    tensors[name] = values.float() * scale
save_file({name: values.contiguous() for name, values in tensors.items()}, out)
