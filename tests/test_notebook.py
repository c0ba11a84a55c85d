"""The tutorial notebook runs as it stands, and what it shows is what it holds."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_every_cell_runs_and_shows_what_is_stored() -> None:
    spec = importlib.util.spec_from_file_location("notebook", DOCS / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = DOCS / "tutorials" / "explain.ipynb"
    stored, made = json.loads(path.read_text("utf-8")), module.run(path)
    for before, after in zip(stored["cells"], made["cells"], strict=True):
        kinds = [[(o["output_type"], sorted(o.get("data", ()))) for o in c.get("outputs", ())] for c in (before, after)]
        assert kinds[0] == kinds[1], "run `python docs/notebook.py docs/tutorials/explain.ipynb`"
    shown = [
        o["data"]["text/html"] for c in made["cells"] for o in c.get("outputs", ()) if "text/html" in o.get("data", {})
    ]
    assert len(shown) >= 4
    assert not any("<script" in "".join(html) for html in shown)
