"""Every image-text-to-text type of transformers through discovery and `vlm_laws`; writes docs/reference/vlm-types.md.

    python tools/vlm_types.py              # all types: some minutes
    python tools/vlm_types.py llava mllama # some types, printed, nothing is written

Models are small ones of the real classes (`tests/support/vlm_zoo.py`).
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
PAGE = ROOT / "docs" / "reference" / "vlm-types.md"
_LEVELS = ("opens", "differentiates", "asks", "refused", "not built")
_HEAD = """# Types of vision-language models

Every type that transformers {version} maps to image-text-to-text, as a small random model of its real classes with its
real processor, put through discovery (`family="discovered"`) and through the laws of
[your model](../how-to/own-vlm.md). Made by `python tools/vlm_types.py`; what is not built here may still work with its
real weights, since discovery does not know types by name.

{counts}

| type | level | laws | why not more |
|---|---|---|---|
"""


def row(kind: str) -> dict[str, Any]:
    """Level, laws that hold of those tried, and reasons."""
    import vlm_zoo
    from vlm_zoo import UNBUILT, law_samples

    from karat.kernel.errors import KaratError
    from karat.models.vlm import vlm
    from karat.testing import vlm_laws

    began = time.perf_counter()
    try:
        parts = vlm_zoo.make(kind)
    except Exception as error:  # whatever a class raises, it was not built
        why = UNBUILT.get(kind) or f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        return {"kind": kind, "level": "not built", "why": why, "laws": {}}
    try:
        model = vlm(*parts, name=kind, family="discovered", max_new_tokens=3)
    except KaratError as error:
        return {"kind": kind, "level": "refused", "why": str(error)[:200], "laws": {}}
    samples, answers = law_samples(model)
    laws = {law.name: law.found if not law.holds else "" for law in vlm_laws(model, samples, answers)}
    return {
        "kind": kind, "level": model.family.level, "why": "; ".join(model.family.reasons), "laws": laws,
        "passes": model.family.passes, "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def page(rows: list[dict[str, Any]], version: str) -> str:
    counts = ", ".join(f"{sum(r['level'] == level for r in rows)} {level}" for level in _LEVELS)
    lines = []
    for each in sorted(rows, key=lambda r: (_LEVELS.index(r["level"]), r["kind"])):
        broken = [f"{name}: {reason}" for name, reason in each["laws"].items() if reason]
        why = "; ".join([part for part in (each["why"], *broken) if part]).replace("|", "\\|").replace("<", "&lt;")
        held = sum(not reason for reason in each["laws"].values())
        laws = f"{held} of {len(each['laws'])}" if each["laws"] else ""
        lines.append(f"| `{each['kind']}` | {each['level']} | {laws} | {' '.join(why.split())[:400]} |")
    return _HEAD.format(version=version, counts=f"{len(rows)} types: {counts}.") + "\n".join(lines) + "\n"


def main() -> None:
    warnings.filterwarnings("ignore")
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as TYPES

    transformers.logging.set_verbosity_error()
    chosen = sys.argv[1:] or list(TYPES)
    rows = []
    for kind in chosen:
        rows.append(row(kind))
        print(json.dumps(rows[-1]), flush=True)
    if not sys.argv[1:]:
        PAGE.write_text(page(rows, transformers.__version__), encoding="utf-8")


if __name__ == "__main__":
    main()
