"""Comparisons with known content, for tests of the forms they are written in."""

from __future__ import annotations

from dataclasses import replace

from karat.report.compare import Change, Compared, Judgement, Place

NAN = float("nan")
BASE = Change(
    "grid", "twin.pure", "pictures", "cam/gradcam", "mass", 40, 0.6, 0.3, -0.3, -0.35, -0.25, 0.002, 0, "worse"
)


def change(judgement: Judgement, explainer: str = "cam/gradcam", **fields: object) -> Change:
    return replace(BASE, judgement=judgement, explainer=explainer, **fields)  # type: ignore[arg-type]


def comparison(*changes: Change, **fields: object) -> Compared:
    plain = Compared("runs/main", "runs/branch", 0.05, 0.001, changes, (), (), (), ())
    return replace(plain, **fields)  # type: ignore[arg-type]


ALL = comparison(
    change("control", "control/random", p=NAN),
    change("no difference shown", "attention/rollout", p=1.0),
    change("better", "perturbation/rise", difference=0.3),
    change("too few", "gradient/input", pairs=1, low=NAN, high=NAN, p=NAN),
    change("worse"),
    change("changed", metric="relation"),
    change("no difference shown", "shapley/kernel", p=1.0, lost=3),
    settings=(("seed", "0", "1"), ("versions.torch", "2.4", "2.5")),
    versions=(("versions.python", "3.11", "3.11"), ("versions.torch", "2.4", "2.5")),
    only_before=(Place("grid", "twin.pure", "pictures", "cam/old", "mass"),),
    only_after=(Place("grid", "twin.new", "pictures", "cam/new", "mass"),),
)
