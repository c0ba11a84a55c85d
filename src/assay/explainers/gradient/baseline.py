"""`Baseline`: where a path to the input starts. Pixels and word embeddings of an input that says nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from assay.explainers.placing import WORDS, reads_text
from assay.kernel.errors import BadInput
from assay.kernel.identity import generator
from assay.models.structure import submodule
from assay.probe.session import Session
from assay.probe.zero import Zero

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
            return session.inputs.pixels * 0
        if self.visual == "uniform":
            return noise(session, range(len(session.samples)), "baseline")
        zero = Zero(visual=self.visual, radius=self.radius)
        samples = [replace(sample, image=zero.image_of(sample)) for sample in session.samples]
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


def noise(session: Session, rows: range | list[int], component: str) -> Tensor:
    """Encoded images of uniform noise, one per row (a sample's number), from that sample's own random stream."""
    import numpy as np

    samples = []
    for row in rows:
        sample = session.samples[row]
        drawn = generator(session.seed, sample.id, component).integers(0, 256, sample.image.shape, dtype=np.uint8)
        samples.append(replace(sample, image=drawn))
    return session.torch_model.encode(samples).pixels


def _embed(session: Session, tokens: Tensor) -> Tensor:
    import torch

    model = session.torch_model
    with torch.no_grad():
        found: Tensor = submodule(model.module, model.layers[WORDS])(tokens)
    return found
