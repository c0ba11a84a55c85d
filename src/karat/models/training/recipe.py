"""`Recipe`: everything that decides the weights of a trained twin. The shipped ones are YAML files beside this."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.identity import digest
from karat.models.weights import twin_name

T = TypeVar("T")
ARCHITECTURES = ("gridnet", "gridvlm")
MODES = ("pure", "spur")
STAGE_SHARES = ("changed", "enriched", "thinned", "widened", "emptied")


@dataclass(frozen=True)
class Stage:
    """Up to this share of the steps, nothing deeper than `depth`."""

    until: float
    depth: int


@dataclass(frozen=True)
class Refinement:
    """A stage after the main run: changed questions and scenes, a learning rate that rises and falls to zero."""

    steps: int
    rate: float = 4e-4
    changed: float = 0.4  # share of changed samples
    enriched: float = 0.0  # like the recipe's, in this stage
    dense: float = 1.0  # how much more often dense scenes are counted
    compare: float = 1.0  # how much more often counts are compared
    scattered: bool = False  # a shortcut twin's enriched scenes get their targets anywhere: words alone count
    thinned: float = 0.0  # share of samples whose filler goes, in part or altogether
    widened: float = 0.0  # share of scenes that certified data never hold: ties, empty regions, moved anchors ...
    emptied: float = 0.0  # share of samples with hidden cells, in five states, where hidden means empty
    fresh: bool = False  # the optimiser's moments start anew, so that the stage can begin at exported weights


@dataclass(frozen=True)
class Recipe:
    """`steps` batches of `batch` samples. The first `grounding_steps` train grounding alone (gridvqax2026 section 4.1),
    the rest grounding and answers. A share `altered` of the samples has words and cells hidden, and keeps its answer
    with weight `altered_weight`, so that on partial inputs the model learns the answer's conditional probability."""

    architecture: str
    mode: str
    steps: int
    seed: int = 0
    batch: int = 32
    grounding_steps: int = 300
    learning_rate: float = 1e-3
    warmup: int = 200
    decay_steps: int = 1500  # the last steps, over which the learning rate falls to zero
    weight_decay: float = 0.01
    clip: float = 1.0
    chunk: int = 40  # steps whose samples are generated together
    altered: float = 0.1
    altered_weight: float = 0.3
    enriched: float = 0.0  # share of counting questions whose scene is given more targets, for counts beyond the data's
    emphasis: tuple[float, float, float] = (1.0, 1.0, 1.0)  # how often depth 1, 2, 3
    curriculum: tuple[Stage, ...] = ()
    refine: tuple[Refinement, ...] = ()
    detected: int = 8  # samples of each batch that the object queries are trained on (gridnet)
    roles: float = 2.0  # weight of the supervision by role
    checkpoint_minutes: float = 3.0
    evaluate_every: int = 100  # steps between short evaluations for the learning curve

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise UnknownName("architecture", self.architecture, ARCHITECTURES)
        if self.mode not in MODES:
            raise BadInput(f"unknown mode {self.mode!r}; modes: {', '.join(MODES)}.")
        for name in ("steps", "batch", "chunk", "evaluate_every"):
            if getattr(self, name) < 1:
                raise BadInput(f"recipe: {name} must be 1 or more; got {getattr(self, name)}.")
        shares = {"altered": self.altered, "enriched": self.enriched}
        for place, stage in enumerate(self.refine):
            shares |= {f"refine[{place}].{name}": getattr(stage, name) for name in STAGE_SHARES}
            if stage.steps < 1:
                raise BadInput(f"recipe: refine[{place}].steps must be 1 or more; got {stage.steps}.")
            if stage.scattered and self.mode != "spur":
                raise BadInput(
                    f"recipe: refine[{place}].scattered is for mode spur: a twin that reasons would learn lies."
                )
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise BadInput(f"recipe: {name} is a share from 0 to 1; got {share}.")
        if not 0 < self.detected <= self.batch:
            raise BadInput(f"recipe: detected must lie between 1 and batch = {self.batch}; got {self.detected}.")

    @property
    def label(self) -> str:
        return twin_name(self.architecture, self.mode, self.seed)

    @property
    def last(self) -> int:
        """Steps in all."""
        return self.steps + sum(stage.steps for stage in self.refine)

    def refining(self, step: int) -> tuple[Refinement, int] | None:
        """The stage of refinement that a step belongs to, and the stage's first step; None in the main run."""
        return next(((stage, first) for stage, first in self.refinements if first <= step < first + stage.steps), None)

    @property
    def refinements(self) -> tuple[tuple[Refinement, int], ...]:
        """The stages of refinement, each with its first step."""
        ends = itertools.accumulate((stage.steps for stage in self.refine), initial=self.steps)
        return tuple(zip(self.refine, ends, strict=False))

    @property
    def fresh_steps(self) -> frozenset[int]:
        """Steps at which the optimiser's moments start anew."""
        return frozenset(first for stage, first in self.refinements if stage.fresh)

    def schedule(self, step: int) -> str:
        """Name of whatever has decided the learning rate and the data of the steps before this one, beyond the trunk.

        Recipes that agree in it, and in `identity`, have the same weights there: a run can be prolonged.
        """
        if step <= self.trunk:
            return ""
        begun = []
        for stage, first in self.refinements:
            if step > first:
                fields = dataclasses.astuple(stage)
                while len(fields) > 6 and not fields[-1]:  # fields that are younger than the first stages
                    fields = fields[:-1]
                begun.append(fields)
        return digest([self.steps, self.decay_steps, *begun])

    @property
    def trunk(self) -> int:
        """Steps before the learning rate starts to fall. They do not depend on how many steps follow."""
        return max(self.steps - self.decay_steps, 0)

    @property
    def identity(self) -> str:
        """Name of what decides the weights along the trunk: how often one looks or saves is left out, and so is the
        end, unless a curriculum is measured by it. A run can thus be prolonged from a checkpoint of its trunk."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("checkpoint_minutes", "evaluate_every", "refine"):
            del named[name]
        if not self.enriched:  # younger than the first recipes, whose names must stay
            del named["enriched"]
        if not self.curriculum:
            del named["steps"], named["decay_steps"]
        return digest(named)


def load_recipe(architecture: str, mode: str, path: str | Path | None = None, seed: int | None = None) -> Recipe:
    """The recipe of a twin.

    Args:
        architecture: "gridnet" or "gridvlm".
        mode: "pure" or "spur".
        path: another that ships, by name (`gridvlm.pure.widened`), or a YAML file, which must be for that architecture
            and mode; by default the shipped recipe of the twin.
        seed: takes the place of the recipe's, if given.

    Returns:
        A frozen, checked `Recipe`.

    Example:
        >>> load_recipe("gridnet", "pure", seed=1).label
        'gridnet.pure.seed1'
    """
    import yaml

    if architecture not in ARCHITECTURES:
        raise UnknownName("architecture", architecture, ARCHITECTURES)
    if mode not in MODES:
        raise BadInput(f"unknown mode {mode!r}; modes: {', '.join(MODES)}.")
    where = f"{architecture}.{mode}.yaml" if path is None else str(path)
    try:
        ours = resources.files("karat.models.training") / "recipes" / (where if path is None else f"{path}.yaml")
        text = ours.read_text("utf-8") if ours.is_file() else Path(where).read_text("utf-8")
        data = yaml.safe_load(text)
    except OSError as error:
        raise BadInput(f"cannot read recipe {where}: {error.strerror or error}.") from None
    except yaml.YAMLError as error:
        raise BadInput(f"recipe {where} is not YAML: {str(error).splitlines()[0]}.") from None
    recipe = parse_recipe(data, where)
    if (recipe.architecture, recipe.mode) != (architecture, mode):
        raise BadInput(f"recipe {where} is for {recipe.label}; {architecture}.{mode} was asked for.")
    return recipe if seed is None else dataclasses.replace(recipe, seed=seed)


def parse_recipe(data: Any, where: str = "recipe") -> Recipe:
    """A checked recipe of a twin from plain data."""
    return parse_fields(Recipe, data, where)


def parse_fields(kind: type[T], data: Any, where: str) -> T:
    """A dataclass from plain data: unknown fields and wrong types are answered with what would be right."""
    if not isinstance(data, Mapping):
        raise BadInput(f"{where} must hold fields such as 'steps: 6000'; got {type(data).__name__}.")
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # T is a dataclass
    for key in data:
        if key not in known:
            raise UnknownName("field of a recipe", str(key), known)
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(dict(data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "fields"
        raise BadInput(f"{where}: {place}: {first['msg']}.") from None
