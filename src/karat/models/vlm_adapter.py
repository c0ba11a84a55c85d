"""`VLM`: a decoder that reads an image and a question, as one sequence with known places, over transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.models.families.family import Family, Size, View
from karat.models.prompt import Prompt
from karat.models.torch_model import Inputs, Layout
from karat.models.vlm_speech import SpeakingVLM, checked_image, known_frames

if TYPE_CHECKING:
    from torch import Tensor

    from karat.models.vlm_decoder import Decoder

CAPABILITIES = frozenset({"scores", "gradients", "attention", "activations", "autoregressive", "text"})
_EARLY = 7  # fsyn2026 A.2, of 24 to 32 layers


@dataclass(frozen=True, eq=False)
class VLM(SpeakingVLM[Family]):
    """A `TorchModel` that answers token by token, of a family that is known. Made by `vlm`.

    The image tokens are in `before` or `after` the question.
    """

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

    def batch_key(self, sample: Sample) -> Size:
        """Samples of one key can be encoded together: their pixels have one size."""
        return self.family.sight.size(self.processor, *sample.size)

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        import torch

        self._of_one_size([self.batch_key(sample) for sample in samples], "become")
        example = next(self.module.parameters())
        pixels, other = self.family.sight.pixels(self.processor, [checked_image(sample) for sample in samples])
        size = pixels.shape[-2], pixels.shape[-1]
        prompt = self._prompt(self.family.sight.view(self.module, size).count)
        token = str(self.processor.tokenizer.convert_ids_to_tokens(self.config.image_token_id))
        prompts = [prompt.encode(self._question(sample, token)) for sample in samples]

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
            frames=known_frames([self.family.sight.frame(self.processor, *sample.size) for sample in samples]),
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

    def span_scores(self, inputs: Inputs, targets: Sequence[TargetLike], log: bool) -> Tensor:
        """(n, targets) either of these for spans of one text, on every row, from one forward."""
        return self.target_scores.spans(inputs, targets, log)

    def reuse_image(self, inputs: Inputs) -> Inputs:
        return self._decoder.reuse_image(inputs)

    def read(self, inputs: Inputs, answer: Tensor, places: Tensor | None = None) -> Tensor:
        return self._decoder.read(inputs, answer, places)

    @property
    def speaking(self) -> Prompt:
        return self._prompt(1)

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

    @cached_property
    def _decoder(self) -> Decoder:
        from karat.models.vlm_decoder import Decoder

        return Decoder(self.module, self.family, self.neutral_token)

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
