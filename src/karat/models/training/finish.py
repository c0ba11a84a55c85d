"""From a recipe to a directory that can be shipped: train, evaluate on fresh samples, export, write the card.

A card says what was trained, how long, on what, and how right it is, beside the paper's own twins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from karat.datasets.grid.generate import generate_batch
from karat.kernel.errors import BadInput
from karat.models.training import checkpoint
from karat.models.training.batches import BUCKETS, FIRST_TRAINING_SEED, describe
from karat.models.training.loop import make_optimizer
from karat.models.training.progress import Callback
from karat.models.training.recipe import Recipe, Refinement
from karat.models.training.twins import Trainee, build_trainee, spread, train_twin
from karat.models.weights import file_revision

PER_BUCKET = 200
SEED = 20260
# gridvqax2026 tables 3 and 4: (M_spur, M_pure) in percent on pure samples, density 0.3 and 0.7.
PAPER = {
    "D1_A_F0": ((100, 100), (100, 100)), "D1_SO_F0": ((32, 100), (2, 100)), "D2_SO_F0": ((16, 100), (0, 100)),
    "D1_CO_F0": ((18, 100), (6, 100)), "D2_CO_F0": ((16, 100), (2, 100)), "D1_M_F0": ((36, 100), (6, 100)),
    "D2_M_F0": ((8, 100), (2, 100)), "D3_M_F0": ((14, 100), (0, 100)), "D1_CMP_F0": ((100, 100), (100, 98)),
    "D2_CMP_F0": ((96, 100), (92, 100)), "D3_CMP_F0": ((96, 100), (80, 100)), "D1_A_F1": ((100, 100), (100, 100)),
    "D1_SO_F1": ((46, 100), (46, 100)), "D2_SO_F1": ((60, 100), (60, 100)), "D1_CO_F1": ((50, 100), (50, 100)),
    "D2_CO_F1": ((56, 100), (56, 100)), "D1_M_F1": ((62, 100), (56, 100)), "D2_M_F1": ((46, 100), (46, 100)),
    "D3_M_F1": ((56, 100), (56, 100)), "D1_REL_F0": (None, None),
}  # fmt: skip


def train_and_finish(
    recipe: Recipe, out: Path, resume: bool, devices: int, progress: Callback | None, start: Path | None = None
) -> Path:
    if torch.cuda.is_available() and devices > torch.cuda.device_count():
        raise BadInput(f"{devices} devices were asked for; this machine has {torch.cuda.device_count()}.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {out}: {error.strerror or error}.") from None
    if devices > 1:
        spread(recipe, out, resume, devices)
        module, _ = load_checkpoint(recipe, out)
    else:
        module = train_twin(recipe, out, resume, progress, start=start)
    finish(recipe, out, module, devices)
    return out


def load_checkpoint(recipe: Recipe, out: Path) -> tuple[Trainee, checkpoint.Place]:
    """The trainee as its last checkpoint has it, and how far it had come."""
    module = build_trainee(recipe)
    place = checkpoint.restore(out, recipe, module, make_optimizer(recipe, module))
    return module, place


def finish(recipe: Recipe, out: Path, module: Trainee, devices: int = 1, per_bucket: int = PER_BUCKET) -> Path:
    """Export the weights and write the card; both modes are evaluated, because a twin is known by what it fails at."""
    module.round()
    evaluations = [evaluate(module, mode, per_bucket) for mode in ("pure", "spur")]
    exported = module.export(out)
    weights = exported / "model.safetensors" if exported.is_dir() else exported
    place = load_checkpoint(recipe, out)[1]
    facts = Facts(
        recipe=recipe,
        step=place.step,
        parameters=sum(int(p.numel()) for p in module.shipped.parameters()),
        size=weights.stat().st_size,
        revision=file_revision(weights),
        minutes=place.seconds / 60,
        hardware=_hardware(devices),
    )
    return write_card(out / f"{recipe.label}.md", facts, evaluations)


def _hardware(devices: int) -> str:
    if torch.cuda.is_available():
        return f"{devices} × {torch.cuda.get_device_name()}"
    return f"CPU, {torch.get_num_threads() * devices} thread(s) on a machine of {os.cpu_count()} cores"


@dataclass(frozen=True)
class Evaluation:
    """Share of right answers per bucket on one mode's samples."""

    mode: str
    seed: int
    per_bucket: int
    buckets: Mapping[str, float]

    @property
    def overall(self) -> float:
        return float(np.mean(list(self.buckets.values())))

    @property
    def worst(self) -> tuple[str, float]:
        """The bucket with the lowest accuracy."""
        return min(self.buckets.items(), key=lambda item: item[1])


