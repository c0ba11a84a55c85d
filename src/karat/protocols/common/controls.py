"""Controls: what explainers are read against. Whether one is a control is a fact of its card, joined to every row."""

from __future__ import annotations

import pandas as pd

from karat.results.facts import Parts

NOISE, UNIFORM, ORACLE = "control/random", "control/uniform", "control/oracle"


def methods(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of explainers that compete: all but the controls."""
    return rows[~rows["explainer.is_control"]]


def named(parts: Parts, name: str) -> list[str]:
    """Labels of a run's explainers that are registered under a name, whatever their parameters."""
    return [label for label, facts in parts["explainer"].items() if facts["name"] == name]


def is_control(parts: Parts, label: str) -> bool:
    """Whether an explainer of a run, by its label, is a control."""
    return bool(parts["explainer"][label]["is_control"])
