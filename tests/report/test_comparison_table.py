"""Markdown of a comparison: worse first, and labels that stay text whatever they hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from karat.report.compare import Compared, Place
from karat.report.comparison_table import code, counts, listed_changes, markdown, printable, verdict
from tests.report.comparisons import ALL, change, comparison
from tests.report.runs import NASTY

LABELS = [
    NASTY, "a|b", r"a\|b", "ends \\", "`", "``a```b`", " padded ", "![x](http://x/y.png)", "<!-- -->", "@someone #12",
    "| --- |", "\x1b[31mred\x00", "two\nlines\r\n\u2028three", "\u202ereversed", "$x$ ~~y~~ **z** _w_", "&lt;b&gt;",
    "-", "\ud800",
]  # fmt: skip


def tables(text: str) -> list[list[list[str]]]:
    """Rows of cells of every table, as a Markdown parser reads them; code spans must be all there is to a label."""
    result: list[list[list[str]]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "table_open":
            result.append([])
        elif token.type == "tr_open":
            result[-1].append([])
        elif token.type == "inline" and token.level > 2:
            children = token.children or []
            assert {child.type for child in children} <= {"text", "code_inline"}
            result[-1][-1].append("".join(child.content for child in children))
    return result


def test_worse_comes_first_and_what_has_not_changed_only_if_asked() -> None:
    assert [c.explainer for c in listed_changes(ALL)] == [
        "cam/gradcam", "shapley/kernel", "cam/gradcam", "perturbation/rise",
    ]  # fmt: skip
    assert [c.judgement for c in listed_changes(ALL, everything=True)] == [
        "worse", "no difference shown", "changed", "better", "no difference shown", "too few", "control",
    ]  # fmt: skip


@pytest.mark.parametrize(("compared", "sentence"), [
    (ALL, "2 of 7 comparisons are worse"),
    (comparison(change("worse")), "1 of 1 comparisons is worse"),
    (comparison(change("control", lost=1)), "1 of 1 comparisons is worse"),
    (comparison(change("better"), change("too few")), "Nothing is worse beyond chance"),
    (comparison(change("control"), change("too few")), "No comparison could be judged"),
])  # fmt: skip
def test_the_verdict_comes_out_each_way_and_stands_on_top(compared: Compared, sentence: str) -> None:
    assert verdict(compared) == sentence
    assert markdown(compared).splitlines()[0] == f"## Karat: {sentence}"


def test_counts_add_up_to_all_comparisons() -> None:
    assert counts(ALL) == (
        "7 comparisons: 2 worse, 1 better, 1 changed, 1 with no difference shown, 2 not judged."
    )  # fmt: skip


def test_the_table_is_that_of_the_terminal() -> None:
    changes, settings = tables(markdown(ALL))
    assert changes[0][:4] == ["", "explainer", "score", "model"]
    assert changes[1] == [
        "worse", "cam/gradcam", "mass", "twin.pure", "0.6", "0.3", "-0.3", "-0.35 to -0.25", "0.002", "40",
    ]  # fmt: skip
    assert changes[2][0] == "no difference shown (3 rows fail now)"
    assert settings == [["set differently", "before", "after"], ["seed", "0", "1"], ["versions.torch", "2.4", "2.5"]]
    [everything, _] = tables(markdown(ALL, everything=True))
    assert len(everything) == 1 + 7
    assert "`grid · twin.new · pictures · cam/new · mass`" in markdown(ALL)


def test_data_and_protocol_have_a_column_where_they_differ() -> None:
    [table] = tables(markdown(comparison(change("worse"), change("worse", dataset="photographs"))))
    assert table[0][3:5] == ["model", "data"]
    assert [row[4] for row in table[1:]] == ["pictures", "photographs"]
    [table] = tables(markdown(comparison(change("worse"), change("worse", protocol="compass"))))
    assert [row[4] for row in table] == ["protocol", "grid", "compass"]


def test_no_difference_is_a_verdict_without_tables() -> None:
    assert tables(markdown(comparison(change("no difference shown")))) == []


@pytest.mark.parametrize("label", LABELS)
def test_hostile_labels_stay_text(label: str) -> None:
    compared = comparison(
        change("worse", label, metric=label, model=label), before=label, after=label, settings=((label,) * 3,),
        only_before=(Place(*[label] * 5),),
    )  # fmt: skip
    text = markdown(compared)
    changes, settings = tables(text)
    assert changes[1][1:4] == [printable(label)] * 3
    assert settings[1] == [printable(label) if len(label) <= 60 else f"{printable(label[:57])}..."] * 3
    text.encode()
    parsed = [child for token in MarkdownIt("commonmark").enable("table").parse(text) for child in token.children or []]
    assert {child.type for child in parsed} <= {"text", "code_inline"}


@settings(deadline=None)
@given(st.text(min_size=1) | st.text("a `|\\<&\n*", min_size=1))
def test_a_code_span_reads_back_as_its_text(text: str) -> None:
    table = tables(f"| a | b |\n| --- | --- |\n| {code(text)} | {code(text)} |\n")
    assert table[0][1] == [printable(text)] * 2
