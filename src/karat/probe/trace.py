"""`trace`: look inside once. One forward and at most one backward for a whole batch, and exactly what was asked for.

with trace(model, samples, targets, layers=["vision.last"], want={"activations", "gradients"}) as recorded:
    maps = (recorded.spatial("vision.last") * recorded.spatial("vision.last", "gradients")).sum(1)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.models.torch_model import Inputs, Layout, TorchModel
from karat.probe.request import PIXELS, WANTS, Request

if TYPE_CHECKING:
    from torch import Tensor, nn

    from karat.probe.attention import Heads
    from karat.probe.recording import Forward

    Batch = Sequence[Sample] | Inputs | Tensor | Sequence[Tensor]
    # A function gets the module's output or, for an adapter, its inputs, and gives (n,) scores.
    Target = Sequence[TargetLike] | Sequence[int] | Tensor | Callable[[Any], Tensor]

Recording = Literal["activations", "gradients"]


@dataclass(frozen=True, eq=False)
class Recordings(Mapping[str, "Tensor"]):
    """Tensors by layer, under the role or the dotted name that was asked for."""

    kind: str
    tensors: dict[str, Tensor]
    roles: Mapping[str, str]

    def __getitem__(self, layer: str) -> Tensor:
        name = self.roles.get(layer, layer)
        if name not in self.tensors:
            held = ", ".join(self.tensors) or "nothing (the trace may be closed)"
            raise BadInput(f"no {self.kind} of {layer!r} in this trace; it holds {held}.")
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


@dataclass(eq=False)
class Trace:
    """What was recorded. Tensors carry no graph unless it was made with `create_graph`.

    `scores` (n,) are the raw scores that gradients are of. `attention[name]` is (n, heads, queries, keys), and
    `attention_gradients[name]` its gradient. `heads[name]` is what a map is made of, in the order of the layers: maps
    and gradients are formed from it when asked for. `layout` says where visual and text tokens sit in that sequence.
    `relu_gradients[rule]` are gradients of the pixels by another rule (`Request.relu`), or `[""]` if it has no ReLU.
    """

    request: Request
    scores: Tensor
    activations: Recordings
    gradients: Recordings
    attention: Recordings
    attention_gradients: Recordings
    heads: dict[str, Heads]
    inputs: Inputs | None
    layout: Layout | None
    backwards: int
    forward: Forward = field(repr=False)
    relu_gradients: dict[str, Tensor] = field(default_factory=dict)

    def spatial(self, layer: str, kind: Recording = "activations") -> Tensor:
        """A recording laid out over the image: (n, channels, rows, columns)."""
        from karat.probe.spatial import at, spatial

        recordings: Recordings = getattr(self, kind)
        tensor = recordings[layer]
        name = recordings.roles.get(layer, layer)
        if name == PIXELS:
            return tensor
        if tensor.ndim == 3 and self.layout is not None and self.in_joint_sequence(name):
            if self.layout.visual is not None and self.layout.grid is not None:
                return at(tensor, self.layout.visual, self.layout.grid)
            if self.layout.text is not None:
                raise BadInput(f"{layer} is over a sequence without visual tokens; its shape is {tuple(tensor.shape)}.")
        if tensor.ndim == 3 and (grid := self.forward.patches) is not None:
            return at(tensor, range(grid[0] * grid[1]), grid)
        return spatial(tensor, self.forward.module, name, self.forward.image)

    def in_joint_sequence(self, layer: str) -> bool:
        """Whether a layer runs over the sequence that `layout` describes, rather than inside a vision tower."""
        return self.forward.in_joint_sequence(layer)

    def close(self) -> None:
        """Let go of every tensor."""
        for recordings in (self.activations, self.gradients, self.attention, self.attention_gradients):
            recordings.tensors.clear()
        self.heads.clear()
        self.relu_gradients.clear()


@contextmanager
def trace(
    model: TorchModel | nn.Module,
    batch: Batch,
    target: Target,
    layers: Sequence[str] = (),
    want: Collection[str] = ("activations", "gradients"),
    attention_layers: Sequence[str] | None = None,
    create_graph: bool = False,
    checkpointed: Sequence[str] = (),
) -> Iterator[Trace]:
    """Run `model` once on `batch` and record.

    Parameters get no `.grad`, the module's mode is restored, and all hooks are gone, even if something raises.

    Args:
        model: an adapter, or any torch module.
        batch: samples or `Inputs` for an adapter; pixels (n, 3, H, W), or a list of images for detectors, for a module.
        target: answers, or spans of them (`karat.Target`), for an adapter; class numbers for a module; or a function
            that gives (n,) scores from the adapter's inputs or the module's output. Gradients are of these scores.
        layers: roles of the adapter ("vision.last"), dotted module names, or "pixels" for the input itself.
        want: any of activations, gradients (of `layers`), attention, attention_gradients, heads, head_gradients.
        attention_layers: whose attention is meant; by default all of them.
        create_graph: keeps everything differentiable, parameters included, for gradients of gradients.
        checkpointed: layers whose inside is computed again in the backward pass instead of being kept: the same values
            for less memory. Not together with `create_graph`.

    Yields:
        A `Trace`, closed when the block ends.

    Example:
        >>> import torch
        >>> module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AvgPool2d(6), torch.nn.Flatten())
        >>> with trace(module, torch.rand(2, 3, 8, 8), [0, 1], layers=["0"]) as recorded:
        ...     recorded.gradients["0"].shape
        torch.Size([2, 4, 6, 6])
    """
    if unknown := set(want) - set(WANTS):
        raise BadInput(f"a trace can record {', '.join(WANTS)}; got {', '.join(sorted(unknown))}.")
    from karat.probe.recording import Forward, run

    forward = Forward.of(model, batch, target)
    heads = forward.attention_layers if attention_layers is None else attention_layers
    recorded = run(forward, Request.of(forward.roles, layers, want, heads), create_graph, checkpointed=checkpointed)
    try:
        yield recorded
    finally:
        recorded.close()
