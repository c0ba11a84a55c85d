"""One step outside every bound that a parameter declares, made from its annotation (see `parameter_types`)."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen

from karat.kernel.constraints import AsItIs


def outside(hint: Any) -> Iterator[tuple[Any, str]]:
    """Values that break one bound each, and what an error must say of it: the bound, or the choices."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, *bounds = arguments
        for bound in bounds:
            yield from _beyond(inner, bound)
        yield from outside(inner)
    elif origin is Literal:
        yield "no such choice", repr(arguments[0])
    elif origin is tuple and arguments[-1] is Ellipsis:
        yield from (((value,), bound) for value, bound in outside(arguments[0]))
    elif origin is tuple:
        for place, kind in enumerate(arguments):
            for value, bound in outside(kind):
                others = [inside(other) for other in arguments]
                yield (*others[:place], value, *others[place + 1 :]), bound
    elif origin in (Union, types.UnionType):
        for kind in arguments:
            yield from outside(kind)


def inside(hint: Any) -> Any:
    """Some number that the type allows."""
    inner, *bounds = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    numbers = [inner(bound.ge) for bound in bounds if isinstance(bound, Ge)]
    return numbers[0] if numbers else inner(1)


def _beyond(kind: Any, bound: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(bound, MinLen):
        yield (), f"at least {bound.min_length} item"
    elif isinstance(bound, Gt | Lt):  # the bound itself is one step outside
        limit = bound.gt if isinstance(bound, Gt) else bound.lt
        yield kind(limit), f"than {limit}"
    elif isinstance(bound, Ge | Le):
        limit, toward = (bound.ge, -math.inf) if isinstance(bound, Ge) else (bound.le, math.inf)
        step = limit + math.copysign(1, toward) if kind is int else math.nextafter(limit, toward)
        yield kind(step), f"than or equal to {limit}"
    elif not isinstance(bound, AsItIs):
        raise NotImplementedError(f"how does one break {bound}?")
