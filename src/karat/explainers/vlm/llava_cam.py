"""LLaVA-CAM: a CAM of an early decoder layer at the visual tokens, averaged over noisy copies of the image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from karat.explainers.placing import at_text, attributions, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.torch_model import TorchModel
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from karat.probe.trace import Trace

NEEDS = frozenset({"gradients", "activations", "autoregressive", "text"})
BOTH = frozenset({"visual", "words"})
_BEFORE_MLP = ("post_attention_layernorm", "ffn_norm", "ln_2", "norm2")  # Llama and Qwen2, InternLM2, others
_RELEASED_SIDE = 16


@dataclass(frozen=True)
class LlavaCam:
    """ReLU(mean_c h_c w_c) / max, w_c the mean over visual tokens of ReLU(gradient); mean over `copies` noisy images.

    h is the norm after the attention of decoder layer `layer` (fsyn2026 A.2: 7; the released code has 13 for LLaVA, 26
    and 32 for others). A decoder with too few layers is read at its last but one, the last whose visual tokens still
    matter. `noise` is the standard deviation as a share of the 255 levels; `copies=0` is the clean image alone, the
    GradCAM of fsyn2026. variant="released" reads the last 256 visual tokens as 16 × 16, whatever the grid.
    """

    layer: int = 7
    copies: int = 50
    noise: float = 0.1
    batch_size: int = 16
    variant: Literal["paper", "released"] = "paper"
    card: ClassVar[Card] = Card(
        "vlm/llava_cam",
        "a CAM of an early decoder layer, averaged over noisy copies of the image",
        "explainer",
        needs=NEEDS,
        gives=BOTH,
        citation="Zhang et al. 2025, LLaVA-CAM; fsyn2026 A.2",
        departures="words are scored with the channel weights of the image and its scale: not in the paper",
        passes="copies",
        extra="vlm",
    )

    def __post_init__(self) -> None:
        if self.copies < 0 or self.noise < 0 or self.batch_size < 1 or self.layer < 0:
            raise BadInput(
                f"{self.card.name}: layer, copies and noise are 0 or more, batch_size 1 or more; got {self.layer}, "
                f"{self.copies}, {self.noise}, {self.batch_size}."
            )

    @property
    def passes(self) -> int:
        return max(self.copies, 1)

    def __call__(self, session: Session) -> list[Attribution]:
        model = session.torch_model
        layer = self._name(model)
        if self.copies == 0:
            return self._placed(session, *self._cam(session, session.trace((layer,)), layer))
        return [self._smoothed(session, i, layer) for i in range(len(session.samples))]

    def _smoothed(self, session: Session, i: int, layer: str) -> Attribution:
        """One sample: its noisy copies fill batches. Memory is that of one batch, however many copies."""
        from karat.probe import trace

        model, alone, maps, texts = session.torch_model, session.only(i), [], []
        for batch in self._noisy(session.samples[i], session.rng(i, self.card.name)):
            targets = [session.targets[i]] * len(batch)
            with trace(model, model.encode(batch), targets, layers=(layer,)) as seen:
                session.cost.traces += 1
                session.cost.backwards += seen.backwards
                drawn, text = self._cam(alone, seen, layer)
                maps.append(drawn.sum(0, keepdim=True))
                texts.append(text.sum(0, keepdim=True))
        total, words = sum(maps[1:], maps[0]), sum(texts[1:], texts[0])
        return self._placed(alone, *_scaled(total, words))[0]

    def _noisy(self, sample: Sample, rng: np.random.Generator) -> Iterator[list[Sample]]:
        for start in range(0, self.copies, self.batch_size):
            count = min(self.batch_size, self.copies - start)
            moved = sample.image + rng.normal(0.0, self.noise * 255, (count, *sample.image.shape))
            yield [replace(sample, image=image) for image in moved.clip(0, 255).astype(np.uint8)]

    def _cam(self, session: Session, seen: Trace, layer: str) -> tuple[Tensor, Tensor]:
        """(n, rows, columns) and (n, T), both divided by the highest value of the map."""
        states, slopes = self._visual(seen, layer), self._visual(seen, layer, "gradients")
        weights = slopes.clamp(min=0).mean((2, 3), keepdim=True)
        maps = (states * weights).mean(1).clamp(min=0)
        at_words = at_text(session, seen.activations[layer])
        assert at_words is not None
        text = (wide(at_words) * weights[:, :, 0, 0][:, None]).mean(-1).clamp(min=0)
        return _scaled(maps, text)

    def _visual(self, seen: Trace, layer: str, kind: Literal["activations", "gradients"] = "activations") -> Tensor:
        shown = wide(seen.spatial(layer, kind))
        if self.variant == "paper" or shown.shape[2] * shown.shape[3] < _RELEASED_SIDE**2:
            return shown
        return shown.flatten(2)[..., -(_RELEASED_SIDE**2) :].unflatten(2, (_RELEASED_SIDE, _RELEASED_SIDE))

    def _placed(self, session: Session, maps: Tensor, text: Tensor) -> list[Attribution]:
        return attributions(session, maps, text, passes=self.passes)

    def _name(self, model: TorchModel) -> str:
        depth = sum(role.startswith("decoder.") and role[8:].isdecimal() for role in model.layers)
        block = model.layers[f"decoder.{min(self.layer, max(depth - 2, 0))}"]
        children = {name for name, _ in model.module.get_submodule(block).named_children()}
        for name in _BEFORE_MLP:
            if name in children:
                return f"{block}.{name}"
        raise BadInput(f"{self.card.name} reads the norm after attention; {block} has {', '.join(sorted(children))}.")


def _scaled(maps: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    """Both divided by the highest value of the map; nothing where the map is nothing."""
    highest = maps.amax((1, 2), keepdim=True)
    scale = (highest > 0) / highest.clamp(min=1e-30)
    return maps * scale, text * scale[:, 0]
