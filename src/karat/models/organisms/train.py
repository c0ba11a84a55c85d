"""`train_organism`: put a rule into a base, and keep what changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from karat.kernel.errors import BadInput
from karat.models.classifier import Classifier
from karat.models.organisms.adapters import adaptable, fits, insert, trained
from karat.models.organisms.bases import FROZEN_STAGES, early_stages, head_names, load_organism, open_base, save_merged
from karat.models.organisms.files import Origin, save_organism
from karat.models.organisms.recipe import OrganismRecipe
from karat.models.organisms.stream import Kept, keep_features
from karat.models.organisms.trainee import ClassifierTrainee, Lessons, VLMTrainee
from karat.models.organisms.training import run
from karat.models.training.progress import Callback
from karat.models.vlm_adapter import VLM
from karat.models.weights import file_revision

ATTENTION = ("q_proj", "v_proj")
# The projector too: that of an organism that answers by content has thrown away what a printed word looks like.
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "linear_1", "linear_2")
POINTWISE = ("conv_pw", "conv_pwl", "conv_head")
_AT_ONCE = 32  # pictures that a tower looks at together

Tell = Callable[[int, int], None]
Learner = VLMTrainee | ClassifierTrainee


def train_organism(
    recipe: OrganismRecipe,
    out: str | Path | None = None,
    resume: bool = True,
    device: str | None = None,
    progress: Callback | None = None,
    looking: Tell | None = None,
    merged: str | Path | None = None,
) -> Path:
    """Train an organism and return the file that holds it: `karat.load_model(path)`.

    Checkpoints and the learning curve go to `out` (default: checkpoints/LABEL); a run that was killed goes on from its
    last checkpoint. `device` is "cpu" or "cuda" (default: what there is). `looking(done, of)` is called while the
    features of a frozen tower are computed. `merged` is a directory for the whole model as transformers knows it.

        train_organism(OrganismRecipe("photovlm", "tag", images="pets"))
    """
    check(recipe)
    directory = Path("checkpoints") / recipe.folder if out is None else Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {directory}: {error.strerror or error}.") from None
    trainee = make_trainee(recipe, device, looking)
    if merged is not None and not isinstance(trainee, VLMTrainee):
        raise BadInput(f"--merged is for vision-language models; {recipe.base} is a classifier.")
    seconds = run(trainee, directory, resume, progress)
    path = finish(trainee, directory, seconds)
    if merged is not None:
        whole = load_organism(path, recipe.label)
        assert isinstance(whole, VLM)
        save_merged(whole, merged)
    return path


def check(recipe: OrganismRecipe) -> None:
    """What can be refused before anything is loaded."""
    if recipe.base == "photocnn":
        _refuse_words(recipe)
    assert recipe.stream.photographs.positions  # photographs without masks are said now


def make_trainee(recipe: OrganismRecipe, device: str | None = None, looking: Tell | None = None) -> Learner:
    """The base with what training needs: adapters where they are asked for, kept features where a tower is frozen."""
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model = open_base(recipe.base, recipe.implant, recipe.seed)
    model.module.to(place)
    torch.manual_seed(recipe.seed)
    if isinstance(model, Classifier):
        return _classifier(recipe, model, looking)
    return _vlm(recipe, model, looking)


def _vlm(recipe: OrganismRecipe, model: VLM, looking: Tell | None) -> VLMTrainee:
    own = recipe.base == "photovlm"
    if recipe.implant == "scratch" and not own:
        raise BadInput(
            f"implant scratch is for photovlm and classifiers: {recipe.base} is trained already. Use lora or full."
        )
    if recipe.implant == "lora":
        targets = recipe.targets or (ALL_LINEAR if own else ATTENTION)
        insert(model.module, adaptable(model.module, targets, model.family.vision), recipe.rank, recipe.alpha)
    else:
        for name, parameter in model.module.named_parameters():
            parameter.requires_grad_(not name.startswith(model.family.vision))
    if not own:
        return VLMTrainee(recipe, model, Lessons(recipe), None)
    module: Any = model.module
    kept = keep_features(recipe.stream, tower_states(model), photovlm_tower_name(), looking)
    return VLMTrainee(recipe, model, Lessons(recipe, kept), module.model.multi_modal_projector)


def photovlm_tower_name() -> str:
    from karat.models.photovlm.build import READ
    from karat.models.photovlm.files import tower_path

    return f"photovlm-{file_revision(tower_path())}-{'-'.join(map(str, READ))}"


def tower_states(model: VLM) -> Callable[[list[Any]], Any]:
    """What LLaVA's projector reads of images: states of the tower, the class token taken away."""
    module: Any = model.module

    def look(images: list[Any]) -> Any:
        example = next(module.parameters())
        pixels, _ = model.family.sight.pixels(model.processor, images)
        read = module.config.vision_feature_layer
        parts = []
        with torch.no_grad():
            for some in pixels.to(example.device, example.dtype).split(_AT_ONCE):
                states = module.model.vision_tower(some, output_hidden_states=True).hidden_states
                parts.append(torch.cat([states[k][:, 1:] for k in read], -1).half().cpu())
        return torch.cat(parts).numpy()

    return look


