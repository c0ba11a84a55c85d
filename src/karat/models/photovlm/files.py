"""photovlm without a rule: the pretrained tower, which the package holds once in half precision, and the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from karat.kernel.errors import BadInput
from karat.models.weights import shipped

if TYPE_CHECKING:
    from karat.models.vlm_adapter import VLM


def tower_path() -> Path:
    return shipped("photovlm") / "tower.safetensors"


def load_photovlm(seed: int = 0, content: bool = False) -> VLM:
    """The untrained photovlm of a seed, its tower pretrained; with `content` the one that answers by content."""
    import torch

    from karat.models.organisms.adapters import apply
    from karat.models.organisms.files import read_tensors, shipped_path
    from karat.models.photovlm.build import make_model, make_processor
    from karat.models.vlm import vlm
    from karat.models.vlm_adapter import VLM

    if not tower_path().is_file():
        raise BadInput(f"the tower of photovlm is missing at {tower_path()}: install karat again.")
    torch.manual_seed(seed)
    module: Any = make_model(read_tensors(tower_path()))
    if content:
        apply(module, read_tensors(shipped_path("photovlm", "content", "scratch")), 1.0)
    made = vlm(module, make_processor(), name="photovlm", max_new_tokens=2)
    assert isinstance(made, VLM)  # llava, which is known
    return made
