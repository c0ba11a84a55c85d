"""Every Python block of the docs and the README runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: str(p.relative_to(ROOT))
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "runs/grid-quick" in page.read_text():
        from karat.engine.run import run
        from karat.kernel.spec import Spec

        spec = Spec.read(ROOT / "src/karat/specs/grid-quick.yaml").override(["limit=5", "explainers=[control/oracle]"])
        run(spec, tmp_path / "runs/grid-quick", workers=0)
    names: dict[str, object] = {"__name__": "__main__"}  # a page is read from top to bottom: blocks build on each other
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)
    assert len(names) > 1
