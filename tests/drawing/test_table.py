from __future__ import annotations

from karat.drawing.table import html_table, html_text
from karat.kernel.finding import Finding
from karat.probe.session import Cost


def test_tables_escape_and_say_what_is_left_out() -> None:
    table = html_table(["<a>"], [[float("nan")], [1 / 3], ["x & y"]], most=2)
    assert "&lt;a&gt;" in table
    assert "–" in table
    assert "0.3333" in table
    assert "x &amp; y" not in table
    assert "and 1 more rows" in table


def test_findings_and_costs_show_themselves() -> None:
    finding = Finding("Title", "about it", ("It holds.",), ("name", "value"), (("a", 0.5),))
    page = finding._repr_html_()
    assert all(part in page for part in ("Title", "It holds.", "about it", "0.5"))
    cost = Cost(traces=2, backwards=3, seconds={"cam/gradcam": 1.5})
    assert repr(cost).startswith("Cost: 2 traces (0 shared), 3 backwards, 0 forward passes")
    assert "cam/gradcam" in cost._repr_html_()
    assert html_text("t", ["", "line"]).count("<p") == 1
