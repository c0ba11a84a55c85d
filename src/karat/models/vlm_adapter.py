"""`VLM`: a decoder that reads an image and a question, as one sequence with known places, over transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike, tokens_of
from karat.kernel.typing import Image, Span, Values
from karat.models.batching import in_parts
from karat.models.families.family import Family, Size, View
from karat.models.prompt import Encoded, Prompt
from karat.models.torch_model import Frame, Inputs, Layout, TargetTokens

if TYPE_CHECKING:
    from torch import Tensor, nn

    from karat.models.vlm import VLMParameters
    from karat.models.vlm_decoder import Decoder
    from karat.models.vlm_targets import TargetScores

CAPABILITIES = frozenset({"scores", "gradients", "attention", "activations", "autoregressive", "text"})
_EARLY = 7  # fsyn2026 A.2, of 24 to 32 layers


@dataclass(frozen=True, eq=False)
class VLM:
    """A `TorchModel` that answers token by token. Made by `vlm`.

    The sequence is [before | question, padded | after | answer], the image tokens being in `before` or `after`.
    """

    module: nn.Module
    processor: Any
    family: Family
    name: str
    mechanism: str | None
    parameters: VLMParameters

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES | {"mechanism"} if self.mechanism else CAPABILITIES

    @property
    def config(self) -> Any:
        return self.module.config

    @property
    def answers(self) -> tuple[str, ...]:
        return self.parameters.options

    @property
    def vision(self) -> str:
        return self.family.vision

    @property
    def states(self) -> str:
        return self.family.decoder

    @property
    def head(self) -> str:
        return self.family.head

    def token_spans(self, text: str) -> tuple[Span, ...]:
        return self._prompt(1).spoken(text).spans

    def target_tokens(self, target: TargetLike) -> TargetTokens:
        spoken = self._prompt(1).spoken(target if isinstance(target, str) else target.text)
        first, stop = tokens_of(target, spoken.spans)
        return TargetTokens(spoken.numbers[:stop], first)

    @cached_property
    def layers(self) -> Mapping[str, str]:
        """vision.K, decoder.K, norm.K (between attention and MLP of decoder layer K), vision.last (the layer whose
        output the decoder gets), decoder.early, decoder.late (the last whose visual tokens matter), decoder.last,
        words; vision.signal and decoder.signal, the last ones whose output is read by more than a norm, so that
        gradient times activation is a signal there."""
        vision, decoder = (
            [f"{layers}.{k}" for k in range(len(self._part(layers)))]
            for layers in (self.family.vision_layers, self.family.decoder_layers)
        )
        norms = [f"{layer}.{self.family.before_mlp}" for layer in decoder]
        return layer_roles(vision, decoder, norms, self.family.words, getattr(self.config, "vision_feature_layer", -1))

    @cached_property
    def attention_layers(self) -> tuple[str, ...]:
        layers, inner = self.family.decoder_layers, self.family.attention
        return tuple(f"{layers}.{k}.{inner}" for k in range(len(self._part(layers))))

    @property
    def neutral_token(self) -> int:
        tokenizer = self.processor.tokenizer
        known = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id, 0]
        return int(next(number for number in known if number is not None))

    @property
    def mask_token(self) -> int | None:
        number = self.processor.tokenizer.mask_token_id
        return None if number is None else int(number)

    def batch_key(self, sample: Sample) -> Size:
        """Samples of one key can be encoded together: their pixels have one size."""
        return self.family.sight.size(self.processor, *sample.size)

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        import torch

        if len(sizes := {self.batch_key(sample) for sample in samples}) > 1:
            listed = ", ".join(f"{height}×{width}" for height, width in sorted(sizes))
            raise BadInput(
                f"{self.name}: samples of one batch need one input size; these images become {listed}. Group them by "
                "`model.batch_key(sample)`."
            )
        example = next(self.module.parameters())
        pixels, other = self.family.sight.pixels(self.processor, [checked_image(sample) for sample in samples])
        size = pixels.shape[-2], pixels.shape[-1]
        prompt = self._prompt(self.family.sight.view(self.module, size).count)
        prompts = [prompt.encode(self._question(sample)) for sample in samples]
        if len({(len(each.before), len(each.after)) for each in prompts}) > 1:
            raise BadInput(f"{self.name}: the template is tokenised differently around some questions; ask them apart.")

        def table(rows: list[list[int]]) -> Tensor:
            return torch.tensor(rows, dtype=torch.long, device=example.device).reshape(len(rows), -1)

        tokens, keep = self._padded(prompts)
        return Inputs(
            pixels=pixels.to(example.device, example.dtype),
            tokens=table(tokens),
            token_keep=table(keep).bool(),
            words=tuple(each.words for each in prompts),
            other={
                "before": table([[*each.before] for each in prompts]),
                "after": table([[*each.after] for each in prompts]),
                **{name: tensor.to(example.device, example.dtype) for name, tensor in other.items()},
            },
            frames=self._frames(samples),
        )

    def layout(self, inputs: Inputs) -> Layout:
        assert inputs.tokens is not None
        before, after, length = inputs.other["before"].shape[1], inputs.other["after"].shape[1], inputs.tokens.shape[1]
        positions, view = self._decoder.image_positions(inputs), self._decoder.view(inputs)
        return Layout(
            view.grid,
            tuple(positions[k] for k in view.order),
            tuple(range(before, before + length)),
            before + length + after - 1,
        )

    def view(self, inputs: Inputs) -> View:
        """Image tokens over pixels of this size."""
        return self._decoder.view(inputs)

    def features(self, inputs: Inputs) -> Tensor:
        """(n, count, width) of the image tokens, as the decoder gets them."""
        return self.family.sight.features(self.module, inputs.pixels, inputs.other)["features"]

    def by_sample(self, layer: str, recording: Tensor, inputs: Inputs) -> Tensor:
        return self.family.sight.by_sample(self.module, layer, recording, len(inputs.pixels), _size(inputs))

    def as_run(self, layer: str, states: Tensor, inputs: Inputs) -> Tensor:
        return self.family.sight.as_run(self.module, layer, states, _size(inputs))

    def patches(self, inputs: Inputs) -> Size | None:
        return self.family.sight.patches(self.module, _size(inputs))

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """The logits of the span's tokens, summed."""
        return self._targets.scores(inputs, targets, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """Of the span's tokens together, each given all that is said before it."""
        return self._targets.scores(inputs, targets, log=True)

    def span_scores(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool) -> Tensor:
        """(n, targets) either of these for spans of one text, on every row, from one forward."""
        return self._targets.spans(inputs, targets, log)

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
        return self._decoder.reuse_image(inputs)

    def _decoded(self, samples: Sequence[Sample]) -> list[str]:
        import torch

        ends = torch.tensor(self._end_tokens, dtype=torch.long, device=next(self.module.parameters()).device)
        with torch.no_grad():
            inputs = self.reuse_image(self.encode(samples))
            answer = torch.empty(len(samples), 0, dtype=torch.long, device=inputs.pixels.device)
            done = torch.zeros(len(samples), dtype=torch.bool, device=answer.device)
            while answer.shape[1] < self.parameters.max_new_tokens and not bool(done.all()):
                longer = torch.cat([answer, answer.new_full((len(answer), 1), self.neutral_token)], 1)
                state = self._decoder.states(inputs, longer)[:, -1:]
                following = self._decoder.logits(state)[:, 0].argmax(-1).to(answer.device)
                done |= torch.isin(following, ends)
                answer = torch.cat([answer, following.masked_fill(done, self.neutral_token)[:, None]], 1)
        texts = self.processor.tokenizer.batch_decode(answer, skip_special_tokens=True)
        return [str(text).strip() for text in texts]

    def _padded(self, prompts: Sequence[Encoded]) -> tuple[list[list[int]], list[list[int]]]:
        """Questions of one length, and where they are real."""
        longest = max(len(each.question) for each in prompts)
        pads = [longest - len(each.question) for each in prompts]
        tokens = [[*p.question, *([self.neutral_token] * more)] for p, more in zip(prompts, pads, strict=True)]
        keep = [[1] * len(p.question) + [0] * more for p, more in zip(prompts, pads, strict=True)]
        return tokens, keep

    def _question(self, sample: Sample) -> str:
        text, token = sample.text or "", str(self.processor.tokenizer.convert_ids_to_tokens(self.config.image_token_id))
        if token in text:
            raise BadInput(f"{self.name}: the question of {sample.id} holds the image token {token!r}; take it out.")
        return text

    def _prompt(self, count: int) -> Prompt:
        if count not in self._prompts:
            tokenizer = self.processor.tokenizer
            repeated = str(tokenizer.convert_ids_to_tokens(self.config.image_token_id))
            written = getattr(self.processor, "image_token", None) or repeated
            start = getattr(tokenizer, "start_image_token", None) or getattr(tokenizer, "boi_token", "")
            end = getattr(tokenizer, "end_image_token", None) or getattr(tokenizer, "eoi_token", "")
            image = self.family.image.format(tokens=repeated * count, start=start, end=end)
            self._prompts[count] = Prompt.of(self.processor, str(written), image, self.parameters.suffix)
        return self._prompts[count]

    @cached_property
    def _prompts(self) -> dict[int, Prompt]:
        """By the number of image tokens."""
        return {}

    @property
    def _end_tokens(self) -> list[int]:
        """Tokens that end an answer: the tokenizer's, and those of the model's generation settings."""
        known = getattr(getattr(self.module, "generation_config", None), "eos_token_id", None)
        listed = known if isinstance(known, list) else [known]
        return [number for number in (self.processor.tokenizer.eos_token_id, *listed) if number is not None]

    def _frames(self, samples: Sequence[Sample]) -> tuple[Frame, ...] | None:
        frames = [self.family.sight.frame(self.processor, *sample.size) for sample in samples]
        known = [frame for frame in frames if frame is not None]
        return tuple(known) if len(known) == len(frames) else None

    @cached_property
    def _decoder(self) -> Decoder:
        from karat.models.vlm_decoder import Decoder

        return Decoder(self.module, self.family, self.neutral_token)

    @cached_property
    def _targets(self) -> TargetScores:
        from karat.models.vlm_targets import TargetScores

        return TargetScores(self._decoder.read, self.target_tokens, self.neutral_token)

    def _part(self, name: str) -> Any:
        return self.module.get_submodule(name)


def layer_roles(
    vision: Sequence[str], decoder: Sequence[str], norms: Sequence[str], words: str, read: int | Sequence[int]
) -> dict[str, str]:
    """Layers by role (see `VLM.layers`); those that are not there have none. `read` is the hidden state of the tower
    that goes on to the decoder, or several."""
    roles = {f"vision.{k}": name for k, name in enumerate(vision)}
    roles |= {f"decoder.{k}": name for k, name in enumerate(decoder)}
    roles |= {f"norm.{k}": name for k, name in enumerate(norms) if name}
    if vision:
        count = len(vision)
        place = read if isinstance(read, int) else max(k % (count + 1) for k in read)
        # Hidden state 0 is the embedding, so hidden state k is the output of layer k - 1.
        last = max(place % (count + 1) - 1, 0)
        roles |= {"vision.last": vision[last], "vision.signal": vision[max(last - 1, 0)]}
    if decoder:
        count = len(decoder)
        late = max(count - 2, 0)
        early = _EARLY if count > 2 * _EARLY else count // 4
        roles |= {"decoder.early": decoder[early], "decoder.late": decoder[late]}
        roles |= {"decoder.signal": decoder[max(late - 1, 0)], "decoder.last": decoder[-1]}
    if words:
        roles["words"] = words
    return roles


def _size(inputs: Inputs) -> Size:
    return inputs.pixels.shape[-2], inputs.pixels.shape[-1]


def checked_image(sample: Sample) -> Image:
    """Its image, if it is one."""
    image = sample.image
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or 0 in image.shape:
        raise BadInput(
            f"sample {sample.id}: an image must be uint8 of shape (H, W, 3); got {image.dtype} of shape {image.shape}."
        )
    return image if image.flags.writeable else image.copy()  # torch warns of arrays that it must not write to
