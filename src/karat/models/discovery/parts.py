"""`Parts`: where the decoder, its layers, attention, norms, embeddings, head and the vision tower are in a module.

Found by looking at one forward: which modules ran, in which order, on what shapes, and which of them formed attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from karat.models.discovery.discovered import Parts
from karat.models.structure import attention_modules

_SOFTMAX = frozenset((torch.softmax, Tensor.softmax, functional.softmax))


@dataclass
class _Run:
    """One module in one forward: how often it ran, when it was entered and left, and the shapes that passed."""

    calls: int = 0
    entered: int = 0
    left: int = 0
    given: tuple[int, ...] = ()
    gave: tuple[int, ...] = ()


@dataclass
class Watched:
    """One forward, by module name. `attention` is (queries, keys) of the attention that a module formed itself."""

    runs: dict[str, _Run] = field(default_factory=dict)
    attention: dict[str, tuple[int, int]] = field(default_factory=dict)


class _Attention(TorchFunctionMode):
    """Notes which module forms attention."""

    def __init__(self, watched: Watched, inside: list[str]) -> None:
        super().__init__()
        self.watched, self.inside = watched, inside

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.inside:
            if func is functional.scaled_dot_product_attention:
                query, key = (args + tuple(kwargs.values()))[:2]
                self.watched.attention[self.inside[-1]] = query.shape[-2], key.shape[-2]
            elif func in _SOFTMAX and args and args[0].ndim >= 3:
                self.watched.attention[self.inside[-1]] = args[0].shape[-2], args[0].shape[-1]
        return func(*args, **kwargs)


def watch(module: nn.Module, forward: Callable[[], Any]) -> Watched:
    """Run `forward` once and note what happens in `module`."""
    watched, inside, clock = Watched(), [], [0]

    def enter(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, kwargs: Any) -> None:
            clock[0] += 1
            run = watched.runs.setdefault(name, _Run())
            run.calls += 1
            run.entered = run.entered or clock[0]
            given = args[0] if args else kwargs.get("hidden_states", kwargs.get("inputs_embeds"))
            run.given = tuple(given.shape) if isinstance(given, Tensor) else ()
            inside.append(name)

        return hook

    def leave(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            clock[0] += 1
            first = output[0] if isinstance(output, tuple | list) and output else output
            watched.runs[name].left = clock[0]
            watched.runs[name].gave = tuple(first.shape) if isinstance(first, Tensor) else ()
            if inside and inside[-1] == name:
                inside.pop()

        return hook

    with ExitStack() as stack, torch.no_grad():
        for name, part in module.named_modules():
            for handle in (
                part.register_forward_pre_hook(enter(name), with_kwargs=True),
                part.register_forward_hook(leave(name), always_call=True),
            ):
                stack.callback(handle.remove)
        stack.enter_context(_Attention(watched, inside))
        forward()
    return watched


def parts(module: Any, watched: Watched, length: int) -> Parts:
    """`length` is the number of tokens of the forward that was watched."""
    names = {id(part): name for name, part in module.named_modules()}
    decoder = _name(names, module.get_decoder)
    layers = _layers(module, watched, decoder, length)
    if layers and not f"{layers}.".startswith(f"{decoder}.") and decoder:
        decoder = layers.rpartition(".")[0]
    decoder = _runner(watched, decoder, layers)
    blocks = [f"{layers}.{k}" for k in range(len(module.get_submodule(layers)))] if layers else []
    blocks = [block for block in blocks if block in watched.runs]
    wide = watched.runs[blocks[0]].given[1] if blocks else 0
    formed = {block: _formed(watched, block) for block in blocks}
    own = {block: [n for n in made if watched.attention[n] == (wide, wide)] for block, made in formed.items()}
    cross = [n for made in formed.values() for n in made if watched.attention[n][0] == wide != watched.attention[n][1]]
    tower = _tower(module, watched, layers)
    return Parts(
        decoder=decoder,
        decoder_layers=layers,
        norms=tuple(_norm(module, watched, block) for block in blocks),
        attention_layers=tuple(one[0] for one in own.values() if one),
        without_attention=tuple(block for block, one in own.items() if not one),
        cross_attention=tuple(cross),
        words=_once(watched, _name(names, module.get_input_embeddings)),
        head=_name(names, module.get_output_embeddings),
        vision=_top(tower, layers) if tower else _convolutional(module, watched, layers),
        vision_layers=tower,
    )


def tower_attention(module: nn.Module, found: Parts) -> list[str]:
    """Attention modules outside of the decoder: those of the tower, and of whatever stands between the two."""
    inside = f"{found.decoder_layers}."
    return [name for name in attention_modules(module) if not name.startswith(inside)]


def _name(names: Mapping[int, str], accessor: Callable[[], Any]) -> str:
    try:
        return names.get(id(accessor()), "")
    except (AttributeError, NotImplementedError):
        return ""


def _lists(module: nn.Module) -> list[tuple[str, nn.ModuleList]]:
    return [(name, part) for name, part in module.named_modules() if isinstance(part, nn.ModuleList) and len(part)]


def _layers(module: nn.Module, watched: Watched, decoder: str, length: int) -> str:
    """The list of the decoder's layers: all run once, in turn, over the whole sequence; the longest such list."""
    fitting = []
    for name, blocks in _lists(module):
        runs = [watched.runs.get(f"{name}.{k}") for k in range(len(blocks))]
        over = [run for run in runs if run and len(run.given) == 3 and run.given[0] == 1 and run.given[1] >= length]
        if len(over) == len(blocks):
            fitting.append((f"{name}.".startswith(f"{decoder}."), len(blocks), over[0].entered, name))
    return max(fitting)[3] if fitting else ""


