"""`VLM`: a decoder that reads an image and a question, as one sequence with known places, over transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.kernel.errors import BadInput
from assay.kernel.sample import Sample
from assay.kernel.typing import Values
from assay.models.preprocessing import image_frame
from assay.models.prompt import Prompt
from assay.models.torch_model import Frame, Inputs, Layout

if TYPE_CHECKING:
    from torch import Tensor, nn

CAPABILITIES = frozenset({"scores", "gradients", "attention", "activations", "autoregressive", "text"})


@dataclass(frozen=True)
class Family:
    """Where the parts of an architecture are: dotted names inside its module."""

    vision: str
    vision_layers: str
    decoder: str
    decoder_layers: str
    attention: str  # inside a decoder layer
    words: str
    head: str


@dataclass(frozen=True, eq=False)
class VLM:
    """A `TorchModel` that answers token by token. Made by `vlm`.

    The sequence is [before | question, padded | after | answer], the image tokens being in `before` or `after`.
    """

    module: nn.Module
    processor: Any
    family: Family
    name: str
    mechanism: str | None = None
    max_new_tokens: int = 8

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES | {"mechanism"} if self.mechanism else CAPABILITIES

    @property
    def config(self) -> Any:
        return self.module.config

    @property
    def vision(self) -> str:
        return self.family.vision

    @property
    def states(self) -> str:
        return self.family.decoder

    @property
    def head(self) -> str:
        return self.family.head

    def answer_tokens(self, answer: str) -> tuple[int, ...]:
        return self.prompt.answer(answer)

    @cached_property
    def layers(self) -> Mapping[str, str]:
        """vision.K, decoder.K, vision.last (the one whose output the decoder gets), decoder.last, words."""
        vision = len(self._part(self.family.vision_layers))
        decoder = len(self._part(self.family.decoder_layers))
        roles = {f"vision.{k}": f"{self.family.vision_layers}.{k}" for k in range(vision)}
        roles |= {f"decoder.{k}": f"{self.family.decoder_layers}.{k}" for k in range(decoder)}
        read = self.config.vision_feature_layer
        read = read if isinstance(read, int) else max(k % (vision + 1) for k in read)
        # Hidden state 0 is the embedding, so hidden state k is the output of layer k - 1.
        roles["vision.last"] = roles[f"vision.{max(read % (vision + 1) - 1, 0)}"]
        roles["decoder.last"] = roles[f"decoder.{decoder - 1}"]
        roles["words"] = self.family.words
        return roles

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

    @cached_property
    def prompt(self) -> Prompt:
        tokenizer = self.processor.tokenizer
        token = getattr(self.processor, "image_token", None) or tokenizer.convert_ids_to_tokens(
            self.config.image_token_id
        )
        rows, columns = self.grid
        return Prompt.of(self.processor, str(token), rows * columns + self._class_tokens)

    @cached_property
    def grid(self) -> tuple[int, int]:
        side = self.config.vision_config.image_size // self.config.vision_config.patch_size
        return side, side

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        import torch

        prompts = [self.prompt.encode(sample.text or "") for sample in samples]
        if len({(len(prompt.before), len(prompt.after)) for prompt in prompts}) > 1:
            raise BadInput(f"{self.name}: the template is tokenised differently around some questions; ask them apart.")
        longest = max(len(prompt.question) for prompt in prompts)
        pad = [longest - len(prompt.question) for prompt in prompts]
        device = next(self.module.parameters()).device

        def table(rows: list[list[int]]) -> Tensor:
            return torch.tensor(rows, dtype=torch.long, device=device).reshape(len(rows), -1)

        tokens = table([[*p.question, *([self.neutral_token] * more)] for p, more in zip(prompts, pad, strict=True)])
        keep = table([[1] * len(p.question) + [0] * more for p, more in zip(prompts, pad, strict=True)]).bool()
        return Inputs(
            pixels=self._pixels(samples),
            tokens=tokens,
            token_keep=keep,
            words=tuple(prompt.words for prompt in prompts),
            other={"before": table([[*p.before] for p in prompts]), "after": table([[*p.after] for p in prompts])},
            frames=self._frames(samples),
        )

    def layout(self, inputs: Inputs) -> Layout:
        before, after, length = self._sizes(inputs)
        positions = self._image_positions(inputs)
        return Layout(
            self.grid,
            tuple(positions[self._class_tokens :]),
            tuple(range(before, before + length)),
            before + length + after - 1,
        )

    def readout(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        """The logits of the answer's tokens, summed."""
        logits, numbers, real = self._answer_logits(inputs, answers)
        return (logits.gather(2, numbers[..., None])[..., 0] * real).sum(1)

    def log_probability(self, inputs: Inputs, answers: Sequence[str]) -> Tensor:
        logits, numbers, real = self._answer_logits(inputs, answers)
        return (logits.log_softmax(-1).gather(2, numbers[..., None])[..., 0] * real).sum(1)

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        import torch

        with torch.no_grad():
            return np.asarray(self.log_probability(self.encode(samples), answers).exp().cpu(), dtype=np.float64)

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        """Greedy decoding up to the end token, at most `max_new_tokens`."""
        import torch

        tokenizer = self.processor.tokenizer
        ends = torch.tensor(self._end_tokens, dtype=torch.long, device=next(self.module.parameters()).device)
        with torch.no_grad():
            inputs = self.reuse_image(self.encode(samples))
            said = torch.empty(len(samples), 0, dtype=torch.long, device=inputs.pixels.device)
            done = torch.zeros(len(samples), dtype=torch.bool, device=said.device)
            while said.shape[1] < self.max_new_tokens and not bool(done.all()):
                given = torch.cat([said, said.new_full((len(said), 1), self.neutral_token)], 1)
                following = self._logits(inputs, given)[:, -1].argmax(-1)
                done |= torch.isin(following, ends)
                said = torch.cat([said, following.masked_fill(done, self.neutral_token)[:, None]], 1)
        return [str(text).strip() for text in tokenizer.batch_decode(said, skip_special_tokens=True)]

    def reuse_image(self, inputs: Inputs) -> Inputs:
        """Image features; and, where the image stands before the question, key/value states of all that precedes it."""
        import torch

        with torch.no_grad():
            kept = {"features": self._features(inputs.pixels)}
            if all(position < self._sizes(inputs)[0] for position in self._image_positions(inputs)):
                embedded = self._embedded(inputs.other["before"], replace(inputs, reuse=kept), 0)
                cache = self._part(self.family.decoder)(inputs_embeds=embedded, use_cache=True).past_key_values
                states = [(layer.keys, layer.values) for layer in cache.layers]
                kept = {
                    "keys": torch.stack([k for k, _ in states], 1),
                    "values": torch.stack([v for _, v in states], 1),
                }
        return replace(inputs, reuse=kept)

    def _answer_logits(self, inputs: Inputs, answers: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (n, A, vocabulary) at the positions that predict the answer's tokens (n, A), and which are real."""
        import torch

        said = [self.prompt.answer(answer) for answer in answers]
        longest = max(map(len, said))
        rows = [[*numbers, *([self.neutral_token] * (longest - len(numbers)))] for numbers in said]
        numbers = torch.tensor(rows, device=inputs.pixels.device)
        lengths = torch.tensor([len(each) for each in said], device=inputs.pixels.device)
        real = torch.arange(longest, device=lengths.device) < lengths[:, None]
        return self._logits(inputs, numbers), numbers, real

    def _logits(self, inputs: Inputs, answer: Tensor) -> Tensor:
        """Logits (n, A, vocabulary) that predict each token of `answer` (n, A), given those before it."""
        import torch

        assert inputs.tokens is not None
        assert inputs.token_keep is not None
        before, after = inputs.other["before"], inputs.other["after"]
        rest = torch.cat([inputs.tokens, after, answer[:, :-1]], 1)
        # Padding stands inside the sequence, so positions count real tokens only. Answers are causal: no mask needed.
        seen = torch.ones_like(torch.cat([before, rest], 1))
        seen[:, before.shape[1] : before.shape[1] + inputs.tokens.shape[1]] = inputs.token_keep
        places = (seen.cumsum(1) - 1).clamp(min=0)
        decoder, cache = self._part(self.family.decoder), None
        if "keys" in inputs.reuse:
            from transformers import DynamicCache

            keys, values = inputs.reuse["keys"], inputs.reuse["values"]
            cache = DynamicCache([(keys[:, k], values[:, k]) for k in range(keys.shape[1])])
            embedded, places = self._embedded(rest, inputs, before.shape[1]), places[:, before.shape[1] :]
        else:
            embedded = self._embedded(torch.cat([before, rest], 1), inputs, 0)
        out = decoder(
            inputs_embeds=embedded,
            attention_mask=None if bool(seen.all()) else seen,
            position_ids=places,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        logits: Tensor = self._part(self.family.head)(out.last_hidden_state[:, -answer.shape[1] :])
        return logits if logits.dtype == torch.float64 else logits.float()

    def _embedded(self, numbers: Tensor, inputs: Inputs, start: int) -> Tensor:
        """Embeddings (n, length, width) of the sequence from `start` on, image features in their places."""
        import torch

        embedded: Tensor = self._part(self.family.words)(numbers)
        places = [p - start for p in self._image_positions(inputs) if 0 <= p - start < numbers.shape[1]]
        if not places:
            return embedded
        features = inputs.reuse["features"] if "features" in inputs.reuse else self._features(inputs.pixels)
        return embedded.index_copy(1, torch.tensor(places, device=numbers.device), features.to(embedded.dtype))

    def _features(self, pixels: Tensor) -> Tensor:
        """(n, image tokens, width) what the decoder gets for an image."""
        import torch

        model: Any = self.module
        return torch.stack(list(model.get_image_features(pixel_values=pixels, return_dict=True).pooler_output))

    def _image_positions(self, inputs: Inputs) -> list[int]:
        """Positions of the image tokens; the same in every row, because padding is the same for all."""
        import torch

        before, _, length = self._sizes(inputs)
        first = torch.cat([inputs.other["before"][0], inputs.other["after"][0]]) == self.config.image_token_id
        return [p if p < before else p + length for p in torch.nonzero(first)[:, 0].tolist()]

    def _sizes(self, inputs: Inputs) -> tuple[int, int, int]:
        assert inputs.tokens is not None
        return inputs.other["before"].shape[1], inputs.other["after"].shape[1], inputs.tokens.shape[1]

    @property
    def _end_tokens(self) -> list[int]:
        """Tokens that end an answer: the tokenizer's, and those of the model's generation settings."""
        known = getattr(getattr(self.module, "generation_config", None), "eos_token_id", None)
        listed = known if isinstance(known, list) else [known]
        return [number for number in (self.processor.tokenizer.eos_token_id, *listed) if number is not None]

    @property
    def _class_tokens(self) -> int:
        """LLaVA's "full" strategy keeps the vision tower's class token in front of the patches."""
        return 1 if getattr(self.config, "vision_feature_select_strategy", "default") == "full" else 0

    def _pixels(self, samples: Sequence[Sample]) -> Tensor:
        images = [sample.image for sample in samples]
        pixels: Tensor = self.processor.image_processor(images=images, return_tensors="pt")["pixel_values"]
        example = next(self.module.parameters())
        return pixels.to(example.device, example.dtype)

    def _frames(self, samples: Sequence[Sample]) -> tuple[Frame, ...] | None:
        frames = [image_frame(self.processor.image_processor, *sample.size) for sample in samples]
        known = [frame for frame in frames if frame is not None]
        return tuple(known) if len(known) == len(frames) else None

    def _part(self, name: str) -> Any:
        return self.module.get_submodule(name)