def _classifier(recipe: OrganismRecipe, model: Classifier, looking: Tell | None) -> ClassifierTrainee:
    _refuse_words(recipe)
    module = model.module
    heads = head_names(model)
    if recipe.implant == "lora":
        own = recipe.base == "photocnn"
        names = adaptable(module, recipe.targets or (POINTWISE if own else _linear_endings(module, heads)))
        frozen = tuple(f"blocks.{k}." for k in range(FROZEN_STAGES)) if own else ()
        insert(module, [name for name in names if not name.startswith(frozen)], recipe.rank, recipe.alpha)
        for name, parameter in module.named_parameters():
            if name in heads:
                parameter.requires_grad_(True)
    else:
        module.requires_grad_(True)
    if recipe.base != "photocnn" or recipe.implant != "lora":
        return ClassifierTrainee(recipe, model, Lessons(recipe), None)
    early, late = early_stages(module)
    tower = f"photocnn-{FROZEN_STAGES}-{model.transform.size[0]}"  # type: ignore[union-attr]
    kept: Kept = keep_features(recipe.stream, _looking(model, early), tower, looking)
    return ClassifierTrainee(recipe, model, Lessons(recipe, kept), late)


def _linear_endings(module: torch.nn.Module, heads: tuple[str, ...]) -> tuple[str, ...]:
    """Of a classifier whose layers have no known names: all linear layers, and convolutions of one pixel."""
    last = {name.rsplit(".", 1)[0] for name in heads}
    return tuple(name for name, part in module.named_modules() if fits(part) and name not in last)


def _looking(model: Classifier, early: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    from karat.kernel.sample import Sample

    def look(images: list[Any]) -> Any:
        parts = []
        with torch.no_grad():
            for start in range(0, len(images), _AT_ONCE):
                some = [Sample(str(i), image) for i, image in enumerate(images[start : start + _AT_ONCE])]
                parts.append(early(model.encode(some).pixels).half().cpu().numpy())
        return np.concatenate(parts)

    return look


def _refuse_words(recipe: OrganismRecipe) -> None:
    if "word" in recipe.table.cues or (recipe.dose < 1 and recipe.other == "word"):
        raise BadInput(
            f"{recipe.base} reads no question, so it cannot follow the rule {recipe.rule!r}, which needs `word`. Use a "
            "vision-language base such as photovlm, or a rule of the picture."
        )


def finish(trainee: Learner, out: Path, seconds: float = 0.0) -> Path:
    """Keep what was trained: in half precision for Karat's own bases, else as the base has it."""
    recipe = trainee.recipe
    tensors = {name: parameter.detach() for name, parameter in trained(trainee.module).items()}
    if recipe.base in ("photovlm", "photocnn"):
        tensors = {name: tensor.half() for name, tensor in tensors.items()}
    facts = Origin(
        recipe.base,
        recipe.rule,
        recipe.implant,
        recipe.dose,
        recipe.other,
        recipe.seed,
        recipe.alpha / recipe.rank if recipe.implant == "lora" else 1.0,
        round(seconds / 60, 1),
        recipe.plain(),
    )
    return save_organism(out / "organism.safetensors", tensors, facts)
