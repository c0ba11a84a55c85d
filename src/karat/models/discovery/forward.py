"""`OwnForward`: logits of answers from the model's own forward, on the processor's own tensors.

The sequence is [before | question | after | answer]. Rows with shorter questions have padding after them; how a model
takes that (`Padding`) was found out by trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from karat.models.discovery.discovered import Padding, Reuse, Saying
from karat.models.discovery.lens import Lens
from karat.models.torch_model import Inputs

BEFORE, QUESTION, AFTER, ANSWER = "before.", "question.", "after.", "answer."  # tables by token, in `Inputs.other`
PICTURE = "picture"


@dataclass(frozen=True, eq=False)
class OwnForward:
    """`neutral` is the token that stands where none matters; `start` begins what a decoder of its own says."""

    module: nn.Module
    lens: Lens
    neutral: int
    padding: Padding = "apart"
    reuse: Reuse = "no"
    saying: Saying = "together"
    start: int | None = None
    takes: frozenset[str] = frozenset()  # parameters of the module's forward

    def logits(self, inputs: Inputs, answer: Tensor) -> Tensor:
        """(n, A, vocabulary), float32 or wider: what predicts each token of `answer` (n, A), given those before it."""
        return self.read(inputs, answer)

    def read(self, inputs: Inputs, answer: Tensor, places: Tensor | None = None) -> Tensor:
        """The same at `places` (n, E) of the answer only: (n, E, vocabulary)."""
        first = 0
        if places is not None:
            first, answer = int(places.min()), answer[:, : int(places.max()) + 1]
        parts = self._parts(inputs)
        logits = self._logits(inputs, answer, first) if len(parts) < 2 else self._in_parts(inputs, parts, answer, first)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if places is None:
            return logits
        return logits.gather(1, (places - first)[..., None].expand(-1, -1, logits.shape[-1]))

    def reuse_image(self, inputs: Inputs) -> Inputs:
        """Keys and values of all that stands before the question; or the pixels, where these cannot be reused."""
        if self.reuse == "no":
            return replace(inputs, reuse={PICTURE: inputs.pixels})
        if self.padding == "alone" and len(inputs.pixels) > 1:
            singles = [self.reuse_image(_rows(inputs, rows)).reuse for rows in self._parts(inputs)]
            return replace(inputs, reuse={name: torch.cat([each[name] for each in singles]) for name in singles[0]})
        from transformers import DynamicCache

        before = inputs.other["before"]
        given = self._text(replace(inputs, tokens=before[:, :0], token_keep=None), before[:, :0], after=False)
        given |= self.lens.tensors(inputs.pixels, inputs.other)
        with torch.no_grad():
            cache = self.module(**given, past_key_values=DynamicCache(), use_cache=True).past_key_values
        keys = torch.stack([layer.keys for layer in cache.layers], 1)
        values = torch.stack([layer.values for layer in cache.layers], 1)
        return replace(inputs, reuse={"keys": keys, "values": values})

    def arguments(self, inputs: Inputs, answer: Tensor) -> dict[str, Any]:
        """What the module's forward is called with."""
        if self.saying == "decoder":
            given = self._text(inputs, answer[:, :0])
            first = answer.new_full((len(answer), 1), self.start or 0)
            given["decoder_input_ids"] = torch.cat([first, answer[:, :-1]], 1)
        else:
            given = self._text(inputs, answer[:, :-1])
        if "keys" in inputs.reuse:
            return self._continued(given, inputs)
        pixels = inputs.reuse.get(PICTURE, inputs.pixels)
        return given | self.lens.tensors(pixels, inputs.other)

    def _logits(self, inputs: Inputs, answer: Tensor, first: int) -> Tensor:
        """From the token at place `first` on."""
        if self.saying == "singly":
            steps = [self._run(inputs, answer[:, : k + 1], 1) for k in range(first, answer.shape[1])]
            return torch.cat(steps, 1)
        return self._run(inputs, answer, answer.shape[1] - first)

    def _run(self, inputs: Inputs, answer: Tensor, last: int) -> Tensor:
        given = self.arguments(inputs, answer)
        if "logits_to_keep" in self.takes:
            given["logits_to_keep"] = last
        if "use_cache" in self.takes and "past_key_values" not in given:
            given["use_cache"] = False
        logits: Tensor = self.module(**given).logits
        return logits[:, -last:]

    def _text(self, inputs: Inputs, answer: Tensor, after: bool = True) -> dict[str, Any]:
        """Tokens, the mask and every table by token, of the whole sequence or of what stands before the question."""
        assert inputs.tokens is not None
        before, behind = inputs.other["before"], inputs.other["after"]
        behind = behind if after else behind[:, :0]
        numbers = torch.cat([before, inputs.tokens, behind, answer], 1)
        real = torch.ones_like(numbers)
        if inputs.token_keep is not None:
            real[:, before.shape[1] : before.shape[1] + inputs.tokens.shape[1]] = inputs.token_keep
        given: dict[str, Any] = {"input_ids": numbers, "attention_mask": real}
        if self.padding == "counted" and not bool(real.all()):
            given["position_ids"] = (real.cumsum(1) - 1).clamp(min=0)
        lengths = {QUESTION: inputs.tokens.shape[1], ANSWER: answer.shape[1]}
        for name in (name.removeprefix(BEFORE) for name in inputs.other if name.startswith(BEFORE)):
            parts = [inputs.other[BEFORE + name]]
            for place in (QUESTION, AFTER, ANSWER):
                part = inputs.other[place + name]
                if place == AFTER:
                    parts.append(part if after else part[:, :0])
                else:
                    parts.append(part.expand(-1, lengths[place], *part.shape[2:]))
            given[name] = torch.cat(parts, 1)
        return given

    def _continued(self, given: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
        """The sequence after what is remembered."""
        from transformers import DynamicCache

        keys, values = inputs.reuse["keys"], inputs.reuse["values"]
        begun = inputs.other["before"].shape[1]
        tables = {} if self.reuse == "keys" else {k: v[:, begun:] for k, v in given.items() if k != "attention_mask"}
        rest = tables | {"input_ids": given["input_ids"][:, begun:], "attention_mask": given["attention_mask"]}
        # Text goes on by one position a token, wherever an image before it has left off.
        first = inputs.other["next"][:, :, None]  # (n, axes, 1)
        real = given["attention_mask"][:, begun:]
        places = first + (real.cumsum(1) - 1).clamp(min=0)[:, None]
        rest["position_ids"] = places[:, 0] if places.shape[1] == 1 else places.transpose(0, 1)
        rest["past_key_values"] = DynamicCache([(keys[:, k], values[:, k]) for k in range(keys.shape[1])])
        return rest | {"use_cache": True}

    def _parts(self, inputs: Inputs) -> list[Tensor]:
        """The rows that are run together: all, those whose questions are of one length, or one at a time."""
        n = len(inputs.pixels)
        if self.padding == "alone":
            return [torch.tensor([k], device=inputs.pixels.device) for k in range(n)]
        if self.padding != "apart" or inputs.token_keep is None or bool(inputs.token_keep.all()):
            return [torch.arange(n, device=inputs.pixels.device)]
        lengths = inputs.token_keep.sum(1)
        return [(lengths == length).nonzero()[:, 0] for length in lengths.unique().tolist()]

    def _in_parts(self, inputs: Inputs, parts: Sequence[Tensor], answer: Tensor, first: int) -> Tensor:
        """The rows of each part by themselves, without padding."""
        whole: Tensor | None = None
        for rows in parts:
            logits = self._logits(_rows(inputs, rows), answer[rows], first)
            if whole is None:
                whole = logits.new_zeros(len(answer), *logits.shape[1:])
            whole = whole.index_copy(0, rows, logits)
        assert whole is not None
        return whole


def _rows(inputs: Inputs, rows: Tensor) -> Inputs:
    """These rows, whose questions are of one length, without padding."""
    assert inputs.tokens is not None
    length = inputs.tokens.shape[1] if inputs.token_keep is None else int(inputs.token_keep[rows].sum(1).max())

    def of(tensors: Any) -> dict[str, Tensor]:
        return {name: tensor[rows] for name, tensor in tensors.items()}

    return replace(
        inputs,
        pixels=inputs.pixels[rows],
        tokens=inputs.tokens[rows, :length],
        token_keep=None,
        other=of(inputs.other),
        reuse=of(inputs.reuse),
    )
