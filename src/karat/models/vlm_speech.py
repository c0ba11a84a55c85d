"""`SpeakingVLM`: what every vision-language model that answers token by token does with its logits: scores of targets,
greedy answers, batches by size. Architectures differ in how inputs are made and run, and nowhere else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike, tokens_of
from karat.kernel.typing import Image, Span, Values
from karat.models.batching import in_parts
from karat.models.prompt import Encoded, Prompt
from karat.models.torch_model import Frame, Inputs, TargetTokens

if TYPE_CHECKING:
    from torch import Tensor, nn

    from karat.models.vlm import VLMParameters
    from karat.models.vlm_targets import TargetScores

F = TypeVar("F")
ASKED_GRID = 7, 7  # of the image, where visual tokens make none: what is hidden and shown


@dataclass(frozen=True, eq=False)
class SpeakingVLM(ABC, Generic[F]):
    """The sequence is [before | question, padded | after | answer]. `family` is how the model is built."""

    module: nn.Module
    processor: Any
    family: F
    name: str
    mechanism: str | None
    parameters: VLMParameters

    @abstractmethod
    def batch_key(self, sample: Sample) -> Hashable:
        """Samples of one key can be encoded together."""

    @abstractmethod
    def encode(self, samples: Sequence[Sample]) -> Inputs: ...

    @abstractmethod
    def read(self, inputs: Inputs, answer: Tensor, places: Tensor | None = None) -> Tensor:
        """(n, E, vocabulary), float32 or wider: logits that predict the tokens of `answer` (n, A), given those before
        each, at `places` (n, E) or at all."""

    @abstractmethod
    def reuse_image(self, inputs: Inputs) -> Inputs: ...

    @property
    @abstractmethod
    def speaking(self) -> Prompt:
        """The end of the prompt, after which answers are tokenised."""

    @property
    def answers(self) -> tuple[str, ...]:
        return self.parameters.options

    @property
    def neutral_token(self) -> int:
        tokenizer = self.processor.tokenizer
        known = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id, 0]
        return int(next(number for number in known if number is not None))

    @property
    def mask_token(self) -> int | None:
        number = self.processor.tokenizer.mask_token_id
        return None if number is None else int(number)

    def token_spans(self, text: str) -> tuple[Span, ...]:
        return self.speaking.spoken(text).spans

    def target_tokens(self, target: TargetLike) -> TargetTokens:
        spoken = self.speaking.spoken(target if isinstance(target, str) else target.text)
        first, stop = tokens_of(target, spoken.spans)
        return TargetTokens(spoken.numbers[:stop], first)

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """The logits of the span's tokens, summed."""
        return self.target_scores.scores(inputs, targets, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        """Of the span's tokens together, each given all that is said before it."""
        return self.target_scores.scores(inputs, targets, log=True)

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

    @cached_property
    def target_scores(self) -> TargetScores:
        from karat.models.vlm_targets import TargetScores

        return TargetScores(self.read, self.target_tokens, self.neutral_token)

    def _decoded(self, samples: Sequence[Sample]) -> list[str]:
        import torch

        ends = torch.tensor(self._end_tokens, dtype=torch.long, device=next(self.module.parameters()).device)
        with torch.no_grad():
            inputs = self.reuse_image(self.encode(samples))
            answer = torch.empty(len(samples), 0, dtype=torch.long, device=inputs.pixels.device)
            done = torch.zeros(len(samples), dtype=torch.bool, device=answer.device)
            while answer.shape[1] < self.parameters.max_new_tokens and not bool(done.all()):
                longer = torch.cat([answer, answer.new_full((len(answer), 1), self.neutral_token)], 1)
                last = answer.new_full((len(answer), 1), answer.shape[1])
                following = self.read(inputs, longer, last)[:, 0].argmax(-1).to(answer.device)
                done |= torch.isin(following, ends)
                answer = torch.cat([answer, following.masked_fill(done, self.neutral_token)[:, None]], 1)
        texts = self.processor.tokenizer.batch_decode(answer, skip_special_tokens=True)
        return [str(text).strip() for text in texts]

    @property
    def _end_tokens(self) -> list[int]:
        """Tokens that end an answer: the tokenizer's, and those of the model's generation settings."""
        known = getattr(getattr(self.module, "generation_config", None), "eos_token_id", None)
        listed = known if isinstance(known, list) else [known]
        return [number for number in (self.processor.tokenizer.eos_token_id, *listed) if number is not None]

    def _padded(self, prompts: Sequence[Encoded]) -> tuple[list[list[int]], list[list[int]]]:
        """Questions of one length, and where they are real."""
        if len({(len(each.before), len(each.after)) for each in prompts}) > 1:
            raise BadInput(f"{self.name}: the template is tokenised differently around some questions; ask them apart.")
        longest = max(len(each.question) for each in prompts)
        pads = [longest - len(each.question) for each in prompts]
        tokens = [[*p.question, *([self.neutral_token] * more)] for p, more in zip(prompts, pads, strict=True)]
        keep = [[1] * len(p.question) + [0] * more for p, more in zip(prompts, pads, strict=True)]
        return tokens, keep

    def _question(self, sample: Sample, token: str | None) -> str:
        """Its question, which must not hold `token`, the image's."""
        text = sample.text or ""
        if token and token in text:
            raise BadInput(f"{self.name}: the question of {sample.id} holds the image token {token!r}; take it out.")
        return text

    def _of_one_size(self, sizes: Sequence[tuple[int, ...]], verb: str) -> None:
        if len(set(sizes)) > 1:
            listed = ", ".join(f"{size[0]}×{size[1]}" for size in sorted(set(sizes)))
            raise BadInput(
                f"{self.name}: samples of one batch need one input size; these images {verb} {listed}. Group them by "
                "`model.batch_key(sample)`."
            )


def known_frames(frames: Sequence[Frame | None]) -> tuple[Frame, ...] | None:
    """All of them, or None where one is not known."""
    known = [frame for frame in frames if frame is not None]
    return tuple(known) if len(known) == len(frames) else None


def checked_image(sample: Sample) -> Image:
    """Its image, if it is one."""
    image = sample.image
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or 0 in image.shape:
        raise BadInput(
            f"sample {sample.id}: an image must be uint8 of shape (H, W, 3); got {image.dtype} of shape {image.shape}."
        )
    return image if image.flags.writeable else image.copy()  # torch warns of arrays that it must not write to
