from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.kernel.errors import BadInput
from karat.kernel.identity import canonical, digest, generator


@dataclass(frozen=True)
class Thing:
    b: tuple[int, ...] = (1, 2)
    a: float = 0.5


def test_one_spelling_per_meaning() -> None:
    assert canonical(Thing()) == {"a": 0.5, "b": [1, 2]}
    assert digest({"x": 1, "y": [2, 3]}) == digest({"y": (2, 3), "x": np.int64(1)})
    assert digest({"x": {3, 1, 2}}) == digest({"x": {2, 3, 1}})


SCALARS = st.integers() | st.text() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.text(), SCALARS))
def test_key_order_never_matters(data: dict[str, object]) -> None:
    assert digest(data) == digest(dict(reversed(list(data.items()))))


def test_different_values_differ() -> None:
    assert len({digest(v) for v in (1, 1.5, "1", True, None, [1], {"a": 1})}) == 7


def test_what_has_no_canonical_form_is_refused() -> None:
    with pytest.raises(BadInput, match="finite"):
        canonical(float("nan"))
    with pytest.raises(BadInput, match="type function"):
        canonical(canonical)


def test_streams_belong_to_run_sample_and_component() -> None:
    base = generator(0, "s", "c").random(4)
    assert np.array_equal(base, generator(0, "s", "c").random(4))
    for other in (generator(1, "s", "c"), generator(0, "t", "c"), generator(0, "s", "d"), generator(0, "sc", "")):
        assert not np.array_equal(base, other.random(4))
