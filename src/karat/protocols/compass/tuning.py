"""The training behind `Lora`: a few passes over a few hundred questions, on a CPU if need be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from karat.datasets.spatial.question import RELATIONS, centre
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


def tuned(what: Lora) -> VLM:
    """The base model with its trained adapter merged in: plain linear layers again, which every explainer knows."""
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
        train(model, what.dataset.load(0, what.samples), what)
        _keep(peft.get_peft_model_state_dict(adapter), what)
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
    found = [name for name in names if name.endswith((".q_proj", ".v_proj"))]
    if not found:
        raise BadInput(f"{model.name} has no q_proj and v_proj under {inside}: LoRA has nothing to adapt.")
    return found


def train(model: VLM, samples: Sequence[Sample], what: Lora) -> list[dict[str, float]]:
    """Train the adapters that `model.module` holds; one row of mean losses per epoch. Deterministic for one seed."""
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    objective = Objective(model, what)
    optimizer = torch.optim.AdamW([*parameters, *objective.parameters()], lr=what.rate, weight_decay=0.0)
    rng = np.random.default_rng(what.seed)
    history = []
    for _ in range(what.epochs):
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
        history.append({name: float(np.mean(values)) for name, values in losses.items()})
    return history


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
        if self.what.strategy == "direction":
            maps = relevance(self.model, inputs, answers)
            return right, compass_loss(maps, *placed(samples, inputs, maps), entropy=self.what.entropy)
        if self.what.strategy == "localisation":
            maps = relevance(self.model, inputs, answers)
            return right, target_loss(maps.flatten(1), inside(samples, inputs, maps))
        if self.what.strategy == "contrastive":
            states = reading_state(self.model, inputs, answers)
            relation = [RELATIONS.index(str(sample.meta["relation"])) for sample in samples]
            wanted = torch.tensor(relation, device=states.device)
            return right, contrastive_loss(states, self.prototypes.to(states.device), wanted)
        return right, none


def relevance(model: VLM, inputs: Inputs, answers: Sequence[str]) -> Tensor:
    """(n, rows, columns) |gradient × activation| of the visual tokens in the last layer that they matter in, with a
    gradient of its own. # creg2026 Eq. 7"""
    with _output_of(model.module.get_submodule(model.layers["decoder.late"])) as seen:
        score = model.readout(inputs, answers).sum()
    (gradient,) = torch.autograd.grad(score, seen[0], create_graph=True)
    layout = model.layout(inputs)
    if layout.grid is None or layout.visual is None:
        raise BadInput(f"{model.name} has no grid of visual tokens.")
    scores = wide((gradient * seen[0]).sum(-1).abs()[:, list(layout.visual)])
    return scores.reshape(len(scores), *layout.grid)


def reading_state(model: VLM, inputs: Inputs, answers: Sequence[str]) -> Tensor:
    """(n, width) what the head reads when it is to say the answer."""
    position = model.layout(inputs).readout
    with _output_of(model.module.get_submodule(model.layers["decoder.last"])) as seen:
        model.readout(inputs, answers)
    assert position is not None  # of every model that answers token by token
    return seen[0][:, position]


@contextmanager
def _output_of(layer: nn.Module) -> Iterator[list[Tensor]]:
    """What a layer gives while the block runs, first call first."""
    seen: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    handle = layer.register_forward_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()


def placed(samples: Sequence[Sample], inputs: Inputs, maps: Tensor) -> tuple[Floats, Floats, Floats]:
    """Centres of reference and target (n, 2) in cells of the maps, and a cell's height over its width (n,).

    The maps are of what the model saw: a centre that was cropped away lies outside of them.
    """
    rows, columns = maps.shape[1:]
    seen = np.array(frames_of(inputs))  # top, left, bottom, right
    sizes = np.array([sample.size for sample in samples])
    cells = (seen[:, 2:] - seen[:, :2]) * sizes / (rows, columns)  # height, width in pixels
    corner = (seen[:, :2] * sizes)[:, ::-1]
    a, b = (
        (np.array([centre(sample, role) for sample in samples]) - corner) / cells[:, ::-1]
        for role in ("anchor", "target")
    )
    return a, b, cells[:, 0] / cells[:, 1]


def inside(samples: Sequence[Sample], inputs: Inputs, maps: Tensor) -> Tensor:
    """(n, tokens) visual tokens whose centre lies in the target's box."""
    found = []
    for sample, (top, left, bottom, right) in zip(samples, frames_of(inputs), strict=True):
        mask = sample.mask("target")
        down, across = (
            ((start + (np.arange(count) + 0.5) / count * (stop - start)) * side).astype(int)
            for start, stop, count, side in zip((top, left), (bottom, right), maps.shape[1:], mask.shape, strict=True)
        )
        found.append(mask[down][:, across].ravel())
    return torch.from_numpy(np.stack(found)).to(maps.device)


def _keep(state: dict[str, Tensor], what: Lora) -> None:
    """Write by rename: two workers that train the same adapter write the same file."""
    import os

    from safetensors.torch import save_file

    what.kept.parent.mkdir(parents=True, exist_ok=True)
    part = what.kept.with_name(f"{what.kept.name}.{os.getpid()}")
    save_file({name: value.contiguous() for name, value in state.items()}, part)
    part.replace(what.kept)


def _peft() -> Any:
    try:
        import peft
    except ImportError:
        raise ExtraMissing("LoRA", "peft", "train") from None
    return peft
