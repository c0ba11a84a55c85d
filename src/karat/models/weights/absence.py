"""What absent states do to the twins that ship, as `karat train verify --record` measured it: data beside the weights.

A state breaks a model if the model no longer answers as it did when nothing was hidden that matters to it. What a
method reports in such a state is about the state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from karat.kernel.errors import BadInput
from karat.kernel.proportion import Share, exact_interval
from karat.models.claims import bar_for
from karat.models.verify import Verification
from karat.models.weights import HERE

RECORD = HERE / "absence.json"


def kept_answers(label: str, revision: str, record: Path = RECORD) -> dict[str, Share]:
    """By state, the share of answers that stay when what does not matter is hidden; nothing where these weights were
    never measured."""
    known = _read(record).get(label, {})
    if known.get("revision") != revision:
        return {}
    shares = {}
    for state, (kept, of) in known["states"].items():
        shares[state] = Share(kept / of, *exact_interval(kept / of, of), of)
    return shares


def broken_states(label: str, revision: str, record: Path = RECORD) -> dict[str, str]:
    """The states that break a model, each with its reason: the whole interval lies below the bar of its family."""
    bar = bar_for(label).kept
    return {
        state: f"{label} keeps {share} of its answers when what does not matter is hidden in {state} (bar {bar:.0%})"
        for state, share in kept_answers(label, revision, record).items()
        if share.high < bar
    }


def write_record(path: Path, label: str, revision: str, proof: Verification, seed: int) -> Path:
    """Put a model's shares into a record; what the record says of others stays."""
    record = _read(path)
    states = {state: [round(share.value * share.n), share.n] for state, share in proof.kept().items()}
    record[label] = {"revision": revision, "seed": seed, "states": states}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no record of absent states: {error}.") from None
    if not isinstance(record, Mapping):
        raise BadInput(f"{path} is no record of absent states; make one with `karat train verify MODEL --record FILE`.")
    return dict(record)
