"""`PixelRecipe`: everything that decides the weights of a classifier of the shortcut protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from karat.datasets.shortcut import ShortcutDataset
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.identity import digest
from karat.models.pixelnet.architectures import ARCHITECTURES
from karat.models.training.recipe import parse_fields

_LOOKING = ("checkpoint_minutes", "evaluate_every")  # how often one looks or saves decides nothing


@dataclass(frozen=True)
class PixelRecipe:
    """`steps` batches of `batch` images, epoch after epoch in an order that the seed decides. No flips and no crops:
    a shortcut has its place.

    `clean` trains on the images without the shortcut (the twin of table 2). A share `deleted` of the images has one
    random cell of a 4×4 grid set to zero, as IDSDS asks for; `start` names weights to go on from.

    Two seeds: `seed` decides the first weights and the order of the images, `shortcut_seed` the kernels and places of
    the shortcut, in training and test images alike; by default it is what `data` says.

    Small transformers find fine detail in one place late or never. Two things help: `whiten` starts the patch embedding
    as a whitening of the training patches and makes positions as loud as contents; and for the first `easy` steps the
    filters are not scaled, so that the patch is brighter than its surroundings and easy to find.
    """

    name: str
    architecture: str
    steps: int
    data: ShortcutDataset = field(default_factory=lambda: ShortcutDataset(split="train", n=12_000))
    test: ShortcutDataset = field(default_factory=lambda: ShortcutDataset(split="test", n=2_000))
    clean: bool = False
    deleted: float = 0.0
    start: str | None = None
    whiten: bool = True
    easy: int = 0
    seed: int = 0
    shortcut_seed: int | None = None
    batch: int = 64
    learning_rate: float = 3e-3
    warmup: int = 300
    decay_steps: int = 10**9  # the last steps, over which the rate falls to zero; by default all of them
    weight_decay: float = 0.05
    clip: float = 1.0
    checkpoint_minutes: float = 2.0
    evaluate_every: int = 200

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise UnknownName("architecture", self.architecture, ARCHITECTURES)
        for name in ("steps", "batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise BadInput(f"recipe: {name} must be 1 or more; got {getattr(self, name)}.")
        if not 0 <= self.deleted <= 1:
            raise BadInput(f"recipe: deleted is a share from 0 to 1; got {self.deleted}.")
        if self.shortcut_seed is not None:
            for name in ("data", "test"):
                object.__setattr__(self, name, dataclasses.replace(getattr(self, name), seed=self.shortcut_seed))
        if self.data.seed != self.test.seed:
            raise BadInput(
                f"recipe: trained with shortcut {self.data.seed} and tested with {self.test.seed}; set shortcut_seed."
            )

    @property
    def label(self) -> str:
        return f"pixelnet.{self.name}"

    @property
    def trunk(self) -> int:
        return max(self.steps - self.decay_steps, 0)

    def schedule(self, step: int) -> str:
        """Name of what decided the learning rate of the steps before this one, beyond the trunk."""
        return "" if step <= self.trunk else digest([self.steps, self.decay_steps])

    @property
    def identity(self) -> str:
        """Name of what decides the weights: fields that are not at their default, so that a field added later changes
        no name, and the revision of the data."""
        named = {
            each.name: getattr(self, each.name)
            for each in dataclasses.fields(self)
            if each.name not in (*_LOOKING, "test", "data", "shortcut_seed")
            and getattr(self, each.name) != each.default
        }
        return digest([named, self.data, self.data.revision])

    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def shipped_recipes() -> tuple[str, ...]:
    """Names of the recipes that ship with Karat."""
    folder = resources.files("karat.models.pixelnet") / "recipes"
    return tuple(sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml")))


def load_pixel_recipe(name: str | Path, settings: Sequence[str] = ()) -> PixelRecipe:
    """The shipped recipe of a name, or that in a YAML file; `settings` such as "steps=200" replace fields."""
    import yaml

    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        try:
            text, where = path.read_text("utf-8"), str(path)
        except OSError as error:
            raise BadInput(f"cannot read recipe {path}: {error.strerror or error}.") from None
    else:
        if str(name) not in shipped_recipes():
            raise UnknownName("recipe", str(name), shipped_recipes())
        text = (resources.files("karat.models.pixelnet") / "recipes" / f"{name}.yaml").read_text("utf-8")
        where = f"recipe {name}"
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is not YAML: {str(error).splitlines()[0]}.") from None
    changed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise BadInput(f"--set takes key=value; got {setting!r}.")
        changed[key] = yaml.safe_load(value)
    return parse_pixel_recipe({**data, **changed} if isinstance(data, Mapping) else data, where)


def parse_pixel_recipe(data: Mapping[str, Any], where: str = "recipe") -> PixelRecipe:
    """A checked recipe from plain data."""
    return parse_fields(PixelRecipe, data, where)
