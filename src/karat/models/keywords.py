"""`takes`: a public function whose keyword parameters are the fields of a dataclass, so that they are written once.

The dataclass is also what the recipe of a spec extends. Its names, types and bounds are those of the function, to type
checkers and `help()` alike, and both are checked by the same code before work begins.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from karat.kernel.registry import checked

P = ParamSpec("P")
Parameters = TypeVar("Parameters")
Loaded = TypeVar("Loaded", covariant=True)


class Loader(Protocol[P, Loaded]):
    """A function of a source (a path, or a module with its processor) and the parameters of its kind."""

    def __call__(
        self,
        source: Any,
        processor: Any = None,
        name: str | None = None,
        mechanism: str | None = None,
        *args: P.args,
        **parameters: P.kwargs,
    ) -> Loaded: ...


def takes(
    kind: Callable[P, Parameters],
) -> Callable[[Callable[[Any, Any, str | None, str | None, Parameters], Loaded]], Loader[P, Loaded]]:
    """Decorates `function(source, processor, name, mechanism, parameters)`; callers give the fields of `kind`, a
    dataclass of keyword-only fields, instead of the last."""

    def decorate(
        function: Callable[[Any, Any, str | None, str | None, Parameters], Loaded],
    ) -> Loader[P, Loaded]:
        @wraps(function)
        def load(
            source: Any,
            processor: Any = None,
            name: str | None = None,
            mechanism: str | None = None,
            *args: P.args,
            **parameters: P.kwargs,
        ) -> Loaded:
            if args:
                raise TypeError(f"{function.__name__}() takes at most 4 positional arguments; name the others.")
            return function(source, processor, name, mechanism, checked(kind, function.__name__, dict(parameters)))

        own = list(inspect.signature(load, follow_wrapped=False).parameters.values())[:4]
        fields = inspect.signature(kind).parameters.values()
        load.__signature__ = inspect.Signature([*own, *fields])  # type: ignore[attr-defined]  # read by help()
        return load

    return decorate
