"""From a spec's names to its parts; everything that is wrong with any of them is said at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from karat.kernel.errors import Faults, KaratError
from karat.kernel.registry import build
from karat.kernel.roles import Benchmark, Dataset, Explainer, HasControls, KnowsAbsence, MayHide, ModelRecipe, plays
from karat.kernel.spec import Component, Spec, read_plain, with_settings
from karat.models import recipe
from karat.probe.session import Session


@dataclass(frozen=True)
class Parts:
    """What a spec names, with checked parameters. No weights are loaded and no data is read."""

    protocol: Benchmark[Session]
    models: list[ModelRecipe]
    datasets: list[Dataset]
    explainers: list[Explainer[Session]]  # those that the protocol's tables never lack come last


def read_spec(path: str | Path, settings: Sequence[str] = ()) -> Spec:
    """A spec from a file with `key=value` settings (see `Spec.override`), its names and parameters checked as well.

    Faults of its fields and of the parts it names are reported together.
    """
    data = with_settings(read_plain(path), settings)
    try:
        spec = Spec.parse(data, source=str(path))
    except Faults as error:
        raise Faults(str(path), (*error.faults, *_faults_of_parts(data))) from None
    try:
        resolve(spec)
    except Faults as error:
        raise Faults(str(path), error.faults) from None
    return spec


def resolve(spec: Spec) -> Parts:
    """The parts of a spec, or every fault of their names and parameters."""
    faults: list[str] = []
    [protocol] = _built("protocol", [spec.protocol], faults) or [None]
    models = _built("model", spec.models, faults)
    datasets = _built("dataset", spec.datasets, faults)
    controls = protocol.controls if plays(protocol, HasControls) else ()
    given = controls if isinstance(controls, Mapping) else {name: {} for name in controls}
    explainers = _built("explainer", [_as_control(component, given) for component in spec.explainers], faults)
    if spec.absence and not faults:
        explainers = _built("explainer", _over_absences(spec, explainers, faults), faults)
    if not faults and not spec.absence:
        faults += _broken_defaults(spec.explainers, explainers, models)
    if faults:
        raise Faults(spec.name, faults)
    named = {component.name for component in spec.explainers}
    explainers += [build("explainer", name, dict(given[name])) for name in given if name not in named]
    return Parts(protocol, models, datasets, explainers)


def _as_control(component: Component, controls: Mapping[str, Mapping[str, Any]]) -> Component:
    """A control of the protocol that a spec names without parameters has those it has there."""
    own = controls.get(component.name)
    return component if not own or component.parameters else component.model_copy(update=dict(own))


def _over_absences(spec: Spec, explainers: Sequence[object], faults: list[str]) -> list[Component]:
    """The spec's explainers with a copy in every absent state of each that hides features and names no state itself."""
    components: list[Component] = []
    crossed = False
    for component, explainer in zip(spec.explainers, explainers, strict=True):
        if not _hides(explainer) or "absence" in component.parameters:
            components.append(component)
            continue
        crossed = True
        components += [component.model_copy(update={"absence": state}) for state in dict.fromkeys(spec.absence)]
    if not crossed:
        faults.append("absence: no explainer of this spec hides features without naming its own absent state.")
    return components


def _hides(explainer: Any) -> bool:
    named = any(field.name == "absence" for field in fields(explainer))
    return named and (explainer.hides if plays(explainer, MayHide) else True)


def _broken_defaults(components: Sequence[Component], parts: Sequence[Any], models: Sequence[ModelRecipe]) -> list[str]:
    """Explainers that hide features in a state nobody chose, which breaks a model of the spec."""
    faults = []
    broken = [model.broken_states() for model in models if plays(model, KnowsAbsence)]
    for component, part in zip(components, parts, strict=True):
        if "absence" in component.parameters or not _hides(part):
            continue
        for reasons in broken:
            if part.absence in reasons:
                faults.append(
                    f"{component.name} hides features in {part.absence} by default, and {reasons[part.absence]}. "
                    f"Give it another `absence`, or name {part.absence} to have it all the same."
                )
    return faults


_BUILDERS: Mapping[str, Callable[[Component], Any]] = {
    "protocol": lambda part: build("protocol", part.name, part.parameters),
    "model": lambda part: recipe(part.name, **part.parameters),
    "dataset": lambda part: build("dataset", part.name, part.parameters),
    "explainer": lambda part: build("explainer", part.name, part.parameters),
}


def _built(kind: str, components: Sequence[Component], faults: list[str]) -> list[Any]:
    parts = []
    for component in components:
        try:
            parts.append(_BUILDERS[kind](component))
        except Faults as error:
            faults += [f"{error.source}: {fault}" for fault in error.faults]
        except KaratError as error:
            faults.append(str(error))
    return parts


def _faults_of_parts(data: Any) -> list[str]:
    """Faults of those parts of an unsound spec that can be read as a name with parameters."""
    faults: list[str] = []
    for kind in _BUILDERS:
        listed = data.get(kind if kind == "protocol" else f"{kind}s", []) if isinstance(data, Mapping) else []
        for part in listed if isinstance(listed, list) else [listed]:
            named = {"name": part} if isinstance(part, str) else part
            if isinstance(named, dict) and isinstance(named.get("name"), str):
                _built(kind, [Component.model_validate(named)], faults)
    return faults
