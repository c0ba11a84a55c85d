"""The fault suite (`make faults`): outside of `make check`, with a count of what was injected at its end.

`KARAT_FAULTS=0.1` runs a tenth of every count.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty import INJECTED

collect_ignore = ["fuzz_atheris.py"]  # a program of its own, which takes the process over


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def count() -> Callable[[str, int], None]:
    """Call with a kind of fault and how many were injected; the totals are printed at the end."""

    def add(kind: str, number: int = 1) -> None:
        INJECTED[kind] += number

    return add


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not INJECTED:
        return
    terminalreporter.section("faults injected")
    for kind, number in sorted(INJECTED.items()):
        terminalreporter.write_line(f"{number:8,}  {kind}")
    failed = len(terminalreporter.stats.get("failed", [])) + len(terminalreporter.stats.get("error", []))
    verdict = "all of them were survived" if not failed else f"{failed} tests did not survive theirs"
    terminalreporter.write_line(f"{sum(INJECTED.values()):8,}  in all; {verdict}")
