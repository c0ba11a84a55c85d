"""`WholeAnswerVLM`: a vision-language model that reads an image and a text together and scores all its answers at once:
classifiers over answers (ViLT) and heads that say whether a text matches an image (ViLT, BLIP, BridgeTower)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Values
from karat.models.batching import in_parts
from karat.models.prompt import Encoded, Prompt
from karat.models.structure import block_norm
from karat.models.targets import answer_columns, whole_scores
from karat.models.torch_model import Inputs, Layout
from karat.models.vlm_speech import ASKED_GRID, checked_image, known_frames

if TYPE_CHECKING:
    from torch import Tensor, nn

    from karat.models.discovery.lens import Lens
    from karat.models.discovery.processing import Processing
    from karat.models.vlm import VLMParameters

MATCHING = ("no match", "match")


@dataclass(frozen=True)
class Head:
    """What a class of transformers gives. `output` is the field of its logits, `given` what else its forward takes;
    `blocks` the layers of a vision tower that stands by itself, "" where image and text share all layers."""

    output: str = "logits"
    given: Mapping[str, bool] = field(default_factory=dict)
    blocks: str = ""

    @property
    def capabilities(self) -> frozenset[str]:
        """CAMs need a layer whose tokens are places of the image: that of a tower by itself."""
        return frozenset({"scores", "text", "gradients", *(["activations"] if self.blocks else [])})


HEADS: Mapping[str, Head] = {
    "ViltForQuestionAnswering": Head(),
    "ViltForImageAndTextRetrieval": Head(),
    "BridgeTowerForImageAndTextRetrieval": Head(),
    "BlipForImageTextRetrieval": Head("itm_score", {"use_itm_head": True}, "vision_model.encoder.layers"),
}


@dataclass(frozen=True, eq=False)
class WholeAnswerVLM:
    """A `TorchModel` over one of `HEADS`. Made by `vlm`.

    A classifier gives each answer a probability of its own (it was trained with binary cross-entropy); whether a text
    matches is a choice between "no match" and "match".
    """

    module: nn.Module
    processor: Any
    name: str
    mechanism: str | None
    parameters: VLMParameters

    @property
    def head(self) -> Head:
        return HEADS[type(self.module).__name__]

    @property
    def capabilities(self) -> frozenset[str]:
        offered = self.head.capabilities
        return offered | {"mechanism"} if self.mechanism else offered

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All answers there are, in the order of the logits."""
        if not self._classifies:
            return MATCHING
        config: Any = self.module.config
        return tuple(str(config.id2label[k]) for k in range(config.num_labels))

    @property
    def answers(self) -> tuple[str, ...]:
        return self.parameters.options or self.labels

    @cached_property
    def layers(self) -> Mapping[str, str]:
        names = {id(part): name for name, part in self.module.named_modules()}
        roles = {"words": names[id(self._words)]}
        if self.head.blocks:
            blocks: Any = self.module.get_submodule(self.head.blocks)
            roles |= {f"vision.{k}": f"{self.head.blocks}.{k}" for k in range(len(blocks))}
            last = f"{self.head.blocks}.{len(blocks) - 1}"
            roles["vision.last"] = block_norm(self.module, last) or last
        return roles

    @property
    def vision(self) -> str:
        return self.head.blocks.partition(".")[0] or "no vision tower"

    @property
    def attention_layers(self) -> tuple[str, ...]:
        return ()

    @property
    def neutral_token(self) -> int:
        """The mask of its pretraining: padding would not count as a position in some text encoders."""
        tokenizer = self.processor.tokenizer
        known = [tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id, 0]
        return int(next(number for number in known if number is not None))

    @property
    def mask_token(self) -> int | None:
        number = self.processor.tokenizer.mask_token_id
        return None if number is None else int(number)

    def batch_key(self, sample: Sample) -> Hashable:
        """Samples of one key can be encoded together: no padding stands in their texts."""
        return *self.lens.size(*sample.size), len(self._encoded(sample).question)

    def encode(self, samples: Sequence[Sample]) -> Inputs:
        import torch

        example = next(self.module.parameters())
        prompts = [self._encoded(sample) for sample in samples]
        if len({(self.lens.size(*s.size), len(p.question)) for s, p in zip(samples, prompts, strict=True)}) > 1:
            raise BadInput(
                f"{self.name}: samples of one batch need images of one size and questions of as many tokens. Group "
                "them by `model.batch_key(sample)`."
            )
        rows = []
        for sample in samples:
            image = checked_image(sample)
            prepared = self.processing.one(image, sample.text or "")
            rows.append({"pixels": self.lens.pixels(image, prepared), **self.lens.kept(image, prepared)})

        def numbers(part: str) -> Tensor:
            listed = [list(getattr(prompt, part)) for prompt in prompts]
            return torch.tensor(listed, dtype=torch.long, device=example.device).reshape(len(rows), -1)

        whole = {name: torch.cat([row[name] for row in rows]) for name in rows[0]}
        placed = {
            name: tensor.to(example.device, example.dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in whole.items()
        }
        tokens = numbers("question")
        return Inputs(
            pixels=placed.pop("pixels"),
            tokens=tokens,
            token_keep=torch.ones_like(tokens, dtype=torch.bool),
            words=tuple(prompt.words for prompt in prompts),
            other=placed | {"before": numbers("before"), "after": numbers("after")},
            frames=known_frames([self.lens.frame(*sample.size) for sample in samples]),
        )

    def logits(self, inputs: Inputs) -> Tensor:
        """(n, labels) raw scores."""
        import torch

        assert inputs.tokens is not None
        numbers = torch.cat([inputs.other["before"], inputs.tokens, inputs.other["after"]], 1)
        given = {"input_ids": numbers, "attention_mask": torch.ones_like(numbers), **self.head.given}
        output = self.module(**given, **self.lens.tensors(inputs.pixels, inputs.other))
        scores: Tensor = getattr(output, self.head.output).float()
        # One logit says how well they match: no match is its opposite.
        return scores if scores.shape[-1] > 1 else torch.cat([torch.zeros_like(scores), scores], -1)

    def readout(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        table = self.logits(inputs)
        return whole_scores(lambda answers: answer_columns(table, self.labels, answers), targets, self.name, log=False)

    def log_probability(self, inputs: Inputs, targets: Sequence[TargetLike]) -> Tensor:
        from torch.nn import functional

        table = self.logits(inputs)
        table = functional.logsigmoid(table) if self._classifies else table.log_softmax(-1)
        return whole_scores(lambda answers: answer_columns(table, self.labels, answers), targets, self.name, log=True)

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        import torch

        def some(numbers: Sequence[int]) -> list[str]:
            with torch.no_grad():
                table = self.logits(self.encode([samples[k] for k in numbers]))
            chosen = [self.labels.index(answer) for answer in self.answers]
            return [self.answers[k] for k in table[:, chosen].argmax(-1).tolist()]

        return in_parts([self.batch_key(sample) for sample in samples], some)

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        import torch

        def some(numbers: Sequence[int]) -> list[float]:
            with torch.no_grad():
                inputs = self.encode([samples[k] for k in numbers])
                return [float(p) for p in self.log_probability(inputs, [targets[k] for k in numbers]).exp()]

        if len(samples) != len(targets):
            raise BadInput(f"{self.name}: one answer per sample; got {len(targets)} for {len(samples)} samples.")
        return np.array(in_parts([self.batch_key(sample) for sample in samples], some), dtype=np.float64)

    def layout(self, inputs: Inputs) -> Layout:
        """Words by their places among the tokens of the text; where image and text share layers, patches stand in an
        order of the model's own."""
        assert inputs.tokens is not None
        start = inputs.other["before"].shape[1]
        return Layout(ASKED_GRID, None, tuple(range(start, start + inputs.tokens.shape[1])), None)

    @cached_property
    def processing(self) -> Processing:
        from karat.models.discovery.processing import Processing

        return Processing(self.processor, self.parameters.suffix, bare=True)

    @cached_property
    def lens(self) -> Lens:
        from karat.models.discovery.discover import QUESTION, probe_sample
        from karat.models.discovery.lens import Lens

        sizes = [(64, 64, 0), (64, 64, 1), (64, 128, 0), (128, 64, 0)]
        return Lens.of(self.processing, [probe_sample(*size, QUESTION).image for size in sizes], QUESTION)

    def _encoded(self, sample: Sample) -> Encoded:
        prompt = Prompt(self.processor.tokenizer, "", self.parameters.suffix)
        return prompt.encode(sample.text or "")

    @property
    def _classifies(self) -> bool:
        return type(self.module).__name__.endswith("ForQuestionAnswering")

    @property
    def _words(self) -> nn.Module:
        """The embedding of its tokens: the largest one that is called so."""
        import torch

        named = [
            part
            for name, part in self.module.named_modules()
            if isinstance(part, torch.nn.Embedding) and name.endswith("word_embeddings")
        ]
        if not named:
            raise BadInput(f"{self.name}: {type(self.module).__name__} has no part called word_embeddings.")
        return named[0]
