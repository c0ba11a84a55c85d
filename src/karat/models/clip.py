"""`clip`: an image and text encoder pair as a zero-shot classifier. CLIP and SigLIP of transformers, and open_clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput, ExtraMissing, UnknownName
from karat.kernel.sample import Sample
from karat.kernel.typing import Values
from karat.models.clip_towers import OpenClipTowers, Towers, TransformersTowers
from karat.models.hub import load
from karat.models.structure import block_norm, grid_of, prefix_tokens, submodule
from karat.models.torch_model import Inputs, Layout

if TYPE_CHECKING:
    from torch import Tensor, nn

CAPABILITIES = frozenset({"scores", "gradients", "attention", "activations"})
OPEN_CLIP = "open_clip:"
_AT_ONCE = 256  # prompts that the text tower reads together


def clip(
    source: str | Path | Any,
    processor: Any = None,
    labels: Sequence[str] = (),
    prompt: str = "{}",
    name: str | None = None,
    mechanism: str | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    revision: str | None = None,
    layer: str | None = None,
) -> Clip:
    """A CLIP from a directory, a hub id, "open_clip:ViT-B-32/laion2b_s34b_b79k", or a pair that you have loaded:
    (module, processor) of transformers, or (module, tokenizer) of open_clip.

    `labels` are the classes, `prompt` what is said of them ("a photo of a {}"; semscore2025 says the bare label). The
    raw score of an answer is its scaled cosine with the image, and needs no labels; probabilities are a softmax over
    the labels. `layer` is what CAMs read (default: the first norm of the last block of the vision tower).
    """
    if "{}" not in prompt:
        raise BadInput(f"the prompt needs a place for the label, {{}}; got {prompt!r}.")
    if isinstance(source, str) and source.startswith(OPEN_CLIP):
        source, name = source.removeprefix(OPEN_CLIP), name or source.removeprefix(OPEN_CLIP)
        towers: Towers = _open_clip(source, dtype, device)
    elif isinstance(source, str | Path):
        name = name or Path(source).name
        towers = TransformersTowers(*load("CLIP", "AutoModel", str(source), dtype, device, revision))
    elif processor is None:
        raise BadInput("clip(module, processor): a loaded module needs its processor, or open_clip's tokenizer.")
    else:
        own = hasattr(source, "encode_image")
        towers = OpenClipTowers(source, processor) if own else TransformersTowers(source, processor)
    towers.module.eval()
    if layer is not None:
        submodule(towers.module, layer)
    return Clip(towers, tuple(labels), prompt, name or type(towers.module).__name__, mechanism, layer)


def _open_clip(source: str, dtype: str, device: str) -> OpenClipTowers:
    try:
        import open_clip
        import torch
    except ImportError:
        raise ExtraMissing(f"clip('{OPEN_CLIP}...')", "open_clip_torch", "clip") from None
    architecture, _, weights = source.partition("/")
    try:
        module = open_clip.create_model(architecture, pretrained=weights or None)
        tokenizer = open_clip.get_tokenizer(architecture)
    except (OSError, ValueError, RuntimeError) as error:
        known = ", ".join(open_clip.list_models()[:5])
        raise BadInput(f"open_clip cannot make {source!r}: {error} It knows {known} and others.") from None
    return OpenClipTowers(module.to(device, getattr(torch, dtype)), tokenizer)


@dataclass(frozen=True, eq=False)
class Clip:
    """A `TorchModel` whose classes are said in words. It reads no question. Made by `clip`."""

    towers: Towers
    labels: tuple[str, ...]
    prompt: str
    name: str
    mechanism: str | None = None
    layer: str | None = None

    @property
    def module(self) -> nn.Module:
        return self.towers.module

    @property
    def vision(self) -> str:
        return self.towers.vision

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES | {"mechanism"} if self.mechanism else CAPABILITIES

    @cached_property
    def layers(self) -> Mapping[str, str]:
        """vision.K are the blocks of the vision tower; vision.last is the norm that CAMs read."""
        blocks = self.towers.blocks
        roles = {f"vision.{k}": block for k, block in enumerate(blocks)}
        return roles | {"vision.last": self.layer or block_norm(self.module, blocks[-1]) or blocks[-1]}

    @cached_property
    def attention_layers(self) -> tuple[str, ...]:
        return tuple(f"{block}.{self.towers.attention}" for block in self.towers.blocks)

    @property
    def neutral_token(self) -> None:
        return None

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        example = next(self.module.parameters())
        pixels = self.towers.pixels([sample.image for sample in samples])
        frames = [self.towers.frame(*sample.size) for sample in samples]
        known = tuple(frame for frame in frames if frame is not None)
        shown = known if len(known) == len(frames) else None
        return Inputs(pixels=pixels.to(example.device, example.dtype), frames=shown)

    def logits(self, inputs: Inputs, answers: Sequence[str] | None = None) -> Tensor:
        """(n, answers) scaled cosines, by default of all labels."""
        from torch.nn import functional

        image = functional.normalize(self.towers.image_features(inputs.pixels), dim=-1)
        scores: Tensor = self.towers.scale * image.float() @ self._said(answers or self._labels()).float().T
        return scores

    def readout(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        """Any text may be asked about, whether it is a label or not."""
        import torch

        distinct = list(dict.fromkeys(answers))
        place = torch.tensor([distinct.index(answer) for answer in answers], device=inputs.pixels.device)
        return self.logits(inputs, distinct).gather(1, place[:, None])[:, 0]

    def log_probability(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        import torch

        labels = self._labels()
        for answer in answers:
            if answer not in labels:
                raise UnknownName("label", answer, labels)
        place = torch.tensor([labels.index(answer) for answer in answers], device=inputs.pixels.device)
        return self.logits(inputs).log_softmax(-1).gather(1, place[:, None])[:, 0]

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        import torch

        labels = self._labels()
        with torch.no_grad():
            return [labels[k] for k in self.logits(self.encode(samples)).argmax(-1).tolist()]

    def ranking(self, samples: Sequence[Sample], top: int) -> list[list[tuple[str, float]]]:
        """The `top` best labels of each image with their probabilities."""
        import torch

        labels = self._labels()
        with torch.no_grad():
            best = self.logits(self.encode(samples)).softmax(-1).topk(min(top, len(labels)))
        return [
            [(labels[k], p) for k, p in zip(places, values, strict=True)]
            for places, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        import torch

        with torch.no_grad():
            return np.asarray(self.log_probability(self.encode(samples), answers).exp().cpu(), dtype=np.float64)

    def layout(self, inputs: Inputs) -> Layout:
        """Patches, after the class token if there is one, which then is what is read."""
        prefix = prefix_tokens(self.module, self.towers.blocks[-1])
        height, width = inputs.pixels.shape[-2:]
        grid = grid_of(self.towers.tokens(height, width), (height, width))
        if grid is None:
            return Layout(None, None, None, None)
        return Layout(grid, tuple(range(prefix, prefix + grid[0] * grid[1])), None, 0 if prefix else None)

    def _labels(self) -> tuple[str, ...]:
        if not self.labels:
            raise BadInput(f"{self.name}: no labels to choose from; give clip(..., labels=[...]).")
        return self.labels

    def _said(self, answers: Sequence[str]) -> Tensor:
        """(answers, width) text features of length 1; every prompt is read once."""
        import torch
        from torch.nn import functional

        new = [answer for answer in dict.fromkeys(answers) if answer not in self._heard]
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            with torch.no_grad():
                read = self.towers.text_features([self.prompt.format(answer) for answer in some])
            self._heard.update(zip(some, functional.normalize(read, dim=-1), strict=True))
        return torch.stack([self._heard[answer] for answer in answers])

    @cached_property
    def _heard(self) -> dict[str, Tensor]:
        return {}
