"""Draws docs/images/explain.png: what `karat explain` writes for one image, one question and three explainers."""

from __future__ import annotations

from pathlib import Path

from karat.datasets.grid import generate
from karat.engine.explain_answer import explain_answer
from karat.report.explanation_page import explanation_sheet


def main() -> None:
    [sample] = generate("D2_M_F0_d0.3", 1, seed=3)
    made = explain_answer("gridvlm.pure", sample)
    Path(__file__).with_name("explain.png").write_bytes(explanation_sheet(made).png(1.5))


if __name__ == "__main__":
    main()
