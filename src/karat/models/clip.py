"""`clip`: an image and text encoder pair as a zero-shot classifier. CLIP and SigLIP of transformers, and open_clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Gt

from karat.kernel.errors import BadInput, Faults
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Values
from karat.models.clip_towers import OPEN_CLIP, OpenClipTowers, Towers, TransformersTowers, load_open_clip
from karat.models.hub import DType, load
from karat.models.keywords import takes
from karat.models.structure import block_norm, grid_of, prefix_tokens, submodule
from karat.models.targets import answer_columns, whole_scores
from karat.models.torch_model import Inputs, Layout

if TYPE_CHECKING:
    from torch import Tensor, nn

CAPABILITIES = frozenset({"scores", "gradients", "attention", "activations"})
_PROMPTS_AT_ONCE = 256  # that the text tower reads together


@dataclass(frozen=True, kw_only=True)
class ClipParameters:
    """How a CLIP is loaded and asked: keywords of `clip`, fields of a model in a spec.

    Attributes:
        labels: The classes, or a text file with one in each line. Probabilities are a softmax over them; raw scores
            need none.
        prompt: What is said of a class, {} standing for its label: "a photo of a {}". semscore2025 says the bare label.
        layer: What CAMs read; by default the first norm of the last block of the vision tower.
        hub_revision: The commit or tag of a hub id.
        dtype: Of its weights and of what is computed with them.
        device: "cpu", "cuda", "cuda:1", "mps"; "auto" spreads the layers over the GPUs there are.
        gpus: Over how many GPUs "auto" spreads one worker of a run; with "cuda" the share of one that a worker takes.
    """

    labels: tuple[str, ...] | str = ()
    prompt: str = "{}"
    layer: str | None = None
    hub_revision: str | None = None
    dtype: DType = "float32"
    device: str = "cpu"
    gpus: Annotated[float, Gt(0)] | None = field(default=None, metadata={"identity": False})

    def __post_init__(self) -> None:
        if "{}" not in self.prompt:
            raise Faults("clip", [f"prompt: {{}} must stand where the label goes; got {self.prompt!r}"])


@takes(ClipParameters)
def clip(
    source: str | Path | Any, processor: Any, name: str | None, mechanism: str | None, parameters: ClipParameters
) -> Clip:
    """A CLIP as a classifier whose classes are said in words.

        model = clip("openai/clip-vit-base-patch32", labels=["cat", "dog"], prompt="a photo of a {}")

    Args:
        source: A directory, a hub id, "open_clip:ViT-B-32/laion2b_s34b_b79k", or a loaded module, which is put into
            evaluation mode.
        processor: What goes with a loaded module: its processor, or open_clip's tokenizer.
        name: How tables call it; by default the last part of the path.
        mechanism: How it reasons, where that is known.
        parameters: The fields of `ClipParameters`, each as a keyword of its own.

    Returns:
        A model that can be looked into. The raw score of an answer is its scaled cosine with the image.
    """
    return load_clip(source, processor, name, mechanism, parameters)


def load_clip(
    source: str | Path | Any, processor: Any, name: str | None, mechanism: str | None, parameters: ClipParameters
) -> Clip:
    """What `clip` does, for parameters that are one object."""
    parameters = replace(parameters, labels=_read_labels(parameters.labels))
    if isinstance(source, str) and source.startswith(OPEN_CLIP):
        source, name = source.removeprefix(OPEN_CLIP), name or source.removeprefix(OPEN_CLIP)
        towers: Towers = load_open_clip(source, parameters.dtype, parameters.device)
    elif isinstance(source, str | Path):
        name = name or Path(source).name
        origin = (str(source), parameters.dtype, parameters.device, parameters.hub_revision)
        towers = TransformersTowers(*load("CLIP", "AutoModel", *origin))
    elif processor is None:
        raise BadInput("clip(module, processor): a loaded module needs its processor, or open_clip's tokenizer.")
    else:
        own = hasattr(source, "encode_image")
        towers = OpenClipTowers(source, processor) if own else TransformersTowers(source, processor)
    towers.module.eval()
    if parameters.layer is not None:
        submodule(towers.module, parameters.layer)
    return Clip(towers, name or type(towers.module).__name__, mechanism, parameters)


def _read_labels(labels: tuple[str, ...] | str) -> tuple[str, ...]:
    if isinstance(labels, tuple):
        return labels
    if not Path(labels).is_file():
        raise BadInput(f"clip: labels are a list, or a text file with one in each line; no file {labels}.")
    lines = Path(labels).read_text(encoding="utf-8").split("\n")
    return tuple(line.strip() for line in lines if line.strip())


@dataclass(frozen=True, eq=False)
class Clip:
    """A `TorchModel` whose classes are said in words. It reads no question. Made by `clip`."""

    towers: Towers
    name: str
    mechanism: str | None
    parameters: ClipParameters

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, read from their file if they stand in one."""
        return _read_labels(self.parameters.labels)

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
        return roles | {"vision.last": self.parameters.layer or block_norm(self.module, blocks[-1]) or blocks[-1]}

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
        return Inputs(
            pixels=pixels.to(example.device, example.dtype), frames=known if len(known) == len(frames) else None
        )

    def logits(self, inputs: Inputs, answers: Sequence[str] | None = None) -> Tensor:
        """(n, answers) scaled cosines, by default of all labels."""
        from torch.nn import functional

        image = functional.normalize(self.towers.image_features(inputs.pixels), dim=-1)
        scores: Tensor = self.towers.scale * image.float() @ self._text_features(answers or self._labels()).float().T
        return scores

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """Any text may be asked about, whether it is a label or not."""

        def score(answers: Sequence[str]) -> Tensor:
            distinct = list(dict.fromkeys(answers))
            return answer_columns(self.logits(inputs, distinct), distinct, answers)

        return whole_scores(score, targets, self.name, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        labels, table = self._labels(), self.logits(inputs).log_softmax(-1)
        return whole_scores(lambda answers: answer_columns(table, labels, answers), targets, self.name, log=True)

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

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        import torch

        with torch.no_grad():
            return np.asarray(self.log_probability(self.encode(samples), targets).exp().cpu(), dtype=np.float64)

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

    def _text_features(self, answers: Sequence[str]) -> Tensor:
        """(answers, width) of length 1; every prompt is read once."""
        import torch
        from torch.nn import functional

        new = [answer for answer in dict.fromkeys(answers) if answer not in self._features_read]
        for start in range(0, len(new), _PROMPTS_AT_ONCE):
            some = new[start : start + _PROMPTS_AT_ONCE]
            with torch.no_grad():
                features = self.towers.text_features([self.parameters.prompt.format(answer) for answer in some])
            self._features_read.update(zip(some, functional.normalize(features, dim=-1), strict=True))
        return torch.stack([self._features_read[answer] for answer in answers])

    @cached_property
    def _features_read(self) -> dict[str, Tensor]:
        return {}