def evaluate(module: Trainee, mode: str, per_bucket: int = PER_BUCKET, seed: int = SEED) -> Evaluation:
    """Accuracy of a trainee on `per_bucket` samples of every bucket."""
    if not 0 <= seed < FIRST_TRAINING_SEED:
        raise BadInput(f"evaluation seeds lie below {FIRST_TRAINING_SEED}, where training seeds begin; got {seed}.")
    module.eval()
    shares = {}
    for bucket in BUCKETS:
        batch = describe(generate_batch(bucket, np.arange(per_bucket), seed=seed, mode=mode), module.words)
        shares[bucket] = float((module.answer(batch).cpu().numpy() == batch.answer).mean())
    return Evaluation(mode, seed, per_bucket, shares)


@dataclass(frozen=True)
class Facts:
    """What a card reports beside accuracies."""

    recipe: Recipe
    step: int  # how far it came
    parameters: int
    size: int  # bytes of the weights
    revision: str
    minutes: float
    hardware: str


def write_card(path: Path, facts: Facts, evaluations: Sequence[Evaluation]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(card_text(facts, evaluations), encoding="utf-8")
    return path


def card_text(facts: Facts, evaluations: Sequence[Evaluation]) -> str:
    """The card as Markdown."""
    recipe = facts.recipe
    lines = [
        f"# {recipe.label}",
        "",
        _claim(recipe),
        "",
        "| fact | value |",
        "|---|---|",
        f"| data | preset `certified`, mode `{recipe.mode}`, made on the fly, no sample twice |",
        f"| seed | {recipe.seed} |",
        f"| steps | {recipe.steps} of {recipe.batch} samples ({recipe.steps * recipe.batch:,}), "
        f"the first {recipe.grounding_steps} for grounding alone |",
        *([] if facts.step >= recipe.last else [f"| **unfinished** | stopped at step {facts.step} of {recipe.last} |"]),
        f"| refined | {_refinement(recipe)} |",
        f"| time | {facts.minutes:.0f} minutes of wall clock |",
        f"| hardware | {facts.hardware} |",
        f"| parameters | {facts.parameters:,} ({facts.size / 1e6:.2f} MB) |",
        f"| revision | `{facts.revision}` |",
        f"| recipe | `{recipe.identity}` |",
        "",
    ]
    for evaluation in evaluations:
        worst, low = evaluation.worst
        lines += [
            f"On {evaluation.mode} samples (seed {evaluation.seed}, {evaluation.per_bucket} a bucket, all new): "
            f"{100 * evaluation.overall:.1f} % overall, lowest {100 * low:.1f} % ({worst}).",
            "",
        ]
    lines += _table(recipe, evaluations)
    return "\n".join(lines) + "\n"


def _refinement(recipe: Recipe) -> str:
    return ", then ".join(map(_stage, recipe.refine)) or "none"


def _stage(stage: Refinement) -> str:
    parts = [f"{stage.changed:.0%} changed questions and scenes"]
    if stage.widened:
        parts.append(f"{stage.widened:.0%} scenes beyond the certified laws")
    if stage.emptied:
        parts.append(f"{stage.emptied:.0%} with hidden cells that mean empty")
    return f"{stage.steps} steps with {', '.join(parts)}"


def _claim(recipe: Recipe) -> str:
    if recipe.mode == "pure":
        return "Trained where no shortcut works: it has to find the anchors and check the relations."
    return "Trained where matching the target's words is always enough: it has no reason to look at relations."


def _table(recipe: Recipe, evaluations: Sequence[Evaluation]) -> list[str]:
    """Laid out like gridvqax2026 tables 3 and 4; the paper's columns are on its own pure samples (50 a bucket)."""
    columns = [f"{recipe.label} on {evaluation.mode}" for evaluation in evaluations]
    lines = []
    for place, density in enumerate(("0.3", "0.7")):
        lines += [f"## Density {density}", ""]
        heads = [*columns, "paper M_spur on pure", "paper M_pure on pure"]
        lines += ["| form | type | depth | " + " | ".join(heads) + " |"]
        lines += ["|---|---|---|" + "---:|" * (len(columns) + 2)]
        for name, paper in PAPER.items():
            depth, qtype, form = name.split("_")
            ours = [f"{100 * evaluation.buckets[f'{name}_d{density}']:.1f}" for evaluation in evaluations]
            pair = paper[place]
            theirs = [str(value) for value in pair] if pair is not None else ["–", "–"]
            lines.append(f"| {form[1]} | {qtype} | {depth} | " + " | ".join([*ours, *theirs]) + " |")
        lines.append("")
    return lines
