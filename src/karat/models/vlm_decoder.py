"""`Decoder`: runs the decoder of a vision-language model over [before | question | after | answer], image included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from karat.models.families.family import Family, Size, View
from karat.models.torch_model import Inputs


@dataclass(frozen=True, eq=False)
class Decoder:
    """`neutral` is the token that stands where none matters."""

    module: nn.Module
    family: Family
    neutral: int

    def states(self, inputs: Inputs, answer: Tensor) -> Tensor:
        """States (n, A, width) that predict each token of `answer` (n, A), given those before it."""
        assert inputs.tokens is not None
        assert inputs.token_keep is not None
        before, after = inputs.other["before"], inputs.other["after"]
        whole = torch.cat([before, inputs.tokens, after, answer[:, :-1]], 1)
        # Padding stands inside the sequence, so positions count real tokens only. Answers are causal: no mask needed.
        real = torch.ones_like(whole)
        real[:, before.shape[1] : before.shape[1] + inputs.tokens.shape[1]] = inputs.token_keep
        states: Tensor = self._run(whole, real, inputs).last_hidden_state
        return states[:, -answer.shape[1] :]

    def read(self, inputs: Inputs, answer: Tensor, places: Tensor | None = None) -> Tensor:
        """(n, E, vocabulary): logits that predict the tokens of `answer` (n, A) at `places` (n, E); the head is run
        there only, since a context may be long."""
        states = self.states(inputs, answer)
        if places is not None:
            states = states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]).to(states.device))
        return self.logits(states)

    def logits(self, states: Tensor) -> Tensor:
        """Logits over the vocabulary, float32 or wider."""
        logits: Tensor = self._part(self.family.head)(states)
        return logits if logits.dtype == torch.float64 else logits.float()

    def reuse_image(self, inputs: Inputs) -> Inputs:
        """Image features; and, where the image stands before the question, key/value states of all that precedes it."""
        before = inputs.other["before"]
        with torch.no_grad():
            kept = dict(self.family.sight.features(self.module, inputs.pixels, inputs.other))
            if all(position < before.shape[1] for position in self.image_positions(inputs)):
                kept = self.beginning(replace(inputs, reuse=kept))
        return replace(inputs, reuse=kept)

    def beginning(self, inputs: Inputs) -> dict[str, Tensor]:
        """Keys and values (n, layers, heads, L, width) of all that precedes the question, as `Inputs.reuse` takes them;
        with gradients where they are on."""
        before = inputs.other["before"]
        cache = self._run(before, torch.ones_like(before), inputs, keep=True).past_key_values
        return {
            "keys": torch.stack([layer.keys for layer in cache.layers], 1),
            "values": torch.stack([layer.values for layer in cache.layers], 1),
        }

    def view(self, inputs: Inputs) -> View:
        return self.family.sight.view(self.module, (inputs.pixels.shape[-2], inputs.pixels.shape[-1]))

    def image_positions(self, inputs: Inputs) -> list[int]:
        """Positions of the image tokens; the same in every row, because padding is the same for all."""
        assert inputs.tokens is not None
        config: Any = self.module.config
        before, length = inputs.other["before"].shape[1], inputs.tokens.shape[1]
        first = torch.cat([inputs.other["before"][0], inputs.other["after"][0]]) == config.image_token_id
        return [p if p < before else p + length for p in torch.nonzero(first)[:, 0].tolist()]

    def _run(self, numbers: Tensor, real: Tensor, inputs: Inputs, keep: bool = False) -> Any:
        """The decoder's output on a sequence (n, L); `real` (n, L) is 0 at padding, `keep` asks for keys and values.

        Where `inputs.reuse` has the keys and values of the beginning, only the rest is run.
        """
        from transformers import DynamicCache

        image, start = self.image_positions(inputs), 0
        cache = DynamicCache() if keep else None  # one that forgets nothing, whatever the decoder's windows
        in_sequence = self.family.positions == "sequence"
        positions = sequence_positions(real) if in_sequence else grid_positions(real, image, self.view(inputs).grid)
        if "keys" in inputs.reuse:
            keys, values = inputs.reuse["keys"], inputs.reuse["values"]
            cache = DynamicCache([(keys[:, k], values[:, k]) for k in range(keys.shape[1])])
            start = keys.shape[-2]
        embedded, more = self._embedded(numbers[:, start:], inputs, start)
        mask: Any = None if bool(real.all()) else real
        if self.family.bidirectional_image:
            config: Any = self.module.config
            spans = {"full_attention": None, "sliding_attention": config.get_text_config().sliding_window}
            queries, dtype = embedded.shape[1], embedded.dtype
            mask = {kind: bidirectional_mask(real, image, queries, span, dtype) for kind, span in spans.items()}
        return self._part(self.family.decoder)(
            inputs_embeds=embedded,
            attention_mask=mask,
            position_ids=positions[..., start:],
            past_key_values=cache,
            use_cache=cache is not None,
            **more,
        )

    def _embedded(self, numbers: Tensor, inputs: Inputs, start: int) -> tuple[Tensor, dict[str, Any]]:
        """Embeddings (n, length, width) of the sequence from `start` on, image features in their places; and what else
        of the image the decoder gets."""
        words = self._part(self.family.words)
        # Some vocabularies end before the image token, whose embedding is never used.
        embedded: Tensor = words(numbers.masked_fill(numbers >= words.num_embeddings, self.neutral))
        places = [p - start for p in self.image_positions(inputs) if 0 <= p - start < numbers.shape[1]]
        if not places:
            return embedded, {}
        visual = inputs.reuse
        if "features" not in visual:
            visual = self.family.sight.features(self.module, inputs.pixels, inputs.other)
        at = torch.tensor(places, device=embedded.device)
        placed = embedded.index_copy(1, at, visual["features"].to(embedded))
        if "deep" not in visual:
            return placed, {}
        at_image = torch.zeros(numbers.shape, dtype=torch.bool, device=embedded.device)
        at_image[:, at] = True
        deep = [each.flatten(0, 1) for each in visual["deep"].unbind(1)]
        return placed, {"visual_pos_masks": at_image, "deepstack_visual_embeds": deep}

    def _part(self, name: str) -> Any:
        return self.module.get_submodule(name)


def sequence_positions(real: Tensor) -> Tensor:
    """(n, L) positions that count real tokens only; padding may stand anywhere. `real` (n, L) is 1 at real tokens."""
    return (real.cumsum(1) - 1).clamp(min=0)


def grid_positions(real: Tensor, image: Sequence[int], grid: Size) -> Tensor:
    """(3, n, L) positions in time, height and width (M-RoPE): the image's tokens have a row and a column.

    The image starts where the text before it ends, and the text goes on after its longer side.
    """
    first, last = image[0], image[-1] + 1
    text = real.clone()
    text[:, first:last] = 0
    places = (text.cumsum(1) - 1).clamp(min=0)
    places[:, last:] += max(grid)
    start = text[:, :first].sum(1, keepdim=True)  # (n, 1)
    cell = torch.arange(grid[0] * grid[1], device=real.device)
    three = places[None].repeat(3, 1, 1)
    for axis, inner in enumerate((torch.zeros_like(cell), cell // grid[1], cell % grid[1])):
        three[axis, :, first:last] = start + inner
    return three


def bidirectional_mask(
    real: Tensor, image: Sequence[int], queries: int, window: int | None, dtype: torch.dtype
) -> Tensor:
    """(n, 1, queries, L) additive mask of the last `queries` tokens: causal, but image tokens see each other too.

    `window`: nobody looks back that many real tokens or more.
    """
    length = real.shape[1]
    at = torch.arange(length, device=real.device)
    visual = torch.zeros(length, dtype=torch.bool, device=real.device)
    visual[list(image)] = True
    allowed = (at[None] <= at[:, None]) | (visual[:, None] & visual[None])
    kept = allowed[None] & real[:, None].bool()
    if window is not None:
        places = sequence_positions(real)
        kept &= places[:, :, None] - places[:, None] < window
    kept = kept[:, None, length - queries :]
    return torch.zeros(kept.shape, dtype=dtype, device=real.device).masked_fill(~kept, torch.finfo(dtype).min)
