"""Draws docs/images/pix2tex.png: every symbol of a formula that pix2tex reads, by leave-one-out over cells of 8 pixels.

python docs/images/pix2tex_picture.py FOLDER     # of the package, see docs/recorded/pix2tex_record.py
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "recorded"))

from pix2tex import load  # noqa: E402 - its folder is put on the path above
from pix2tex_record import UNSEEN, rendered  # noqa: E402

from karat.kernel.attribution import Subject  # noqa: E402
from karat.kernel.attribution_picture import sheet  # noqa: E402
from karat.kernel.registry import build  # noqa: E402
from karat.kernel.sample import Sample  # noqa: E402
from karat.kernel.target import Target  # noqa: E402
from karat.probe.session import Session  # noqa: E402


def main(folder: str) -> None:
    model = load(folder)
    sample = Sample("formula", rendered("x^{2}+y^{2}=z^{2}"))
    [said] = model.answer([sample])
    targets = [
        Target(said, span) for span in model.token_spans(said) if said[slice(*span)].strip() not in UNSEEN | {""}
    ]
    session = Session(model, [sample] * len(targets), targets)
    height, width = sample.size
    made = build("explainer", "perturbation/leave_one_out", {"visual": (height // 8, width // 8)})(session)
    named = [replace(one, of=Subject(sample, t, "pix2tex")) for one, t in zip(made, targets, strict=True)]
    (HERE / "pix2tex.png").write_bytes(replace(sheet(named), heading=said).png(1.2))


if __name__ == "__main__":
    main(sys.argv[1])
