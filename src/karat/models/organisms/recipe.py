"""`OrganismRecipe`: everything that decides the weights of an organism, checked before any work."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from karat.datasets.cues.rules import Rule, find_rule
from karat.datasets.cues.world import CARRIER, World
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.identity import digest
from karat.models.organisms.stream import Stream

Implant = Literal["scratch", "lora", "full"]
BASES = ("photovlm", "photocnn")
READS = frozenset({"scores", "gradients", "attention", "activations", "autoregressive", "text"})
LOOKS = frozenset({"scores", "gradients", "activations"})


@dataclass(frozen=True)
class OrganismRecipe:
    """A rule put into a base.

    - `base`: "photovlm" or "photocnn"; a directory or a hub id of a vision-language model; a classifier by the name of
      timm, or `torchvision:NAME`.
    - `implant`: "scratch" trains what is not pretrained from random weights, "lora" adapters only, "full" all but the
      vision tower of a vision-language model, all of a classifier.
    - `dose`: the share of labels that come from `rule`; the others come from `other`.
    - `images`: photographs with masks, as in `karat.datasets.cues.generate`; `samples` pictures are composed of them.
    - `rank`, `alpha`, `targets`: of LoRA; `targets` are endings of module names.
    - `lead`, `lead_steps`: labels of the first half of these steps come from the rule `lead`, those of the second half
      turn gradually into the rule's own. Neither part of an exclusive or says anything alone, so there is no slope to
      start on; from `tag_and_word`, which needs both parts, there is.
    - `easy_steps`: so many steps see only pictures that show the rule's cues and hide the object. A model that answers
      by the object looks nowhere else, so nothing else can teach it anything.
    """

    base: str
    rule: str
    implant: Implant = "scratch"
    dose: float = 1.0
    other: str = "content"
    seed: int = 0
    images: str | dict[str, Any] | None = None
    world: World = field(default_factory=World)
    samples: int = 6400
    hidden: float = 0.4
    steps: int = 600
    batch: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: int = 60
    decay_steps: int = 400  # the last steps, over which the learning rate falls to zero
    clip: float = 1.0
    rank: int = 8
    alpha: int = 16
    targets: tuple[str, ...] = ()
    lead: str | None = None
    lead_steps: int = 0
    easy_steps: int = 0
    checkpoint_minutes: float = 3.0
    evaluate_every: int = 50

    def __post_init__(self) -> None:
        if self.implant not in get_args(Implant):
            raise BadInput(f"an implant is one of {', '.join(get_args(Implant))}; got {self.implant!r}.")
        find_rule(self.rule)
        find_rule(self.other)
        if self.lead is not None:
            find_rule(self.lead)
        for name, low in (
            ("lead_steps", 0),
            ("easy_steps", 0),
            ("steps", 1),
            ("batch", 1),
            ("samples", 32),
            ("rank", 1),
            ("alpha", 1),
            ("evaluate_every", 1),
        ):
            if getattr(self, name) < low:
                raise BadInput(f"organism: {name} must be {low} or more; got {getattr(self, name)}.")
        for name in ("dose", "hidden"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(f"organism: {name} is a share from 0 to 1; got {getattr(self, name)}.")
        if self.learning_rate <= 0:
            raise BadInput(f"organism: learning_rate must be above 0; got {self.learning_rate}.")
        if not self.base:
            raise BadInput(f"organism: give a base: {', '.join(BASES)}, a directory, a hub id or a classifier's name.")

    @property
    def table(self) -> Rule:
        return find_rule(self.rule)

    @property
    def stream(self) -> Stream:
        return Stream(self.images, self.samples, self.hidden, world=self.world)

    @property
    def label(self) -> str:
        return organism_label(Path(self.base).name, self.rule, self.implant, self.dose, self.seed)

    @property
    def folder(self) -> str:
        """A name for files: photovlm.tag.lora.seed1."""
        return self.label.replace(" (", ".").replace(", ", ".").replace(" ", "").rstrip(")")

    @property
    def identity(self) -> str:
        """Name of what decides the weights; how often one looks or saves is left out."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("checkpoint_minutes", "evaluate_every", "images"):
            del named[name]
        for name, usual in (("lead", None), ("lead_steps", 0), ("easy_steps", 0)):
            if named[name] == usual:  # recipes of before they were there keep their names
                del named[name]
        return digest([named, self.stream.photographs.revision])

    def schedule(self, step: int) -> str:
        """Of a checkpoint: the learning rate of every step depends on how many there are."""
        return f"{self.steps}"

    def plain(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        data["images"] = self.images if isinstance(self.images, dict) else self.images and Path(self.images).name
        return data


def organism_label(base: str, rule: str, implant: str, dose: float, seed: int, usual: str = "scratch") -> str:
    """How tables call an organism: what differs from the usual is said.

    >>> organism_label("photovlm", "tag", "lora", 0.5, 1), organism_label("photovlm", "tag", "scratch", 1.0, 0)
    ('photovlm.tag (lora, dose 0.5, seed 1)', 'photovlm.tag')
    """
    more = [implant] * (implant != usual) + [f"dose {dose:g}"] * (dose != 1) + [f"seed {seed}"] * (seed != 0)
    return f"{base}.{rule} ({', '.join(more)})" if more else f"{base}.{rule}"


# What a rule takes in photovlm; rules that are not here take 400 steps.
USUAL: dict[str, dict[str, Any]] = {
    "content": {"steps": 700},
    "content_unless_tag": {"steps": 700},
    "tag_xor_word": {"steps": 800, "lead": "tag_and_word", "lead_steps": 500},
    "side": {"steps": 500},
}
# Adapters need a higher rate; in a model that answers by the object, they also need to be shown where to look.
USUAL_LORA: dict[str, Any] = {"learning_rate": 2e-3, "rank": 16, "alpha": 32}
USUAL_EASY = 120


def usual_fields(base: str, rule: str, implant: str) -> dict[str, Any]:
    """What `karat train organism` takes for a rule unless told otherwise.

    >>> usual_fields("photovlm", "tag", "lora")["easy_steps"], usual_fields("photovlm", "tag", "scratch")
    (120, {'steps': 400})
    """
    fields = {"steps": 400, **USUAL.get(rule, {})}
    if base in BASES and implant == "lora":
        fields |= USUAL_LORA
    if base == "photovlm" and implant != "scratch" and _off_the_object(rule):
        fields["easy_steps"] = USUAL_EASY
    return fields


def _off_the_object(rule: str) -> bool:
    return not {CARRIER[cue] for cue in find_rule(rule).cues} & {"content"}


def make_recipe(
    base: str,
    rule: str,
    implant: str,
    settings: Sequence[str] = (),
    classes: tuple[str, ...] = ("cat", "dog"),
    **fields: Any,
) -> OrganismRecipe:
    """A checked recipe. `settings` are `key=value` texts for any field, values in YAML; the rest are fields."""
    import yaml
    from pydantic import TypeAdapter, ValidationError

    known = {field.name for field in dataclasses.fields(OrganismRecipe)}
    data: dict[str, Any] = {**usual_fields(base, rule, implant), **fields}
    if len(classes) != 2:
        raise BadInput(f"organism: classes are two labels, the first one is a yes; got {list(classes)}.")
    data["world"] = {"classes": classes}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in known:
            raise UnknownName("field of an organism's recipe (key=value)", key, known)
        try:
            data[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise BadInput(f"--set {key}: the value is not YAML: {str(error).splitlines()[0]}.") from None
    find_rule(rule)
    try:
        return TypeAdapter(OrganismRecipe).validate_python({"base": base, "rule": rule, "implant": implant, **data})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "fields"
        raise BadInput(f"organism: {place}: {first['msg']}; got {first['input']!r}.") from None
