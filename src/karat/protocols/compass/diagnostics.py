"""What was read from the same maps in other ways: other centres, damaged maps, other settings, noisy boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.protocols.compass.centres import CENTRES
from karat.protocols.compass.robustness import NOISES, READINGS, SECTOR_COUNTS, WIDTHS
from karat.protocols.compass.tables import BOX, GROUP, is_control, plain, stream
from karat.statistics import kendall, paired_difference, sign_flip_test

Floats = npt.NDArray[np.float64]


def centres_finding(frame: pd.DataFrame, detail: Floats, errors: Floats) -> Finding | None:
    """`frame` has the keys of plain questions and `at`; `detail` starts with the columns of CENTRES."""
    rows: list[tuple[Any, ...]] = []
    for (model, dataset, explainer), part in frame.groupby(GROUP):
        true = errors[part["at"]]
        rows.append((model, dataset, explainer, "reference", float(np.nanmean(true)), None, None, None, None,
                     int(np.isfinite(true).sum())))  # fmt: skip
        for k, name in enumerate(CENTRES):
            other = detail[part["at"], k]
            if not np.isfinite(other + true).any():
                continue
            one = sign_flip_test(true, other, alternative="less")
            two = sign_flip_test(true, other)
            shown = other[np.isfinite(other + true)]
            rows.append((model, dataset, explainer, name, float(shown.mean()), -one.difference, one.p, two.p,
                         "true centre" if one.p < 0.05 else "no advantage", one.n))  # fmt: skip
    if not rows:
        return None
    names = (*GROUP, "centre", "dae", "change", "p (true is lower)", "p (two-sided)", "better", "n")
    table = pd.DataFrame(rows, columns=list(names))
    won = table[(table["centre"] == "random") & (table["better"] == "true centre")]["explainer"].unique().tolist()
    return Finding(
        "Reference-centre randomisation",
        "The same maps read around other centres; change is the DAE there minus that at the true reference. From a new "
        "centre the truth is the direction to the target; `as asked` keeps the direction from reference to target.",
        (f"Better from the true reference than from a random centre: {', '.join(won)}." if won
         else "The true reference is no better a centre than a random one.",), names, plain(table),
        section="Diagnostics", figures=_bars(table, "centre", "DAE by centre"),
    )  # fmt: skip


def robustness_finding(frame: pd.DataFrame, detail: Floats, errors: Floats) -> Finding | None:
    """creg2026 table 7: DAE, EA and the order of samples under damage to the maps."""
    rows: list[tuple[Any, ...]] = []
    for (model, dataset, explainer), part in frame.groupby(GROUP):
        clean = errors[part["at"]]
        rows.append((model, dataset, explainer, "none", *_summary(clean), 1.0, None, None, None))
        for k, name in enumerate(READINGS[:7]):
            other = detail[part["at"], k]
            tau = kendall(clean, other).value if np.isfinite(clean + other).sum() > 2 else np.nan
            lost = paired_difference(other, clean, rng=stream(model, dataset, explainer, name))
            rows.append((model, dataset, explainer, name, *_summary(other), tau, lost.value, lost.low, lost.high))
    if not rows:
        return None
    names = (*GROUP, "damage", "dae", "ea", "tau to clean", "change", "low", "high")
    table = pd.DataFrame(rows, columns=list(names))
    real = table[~table["explainer"].map(is_control)]
    turned = real[real["damage"] == "rotation 90"]
    said = (
        f"A quarter turn of the maps costs {turned['change'].mean():.1f} degrees on average, and clearly in "
        f"{int((turned['low'] > 0).sum())} of {len(turned)} rows.",
    ) if len(turned) else ()  # fmt: skip
    return Finding(
        "Damaged maps", "Dropout sets cells to 0, blur is in cells, rotation turns the map while the objects stay. Tau "
        "is Kendall's, between the errors of clean and damaged maps over samples.", said, names, plain(table),
        section="Diagnostics", figures=_bars(table, "damage", "DAE by damage"),
    )  # fmt: skip


def settings_finding(frame: pd.DataFrame, detail: Floats, errors: Floats) -> Finding | None:
    """creg2026 D.1 and D.2: other widths, other numbers of sectors, boxes that are a bit off."""
    rows: list[tuple[Any, ...]] = []
    for (model, dataset, explainer), part in frame.groupby(GROUP):
        for k, name in enumerate(READINGS[7:], start=7):
            other = detail[part["at"], k]
            moved = paired_difference(other, errors[part["at"]], rng=stream(model, dataset, explainer, name))
            change = (None,) * 3 if name.startswith("oracle") else (moved.value, moved.low, moved.high)
            rows.append((model, dataset, explainer, name, *_summary(other), *change))
    if not rows:
        return None
    names = (*GROUP, "setting", "dae", "ea", "change", "low", "high")
    table = pd.DataFrame(rows, columns=list(names))
    kinds = ("width", WIDTHS, "sigma_r"), ("sectors", SECTOR_COUNTS, "sectors"), ("box noise", NOISES, "pixels")
    figures = []
    for (model, dataset), whole in table.groupby(["model", "dataset"]):
        for prefix, values, unit in kinds:
            lines = []
            for explainer, part in whole.groupby("explainer"):
                if is_control(str(explainer)) and explainer != BOX:
                    continue
                by = part.set_index("setting")["dae"]
                lines.append(Series(str(explainer), tuple(values), tuple(float(by[f"{prefix} {v:g}"]) for v in values)))
            title = f"DAE by {prefix}: {model} on {dataset}"
            figures.append(Figure(title, "lines", unit, "degrees", tuple(lines)))
    real = table[~table["explainer"].map(is_control)]
    usual = real[real["setting"].isin([f"width {r:g}" for r in WIDTHS if r > 0.3])].dropna(subset=["change"])
    said = (
        f"Widths of 0.6 to 2.0 change the DAE by {usual['change'].abs().max():.1f} degrees at most.",
    ) if len(usual) else ()  # fmt: skip
    return Finding(
        "Other settings", "sigma is 2 sigma_r times the distance of the two objects; box noise moves both centres (the "
        "truth is that of the true boxes), and its oracle is the noisy boxes' own direction. `change` is to the usual "
        "setting: sigma_r 0.6, eight sectors, no noise.", said, names, plain(table),
        section="Diagnostics", figures=tuple(figures),
    )  # fmt: skip


def _bars(table: pd.DataFrame, by: str, title: str) -> tuple[Figure, ...]:
    """A figure per model and dataset: a group of bars per explainer, one bar per centre or damage."""
    return tuple(
        Figure(f"{title}: {model} on {dataset}", "bars", "", "degrees", tuple(
            Series(str(name), tuple(one["explainer"]), tuple(map(float, one["dae"])))
            for name, one in part.dropna(subset=["dae"]).groupby(by, sort=False)
        ))
        for (model, dataset), part in table.groupby(["model", "dataset"])
    )  # fmt: skip


def _summary(errors: Floats) -> tuple[float, float]:
    kept = errors[np.isfinite(errors)]
    return (float(kept.mean()), float((kept <= 45 + 1e-9).mean())) if len(kept) else (float("nan"), float("nan"))
