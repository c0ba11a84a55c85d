"""An organism from its file: the base, with what was trained put in. Adapters are merged, so every explainer knows the
layers it meets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from karat.models.classifier import Classifier
from karat.models.organisms.adapters import apply
from karat.models.organisms.bases import open_base
from karat.models.organisms.files import read_origin, read_tensors
from karat.models.vlm_adapter import VLM


def load_organism(path: Path, name: str) -> VLM | Classifier:
    """A model of Karat whose `mechanism` is the rule it follows."""
    facts = read_origin(path)
    model = open_base(facts.base, facts.implant)
    apply(model.module, read_tensors(path), facts.scale)
    model.module.requires_grad_(False)
    return replace(model, name=name, mechanism=facts.mechanism)


def save_merged(model: VLM, directory: str | Path) -> Path:
    """The whole model as transformers knows it: `AutoModelForImageTextToText.from_pretrained(directory)`."""
    out = Path(directory)
    out.mkdir(parents=True, exist_ok=True)
    module, processor = model.module, model.processor
    module.save_pretrained(out)  # type: ignore[operator]
    processor.save_pretrained(out)
    return out
