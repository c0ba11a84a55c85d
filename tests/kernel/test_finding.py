from __future__ import annotations

import json

import pytest

from karat.kernel.errors import BadInput
from karat.kernel.finding import Figure, Finding, Series

FIGURE = Figure(
    "Depth", "lines", "depth", "mass", (Series("a", (1, 2), (0.5, None), low=(0.4, None), high=(0.6, None)),),
    note="two depths", lines=(("noise", 0.1),),
)  # fmt: skip


def test_a_finding_survives_json_as_it_was() -> None:
    finding = Finding("t", "about", ("One.",), ("x", "y"), (("a", 1.0), ("b", None)), "RQ1", (FIGURE,))
    assert Finding.read(json.loads(json.dumps(finding.plain()))) == finding


def test_old_findings_have_neither_section_nor_figures() -> None:
    plain = Finding("t", "about", (), (), ()).plain()
    del plain["section"], plain["figures"]
    assert Finding.read(plain) == Finding("t", "about", (), (), ())


def test_a_series_of_uneven_length_is_refused() -> None:
    with pytest.raises(BadInput, match="equally long"):
        Series("a", (1, 2), (0.5,))


def test_an_unknown_kind_of_figure_is_refused() -> None:
    with pytest.raises(BadInput, match="kind is one of bars"):
        Figure("t", "pie", "x", "y", ())  # type: ignore[arg-type]
