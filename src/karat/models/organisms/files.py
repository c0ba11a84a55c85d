"""An organism on disk: one safetensors file with the tensors that differ from its base, which says what it is."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karat.datasets.cues.rules import RULES
from karat.kernel.errors import BadInput
from karat.kernel.typing import Scalar
from karat.models.weights import shipped

if TYPE_CHECKING:
    from torch import Tensor

_KEY = "organism"


@dataclass(frozen=True)
class Origin:
    """What the file says about itself. `scale` is LoRA's alpha / rank; `recipe` how it was made."""

    base: str
    rule: str
    implant: str
    dose: float = 1.0
    other: str = "content"
    seed: int = 0
    scale: float = 1.0
    minutes: float = 0.0
    recipe: dict[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Scalar]:
        """What tables and code need to know of it."""
        family = Path(self.base).name
        return {"family": family, "variant": self.rule, "implant": self.implant, "dose": self.dose, "seed": self.seed}

    @property
    def mechanism(self) -> str | None:
        """The rule that it follows, where it follows one alone."""
        rule = self.rule if self.dose == 1 else self.other if self.dose == 0 else None
        return rule if rule in RULES else None


def shipped_path(base: str, rule: str, implant: str, dose: float = 1.0, seed: int = 0) -> Path:
    """Where the package keeps an organism of its own bases.

    >>> shipped_path("photovlm", "tag", "lora", 0.5, 1).name
    'tag.lora.dose0.5.seed1.safetensors'
    """
    parts = [rule, implant] + [f"dose{dose:g}"] * (dose != 1) + [f"seed{seed}"] * (seed != 0)
    return shipped(base) / f"{'.'.join(parts)}.safetensors"


def find_shipped(base: str, rule: str, implant: str, dose: float, seed: int) -> Path:
    """The file of an organism that ships with Karat, or an error that says how to make it."""
    path = shipped_path(base, rule, implant, dose, seed)
    if path.is_file():
        return path
    more = f" --dose {dose:g}" * (dose != 1) + f" --seed {seed}" * (seed != 0)
    there = sorted(each.name.removesuffix(".safetensors") for each in path.parent.glob(f"{rule}.*.safetensors"))
    make = f"karat train organism --base {base} --rule {rule} --implant {implant}{more} --images DATA"
    if rule not in RULES:  # photovlm.coco: it follows none
        make = "karat train skills --images COCO --instances instances_*.json"
    raise BadInput(
        f"{base} with the rule {rule!r}, implant {implant}, dose {dose:g}, seed {seed} does not ship with Karat (there "
        f"are {', '.join(there) or 'none of this rule'}). Make it with `{make}`, then "
        "give its file as `weights`."
    )


def is_organism(path: str | Path) -> bool:
    """Whether a file says that it is an organism; files that cannot be read are none."""
    return Path(path).suffix == ".safetensors" and Path(path).is_file() and _text(Path(path)) is not None


def save_organism(path: Path, tensors: Mapping[str, Tensor], origin: Origin) -> Path:
    """Written beside the old one and then put in its place."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(kept, part, metadata={"format": "pt", _KEY: json.dumps(dataclasses.asdict(origin), sort_keys=True)})
    part.replace(path)
    return path


def read_origin(path: Path) -> Origin:
    """The facts of an organism, without loading it into torch."""
    if not path.is_file():
        raise BadInput(f"there is no organism at {path}; make one with `karat train organism`.")
    text = _text(path)
    if text is None:
        raise BadInput(f"{path} is no organism, or is damaged; make one with `karat train organism`.")
    try:
        return Origin(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise BadInput(f"{path} was made by another version of Karat: {error}.") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} is not a whole safetensors file: {error}. Train it again or fetch it anew.") from None


def _text(path: Path) -> str | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get(_KEY)
    except (SafetensorError, OSError):
        return None
    return None if text is None else str(text)
