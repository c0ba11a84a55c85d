"""`DiscoveredVLM`: a vision-language model of any architecture, run by its own forward on its processor's tensors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.models.discovery.discovered import Discovered, Sighting, key_of
from karat.models.discovery.forward import AFTER, ANSWER, BEFORE, QUESTION, OwnForward
from karat.models.discovery.lens import Lens
from karat.models.discovery.processing import Prepared, Processing
from karat.models.families.family import Size, View
from karat.models.prompt import Encoded, Prompt
from karat.models.torch_model import Inputs, Layout
from karat.models.vlm_adapter import layer_roles
from karat.models.vlm_speech import ASKED_GRID, SpeakingVLM, checked_image, known_frames

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class DiscoveredVLM(SpeakingVLM[Discovered]):
    """A `TorchModel` that answers token by token, of a family that was found out. Made by `vlm`."""

    @property
    def capabilities(self) -> frozenset[str]:
        offered = self.family.capabilities
        return offered | {"mechanism"} if self.mechanism else offered

    @property
    def vision(self) -> str:
        return self.family.parts.vision or "no vision tower"

    @property
    def states(self) -> str:
        return self.family.parts.decoder

    @property
    def head(self) -> str:
        return self.family.parts.head

    @cached_property
    def processing(self) -> Processing:
        return Processing(self.processor, self.parameters.suffix)

    @cached_property
    def lens(self) -> Lens:
        family = self.family
        return Lens(self.processing, family.lens, family.moving, family.along, family.counting)

    @cached_property
    def forward(self) -> OwnForward:
        import inspect

        family, takes = self.family, frozenset(inspect.signature(self.module.forward).parameters)
        ways = family.padding, family.reuse, family.saying, family.start
        return OwnForward(self.module, self.lens, self.neutral_token, *ways, takes)

    @cached_property
    def layers(self) -> Mapping[str, str]:
        """As those of known families: vision.K, decoder.K, norm.K, vision.last, decoder.late, words and so on."""
        parts, config = self.family.parts, self.module.config
        tower = any(sighting.patches is not None for sighting in self.family.sightings.values())
        return layer_roles(
            [f"{parts.vision_layers}.{k}" for k in range(self._length(parts.vision_layers))] if tower else [],
            [f"{parts.decoder_layers}.{k}" for k in range(self._length(parts.decoder_layers))],
            parts.norms,
            parts.words,
            getattr(config, "vision_feature_layer", -1),
        )

    @property
    def attention_layers(self) -> tuple[str, ...]:
        return self.family.parts.attention_layers

    def batch_key(self, sample: Sample) -> Hashable:
        """Samples of one key can be encoded together: pixels of one size, and, where padding would be noticed,
        questions of one length."""
        size = self.lens.size(*sample.size)
        return size if self.family.padding != "apart" else (*size, len(self._encoded(sample)[1].question))

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        import torch

        if len({self.lens.size(*sample.size) for sample in samples}) > 1:
            self._of_one_size([sample.size for sample in samples], "are of")
        example = next(self.module.parameters())
        made = [self._encoded(sample) for sample in samples]
        tokens, keep = self._padded([prompt for _, prompt in made])
        rows = [self._row(sample, *each) for sample, each in zip(samples, made, strict=True)]

        def placed(tensor: Tensor) -> Tensor:
            return tensor.to(example.device, example.dtype if tensor.is_floating_point() else tensor.dtype)

        whole = {name: placed(torch.cat([row[name] for row in rows])) for name in rows[0]}
        return Inputs(
            pixels=whole.pop("pixels"),
            tokens=torch.tensor(tokens, dtype=torch.long, device=example.device).reshape(len(rows), -1),
            token_keep=torch.tensor(keep, dtype=torch.bool, device=example.device).reshape(len(rows), -1),
            words=tuple(prompt.words for _, prompt in made),
            other=whole,
            frames=known_frames([self.lens.frame(*sample.size) for sample in samples]),
        )

    def _row(self, sample: Sample, prepared: Prepared, prompt: Encoded) -> dict[str, Tensor]:
        import torch

        def table(numbers: Sequence[int]) -> Tensor:
            return torch.tensor([list(numbers)], dtype=torch.long).reshape(1, -1)

        start, stop = len(prompt.before), len(prompt.before) + len(prompt.question)
        rows = {
            "pixels": self.lens.pixels(sample.image, prepared),
            "before": table(prompt.before),
            "after": table(prompt.after),
            **self.lens.kept(sample.image, prepared),
        }
        for name, values in prepared.tables.items():
            rows[BEFORE + name], rows[AFTER + name] = values[:, :start], values[:, stop:]
            rows[QUESTION + name] = values[:, min(start, values.shape[1] - 1)][:, None]
            rows[ANSWER + name] = values[:, -1:]
        if self.family.reuse != "no":
            rows["next"] = self._next(sample, prepared, prompt)
        return rows

    def layout(self, inputs: Inputs) -> Layout:
        assert inputs.tokens is not None
        before, after, length = inputs.other["before"].shape[1], inputs.other["after"].shape[1], inputs.tokens.shape[1]
        shift = self.family.shift
        inner = None if self.family.saying == "decoder" else shift + before + length + after - 1
        text = tuple(range(shift + before, shift + before + length))
        if self.family.level != "opens":
            return Layout(ASKED_GRID, None, text, inner)
        view = self.view(inputs)
        positions = self.image_positions(inputs)
        return Layout(view.grid, tuple(positions[k] for k in view.order), text, inner)

    def image_positions(self, inputs: Inputs) -> list[int]:
        """Positions whose states move with the image; the same in every row, because padding is the same for all."""
        from karat.models.discovery.discover import visual_positions

        assert inputs.tokens is not None
        key = tuple(inputs.pixels.shape[1:]), inputs.tokens.shape[1], inputs.other["before"].shape[1]
        if key not in self._positions:
            self._positions[key] = visual_positions(self, inputs)
        return self._positions[key]

    def features(self, inputs: Inputs) -> Tensor:
        """(n, count, width) of the visual tokens as the first layer of the decoder gets them."""
        from karat.models.discovery.discover import entering

        return entering(self, inputs)[:, self.image_positions(inputs)]

    def view(self, inputs: Inputs) -> View:
        """Image tokens over pixels of this size."""
        view = self.sighting(inputs).tokens
        if view is None:
            raise BadInput(f"{self.name}: {'; '.join(self.family.reasons)}")
        return view

    def sighting(self, inputs: Inputs) -> Sighting:
        """Where tokens and patches lie for pixels of this size; measured when first met."""
        size = _size(inputs)
        known = self._sightings.get(key_of(size))
        if known is None:
            from karat.models.discovery.discover import measure

            known = self._sightings[key_of(size)] = measure(self, inputs, [])
        return known

    def by_sample(self, layer: str, recording: Tensor, inputs: Inputs) -> Tensor:
        n, view = len(inputs.pixels), self.sighting(inputs).patches
        if recording.ndim == 4 and len(recording) == n:
            return recording
        each = recording.reshape(n, -1, recording.shape[-1])
        if view is None or each.shape[1] != view.count:
            raise BadInput(f"{self.name}: layer {layer} has {each.shape[1]} tokens, of which no place is known.")
        return each[:, _placed_first(view.order, view.count)]

    def as_run(self, layer: str, states: Tensor, inputs: Inputs) -> Tensor:
        view = self.sighting(inputs).patches
        assert view is not None
        back = np.argsort(_placed_first(view.order, view.count))
        shape = self._run_shapes.get(key_of(_size(inputs)), (1, view.count))
        return states[:, back].reshape(-1, *shape[1:], states.shape[-1])

    def patches(self, inputs: Inputs) -> Size | None:
        view = self.sighting(inputs).patches
        return None if view is None else view.grid

    def reuse_image(self, inputs: Inputs) -> Inputs:
        return self.forward.reuse_image(inputs)

    def read(self, inputs: Inputs, answer: Tensor, places: Tensor | None = None) -> Tensor:
        return self.forward.read(inputs, answer, places)

    def _encoded(self, sample: Sample) -> tuple[Prepared, Encoded]:
        """What the processor makes of a sample, and where its question stands."""
        question, image = self._question(sample, self.processing.image_token), checked_image(sample)
        prepared = self.processing.one(image, question)
        return prepared, self.processing.encode(self._prompt(image), prepared.tokens, question, image)

    def _prompt(self, image: Any) -> Prompt | None:
        size = image.shape[:2]
        if size not in self._prompts:
            self._prompts[size] = self.processing.prompt(image)
        return self._prompts[size]

    def _next(self, sample: Sample, prepared: Prepared, prompt: Encoded) -> Tensor:
        """(1, axes) the position at which text after the image goes on: the same for images of one size."""
        from karat.models.discovery.discover import next_position

        key = sample.size, len(prompt.before)
        if key not in self._positions:
            self._positions[key] = next_position(self, sample)
        import torch

        return torch.tensor([self._positions[key]], dtype=torch.long)

    @cached_property
    def speaking(self) -> Prompt:
        """The end of the prompt, after which answers are tokenised."""
        if self.family.saying == "decoder":
            return Prompt(self.processor.tokenizer, "", "")
        prompt = self._prompt(np.zeros((64, 64, 3), np.uint8))
        text = self.processing.chat("?")
        return prompt or Prompt(self.processor.tokenizer, "", text.rpartition("?")[2])

    @cached_property
    def _prompts(self) -> dict[Any, Prompt | None]:
        """By the size of images."""
        return {}

    @cached_property
    def _positions(self) -> dict[Any, list[int]]:
        return {}

    @cached_property
    def _sightings(self) -> dict[str, Sighting]:
        return dict(self.family.sightings)

    @cached_property
    def _run_shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def _length(self, name: str) -> int:
        part: Any = self.module.get_submodule(name) if name else ()
        return len(part)


class OneForwardVLM(DiscoveredVLM):
    """One whose decoder looks back only, so that all spans of a text are read off one forward."""

    def span_scores(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool) -> Tensor:
        """(n, targets) raw scores or log-probabilities of spans of one text, on every row."""
        return self.target_scores.spans(inputs, targets, log)


def _size(inputs: Inputs) -> Size:
    return inputs.pixels.shape[-2], inputs.pixels.shape[-1]


def _placed_first(order: Sequence[int], count: int) -> Any:
    """Tokens with a place, row-major, then all others."""
    return np.concatenate([np.asarray(order, dtype=np.int64), np.setdiff1d(np.arange(count), order)])
