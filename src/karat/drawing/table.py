"""Tables and lines of text as HTML that needs no script: what notebooks show of runs, findings and costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

MOST = 30  # rows
_CELL = "padding:2px 12px 2px 0;border-bottom:1px solid #8884"


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = MOST) -> str:
    """Columns and rows; numbers with four digits, and a line that says how many rows are left out.

    >>> "0.3333" in html_table(["x"], [[1 / 3]])
    True
    """
    head = "".join(f'<th style="text-align:left;{_CELL}">{escape(str(column))}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left;{_CELL}">{escape(_cell(value))}</td>' for value in row) + "</tr>"
        for row in rows[:most]
    )
    rest = f'<div style="opacity:.75">and {len(rows) - most:,} more rows</div>' if len(rows) > most else ""
    return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}'


def html_text(title: str, lines: Iterable[str], more: str = "") -> str:
    """A title, a paragraph for each line, and HTML after them."""
    paragraphs = "".join(f'<p style="margin:4px 0;max-width:80ch">{escape(line)}</p>' for line in lines if line)
    head = f'<div style="font-weight:600">{escape(title)}</div>'
    return (
        f'<div style="font-family:system-ui,sans-serif;font-size:13px;line-height:1.4">{head}{paragraphs}{more}</div>'
    )


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
