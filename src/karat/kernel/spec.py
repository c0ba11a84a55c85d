"""`Spec`: a typed run description, read from YAML and resolved in full before any work."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from karat.kernel.errors import BadInput, Faults, UnknownName
from karat.kernel.identity import canonical

SPEC_VERSION = 1
_LARGEST = 100_000  # values in a spec


class Component(BaseModel):
    """A registered name with its parameters: `cam/gradcam`, or `{name: cam/gradcam, layer: -2}`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Skip(BaseModel):
    """Cells to leave out, by patterns of labels: `{model: "*.pure", dataset: grid.spur}`. What is not said is all."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    model: str = "*"
    dataset: str = "*"
    explainer: str = "*"

    def said(self) -> str:
        return ", ".join(f"{kind} {pattern!r}" for kind, pattern in self if pattern != "*") or "any label"

    def takes(self, model: str, dataset: str, explainer: str) -> bool:
        """
        >>> Skip(model="*.pure", dataset="grid.spur").takes("gridnet.pure", "grid.spur", "cam/gradcam")
        True
        """
        patterns = ((model, self.model), (dataset, self.dataset), (explainer, self.explainer))
        return all(fnmatchcase(label, pattern) for label, pattern in patterns)


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    return [_named(item) for item in value] if isinstance(value, list) else [_named(value)]


One = Annotated[Component, BeforeValidator(_named)]
Many = Annotated[list[Component], BeforeValidator(_listed), Field(min_length=1)]
States = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Spec(BaseModel):
    """What to run: a protocol, and the models, datasets and explainers that are crossed.

    Only these fields decide what a cell computes; workers, engine and paths never do. Every part is a registered name,
    or a mapping with `name` and parameters; `docs/reference/spec.md` has all fields.

    Example:
        >>> spec = Spec(protocol="grid", models="gridprog.pure", datasets="grid", explainers=["cam/gradcam"])
        >>> spec.models[0].name, spec.seed
        ('gridprog.pure', 0)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    karat: int = SPEC_VERSION
    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    about: str = ""
    protocol: One
    models: Many
    datasets: Many
    explainers: Many
    absence: States = []  # absent states: every explainer that hides features runs in each, unless it names its own
    skip: list[Skip] = []
    seed: int = Field(default=0, ge=0)
    shard_size: int = Field(default=64, ge=1)
    batch_size: int = Field(default=32, ge=1)
    start: int = Field(default=0, ge=0)  # images of each dataset that are passed over at its beginning
    limit: int | None = Field(default=None, ge=1)  # images of each dataset
    keep_maps: bool = True  # keep attributions (at most 64 cells a side) for the page

    @staticmethod
    def parse(data: Any, source: str = "spec") -> Spec:
        """A spec from plain data; every problem is said with the field it is in."""
        if not isinstance(data, Mapping):
            raise BadInput(
                f"{source}: a spec is a mapping of fields (protocol, models, datasets, explainers); got {_short(data)}."
            )
        version = data.get("karat", SPEC_VERSION)
        if isinstance(version, int) and version > SPEC_VERSION:
            raise BadInput(
                f"{source}: written for spec version {version}, this Karat reads up to {SPEC_VERSION}: upgrade karat."
            )
        faults = [str(UnknownName("spec field", str(key), Spec.model_fields)) for key in data if key not in _FIELDS]
        try:
            spec = Spec.model_validate({key: value for key, value in data.items() if key in _FIELDS})
        except ValidationError as error:
            raise Faults(source, faults + problems(error)) from None
        if faults:
            raise Faults(source, faults)
        return spec

    @staticmethod
    def read(path: str | Path) -> Spec:
        """A spec from a YAML (or JSON) file. Safe YAML only: a file can describe a run, never execute anything."""
        return Spec.parse(read_plain(path), source=str(path))

    def override(self, settings: Sequence[str]) -> Spec:
        """The spec with `key=value` settings; values are YAML, dots lead into a part:
        `seed=3`, `explainers=[control/random]`, `protocol.steps=5`, `models.0.seed=1`."""
        return Spec.parse(with_settings(self.model_dump(), settings), source="--set")

    def plain(self) -> dict[str, Any]:
        """Canonical data: what is written to disk."""
        data: dict[str, Any] = canonical(self.model_dump())
        return data


_FIELDS = frozenset(Spec.model_fields)


def problems(error: ValidationError, *within: str) -> list[str]:
    """What pydantic found, one line each: the field (of those `within`), what is wrong with it, what was given."""
    lines = []
    for one in error.errors():
        where = ".".join(str(part) for part in (*within, *one["loc"]))
        given = "" if one["type"] == "missing" else f"; got {_short(one['input'])}"
        lines.append(f"{where}: {one['msg']}{given}." if where else f"{one['msg']}{given}.")
    return lines


def read_plain(path: str | Path) -> Any:
    """The plain data of a spec's file, not looked at yet."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(f"no spec at {path}. `karat ls specs` lists those that ship with Karat.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the spec {path}: {error}.") from None
    try:
        return _plain_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInput(f"{path} is not YAML: {' '.join(str(error).split())}.") from None


def with_settings(data: Any, settings: Sequence[str]) -> Any:
    """Plain data of a spec with `key=value` settings in it. A part that is a bare name becomes one with parameters.

    >>> with_settings({"protocol": "synergy", "seed": 0}, ["protocol.steps=3", "seed=1"])
    {'protocol': {'name': 'synergy', 'steps': 3}, 'seed': 1}
    """
    data = copy.deepcopy(data)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise BadInput(f"--set takes key=value; got {setting!r}.")
        try:
            value = _plain_yaml(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise BadInput(f"--set {key}: the value is not YAML: {' '.join(str(error).split())}.") from None
        _put(data, key.split("."), value, key)
    return data


def _put(inside: Any, path: Sequence[str], value: Any, key: str) -> None:
    """Set one value in nested mappings and lists; what the path lacks is made on the way."""
    first, *rest = path
    place: Any = first
    if isinstance(inside, list):
        if not first.isdecimal() or int(first) >= len(inside):
            raise BadInput(f"--set {key}: {first!r} is no position in a list of {len(inside)}; they count from 0.")
        place = int(first)
    elif not isinstance(inside, dict):
        raise BadInput(f"--set {key}: there is nothing below {_short(inside)} that could be set.")
    if not rest:
        inside[place] = value
        return
    if isinstance(inside, dict):
        inside.setdefault(place, {})
    if isinstance(inside[place], str):
        inside[place] = {"name": inside[place]}
    _put(inside[place], rest, value, key)


def _plain_yaml(text: str) -> Any:
    """Safe YAML whose aliases do not unfold into more than a spec could ever need (or into themselves)."""
    data = yaml.safe_load(text)
    sizes: dict[int, int] = {}
    if _unfolded(data, sizes, ()) > _LARGEST:
        raise ValueError(f"its aliases unfold into more than {_LARGEST:,} values")
    return data


def _unfolded(value: Any, sizes: dict[int, int], above: tuple[int, ...]) -> int:
    """How many values there are when every alias is written out."""
    if not isinstance(value, dict | list | set | tuple):
        return 1
    if id(value) in above:
        raise ValueError("it contains itself")
    if id(value) not in sizes:
        parts = [*value, *value.values()] if isinstance(value, dict) else list(value)
        sizes[id(value)] = 1 + sum(_unfolded(part, sizes, (*above, id(value))) for part in parts)
    return sizes[id(value)]


def _short(value: Any, length: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= length else text[: length - 3] + "..."
