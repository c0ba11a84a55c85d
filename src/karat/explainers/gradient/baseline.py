"""`Baseline`: where a path to the input starts. Pixels and word embeddings of an input that says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.explainers.placing import WORDS, reads_text
from karat.kernel.errors import BadInput
from karat.models.structure import submodule
from karat.probe.absence import Absence
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

Visual = Literal["zero", "black", "grey", "white", "mean", "blur", "uniform"]
Text = Literal["pad", "zero"]


@dataclass(frozen=True)
class Baseline:
    """`visual`: "zero" in the model's own units (after normalisation, so the mean colour for most models), or an image
    made from the sample: black, grey, white, its mean colour, blurred, or uniform noise. `text`: embeddings of the pad
    token (fsyn2026 A.2), or zeros."""

    visual: Visual = "zero"
    text: Text = "pad"
    radius: float = 30.0

    def pixels(self, session: Session) -> Tensor:
        """(n, 3, H, W), as the model gets them."""
        if self.visual == "zero":
            return session.inputs.pixels.new_zeros(session.inputs.pixels.shape)
        if self.visual == "uniform":
            return noise(session, [(row, "baseline") for row in range(len(session.samples))])
        absence = Absence(visual=self.visual, radius=self.radius)
        samples = [replace(sample, image=absence.image_of(sample)) for sample in session.samples]
        return session.torch_model.encode(samples).pixels

    def words(self, session: Session) -> Tensor | None:
        """(n, T, width), equal to the embeddings themselves at padding; None for a model without text."""
        import torch

        full = embedded(session)
        if full is None:
            return None
        model, inputs = session.torch_model, session.inputs
        assert inputs.tokens is not None
        if self.text == "zero":
            empty = torch.zeros_like(full)
        elif model.neutral_token is None:
            raise BadInput(f"{model.name!r} has no pad token; use the text baseline 'zero'.")
        else:
            empty = _embed(session, torch.full_like(inputs.tokens, model.neutral_token))
        return empty if inputs.token_keep is None else torch.where(inputs.token_keep[..., None], empty, full)


def embedded(session: Session) -> Tensor | None:
    """(n, T, width) embeddings of `Inputs.tokens`; None for a model without text."""
    tokens = session.inputs.tokens
    return _embed(session, tokens) if tokens is not None and reads_text(session.torch_model) else None


def noise(session: Session, draws: Sequence[tuple[int, str]]) -> Tensor:
    """Encoded images of uniform noise, one for each (sample number, name of the sample's own random stream)."""
    samples = []
    for row, component in draws:
        sample = session.samples[row]
        drawn = session.rng(row, component).integers(0, 256, sample.image.shape, dtype=np.uint8)
        samples.append(replace(sample, image=drawn))
    return session.torch_model.encode(samples).pixels


def _embed(session: Session, tokens: Tensor) -> Tensor:
    import torch

    model = session.torch_model
    with torch.no_grad():
        found: Tensor = submodule(model.module, model.layers[WORDS])(tokens)
    return found
