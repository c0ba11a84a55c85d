from __future__ import annotations

import pytest

from karat.kernel.card import CAPABILITIES
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.registry import KINDS, build, find, label, registered


def test_every_registered_thing_says_what_it_is() -> None:
    for kind in KINDS:
        for name, cls in registered(kind).items():
            card = cls.card
            assert card.name == name
            assert card.kind == kind
            assert card.summary
            assert set(CAPABILITIES) >= card.needs
            if kind == "metric":
                assert card.direction in ("higher", "lower")
                assert card.range is not None
                assert card.floor
                assert card.ceiling


def test_typos_are_answered_with_what_was_meant() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'control/random'"):
        find("explainer", "control/randm")
    with pytest.raises(UnknownName, match="Did you mean 'control/oracle'"):
        find("explainer", "oracle")
    with pytest.raises(BadInput, match=r"no parameter of control/center is called 'widht'. Did you mean 'width'"):
        build("explainer", "control/center", {"widht": 1})


def test_wrong_types_are_answered_with_the_parameter() -> None:
    with pytest.raises(BadInput, match=r"control/center: width: .*got 'wide'"):
        build("explainer", "control/center", {"width": "wide"})


def test_own_classes_go_in_by_path() -> None:
    assert build("explainer", "toys:Noise", {"wait": 0.5}).wait == 0.5
    with pytest.raises(BadInput, match="a dataset was expected here"):
        find("dataset", "toys:Noise")
    with pytest.raises(BadInput, match="cannot load"):
        find("explainer", "no.such.module:Thing")
    with pytest.raises(BadInput, match="must be a frozen dataclass"):
        find("explainer", "toys:square")


def test_labels_show_what_differs_from_the_defaults() -> None:
    assert label(build("explainer", "control/center", {})) == "control/center"
    assert label(build("explainer", "control/center", {"width": 0.1})) == "control/center(width=0.1)"
    longer = build("protocol", "pixel", {"effort": {"trials": 9}})
    assert label(longer) == "pixel(effort.trials=9)"
