"""Constraints as data: checked at construction, in the words of a spec, before anything else of the class runs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import pytest
from annotated_types import Ge, Gt, Lt

from karat.kernel.card import Card
from karat.kernel.constraints import checked, parameter_types
from karat.kernel.errors import BadInput


@dataclass(frozen=True)
@checked
class Masks:
    count: Annotated[int, Ge(2)] = 8
    keep: Annotated[float, Gt(0), Lt(1)] = 0.5
    sizes: tuple[Annotated[int, Ge(1)], ...] = (3,)
    colour: Literal["black", "white"] = "black"
    card: ClassVar[Card] = Card("test/masks", "masks", "explainer")

    def __post_init__(self) -> None:
        if self.count > 10 * len(self.sizes):
            raise BadInput(f"{self.card.name}: {self.count} masks of {len(self.sizes)} sizes.")


class Inherited(Masks):
    card: ClassVar[Card] = Card("test/inherited", "masks", "explainer")


@dataclass(frozen=True)
@checked
class More(Masks):
    depth: Annotated[int, Ge(0)] = 0


def test_all_faults_are_listed_with_field_value_and_bound() -> None:
    with pytest.raises(BadInput) as error:
        Masks(count=1, keep=1.0, colour="purple")  # type: ignore[arg-type]
    message = str(error.value)
    assert message.startswith("test/masks has 3 faults")
    assert "count: Input should be greater than or equal to 2; got 1." in message
    assert "keep: Input should be less than 1; got 1.0." in message
    assert "colour: Input should be 'black' or 'white'; got 'purple'." in message


def test_a_place_in_a_tuple_is_named() -> None:
    with pytest.raises(BadInput, match=r"sizes\.1: Input should be greater than or equal to 1; got 0"):
        Masks(sizes=(2, 0))


def test_values_become_what_is_declared() -> None:
    made = Masks(sizes=[1, 2], keep=0.25)  # type: ignore[arg-type]
    assert made.sizes == (1, 2)
    assert hash(made) == hash(Masks(sizes=(1, 2), keep=0.25))


def test_one_parameter_may_bound_another() -> None:
    assert Masks(count=20, sizes=(1, 2)).count == 20
    with pytest.raises(BadInput, match="20 masks of 1 sizes"):
        Masks(count=20)


@pytest.mark.parametrize("cls", [Inherited, More])
def test_subclasses_are_held_to_the_same(cls: type[Masks]) -> None:
    with pytest.raises(BadInput, match="count: Input should be greater"):
        cls(count=-1)
    with pytest.raises(BadInput, match="20 masks of 1 sizes"):
        cls(count=20)
    with pytest.raises(BadInput, match="keep"):
        replace(cls(), keep=2.0)


def test_fields_of_a_subclass_are_checked() -> None:
    with pytest.raises(BadInput, match="depth: Input should be greater than or equal to 0; got -1"):
        More(depth=-1)
    assert list(parameter_types(More)) == ["count", "keep", "sizes", "colour", "depth"]


def test_defaults_cost_no_pydantic() -> None:
    code = (
        "import sys; from karat.explainers.perturbation import Rise; Rise(); "
        "assert not {'torch', 'pydantic'} & set(sys.modules), sorted({'torch', 'pydantic'} & set(sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