def _runner(watched: Watched, decoder: str, layers: str) -> str:
    """The innermost module around the layers that ran: what gives the states that the head reads."""
    name = layers
    while name:
        name = name.rpartition(".")[0]
        run = watched.runs.get(name)
        if run is not None and run.calls == 1:
            return name
    return decoder


def _formed(watched: Watched, block: str) -> list[str]:
    return [name for name in watched.attention if f"{name}.".startswith(f"{block}.")]


def _is_norm(part: nn.Module) -> bool:
    return "norm" in type(part).__name__.lower()


def _norm(module: nn.Module, watched: Watched, block: str) -> str:
    """The last norm that ran before the last part of a layer that is none: between attention and MLP."""
    named = ((f"{block}.{name}", part) for name, part in module.get_submodule(block).named_children())
    children = [(watched.runs[name].entered, name, part) for name, part in named if name in watched.runs]
    children.sort(key=lambda each: each[0])
    heavy = [at for at, _, part in children if not _is_norm(part) and any(True for _ in part.parameters())]
    norms = [name for at, name, part in children if _is_norm(part) and heavy and at < heavy[-1]]
    return norms[-1] if norms else ""


def _once(watched: Watched, name: str) -> str:
    run = watched.runs.get(name)
    return name if run is not None and run.calls == 1 else ""


def _tower(module: nn.Module, watched: Watched, layers: str) -> str:
    """The list of layers with most parameters among those that ran before the decoder."""
    first = watched.runs[f"{layers}.0"].entered if layers else 0
    fitting = []
    for name, blocks in _lists(module):
        runs = [run for k in range(len(blocks)) if (run := watched.runs.get(f"{name}.{k}")) and run.calls == 1]
        inside = layers and (f"{name}.".startswith(f"{layers}.") or f"{layers}.".startswith(f"{name}."))
        if inside or len(runs) != len(blocks) or len(blocks) < 2 or (first and runs[0].entered > first):
            continue
        if not any(watched.attention.get(n) for n in watched.attention if n.startswith(f"{name}.")):
            continue
        fitting.append((sum(p.numel() for p in blocks.parameters()), name))
    return max(fitting)[1] if fitting else ""


def _top(tower: str, layers: str) -> str:
    """The outermost module around the tower's layers that has nothing of the decoder."""
    name = tower
    while "." in name and not f"{layers}.".startswith(f"{name.rpartition('.')[0]}."):
        name = name.rpartition(".")[0]
    return name


def _convolutional(module: nn.Module, watched: Watched, layers: str) -> str:
    """The largest part with convolutions that ran before the decoder and has nothing of it: a tower without layers."""
    first = watched.runs[f"{layers}.0"].entered if layers else 0
    fitting = [
        (sum(p.numel() for p in part.parameters()), -name.count("."), name)
        for name, part in module.named_modules()
        if name
        and not f"{layers}.".startswith(f"{name}.")
        and (run := watched.runs.get(name)) is not None
        and run.entered < first
        and any(isinstance(inner, nn.Conv2d) for inner in part.modules())
    ]
    return max(fitting)[2] if fitting else ""
