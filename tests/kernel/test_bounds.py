"""Every registered part × every bound that its parameters declare: one step outside is refused before work begins."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any, get_args, get_origin

import pytest
from bounds import outside

from karat.engine.resolve import resolve
from karat.kernel.constraints import AsItIs, parameter_types
from karat.kernel.errors import BadInput
from karat.kernel.registry import ROOMS, build, registered
from karat.kernel.spec import Spec

PARTS = [(kind, name, cls) for kind in ROOMS for name, cls in registered(kind).items()]
STEPS = [
    pytest.param(kind, name, parameter, value, bound, id=f"{kind}-{name}-{parameter}={value!r}")
    for kind, name, cls in PARTS
    for parameter, hint in parameter_types(cls).items()
    for value, bound in outside(hint)
]
# What only data can bound: the depth of a model, the mean and deviation of its pixels.
FREE = {("attention/raw", "layer"), ("attention/generic", "start_layer"), ("classifier", "mean"), ("classifier", "std")}


def required(kind: Any, name: str) -> dict[str, Any]:
    return {f.name: "here" for f in fields(registered(kind)[name]) if f.default is f.default_factory is MISSING}  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "name", "parameter", "value", "bound"), STEPS)
def test_one_step_outside_is_refused(kind: Any, name: str, parameter: str, value: Any, bound: str) -> None:
    """With the field, the value and the bound."""
    with pytest.raises(BadInput) as refusal:
        build(kind, name, {**required(kind, name), parameter: value})
    message = str(refusal.value)
    assert message.startswith(name)
    assert parameter in message
    assert bound in message
    places = value if isinstance(value, tuple) else ()
    assert any(f"got {each!r}" in message for each in (value, *places)), message


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("explainers.0", {"explainers": [{"name": "perturbation/rise", "masks": -5}]}),
        ("models.0", {"models": [{"name": "gridprog.pure", "size": 1}]}),
        ("datasets.0", {"datasets": [{"name": "grid", "per_bucket": 0}]}),
        ("protocol", {"protocol": {"name": "synergy", "steps": 0}}),
    ],
)
def test_check_refuses_what_the_table_refuses(part: str, field: dict[str, Any]) -> None:
    """`karat check`, `--dry-run` and `run` read a spec by the same function; it builds every part."""
    plain: dict[str, Any] = {"karat": 1, "name": "bad", "protocol": {"name": "grid"}, "datasets": [{"name": "grid"}]}
    plain |= {"models": ["gridprog.pure"], "explainers": ["control/random"]}
    with pytest.raises(BadInput, match="greater than or equal"):
        resolve(Spec.parse(plain | field))


@pytest.mark.parametrize(("kind", "name", "cls"), PARTS, ids=lambda each: each if isinstance(each, str) else "")
def test_every_number_has_a_bound(kind: str, name: str, cls: type) -> None:
    """A parameter without one would run into the model before anybody says no."""
    for parameter, hint in parameter_types(cls).items():
        if (name, parameter) not in FREE:
            assert not _free_numbers(hint), parameter


def _free_numbers(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        inner, *bounds = get_args(hint)
        if any(isinstance(bound, AsItIs) for bound in bounds):
            return False
        return not bounds or (inner not in (int, float) and _free_numbers(inner))
    return hint in (int, float) or any(_free_numbers(each) for each in get_args(hint) if each is not Ellipsis)
