"""Carries out a trace: one forward pass of a model on a batch, with what was asked for recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike
from karat.models.structure import attention_modules
from karat.models.torch_model import ArrangesVision, Inputs, Layout, ReadsSpans, TorchModel
from karat.probe.attention import AttentionWatch, Heads
from karat.probe.checkpoints import Checkpoints, blocks
from karat.probe.hooks import evaluating, frozen, recorded, say
from karat.probe.inputs import take
from karat.probe.relu_rules import PLAIN, ReluRules
from karat.probe.request import PIXELS, Request
from karat.probe.trace import Recordings, Trace


def record(
    model: TorchModel, inputs: Inputs, targets: Sequence[TargetLike], request: Request, checkpointed: bool = False
) -> Trace:
    """A trace that stays open until its owner closes it: what a session shares among explainers."""
    again = blocks(model.layers) if checkpointed else ()
    return run(Forward.of(model, inputs, targets), request, create_graph=False, checkpointed=again)


def record_spans(
    model: TorchModel,
    inputs: Inputs,
    targets: Sequence[TargetLike],
    request: Request,
    after_backward: Callable[[], None] | None = None,
) -> Trace:
    """The same for inputs whose rows are all one sample and targets that are spans of one text: one forward of one row,
    and one backward for each target. The trace is the one that a forward of all rows would have given.

    `after_backward` is called each time, by whoever counts what the backward passes do.
    """
    assert isinstance(model, ReadsSpans)
    spans: ReadsSpans = model
    one = take(inputs, torch.zeros(1, dtype=torch.long))
    forward = Forward.of(model, one, lambda batch: spans.span_scores(batch, targets, False)[0])
    return run(forward, request, False, Spans(len(targets), inputs, after_backward))


@dataclass(frozen=True, eq=False)
class Spans:
    """A forward of one row that stands for `count` rows, one for each span that is explained; `inputs` are of all."""

    count: int
    inputs: Inputs
    after_backward: Callable[[], None] | None = None

    def rows(self, tensor: Tensor) -> Tensor:
        """A recording of the one row, for all; windows of a sample stay side by side."""
        return tensor.expand(self.count, *tensor.shape[1:]) if len(tensor) == 1 else torch.cat([tensor] * self.count)

    def heads(self, part: Heads, gradient: Tensor | None) -> Heads:
        """What attention is made of, for all rows; masks broadcast by themselves."""
        wide: dict[str, Any] = {
            each.name: self.rows(value)
            for each in fields(part)
            if each.name != "mask" and isinstance(value := getattr(part, each.name), Tensor)
        }
        return replace(part, **wide).finished(gradient)


@runtime_checkable
class HasVisionTower(Protocol):
    """A torch model with a vision tower: layers under its dotted name hold visual tokens only."""

    @property
    def vision(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Forward:
    """One forward pass to come: a model and a batch; `score(pixels)` runs it."""

    module: nn.Module
    score: Callable[[Tensor | None], Tensor]
    pixels: Tensor | None
    image: tuple[int, int]
    roles: Mapping[str, str]
    attention_layers: Sequence[str]
    inputs: Inputs | None = None
    layout: Layout | None = None
    vision: str | None = None
    arranges: ArrangesVision | None = None

    @staticmethod
    def of(model: TorchModel | nn.Module, batch: Any, target: Any) -> Forward:
        """`model` is an adapter or a torch module; see `karat.probe.trace` for the rest."""
        return _of_module(model, batch, target) if isinstance(model, nn.Module) else _of_adapter(model, batch, target)

    def in_joint_sequence(self, name: str) -> bool:
        """Whether a layer runs over the sequence that `layout` describes, rather than inside a vision tower."""
        return self.vision is None or not f"{name}.".startswith(f"{self.vision}.")

    def by_sample(self, name: str, recording: Tensor) -> Tensor:
        """One row per sample, however the vision tower ran."""
        if self.arranges is None or self.inputs is None or name == PIXELS or self.in_joint_sequence(name):
            return recording
        return self.arranges.by_sample(name, recording, self.inputs)

    @property
    def patches(self) -> tuple[int, int] | None:
        return None if self.arranges is None or self.inputs is None else self.arranges.patches(self.inputs)


def _of_adapter(model: TorchModel, batch: Any, target: Any) -> Forward:
    inputs = batch if isinstance(batch, Inputs) else model.encode(batch)
    answers = target if callable(target) else list(target)

    def score(pixels: Tensor | None) -> Tensor:
        batch = inputs if pixels is None else replace(inputs, pixels=pixels, reuse={})
        return answers(batch) if callable(answers) else model.readout(batch, answers)

    return Forward(
        model.module,
        score,
        inputs.pixels,
        (inputs.pixels.shape[-2], inputs.pixels.shape[-1]),
        model.layers,
        model.attention_layers,
        inputs,
        model.layout(inputs),
        model.vision if isinstance(model, HasVisionTower) else None,
        model if isinstance(model, ArrangesVision) else None,
    )


def _of_module(module: nn.Module, batch: Any, target: Any) -> Forward:
    images = batch if isinstance(batch, Tensor) else list(batch)
    size = images[0].shape[-2:] if len(images) else (0, 0)

    def score(pixels: Tensor | None) -> Tensor:
        output = module(images if pixels is None else pixels)
        if callable(target):
            return target(output)
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            kind = type(module).__name__
            raise BadInput(f"class numbers need an output of shape (n, classes); {kind} gave {say(output)}.")
        classes = torch.as_tensor(target, device=logits.device)
        return logits.gather(1, classes[:, None])[:, 0]

    pixels = images if isinstance(images, Tensor) else None
    return Forward(module, score, pixels, (size[0], size[1]), {}, attention_modules(module))


def run(
    forward: Forward,
    request: Request,
    create_graph: bool,
    spans: Spans | None = None,
    checkpointed: Sequence[str] = (),
) -> Trace:
    """One forward, one backward if any gradient is asked for (to the earliest that is), one per rule for ReLUs; one
    backward for each of `spans`. Layers in `checkpointed` are run once more in the backward pass instead of being kept.
    """
    layers: dict[str, Tensor] = {}  # recordings, in the order in which the layers ran
    of_attention = bool(request.attention_gradients or request.head_gradients)
    at_pixels = PIXELS in request.gradients or bool(request.relu)
    differentiates = bool(request.gradients | request.relu) or of_attention
    whole, factored = sorted(request.attention | request.attention_gradients), sorted(request.heads)
    watch = AttentionWatch(forward.module, whole, of_attention, factored, not create_graph, lambda: checkpoints.again)
    checkpoints = Checkpoints(
        forward.module,
        checkpointed if differentiates and not create_graph and not request.relu else (),
        watch.watching_here if whole or factored else nullcontext,
    )
    with ExitStack() as stack:
        stack.enter_context(evaluating(forward.module))
        if not create_graph:
            stack.enter_context(frozen(forward.module))
        stack.enter_context(torch.set_grad_enabled(differentiates))
        for name in (request.activations | request.gradients) - {PIXELS}:
            differentiate = name in request.gradients
            stack.enter_context(recorded(forward.module, name, layers, differentiate, lambda: checkpoints.again))
        if whole or factored:
            stack.enter_context(watch)
        stack.enter_context(checkpoints)
        relus = stack.enter_context(ReluRules()) if request.relu else None
        pixels = _leaf(forward, at_pixels)
        if at_pixels or PIXELS in request.activations:
            if pixels is None:
                raise BadInput("pixels of a list of images cannot be traced; give one tensor (n, 3, H, W).")
            layers[PIXELS] = pixels
        scores = forward.score(pixels if at_pixels else None)
        for name in (request.activations | request.gradients) - set(layers):
            raise BadInput(
                f"layer {name} did not run in this forward pass; the model may use it only for other inputs."
            )
        differentiated = {
            "layer": _of(layers, request.gradients),
            "map": _of(watch.maps, request.attention_gradients),
            "heads": _of(watch.outputs, request.head_gradients),
        }
        rules = [] if relus is None else sorted(request.relu) if relus.met else [PLAIN]
        # Inside, because a checkpointed layer is run again here, and must be run as it was.
        if spans is None:
            gradients = _gradients(scores, differentiated, create_graph, keep=bool(rules))
        else:
            gradients = _span_gradients(scores, differentiated, forward, spans)
    by_rule = relus.gradients(scores, layers[PIXELS], rules) if relus is not None else {}

    def recordings(kind: str, tensors: Mapping[str, Tensor], by_sample: bool = False) -> Recordings:
        """In the order in which the layers ran."""
        rows = {name: forward.by_sample(name, t) if by_sample else t for name, t in tensors.items()}
        if spans is not None and "gradients" not in kind:
            rows = {name: spans.rows(t) for name, t in rows.items()}
        return Recordings(kind, {name: t if create_graph else t.detach() for name, t in rows.items()}, forward.roles)

    return Trace(
        request,
        scores if create_graph else scores.detach(),
        recordings("activations", _of(layers, request.activations), by_sample=True),
        recordings("gradients", gradients["layer"], by_sample=spans is None),
        recordings("attention", _of(watch.maps, request.attention)),
        recordings("attention_gradients", gradients["map"]),
        {
            name: part.finished(gradients["heads"].get(name), create_graph)
            if spans is None
            else spans.heads(part, gradients["heads"].get(name))
            for name, part in watch.heads.items()
        },
        forward.inputs if spans is None else spans.inputs,
        forward.layout,
        (1 if spans is None else spans.count) * (1 if any(differentiated.values()) else 0) + len(rules),
        forward,
        by_rule,
    )


def _of(tensors: Mapping[str, Tensor], names: Collection[str]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name in names}


def _leaf(forward: Forward, differentiate: bool) -> Tensor | None:
    if forward.pixels is None or not differentiate:
        return forward.pixels
    return forward.pixels.detach().clone().requires_grad_()


def _gradients(
    scores: Tensor, tensors: Mapping[str, Mapping[str, Tensor]], create_graph: bool, keep: bool
) -> dict[str, dict[str, Tensor]]:
    """d(sum of scores)/d(tensor), kind by kind. Samples do not mix, so each row is the gradient of its own score."""
    flat = [tensor for named in tensors.values() for tensor in named.values()]
    if not flat:
        return {kind: {} for kind in tensors}
    if scores.ndim != 1:
        raise BadInput(f"gradients are of one score per sample, shape (n,); got {tuple(scores.shape)}.")
    if not scores.requires_grad:
        raise BadInput("the scores do not depend on any recorded layer: nothing to differentiate.")
    slopes = torch.autograd.grad(scores.sum(), flat, None, keep or create_graph, create_graph, allow_unused=True)
    rest = iter(torch.zeros_like(t) if slope is None else slope for t, slope in zip(flat, slopes, strict=True))
    return {kind: {name: next(rest) for name in named} for kind, named in tensors.items()}


def _span_gradients(
    scores: Tensor, tensors: Mapping[str, Mapping[str, Tensor]], forward: Forward, spans: Spans
) -> dict[str, dict[str, Tensor]]:
    """d(score of a span)/d(tensor), kind by kind, one row for each span: the graph is kept until the last."""
    parts: list[dict[str, dict[str, Tensor]]] = []
    if not any(tensors.values()):
        return {kind: {} for kind in tensors}
    for k in range(spans.count):
        slopes = _gradients(scores[k : k + 1], tensors, False, keep=k + 1 < spans.count)
        slopes["layer"] = {name: forward.by_sample(name, slope) for name, slope in slopes["layer"].items()}
        parts.append(slopes)
        if spans.after_backward is not None:
            spans.after_backward()
    return {
        kind: {name: torch.cat([part[kind][name] for part in parts]) for name in named}
        for kind, named in tensors.items()
    }
