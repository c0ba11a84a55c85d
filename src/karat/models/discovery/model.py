"""`DiscoveredVLM`: a vision-language model of any architecture, run by its own forward on its processor's tensors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike, tokens_of
from karat.kernel.typing import Span, Values
from karat.models.batching import in_parts
from karat.models.discovery.discovered import Discovered, Sighting, key_of
from karat.models.discovery.forward import AFTER, ANSWER, BEFORE, QUESTION, OwnForward
from karat.models.discovery.lens import Lens
from karat.models.discovery.processing import Prepared, Processing
from karat.models.families.family import Size, View
from karat.models.prompt import Encoded, Prompt
from karat.models.torch_model import Inputs, Layout, TargetTokens
from karat.models.vlm_adapter import checked_image, layer_roles
from karat.models.vlm_targets import TargetScores

if TYPE_CHECKING:
    from torch import Tensor, nn

    from karat.models.vlm import VLMParameters


ASKED_GRID = 7, 7  # of the image, where visual tokens make none: what is hidden and shown


@dataclass(frozen=True, eq=False)
class DiscoveredVLM:
    """A `TorchModel` that answers token by token. Made by `vlm` for architectures that it does not know."""

    module: nn.Module
    processor: Any
    family: Discovered
    name: str
    mechanism: str | None
    parameters: VLMParameters

    @property
    def capabilities(self) -> frozenset[str]:
        offered = self.family.capabilities
        return offered | {"mechanism"} if self.mechanism else offered

    @property
    def answers(self) -> tuple[str, ...]:
        return self.parameters.options

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
        return Lens(self.processing, self.family.lens, self.family.moving, self.family.along)

    @cached_property
    def forward(self) -> OwnForward:
        import inspect

        found, takes = self.family, frozenset(inspect.signature(self.module.forward).parameters)
        return OwnForward(
            self.module, self.lens, self.neutral_token, found.padding, found.reuse, found.saying, found.start, takes
        )

    def token_spans(self, text: str) -> tuple[Span, ...]:
        return self._speaking.spoken(text).spans

    def target_tokens(self, target: TargetLike) -> TargetTokens:
        spoken = self._speaking.spoken(target if isinstance(target, str) else target.text)
        first, stop = tokens_of(target, spoken.spans)
        return TargetTokens(spoken.numbers[:stop], first)

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

    @property
    def neutral_token(self) -> int:
        tokenizer = self.processor.tokenizer
        known = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id, 0]
        return int(next(number for number in known if number is not None))

    @property
    def mask_token(self) -> int | None:
        number = self.processor.tokenizer.mask_token_id
        return None if number is None else int(number)

    def batch_key(self, sample: Sample) -> Hashable:
        """Samples of one key can be encoded together: pixels of one size, and, where padding would be noticed,
        questions of one length."""
        size = self.lens.size(*sample.size)
        return size if self.family.padding != "apart" else (*size, len(self._encoded(sample)[1].question))

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        import torch

        if len({self.lens.size(*sample.size) for sample in samples}) > 1:
            sizes = sorted({sample.size for sample in samples})
            listed = ", ".join(f"{height}×{width}" for height, width in sizes)
            raise BadInput(
                f"{self.name}: samples of one batch need one input size; these images are of {listed}. Group them by "
                "`model.batch_key(sample)`."
            )
        example = next(self.module.parameters())
        made = [self._encoded(sample) for sample in samples]
        if len({(len(prompt.before), len(prompt.after)) for _, prompt in made}) > 1:
            raise BadInput(f"{self.name}: the template is tokenised differently around some questions; ask them apart.")
        longest = max(len(prompt.question) for _, prompt in made)
        rows = [self._row(sample, *each, longest) for sample, each in zip(samples, made, strict=True)]

        def placed(tensor: Tensor) -> Tensor:
            return tensor.to(example.device, example.dtype if tensor.is_floating_point() else tensor.dtype)

        whole = {name: placed(torch.cat([row[name] for row in rows])) for name in rows[0]}
        frames = [self.lens.frame(*sample.size) for sample in samples]
        known = [frame for frame in frames if frame is not None]
        return Inputs(
            pixels=whole.pop("pixels"),
            tokens=whole.pop("tokens"),
            token_keep=whole.pop("keep").bool(),
            words=tuple(prompt.words for _, prompt in made),
            other=whole,
            frames=tuple(known) if len(known) == len(frames) else None,
        )

    def _row(self, sample: Sample, prepared: Prepared, prompt: Encoded, longest: int) -> dict[str, Tensor]:
        import torch

        def table(numbers: Sequence[int]) -> Tensor:
            return torch.tensor([list(numbers)], dtype=torch.long).reshape(1, -1)

        start, stop = len(prompt.before), len(prompt.before) + len(prompt.question)
        pad = longest - len(prompt.question)
        rows = {
            "pixels": self.lens.pixels(sample.image, prepared),
            "tokens": table([*prompt.question, *([self.neutral_token] * pad)]),
            "keep": table([1] * len(prompt.question) + [0] * pad),
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

            known = self._sightings[key_of(size)] = measure(self, inputs)[0]
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

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """The logits of the span's tokens, summed."""
        return self._targets.scores(inputs, targets, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """Of the span's tokens together, each given all that is said before it."""
        return self._targets.scores(inputs, targets, log=True)

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        import torch

        def some(numbers: Sequence[int]) -> list[float]:
            with torch.no_grad():
                inputs = self.encode([samples[k] for k in numbers])
                probabilities = self.log_probability(inputs, [targets[k] for k in numbers]).exp()
            return [float(value) for value in probabilities]

        if len(samples) != len(targets):
            raise BadInput(f"{self.name}: one answer per sample; got {len(targets)} for {len(samples)} samples.")
        return np.array(in_parts([self.batch_key(sample) for sample in samples], some), dtype=np.float64)

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        """Greedy decoding up to the end token, at most `max_new_tokens`; or the best of `options`."""
        if options := self.parameters.options:
            table = np.stack([self.score(samples, [option] * len(samples)) for option in options], 1)
            return [options[k] for k in table.argmax(1)]
        keys = [self.batch_key(sample) for sample in samples]
        return in_parts(keys, lambda numbers: self._decoded([samples[k] for k in numbers]))

    def reuse_image(self, inputs: Inputs) -> Inputs:
        return self.forward.reuse_image(inputs)

    def _decoded(self, samples: Sequence[Sample]) -> list[str]:
        import torch

        ends = torch.tensor(self._end_tokens, dtype=torch.long, device=next(self.module.parameters()).device)
        with torch.no_grad():
            inputs = self.reuse_image(self.encode(samples))
            answer = torch.empty(len(samples), 0, dtype=torch.long, device=inputs.pixels.device)
            done = torch.zeros(len(samples), dtype=torch.bool, device=answer.device)
            while answer.shape[1] < self.parameters.max_new_tokens and not bool(done.all()):
                longer = torch.cat([answer, answer.new_full((len(answer), 1), self.neutral_token)], 1)
                following = self.forward.logits(inputs, longer)[:, -1].argmax(-1).to(answer.device)
                done |= torch.isin(following, ends)
                answer = torch.cat([answer, following.masked_fill(done, self.neutral_token)[:, None]], 1)
        texts = self.processor.tokenizer.batch_decode(answer, skip_special_tokens=True)
        return [str(text).strip() for text in texts]

    @property
    def _end_tokens(self) -> list[int]:
        known = getattr(getattr(self.module, "generation_config", None), "eos_token_id", None)
        listed = known if isinstance(known, list) else [known]
        return [number for number in (self.processor.tokenizer.eos_token_id, *listed) if number is not None]

    def _encoded(self, sample: Sample) -> tuple[Prepared, Encoded]:
        """What the processor makes of a sample, and where its question stands."""
        question, image = sample.text or "", checked_image(sample)
        token = self.processing.image_token
        if token and token in question:
            raise BadInput(f"{self.name}: the question of {sample.id} holds the image token {token!r}; take it out.")
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
    def _speaking(self) -> Prompt:
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

    @cached_property
    def _targets(self) -> TargetScores:
        return TargetScores(self.forward.read, self.target_tokens, self.neutral_token)

    def _length(self, name: str) -> int:
        part: Any = self.module.get_submodule(name) if name else ()
        return len(part)


def _size(inputs: Inputs) -> Size:
    return inputs.pixels.shape[-2], inputs.pixels.shape[-1]


def _placed_first(order: Sequence[int], count: int) -> Any:
    """Tokens with a place, row-major, then all others."""
    return np.concatenate([np.asarray(order, dtype=np.int64), np.setdiff1d(np.arange(count), order)])
