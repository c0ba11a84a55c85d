"""Every explainer × every bound that its parameters declare: one step outside is refused, in a spec and in Python."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Annotated, Any, get_args, get_origin

import pytest
from bounds import outside

from karat.kernel.constraints import parameter_types
from karat.kernel.errors import BadInput
from karat.kernel.registry import build, registered
from karat.kernel.roles import ChecksBudget

CLASSES = registered("explainer")
STEPS = [
    pytest.param(name, parameter, value, bound, id=f"{name}-{parameter}={value!r}")
    for name, cls in CLASSES.items()
    for parameter, hint in parameter_types(cls).items()
    for value, bound in outside(hint)
]
DEPTH = {("attention/raw", "layer"), ("attention/generic", "start_layer")}  # bounded by the model's number of layers


@pytest.mark.parametrize(("name", "parameter", "value", "bound"), STEPS)
def test_one_step_outside_is_refused(name: str, parameter: str, value: Any, bound: str) -> None:
    """With the field, the value and the bound, and in the same words wherever it is refused."""
    required = {f.name: "here" for f in fields(CLASSES[name]) if f.default is f.default_factory is MISSING}  # type: ignore[arg-type]
    given = {**required, parameter: value}
    with pytest.raises(BadInput) as by_spec:
        build("explainer", name, given)
    with pytest.raises(BadInput) as by_python:
        CLASSES[name](**given)
    assert str(by_python.value) == str(by_spec.value)
    message = str(by_spec.value)
    assert message.startswith(name)
    assert parameter in message
    assert bound in message
    places = value if isinstance(value, tuple) else ()
    assert any(f"got {each!r}" in message for each in (value, *places)), message


@pytest.mark.parametrize("name", CLASSES)
def test_every_number_has_a_bound(name: str) -> None:
    """A parameter without one would run into the model before anybody says no."""
    for parameter, hint in parameter_types(CLASSES[name]).items():
        if (name, parameter) not in DEPTH:
            assert not _free_numbers(hint), parameter


def _free_numbers(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        inner, *bounds = get_args(hint)
        return not bounds or (inner not in (int, float) and _free_numbers(inner))
    return hint in (int, float) or any(_free_numbers(each) for each in get_args(hint) if each is not Ellipsis)


@pytest.mark.parametrize("name", [name for name, cls in CLASSES.items() if "budget" in parameter_types(cls)])
def test_who_has_a_budget_says_whether_it_will_do(name: str) -> None:
    if name == "perturbation/extremal":  # its budget is a matter of its areas, which it checks when it is made
        return
    assert isinstance(CLASSES[name](), ChecksBudget)
    assert CLASSES[name](budget=1).refuses(36, 8)
    assert re.search(r"36 .* 8 .* budget of \d+ or more; got 1\.", CLASSES[name](budget=1).refuses(36, 8))
