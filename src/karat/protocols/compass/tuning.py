"""The training behind `Lora`: a few passes over a few hundred questions, on a CPU if need be."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from karat.datasets.spatial.question import RELATIONS, centre
from karat.explainers.gradient.activation import is_signal
from karat.explainers.to_attribution import wide
from karat.kernel.errors import BadInput, ExtraMissing
from karat.kernel.identity import generator
from karat.kernel.sample import Sample
from karat.models.batching import encodable_runs
from karat.models.torch_model import Inputs
from karat.models.vlm_adapter import VLM
from karat.probe.inputs import frames_of
from karat.protocols.compass.losses import compass_loss, contrastive_loss, target_loss
from karat.protocols.compass.reading import Floats

if TYPE_CHECKING:
    from karat.protocols.compass.lora import Lora


Progress = Callable[[int, int], None]  # steps done, steps in all


def tuned(what: Lora) -> VLM:
    """The base model with its trained adapter merged in: plain linear layers again, which every explainer knows.

    What was trained before is read from `what.kept`, beside which `what.history` lies.
    """
    peft = _peft()
    model = what.source.load()
    if not isinstance(model, VLM):
        raise BadInput(f"LoRA is for vision-language models; {what.base} is a {type(model).__name__}.")
    shake(model, what)
    if what.strategy == "none":
        return replace(model, name=what.label, mechanism=None)
    torch.manual_seed(what.seed)
    config = peft.LoraConfig(r=what.rank, lora_alpha=what.alpha, target_modules=adapted(model))
    adapter = peft.get_peft_model(model.module, config)
    if what.kept.is_file():
        from safetensors.torch import load_file

        peft.set_peft_model_state_dict(adapter, load_file(what.kept))
    else:
        history = train(model, what.dataset.load(0, what.samples), what, Teller(what.label))
        _keep(peft.get_peft_model_state_dict(adapter), history, what)
    module = adapter.merge_and_unload()
    module.eval().requires_grad_(False)
    return replace(model, module=module, name=what.label, mechanism=None)


def shake(model: VLM, what: Lora) -> None:
    """Noise on the decoder's weight matrices, in units of their own spread; drawn by name, so from any order."""
    inside = f"{model.family.decoder_layers}."
    with torch.no_grad():
        for name, weight in model.module.named_parameters():
            if what.shaken and name.startswith(inside) and weight.ndim > 1:
                drawn = generator(what.seed, name, "compass/shaken").standard_normal(tuple(weight.shape))
                weight.add_(torch.from_numpy(drawn).to(weight) * weight.std(), alpha=what.shaken)


def adapted(model: VLM) -> list[str]:
    """Dotted names of the query and value projections of the decoder."""
    inside = model.family.decoder_layers
    names = [name for name, _ in model.module.named_modules() if name.startswith(f"{inside}.")]
    projections = [name for name in names if name.endswith((".q_proj", ".v_proj"))]
    if not projections:
        raise BadInput(f"{model.name} has no q_proj and v_proj under {inside}: LoRA has nothing to adapt.")
    return projections


def train(
    model: VLM, samples: Sequence[Sample], what: Lora, progress: Progress = lambda done, total: None
) -> list[dict[str, float]]:
    """Train the adapters that `model.module` holds; one row of mean losses per epoch. Deterministic for one seed."""
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    objective = Objective(model, what)
    optimizer = torch.optim.AdamW([*parameters, *objective.parameters()], lr=what.rate, weight_decay=0.0)
    rng = np.random.default_rng(what.seed)
    history: list[dict[str, float]] = []
    for epoch in range(what.epochs):
        order = rng.permutation(len(samples))
        losses: dict[str, list[float]] = {"answer": [], "auxiliary": []}
        for at in range(0, len(order), what.batch):
            # Photographs come in many sizes, and some models take one size at a time: the others' gradients add up.
            batch = sorted((samples[i] for i in order[at : at + what.batch].tolist()), key=model.batch_key)
            optimizer.zero_grad(set_to_none=True)
            for part in encodable_runs(model, batch):
                # Gradients of gradients: the fused attention kernels have none.
                with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                    answer, auxiliary = objective(part)
                    ((answer + what.weight * auxiliary) * (len(part) / len(batch))).backward()
                losses["answer"] += [float(answer.detach())] * len(part)
                losses["auxiliary"] += [float(auxiliary.detach())] * len(part)
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            progress(epoch * len(order) + at + len(batch), what.epochs * len(order))
        history.append({"epoch": epoch + 1} | {name: float(np.mean(values)) for name, values in losses.items()})
    return history


class Teller:
    """Says how far training is: a line every few seconds, from whichever process trains."""

    def __init__(self, what: str, every: float = 5.0) -> None:
        self.what, self.every, self.began, self.last = what, every, time.monotonic(), time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last < self.every and (done < total or now - self.began < self.every):
            return
        self.last = now
        left = (now - self.began) * (total - done) / max(done, 1)
        print(f"training {self.what}: {done} of {total} questions, {left:.0f} s to go", file=sys.stderr, flush=True)


