"""How a claim is judged: by where the intervals of all rows lie."""

from __future__ import annotations

import pandas as pd

from karat.kernel.claim import Agreement
from karat.protocols.compass.tables import is_control


def judged(holds: pd.Series[bool], fails: pd.Series[bool]) -> Agreement:
    """Agree where the intervals of all rows are on the claim's side, disagree where one is wholly on the other.

    >>> low, high = pd.Series([1.0, 2.0]), pd.Series([3.0, 4.0])
    >>> judged(low > 0, high < 0), judged(low > 1.5, high < 0), judged(low > 1.5, high < 3.5)
    ('agree', 'cannot tell', 'disagree')
    """
    return "disagree" if fails.any() else "agree" if holds.all() else "cannot tell"


def real_rows(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """Without the controls; None where nothing is left."""
    if table is None or table.empty:
        return None
    rows = table[~table["explainer"].map(is_control)]
    return None if rows.empty else rows
