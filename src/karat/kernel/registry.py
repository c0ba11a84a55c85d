"""Names to things: what the rooms declare, what entry points add, and `package.module:Name` for everything else.

Each room's `__init__` lists in `DECLARES` the modules whose classes carry a `Card`; those modules import no torch, so
that listing is quick. Third parties use the entry-point group `karat`.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from karat.kernel.card import Card, Carded, Kind
from karat.kernel.errors import BadInput, Faults, UnknownName
from karat.kernel.identity import canonical
from karat.kernel.roles import Labelled, StatesFacts, plays
from karat.kernel.typing import Scalar

T = TypeVar("T")
ROOMS: dict[Kind, str] = {
    "dataset": "karat.datasets",
    "model": "karat.models",
    "explainer": "karat.explainers",
    "metric": "karat.metrics",
    "protocol": "karat.protocols",
}
KINDS: tuple[Kind, ...] = tuple(ROOMS)


@cache
def registered(kind: Kind) -> dict[str, type[Carded]]:
    """Every known class of a kind by its name, built-in ones first, then those of other packages."""
    classes: dict[str, type[Carded]] = {}
    with _garbage_uncollected():
        room = importlib.import_module(ROOMS[kind])
        modules = [importlib.import_module(f"{ROOMS[kind]}.{module}") for module in room.DECLARES]
    for module in modules:
        for cls in _carded(module, kind):
            classes[cls.card.name] = cls
    for value in _entry_points():
        cls = _load_class(value)
        if cls.card.kind == kind:
            if cls.card.name in classes:
                raise BadInput(
                    f"{value} registers {cls.card.name!r}, which {classes[cls.card.name]} has taken already."
                )
            classes[cls.card.name] = cls
    return classes


@contextmanager
def _garbage_uncollected() -> Iterator[None]:
    """What importing makes stays: looking through it for garbage would take a seventh of the time of `karat ls`."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@cache
def _entry_points() -> tuple[str, ...]:
    """Read once: looking through every installed package takes tens of milliseconds."""
    return tuple(point.value for point in entry_points(group="karat"))


def find(kind: Kind, name: str) -> type[Carded]:
    """The class registered under a name, or the one that `package.module:Name` points at."""
    if ":" in name:
        cls = _load_class(name)
        if cls.card.kind != kind:
            raise BadInput(f"{name} is a {cls.card.kind}; a {kind} was expected here.")
        return cls
    known = registered(kind)
    if name not in known:
        raise UnknownName(kind, name, known)
    return known[name]


def build(kind: Kind, name: str, parameters: dict[str, Any]) -> Any:
    """An instance with checked parameters: unknown ones and wrong types are answered with what would be right."""
    return checked(find(kind, name), name, parameters)


def checked(cls: Callable[..., T], name: str, parameters: dict[str, Any]) -> T:
    """An instance of a dataclass, or every fault of its parameters; `name` is how messages call it."""
    kind: Any = cls
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = [str(UnknownName(f"parameter of {name}", key, fields)) for key in parameters if key not in fields]
    from pydantic import TypeAdapter, ValidationError  # 0.1 s that `karat --help` need not pay

    from karat.kernel.spec import problems

    try:
        part: T = TypeAdapter(kind).validate_python({key: value for key, value in parameters.items() if key in fields})
    except ValidationError as error:
        raise Faults(name, unknown + problems(error)) from None
    if unknown:
        raise Faults(name, unknown)
    return part


def label(thing: Any) -> str:
    """How tables call an instance: its name and whatever differs from the defaults.

    A recipe that has a better name for itself (`gridprog.pure`) gives it as `label`.
    """
    if plays(thing, Labelled):
        return thing.label
    changed = ", ".join(f"{name}={value}" for name, value in _changed(thing))
    return f"{thing.card.name}({changed})" if changed else str(thing.card.name)


def facts(thing: Any) -> dict[str, Scalar]:
    """What a part is, for code: its registered name and family, its parameters, and what it says of itself.

    Parameters that are no plain values stand as text; those that have parameters themselves, with a dot.
    """
    own = thing.facts if plays(thing, StatesFacts) else {}
    card = thing.card
    known = {"name": card.name, "family": card.family, "is_control": card.is_control}
    return {**known, **dict(_parameters(thing)), **own}


def _parameters(thing: Any) -> Iterator[tuple[str, Scalar]]:
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if dataclasses.is_dataclass(value):
            yield from ((f"{field.name}.{name}", inner) for name, inner in _parameters(value))
        else:
            plain = value is None or isinstance(value, str | int | float | bool)
            yield field.name, value if plain else json.dumps(canonical(value))


def _changed(thing: Any, usual: Any = None) -> Iterator[tuple[str, Any]]:
    """Fields that differ from their defaults, or from those of `usual`; of a field that has fields itself, those."""
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        default = default if usual is None else getattr(usual, field.name)
        if value == default:
            continue
        if dataclasses.is_dataclass(value) and type(value) is type(default):
            yield from ((f"{field.name}.{name}", inner) for name, inner in _changed(value, default))
        else:
            yield field.name, value


def _carded(module: Any, kind: Kind) -> list[type[Any]]:
    """Classes with a card of that kind; a package may re-export them from its modules."""
    classes: list[Any] = [cls for _, cls in inspect.getmembers(module, inspect.isclass)]
    return [cls for cls in classes if isinstance(cls.__dict__.get("card"), Card) and cls.card.kind == kind]


def load_object(value: str) -> Any:
    """Whatever `package.module:Name` points at."""
    module_name, _, attribute = value.partition(":")
    try:
        target = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"cannot load {value!r}: {error}. Is its package installed and importable from here?") from error
    return target


def _load_class(value: str) -> type[Any]:
    target = load_object(value)
    if not (
        isinstance(target, type)
        and dataclasses.is_dataclass(target)
        and isinstance(getattr(target, "card", None), Card)
    ):
        raise BadInput(
            f"{value} must be a frozen dataclass with a class attribute `card: karat.Card`; it is {target!r}."
        )
    return target
