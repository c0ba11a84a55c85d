"""Requests add up."""

from __future__ import annotations

from karat.probe import Request


def test_requests_add_up() -> None:
    one, two = Request(activations=frozenset("a")), Request(activations=frozenset("b"), attention=frozenset("c"))
    assert one <= one | two
    assert two <= one | two
    assert not one | two <= two
    assert not Request(gradients=frozenset("a")) <= one
    assert not Request(attention_gradients=frozenset("c")) <= two
