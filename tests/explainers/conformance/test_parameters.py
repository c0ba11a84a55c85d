"""Explainers refuse in Python what they refuse in a spec, and say whether a budget will do (see `test_bounds`)."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

import pytest
from bounds import outside

from karat.kernel.constraints import parameter_types
from karat.kernel.errors import BadInput
from karat.kernel.registry import build, registered
from karat.kernel.roles import ChecksBudget, plays

CLASSES = registered("explainer")
STEPS = [
    pytest.param(name, parameter, value, id=f"{name}-{parameter}={value!r}")
    for name, cls in CLASSES.items()
    for parameter, hint in parameter_types(cls).items()
    for value, _ in outside(hint)
]


@pytest.mark.parametrize(("name", "parameter", "value"), STEPS)
def test_python_refuses_in_the_words_of_a_spec(name: str, parameter: str, value: Any) -> None:
    required = {f.name: "here" for f in fields(CLASSES[name]) if f.default is f.default_factory is MISSING}  # type: ignore[arg-type]
    given = {**required, parameter: value}
    with pytest.raises(BadInput) as by_spec:
        build("explainer", name, given)
    with pytest.raises(BadInput) as by_python:
        CLASSES[name](**given)
    assert str(by_python.value) == str(by_spec.value)


@pytest.mark.parametrize("name", [name for name, cls in CLASSES.items() if "budget" in parameter_types(cls)])
def test_who_has_a_budget_says_whether_it_will_do(name: str) -> None:
    if name == "perturbation/extremal":  # its budget is a matter of its areas, which it checks when it is made
        return
    assert plays(CLASSES[name](), ChecksBudget)
    assert CLASSES[name](budget=1).refuses(36, 8)
    assert re.search(r"36 .* 8 .* budget of \d+ or more; got 1\.", CLASSES[name](budget=1).refuses(36, 8))