class Objective(nn.Module):
    """Losses of one batch: of the right answers, and of the evidence for them. Holds the relation prototypes."""

    def __init__(self, model: VLM, what: Lora) -> None:
        super().__init__()
        self.model, self.what = model, what
        if what.strategy == "contrastive":
            width = model.module.get_submodule(model.family.head).weight.shape[1]  # type: ignore[index]
            self.prototypes = nn.Parameter(torch.randn(len(RELATIONS), int(width)))

    def forward(self, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
        inputs = self.model.encode(samples)
        answers = [str(sample.answer) for sample in samples]
        right = -self.model.log_probability(inputs, answers).mean()
        none = right.detach() * 0
        if self.what.strategy in ("direction", "localisation"):
            maps, heard = relevance(self.model, inputs, answers, self.what.layer)
            if self.what.strategy == "localisation":
                return right, target_loss(maps.flatten(1)[heard], inside(samples, inputs, maps)[heard])
            rows = heard.cpu().numpy()
            here, there, aspect = (part[rows] for part in placed(samples, inputs, maps))
            return right, compass_loss(maps[heard], here, there, aspect, self.what.entropy)
        if self.what.strategy == "contrastive":
            states = reading_state(self.model, inputs, answers)
            relation = [RELATIONS.index(str(sample.meta["relation"])) for sample in samples]
            wanted = torch.tensor(relation, device=states.device)
            return right, contrastive_loss(states, self.prototypes.to(states.device), wanted)
        return right, none


def relevance(
    model: VLM, inputs: Inputs, answers: Sequence[str], layer: str = "decoder.signal"
) -> tuple[Tensor, Tensor]:
    """(n, rows, columns) |gradient × activation| of the visual tokens at a layer, with a gradient of its own; and (n,)
    where it is more than rounding: training on the others would be training on noise.

    An error where it is rounding for all of them. # creg2026 Eq. 7
    """
    if layer not in model.layers:
        raise BadInput(f"{model.name} has no layer {layer!r}; its roles: {', '.join(model.layers)}.")
    layout = model.layout(inputs)
    if layout.grid is None or layout.visual is None:
        raise BadInput(f"{model.name} has no grid of visual tokens.")
    with _output_of(model.module.get_submodule(model.layers[layer])) as outputs:
        score = model.readout(inputs, answers).sum()
    states = outputs[0]
    (slopes,) = torch.autograd.grad(score, states, create_graph=True)
    visual = list(layout.visual)
    of_tokens = [part[:, visual].detach().transpose(1, 2)[..., None] for part in (states, slopes)]
    heard = is_signal(of_tokens[0], of_tokens[1])
    if not bool(heard.any()):
        raise BadInput(
            f"gradient times activation is rounding error at {layer} of {model.name}: what reads it is a norm. Train "
            "at an earlier layer (decoder.signal)."
        )
    scores = wide((slopes * states).sum(-1).abs()[:, visual])
    return scores.reshape(len(scores), *layout.grid), heard


def reading_state(model: VLM, inputs: Inputs, answers: Sequence[str]) -> Tensor:
    """(n, width) what the head reads when it is to say the answer."""
    position = model.layout(inputs).readout
    with _output_of(model.module.get_submodule(model.layers["decoder.last"])) as outputs:
        model.readout(inputs, answers)
    assert position is not None  # of every model that answers token by token
    return outputs[0][:, position]


@contextmanager
def _output_of(layer: nn.Module) -> Iterator[list[Tensor]]:
    """What a layer gives while the block runs, first call first."""
    outputs: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
        outputs.append(output[0] if isinstance(output, tuple) else output)

    handle = layer.register_forward_hook(keep)
    try:
        yield outputs
    finally:
        handle.remove()


def placed(samples: Sequence[Sample], inputs: Inputs, maps: Tensor) -> tuple[Floats, Floats, Floats]:
    """Centres of reference and target (n, 2) in cells of the maps, and a cell's height over its width (n,).

    The maps are of what the model saw: a centre that was cropped away lies outside of them.
    """
    rows, columns = maps.shape[1:]
    frames = np.array(frames_of(inputs))  # top, left, bottom, right
    sizes = np.array([sample.size for sample in samples])
    cells = (frames[:, 2:] - frames[:, :2]) * sizes / (rows, columns)  # height, width in pixels
    corner = (frames[:, :2] * sizes)[:, ::-1]
    a, b = (
        (np.array([centre(sample, role) for sample in samples]) - corner) / cells[:, ::-1]
        for role in ("anchor", "target")
    )
    return a, b, cells[:, 0] / cells[:, 1]


def inside(samples: Sequence[Sample], inputs: Inputs, maps: Tensor) -> Tensor:
    """(n, tokens) visual tokens whose centre lies in the target's box."""
    masks = []
    for sample, (top, left, bottom, right) in zip(samples, frames_of(inputs), strict=True):
        mask = sample.mask("target")
        down, across = (
            ((start + (np.arange(count) + 0.5) / count * (stop - start)) * side).astype(int)
            for start, stop, count, side in zip((top, left), (bottom, right), maps.shape[1:], mask.shape, strict=True)
        )
        masks.append(mask[down][:, across].ravel())
    return torch.from_numpy(np.stack(masks)).to(maps.device)


def _keep(state: dict[str, Tensor], history: Sequence[dict[str, float]], what: Lora) -> None:
    """Write by rename, the adapter last: two workers that train the same adapter write the same files."""
    from safetensors.torch import save

    what.kept.parent.mkdir(parents=True, exist_ok=True)
    weights = save({name: value.contiguous() for name, value in state.items()})
    losses = json.dumps(list(history), indent=1).encode()
    for path, data in ((what.kept.with_suffix(".json"), losses), (what.kept, weights)):
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(data)
        part.replace(path)


def _peft() -> Any:
    try:
        import peft
    except ImportError:
        raise ExtraMissing("LoRA", "peft", "train") from None
    return peft
