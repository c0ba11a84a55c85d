"""Tables of docs/tutorials/synergy.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping

TABLES: Mapping[str, Callable[[], str]] = {}
