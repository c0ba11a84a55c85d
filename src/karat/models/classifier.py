"""`classifier`: any torch module that maps pixels (n, 3, H, W) to logits (n, classes), made a model of Karat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Values
from karat.models.cam_layer import cam_layer
from karat.models.preprocessing import Preprocessing
from karat.models.structure import attention_modules, prefix_tokens, single_sequence, submodule
from karat.models.targets import whole_scores
from karat.models.torch_model import Inputs, Layout

if TYPE_CHECKING:
    from torch import Tensor, nn

Transform = Callable[[Any], Any]  # a PIL image -> a tensor (3, H, W)


def classifier(
    module: nn.Module,
    transform: Preprocessing | Transform | None = None,
    labels: Sequence[str] | None = None,
    name: str | None = None,
    layer: str | None = None,
    mechanism: str | None = None,
) -> Classifier:
    """A classifier of timm, torchvision or your own as a model of Karat.

        model = classifier(timm.create_model("vit_tiny_patch16_224", pretrained=True), labels=names)
        model.answer(samples)

    Args:
        module: Maps pixels (n, 3, H, W) to logits (n, classes). It is put into evaluation mode.
        transform: From images to pixels: a `Preprocessing`, or any function from a PIL image to a tensor (3, H, W), as
            torchvision's weights have one. By default what timm says about its model, or 224 px with ImageNet's mean.
        labels: Names of the classes, in the order of the logits; by default "0", "1", ...
        name: How tables call it; by default the name of its class.
        layer: Dotted name of the layer that CAMs read; by default `karat.models.cam_layer.cam_layer`.
        mechanism: How it reasons, where that is known.

    Returns:
        A model whose answers are labels and which can be looked into.
    """
    if transform is None:
        transform = Preprocessing.of_timm(module) if hasattr(module, "pretrained_cfg") else Preprocessing()
    module.eval()
    if layer is not None:
        submodule(module, layer)
    return Classifier(
        module, transform, tuple(labels) if labels else None, name or type(module).__name__, layer, mechanism
    )


@dataclass(frozen=True, eq=False)
class Classifier:
    """A `TorchModel` without text. Made by `classifier`."""

    module: nn.Module
    transform: Preprocessing | Transform
    labels: tuple[str, ...] | None
    name: str
    layer: str | None = None
    mechanism: str | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        mechanism = {"mechanism"} if self.mechanism else set()
        attention = {"attention"} if self.attention_layers else set()
        return frozenset({"scores", "gradients", "activations"} | mechanism | attention)

    @cached_property
    def layers(self) -> Mapping[str, str]:
        if self.layer is not None:
            return {"vision.last": self.layer}
        size = self.transform.size if isinstance(self.transform, Preprocessing) else (224, 224)
        last = cam_layer(self.module, size)
        return {} if last is None else {"vision.last": last.name}

    @cached_property
    def attention_layers(self) -> tuple[str, ...]:
        return tuple(attention_modules(self.module))

    @property
    def neutral_token(self) -> None:
        return None

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        import torch

        images = [sample.image for sample in samples]
        frames = None
        if isinstance(self.transform, Preprocessing):
            pixels = self.transform(images)
            frames = tuple(self.transform.frame(*sample.size) for sample in samples)
        else:
            from PIL import Image as Pillow

            pixels = torch.stack([torch.as_tensor(self.transform(Pillow.fromarray(image))) for image in images])
        example = next(self.module.parameters())
        return Inputs(pixels=pixels.to(example.device, example.dtype), frames=frames)

    def logits(self, inputs: Inputs) -> Tensor:
        """(n, classes), float32 or wider."""
        import torch

        output = self.module(inputs.pixels)
        logits = output if isinstance(output, torch.Tensor) else output.logits
        if self.labels is not None and logits.shape[-1] != len(self.labels):
            raise BadInput(f"{self.name} gives {logits.shape[-1]} classes; {len(self.labels)} labels were given.")
        return logits if logits.dtype == torch.float64 else logits.float()

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        table = self.logits(inputs)
        return whole_scores(lambda answers: self._pick(table, answers), targets, self.name, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        table = self.logits(inputs).log_softmax(-1)
        return whole_scores(lambda answers: self._pick(table, answers), targets, self.name, log=True)

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        import torch

        with torch.no_grad():
            best = self.logits(self.encode(samples)).argmax(-1).tolist()
        return [self.labels[k] if self.labels else str(k) for k in best]

    def ranking(self, samples: Sequence[Sample], top: int) -> list[list[tuple[str, float]]]:
        """The `top` best classes of each image with their probabilities."""
        import torch

        with torch.no_grad():
            probabilities = self.logits(self.encode(samples)).softmax(-1)
        best = probabilities.topk(min(top, probabilities.shape[-1]))
        return [
            [(self.labels[k] if self.labels else str(k), p) for k, p in zip(classes, values, strict=True)]
            for classes, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        import torch

        with torch.no_grad():
            return np.asarray(self.log_probability(self.encode(samples), targets).exp().cpu(), dtype=np.float64)

    def layout(self, inputs: Inputs) -> Layout:
        """Patches of a ViT-like module; hierarchical ones and CNNs have no single sequence."""
        if not single_sequence(self.module):
            return Layout(None, None, None, None)
        prefix = prefix_tokens(self.module, self.attention_layers[-1])
        rows, columns = self._patch_grid(inputs)
        return Layout((rows, columns), tuple(range(prefix, prefix + rows * columns)), None, 0 if prefix else None)

    def _patch_grid(self, inputs: Inputs) -> tuple[int, int]:
        from torch import nn

        embed = next(part for part in self.module.modules() if isinstance(part, nn.Conv2d))
        return inputs.pixels.shape[-2] // embed.stride[0], inputs.pixels.shape[-1] // int(embed.stride[1])

    def _pick(self, scores: Tensor, answers: Sequence[str]) -> Tensor:
        import torch

        classes = torch.tensor([self._class(answer, scores.shape[-1]) for answer in answers], device=scores.device)
        return scores.gather(1, classes[:, None])[:, 0]

    def _class(self, answer: str, count: int) -> int:
        if self.labels is not None:
            if answer not in self._numbers:
                raise UnknownName(f"label of {self.name}", answer, self._numbers)
            return self._numbers[answer]
        if not answer.isdecimal() or int(answer) >= count:
            raise BadInput(f"{self.name} has classes '0' to '{count - 1}'; got {answer!r}. Give `labels` to name them.")
        return int(answer)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {label: k for k, label in reversed(list(enumerate(self.labels or ())))}
