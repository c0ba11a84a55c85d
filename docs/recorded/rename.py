"""Moves recorded runs over when a name changes that their JSON mentions: spec, manifest and findings, sealed anew.

    python docs/recorded/rename.py OLD NEW [OLD NEW ...]

Names are replaced as whole words, in keys and values, as given and capitalised. Scores and details are not touched: a
record whose files differ from the hashes in its manifest is refused.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from karat.results.record import Record
from karat.results.store import Store

RECORDED = Path(__file__).parents[2] / "src" / "karat" / "recorded"


def renamed(value: Any, names: dict[str, str]) -> Any:
    """The same data with every whole word that is a key of `names` replaced, keys of mappings included.

    >>> renamed({"zero": ["a zero, Zero", "zeros"]}, {"zero": "absence"})
    {'absence': ['a absence, Absence', 'zeros']}
    """
    if isinstance(value, str):
        both = {**names, **{old.capitalize(): new.capitalize() for old, new in names.items()}}
        return re.sub(r"\b(" + "|".join(map(re.escape, both)) + r")\b", lambda match: both[match[0]], value)
    if isinstance(value, dict):
        return {renamed(key, names): renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner, names) for inner in value]
    return value


def main() -> None:
    old, new = sys.argv[1::2], sys.argv[2::2]
    if not old or len(old) != len(new):
        sys.exit(__doc__)
    names = dict(zip(old, new, strict=True))
    for folder in sorted(RECORDED.iterdir()):
        store = Store(folder)
        if altered := Record(store).damaged():
            sys.exit(f"{folder}: {', '.join(altered)} differ from the manifest; nothing was renamed.")
        for name in ("spec.json", "manifest.json", "findings.json"):
            store.write_json(name, renamed(store.read_json(name), names))
        print(folder.name)


if __name__ == "__main__":
    main()
