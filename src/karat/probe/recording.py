"""Carries out a trace: makes a model and a batch ready, runs them once, and keeps what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike
from karat.models.structure import attention_modules
from karat.models.torch_model import ArrangesVision, Inputs, Layout, TorchModel
from karat.probe.attention import AttentionWatch
from karat.probe.hooks import evaluating, frozen, recorded, say
from karat.probe.relu import PLAIN, ReluRules
from karat.probe.request import PIXELS, Request
from karat.probe.trace import Recordings, Trace


def record(model: TorchModel, inputs: Inputs, targets: Sequence[TargetLike], request: Request) -> Trace:
    """A trace that stays open until its ready closes it: what a session shares among explainers."""
    return run(Ready.of(model, inputs, targets), request, create_graph=False)


@dataclass(frozen=True, eq=False)
class Ready:
    """A model and a batch made ready to run: `score(pixels)` is one forward pass."""

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
    def of(model: TorchModel | nn.Module, batch: Any, target: Any) -> Ready:
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


def _of_adapter(model: TorchModel, batch: Any, target: Any) -> Ready:
    inputs = batch if isinstance(batch, Inputs) else model.encode(batch)
    answers = target if callable(target) else list(target)

    def score(pixels: Tensor | None) -> Tensor:
        given = inputs if pixels is None else replace(inputs, pixels=pixels, reuse={})
        return answers(given) if callable(answers) else model.readout(given, answers)

    return Ready(
        model.module,
        score,
        inputs.pixels,
        (inputs.pixels.shape[-2], inputs.pixels.shape[-1]),
        model.layers,
        model.attention_layers,
        inputs,
        model.layout(inputs),
        getattr(model, "vision", None),
        model if isinstance(model, ArrangesVision) else None,
    )


def _of_module(module: nn.Module, batch: Any, target: Any) -> Ready:
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
    return Ready(module, score, pixels, (size[0], size[1]), {}, attention_modules(module))


def run(ready: Ready, request: Request, create_graph: bool) -> Trace:
    """One forward, one backward if any gradient is asked for (to the earliest that is), one per rule for ReLUs."""
    seen: dict[str, Tensor] = {}
    slopes_of_maps = bool(request.attention_gradients or request.head_gradients)
    differentiate = bool(request.gradients | request.relu) or slopes_of_maps
    at_pixels = PIXELS in request.gradients or bool(request.relu)
    whole, factored = sorted(request.attention | request.attention_gradients), sorted(request.heads)
    with ExitStack() as stack:
        stack.enter_context(evaluating(ready.module))
        if not create_graph:
            stack.enter_context(frozen(ready.module))
        stack.enter_context(torch.set_grad_enabled(differentiate))
        for name in (request.activations | request.gradients) - {PIXELS}:
            stack.enter_context(recorded(ready.module, name, seen, name in request.gradients))
        watch = None
        if whole or factored:
            watch = AttentionWatch(ready.module, whole, slopes_of_maps, factored, fused=not create_graph)
            stack.enter_context(watch)
        relus = stack.enter_context(ReluRules()) if request.relu else None
        pixels = _leaf(ready, at_pixels)
        if at_pixels or PIXELS in request.activations:
            if pixels is None:
                raise BadInput("pixels of a list of images cannot be traced; give one tensor (n, 3, H, W).")
            seen[PIXELS] = pixels
        scores = ready.score(pixels if at_pixels else None)
    for name in (request.activations | request.gradients) - set(seen):
        raise BadInput(f"layer {name} did not run in this forward pass; the model may use it only for other inputs.")
    maps = watch.maps if watch is not None else {}
    outputs = watch.outputs if watch is not None else {}
    inner, heads = [n for n in seen if n in request.gradients], [n for n in maps if n in request.attention_gradients]
    given = [name for name in outputs if name in request.head_gradients]
    wanted = [seen[name] for name in inner] + [maps[name] for name in heads] + [outputs[name] for name in given]
    rules = [] if relus is None else sorted(request.relu) if relus.met else [PLAIN]
    grads = _gradients(scores, wanted, create_graph, keep=bool(rules)) if wanted else []
    by_rule = relus.gradients(scores, seen[PIXELS], rules) if relus is not None else {}
    slopes = [ready.by_sample(name, grad) for name, grad in zip(inner, grads, strict=False)]
    of_outputs = dict(zip(given, grads[len(inner) + len(heads) :], strict=True))
    kept = watch.heads if watch is not None else {}
    parts = {name: part.finished(of_outputs.get(name), create_graph) for name, part in kept.items()}

    def recordings(kind: str, named: Iterable[tuple[str, Tensor]]) -> Recordings:
        """In the order in which the layers ran."""
        return Recordings(kind, {name: t if create_graph else t.detach() for name, t in named}, ready.roles)

    return Trace(
        request,
        scores if create_graph else scores.detach(),
        recordings(
            "activations", ((name, ready.by_sample(name, t)) for name, t in seen.items() if name in request.activations)
        ),
        recordings("gradients", zip(inner, slopes, strict=True)),
        recordings("attention", ((name, t) for name, t in maps.items() if name in request.attention)),
        recordings("attention_gradients", zip(heads, grads[len(inner) :], strict=False)),
        parts,
        ready.inputs,
        ready.layout,
        (1 if wanted else 0) + len(rules),
        ready,
        by_rule,
    )


def _leaf(ready: Ready, differentiate: bool) -> Tensor | None:
    if ready.pixels is None or not differentiate:
        return ready.pixels
    return ready.pixels.detach().clone().requires_grad_()


def _gradients(scores: Tensor, tensors: Sequence[Tensor], create_graph: bool, keep: bool) -> list[Tensor]:
    """d(sum of scores)/d(tensor). Samples do not mix, so each row is the gradient of its own score."""
    if scores.ndim != 1:
        raise BadInput(f"gradients are of one score per sample, shape (n,); got {tuple(scores.shape)}.")
    if not scores.requires_grad:
        raise BadInput("the scores do not depend on any recorded layer: nothing to differentiate.")
    found = torch.autograd.grad(scores.sum(), tensors, None, keep or create_graph, create_graph, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found, strict=True)]
