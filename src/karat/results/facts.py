"""Facts of a run's parts as columns of its rows: labels are for people, these are for code.

The manifest has, for every model, dataset and explainer by its label, what it is: registered name, family, parameters,
and whatever a recipe says of itself. `with_facts` joins them to rows as `explainer.name`, `model.variant` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.kernel.typing import Scalar

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("model", "dataset", "explainer")
PARTS = "parts"  # in the manifest: {"model": {label: {fact: value}}, ...}

Parts = Mapping[str, Mapping[str, Mapping[str, Scalar]]]
_ALWAYS = {
    "model": ("name", "family", "mechanism"),
    "dataset": ("name", "family"),
    "explainer": ("name", "family", "is_control", "absence", "value"),
}


def parts_of(manifest: Mapping[str, Any]) -> Parts:
    """Facts of a run's parts, by kind and label."""
    if PARTS not in manifest:
        raise BadInput(
            f"{manifest.get('name', 'this run')} was written by an older Karat, which kept labels alone. Run the same "
            "`karat run` again: nothing is computed anew, only what the run says about itself is written."
        )
    known: Parts = manifest[PARTS]
    return known


def with_facts(scores: pd.DataFrame, parts: Parts) -> pd.DataFrame:
    """Rows with a column for every fact that tells parts of one name apart, and a few that every run has.

    A parameter that is the same for all parts of a name is left out: `Run.parts` has it.
    """
    import pandas as pd

    columns: dict[str, Any] = {}
    for kind in KINDS:
        labels = pd.Categorical(scores[kind])
        known = [parts[kind].get(str(label), {}) for label in labels.categories]
        for fact in _telling(kind, known):
            columns[f"{kind}.{fact}"] = _column([facts.get(fact) for facts in known], labels.codes)
    return scores.assign(**columns)


def _column(values: list[Scalar], codes: Any) -> Any:
    """One value per label, spread over the rows: numbers and truths as such, words as categories."""
    import pandas as pd

    if all(isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.bool_)[codes]
    if all(value is None or isinstance(value, int | float) for value in values) and any(v is not None for v in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)[codes]
    names = sorted({str(value) for value in values if value is not None})
    places = np.array([-1 if value is None else names.index(str(value)) for value in values], dtype=np.int32)
    return pd.Categorical.from_codes(places[codes] if len(values) else codes, categories=pd.Index(names, dtype=object))


def _telling(kind: str, known: list[Mapping[str, Scalar]]) -> list[str]:
    """The usual facts, then those that differ between two parts of one registered name."""
    differing: dict[str, None] = {}
    for name in dict.fromkeys(facts.get("name") for facts in known):
        alike = [facts for facts in known if facts.get("name") == name]
        facts_of = dict.fromkeys(fact for facts in alike for fact in facts)
        differing |= dict.fromkeys(fact for fact in facts_of if len({repr(facts.get(fact)) for facts in alike}) > 1)
    return list(dict.fromkeys([*_ALWAYS[kind], *differing]))
