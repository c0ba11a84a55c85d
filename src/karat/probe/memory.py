"""How much memory an explanation takes, foretold from a model's configuration: before any weight is loaded.

Weights, what one forward pass works on, what a trace keeps for its backward pass from the first layer it differentiates
(`Kept`), and what it records. Bytes are counted layer by layer: tokens × (what a layer keeps of its width, of its MLP)
× bytes of a number. `benchmarks/measure_memory.py` sets it beside measured peaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

# What the trace of an explainer keeps: nothing (it only asks), queries, keys and values of every layer, one layer's
# activations, gradients down to the last layer of the vision tower, down to the pixels, of every layer's attention.
Kept = Literal["nothing", "heads", "activations", "layer_gradients", "gradients", "head_gradients"]
KEPT: tuple[Kept, ...] = get_args(Kept)


BITS_4 = 0.5  # bytes of a quantised weight


@dataclass(frozen=True)
class Stack:
    """Layers of one width that a sequence runs through; `gated` MLPs have two maps up, `shared` key heads are fewer."""

    layers: int
    width: int
    mlp: int
    heads: int
    key_heads: int
    head_width: int
    gated: bool

    @property
    def parameters(self) -> int:
        attention = self.width * self.head_width * (2 * self.heads + 2 * self.key_heads)
        return self.layers * (attention + (3 if self.gated else 2) * self.width * self.mlp + 2 * self.width)


@dataclass(frozen=True)
class Dimensions:
    """What decides memory: a decoder over a sequence, a vision tower over patches (None where there is none), the
    vocabulary, and all parameters, where they are known better than by adding up."""

    decoder: Stack
    vision: Stack | None = None
    vocabulary: int = 0
    tied: bool = False
    parameters: int | None = None

    @property
    def count(self) -> int:
        embedding = self.vocabulary * self.decoder.width * (1 if self.tied else 2)
        own = self.decoder.parameters + embedding + (self.vision.parameters if self.vision else 0)
        return own if self.parameters is None else self.parameters


@dataclass(frozen=True)
class Forecast:
    """Bytes at the peak, by what they are for."""

    weights: float
    working: float
    kept: float
    recorded: float

    @property
    def peak(self) -> float:
        return self.weights + self.working + self.kept + self.recorded


def dimensions(config: Mapping[str, Any]) -> Dimensions:
    """From the plain data of a transformers config.json, of a language model or a vision-language model."""
    text = config.get("text_config") or config.get("llm_config") or config
    vision = config.get("vision_config")
    return Dimensions(
        _stack(text, gated=True),
        None if not isinstance(vision, Mapping) else _stack(vision, gated=False),
        int(text.get("vocab_size") or config.get("vocab_size") or 32000),
        bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
    )


def forecast(
    model: Dimensions,
    kept: Kept,
    tokens: int,
    patches: int = 0,
    rows: int = 1,
    number: float = 4,
    weights: float | None = None,
    checkpointed: bool = False,
) -> Forecast:
    """The peak of one explanation, or of `rows` of them in one batch.

    Args:
        model: its dimensions.
        kept: what the trace of the explainer keeps; "nothing" for explainers that only ask.
        tokens: of the whole sequence, image included.
        patches: of the vision tower.
        rows: samples, or coalitions, of one pass.
        number: bytes of one number of what is computed.
        weights: bytes of the weights; by default parameters × `number`.
        checkpointed: layers keep their input alone, and one at a time is computed again.
    """
    stacks = [(model.decoder, tokens)]
    if model.vision is not None:
        stacks.append((model.vision, patches))
    held = model.count * number if weights is None else weights
    working = rows * number * max(n * _working(stack) for stack, n in stacks)
    head = rows * number * 2 * model.vocabulary  # logits, and their softmax, where the answer is read
    if kept in ("nothing", "activations"):
        recorded = rows * number * tokens * model.decoder.width * (kept == "activations")
        return Forecast(held, working + head, 0.0, recorded)
    if kept == "heads":
        given = model.decoder.heads * model.decoder.head_width  # what the heads gave is held until the forward is over
        factors = tokens * model.decoder.layers * (_factors(model.decoder) + given)
        return Forecast(held, working + head, 0.0, rows * number * factors)
    differentiated = stacks if kept == "gradients" else stacks[:1]
    inside = [n * _saved(stack) for stack, n in differentiated]
    if checkpointed:
        inputs = sum(n * stack.layers * stack.width for stack, n in differentiated)
        graph = inputs + max(inside)
    else:
        graph = sum(each * stack.layers for each, (stack, _) in zip(inside, differentiated, strict=True))
    # Heads are part of the graph, but for the gradients of what they gave.
    extra: float = stacks[0][0].layers * tokens * stacks[0][0].heads * stacks[0][0].head_width
    if kept == "head_gradients" and checkpointed:
        extra += tokens * stacks[0][0].layers * _factors(stacks[0][0])
    recorded = rows * number * (extra if kept == "head_gradients" else 0)
    return Forecast(held, working + head, rows * number * graph, recorded)


def what_fits(
    model: Dimensions,
    kept: Kept,
    tokens: int,
    patches: int,
    memory: float,
    number: float,
    weights: float | None = None,
    rows: int = 1,
    checkpointable: bool = True,
) -> list[str]:
    """Changes that would bring an explanation under `memory` bytes, each by itself, the least first. `checkpointable`:
    whether its trace can be checkpointed; the rest as in `forecast`."""

    def fits(**changes: Any) -> bool:
        given = {"kept": kept, "tokens": tokens, "patches": patches, "number": number, "weights": weights, "rows": rows}
        options: dict[str, Any] = {**given, **changes}
        return forecast(model, **options).peak <= memory

    ways = []
    if kept in ("layer_gradients", "gradients", "head_gradients") and checkpointable and fits(checkpointed=True):
        ways.append("checkpointed traces")
    if kept != "nothing" and rows > 1:
        fewer = next((n for n in (rows // 2**k for k in range(1, rows.bit_length())) if n and fits(rows=n)), None)
        ways += [] if fewer is None else [f"batch_size: {fewer}"]
    if number > 2 and fits(number=2, weights=None if weights is None else weights * 2 / number):
        ways.append("dtype: bfloat16")
    if patches and fits(tokens=max(1, tokens - 3 * patches // 4), patches=patches // 4):
        ways.append("a quarter of the pixels (max_pixels)")
    if kept != "nothing" and fits(kept="nothing"):
        ways.append("an explainer that only asks (perturbation/rise, shapley/kernel_shap)")
    if fits(number=2, weights=model.count * BITS_4):
        ways.append("quantised: 4bit on a GPU")
    return ways


def _working(stack: Stack) -> float:
    """Numbers a token that a layer holds at its widest: its input, and the MLP or the heads."""
    attention = stack.head_width * (2 * stack.heads + 2 * stack.key_heads)
    return 2 * stack.width + max((3 if stack.gated else 2) * stack.mlp, attention)


def _factors(stack: Stack) -> float:
    """Numbers a token of queries, keys and values, as they are kept."""
    return stack.head_width * (stack.heads + 2 * stack.key_heads)


def _saved(stack: Stack) -> float:
    """Numbers a token that a layer keeps for its backward pass, weights being frozen: maps keep nothing, norms their
    input and what they divided it to, attention its factors and what it gave, the MLP what it multiplied."""
    attention = stack.head_width * (2 * stack.heads + 2 * stack.key_heads)
    return 4 * stack.width + attention + (3 if stack.gated else 1) * stack.mlp


def _stack(config: Mapping[str, Any], gated: bool) -> Stack:
    width = int(config.get("hidden_size") or config.get("embed_dim") or 1024)
    heads = int(config.get("num_attention_heads") or config.get("num_heads") or 16)
    return Stack(
        int(config.get("num_hidden_layers") or config.get("depth") or config.get("num_layers") or 24),
        width,
        int(config.get("intermediate_size") or 4 * width),
        heads,
        int(config.get("num_key_value_heads") or heads),
        int(config.get("head_dim") or width // heads),
        gated,
    )
