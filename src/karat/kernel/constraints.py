"""Constraints of parameters are data: annotations state them, and no instance that breaks them is made.

    @dataclass(frozen=True)
    @checked
    class Rise:
        masks: Annotated[int, Ge(24)] = 4000
        absence: Literal["blur", "black"] = "black"

    Rise(masks=-5)  # BadInput: perturbation/rise: masks: Input should be greater than or equal to 24; got -5.

Bounds are those of `annotated_types`, which pydantic reads too: a spec is held to the same ones, in the same words.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, TypeVar, get_type_hints

from karat.kernel.errors import Faults

T = TypeVar("T")


def checked(cls: type[T]) -> type[T]:
    """Class decorator, below `@dataclass(frozen=True)`: parameters are checked by their annotations at construction.

    Values are converted as those of a spec are (a list becomes the tuple that is declared). A `__post_init__` of the
    class itself runs afterwards: the place for what one parameter asks of another. Subclasses are checked too.
    """
    own: Any = getattr(cls, "__post_init__", None)

    def __post_init__(self: Any) -> None:
        check_parameters(self)
        if own is not None:
            own(self)

    cls.__post_init__ = __post_init__  # type: ignore[attr-defined]  # what dataclasses call
    return cls


def check_parameters(part: Any) -> None:
    """Hold a dataclass to its annotations; an error lists every parameter that breaks them. Defaults are trusted."""
    changed = {
        field.name: getattr(part, field.name)
        for field in dataclasses.fields(part)
        if getattr(part, field.name) is not field.default
    }
    if not changed:
        return
    from pydantic import ValidationError  # 0.1 s that `karat ls` need not pay

    from karat.kernel.spec import problems

    cls: Any = type(part)
    validators, faults = _validators(cls), []
    for name, value in changed.items():
        try:
            object.__setattr__(part, name, validators[name].validate_python(value))
        except ValidationError as error:
            faults += problems(error, name)
    if faults:
        raise Faults(cls.card.name if hasattr(cls, "card") else cls.__name__, faults)


class AsItIs:
    """Marks a type whose instances are taken as they are: `Annotated[Family, AsItIs()]`."""

    def __get_pydantic_core_schema__(self, source: Any, _: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(source)


def parameter_types(cls: type) -> dict[str, Any]:
    """The declared type of every parameter of a dataclass, bounds included."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


@cache
def _validators(cls: type) -> dict[str, Any]:
    from pydantic import TypeAdapter

    return {name: TypeAdapter(hint) for name, hint in parameter_types(cls).items()}
