"""Commitments: they open to what was sealed, and to nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from karat.kernel.commitment import opened, seal
from karat.kernel.errors import BadInput

SPEC = {"protocol": "grid", "datasets": [{"name": "grid", "seed": "sealed"}, {"name": "grid", "seed": 3}]}


def test_an_opening_gives_the_spec_with_its_seed() -> None:
    commitment, opening = seal(SPEC, seed=987654321)
    assert [data["seed"] for data in opened(commitment, opening)["datasets"]] == [987654321, 3]
    assert "987654321" not in str(commitment)


def test_another_seed_nonce_or_spec_is_refused() -> None:
    commitment, opening = seal(SPEC)
    others = [(commitment, replace(opening, seed=opening.seed + 1)), (commitment, replace(opening, nonce="0"))]
    others.append((replace(commitment, spec={**SPEC, "protocol": "pixel"}), opening))
    for known, other in others:
        with pytest.raises(BadInput, match="does not belong"):
            opened(known, other)


def test_the_same_seed_twice_has_two_hashes() -> None:
    assert seal(SPEC, seed=1)[0].hash != seal(SPEC, seed=1)[0].hash  # or all seeds could be tried


def test_a_spec_without_a_place_for_the_seed_is_refused() -> None:
    with pytest.raises(BadInput, match="seed: sealed"):
        seal({"protocol": "grid", "datasets": [{"name": "grid"}]})
