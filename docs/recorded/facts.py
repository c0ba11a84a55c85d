"""Fills in anew what manifests of recorded runs say of their models, from the recipes: facts are columns that findings
and claims read, so a recipe that states another fact, or a truer one, must be heard by its records too.

    python docs/recorded/facts.py

Scores and details are not touched. Models that a record names and this checkout cannot make are left as they are. A
parameter that a record does not know was added later; what it is by default today need not be what was run, so it stays
unknown.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from karat.kernel.errors import KaratError
from karat.kernel.registry import facts, label
from karat.kernel.roles import KnowsMechanism, plays
from karat.models import recipe
from karat.results.record import Record
from karat.results.store import Store

RECORDED = Path(__file__).parents[2] / "src" / "karat" / "recorded"


def stated(models: list[dict[str, Any]]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Recipes of a spec's models, and their facts."""
    for entry in models:
        try:
            made = recipe(**entry)
            yield made, {**facts(made), "mechanism": made.mechanism if plays(made, KnowsMechanism) else None}
        except (KaratError, OSError) as error:
            print(f"  left as it is: {entry['name']}: {error}")


def main() -> None:
    for folder in sorted(RECORDED.iterdir()):
        store = Store(folder)
        if altered := Record(store).damaged():
            sys.exit(f"{folder}: {', '.join(altered)} differ from the manifest; nothing was changed.")
        print(folder.name)
        manifest = store.read_json("manifest.json")
        models = manifest["parts"]["model"]
        for made, known in stated(store.read_json("spec.json")["models"]):
            before = models.get(label(made))
            if before is None:
                continue
            later = {field.name for field in dataclasses.fields(made)} - set(before)
            models[label(made)] = now = {key: value for key, value in known.items() if key not in later}
            if now != before:
                print(f"  {label(made)}: {sorted(set(now.items()) - set(before.items()), key=str)}")
        store.write_json("manifest.json", manifest)


if __name__ == "__main__":
    main()
