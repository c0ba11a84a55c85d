"""The tables of creg2026 with a run's numbers in them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from karat.kernel.finding import Finding
from karat.protocols.common.published import Published
from karat.protocols.compass.tables import BOX, is_control, plain

TRANSFORMER = "attention/grad_rollout"  # the paper's Transformer Attribution
#: What the paper calls an explainer, by the name it has here.
METHODS = {
    "control/geometry": "Geometry oracle", BOX: "Box-only", TRANSFORMER: "Transformer Attribution",
    "cam/gradcam": "GradCAM", "perturbation/rise": "RISE", "gradient/contrastive_grad_x_act": "Contrastive Grad×Act",
    "attention/rollout": "Attention rollout", "gradient/integrated_gradients": "Integrated Gradients",
    "control/random": "Random",
}  # fmt: skip


def beside(
    printed: Published,
    table: pd.DataFrame,
    shown: dict[str, pd.DataFrame],
    patterns: pd.DataFrame,
    injected: pd.DataFrame,
) -> tuple[Finding, ...]:
    """Tables 1 and 3 to 7 and 9 in the order of the paper; those that the run has nothing for are left out."""
    found = (
        _table_1(table, printed),
        _table_3(shown.get("Reference-centre randomisation"), table, printed),
        _table_4(shown.get("Variance partition: fix the target, move the reference"), printed),
        _table_5(injected, printed),
        _table_6(patterns, printed),
        _table_7(shown.get("Damaged maps"), printed),
        _table_9(shown.get("Accuracy against direction after training"), printed),
    )
    return tuple(one for one in found if one is not None)


def _made(title: str, about: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Finding | None:
    return Finding(title, about, (), names, plain(pd.DataFrame(rows, columns=list(names)))) if rows else None


def _table_1(table: pd.DataFrame, printed: Published) -> Finding | None:
    by_method = {str(row[0]): row for row in printed.tables["Table 1"].rows}
    rows: list[tuple[Any, ...]] = []
    for row in table.to_dict("records"):
        said = by_method.get(METHODS.get(str(row["explainer"]).partition("(")[0], ""))
        both = (said[3], said[4]) if said else (None, None)
        rows.append((row["model"], row["dataset"], row["explainer"], *both, row["dae"], row["ea"], row["accuracy"]))
    names = ("model", "dataset", "explainer", "COCO-Pairs dae", "COCO-Pairs ea", "dae", "ea", "accuracy")
    return _made("Table 1 beside this run", "Published for Qwen2-VL-7B on COCO-Pairs; other models and pictures here.",
                 names, rows)  # fmt: skip


def _table_3(centres: pd.DataFrame | None, table: pd.DataFrame, printed: Published) -> Finding | None:
    """Each model with the explainer that points best for it."""
    if centres is None:
        return None
    said = {(row[0], row[1]): row[2] for row in printed.tables["Table 3"].rows}
    real = table[~table["explainer"].map(is_control)].dropna(subset=["dae"])
    rows: list[tuple[Any, ...]] = []
    for _, best in real.loc[real.groupby(["dataset", "model"])["dae"].idxmin()].iterrows():
        same = (centres["model"] == best["model"]) & (centres["dataset"] == best["dataset"])
        for _, row in centres[same & (centres["explainer"] == best["explainer"])].iterrows():
            both = (
                said.get((dataset, str(row["centre"]).partition(" (")[0])) for dataset in ("COCO-Pairs", "VG-Spatial")
            )
            rows.append((row["model"], row["explainer"], row["centre"], *both, row["dae"], row["change"],
                         row["p (true is lower)"], row["p (two-sided)"]))  # fmt: skip
    names = ("model", "explainer", "centre", "COCO-Pairs dae", "VG-Spatial dae", "dae", "change", "p (true is lower)",
             "p (two-sided)")  # fmt: skip
    about = (
        "The explainer that points best for each model. The paper says neither which direction is true from a wrong "
        "centre nor which explainer it took."
    )
    return _made("Table 3 beside this run", about, names, rows)


def _table_4(parts: pd.DataFrame | None, printed: Published) -> Finding | None:
    if parts is None:
        return None
    rows = [
        (row["model"], row["explainer"], factor, eta2, row[f"eta2 {factor}"], share, row[f"within {factor}"])
        for _, row in parts[~parts["explainer"].map(is_control)].iterrows()
        for factor, eta2, share in printed.tables["Table 4"].rows
    ]
    names = ("model", "explainer", "factor", "published eta2", "eta2", "published within-image share",
             "within-image share")  # fmt: skip
    return _made("Table 4 beside this run", "", names, rows)


def _table_5(injected: pd.DataFrame, printed: Published) -> Finding | None:
    ours = {float(row["alpha"]): row for row in injected.to_dict("records")}
    rows: list[tuple[Any, ...]] = []
    for alpha, position, direction, _, follows in printed.tables["Table 5"].rows:
        mine = ours[float(str(alpha))]
        both = (position, mine["dae to position"]), (direction, mine["dae to direction"])
        rows.append((alpha, *both[0], *both[1], follows, mine["follows direction"]))
    names = ("alpha", "published to position", "to position", "published to direction", "to direction",
             "published follows direction", "follows direction")  # fmt: skip
    return _made("Table 5 beside ours", "500 random scenes; a bump fills the target's box, a wedge is a sector wide.",
                 names, rows)  # fmt: skip


def _table_6(patterns: pd.DataFrame, printed: Published) -> Finding | None:
    ours = {str(row["map"]): row for row in patterns.to_dict("records")}
    rows = [
        (name, dae, ours[str(name)]["dae"], ours[str(name)]["low"], ours[str(name)]["high"], ea, ours[str(name)]["ea"])
        for name, dae, ea in printed.tables["Table 6"].rows
    ]
    names = ("map", "published dae", "dae", "low", "high", "published ea", "ea")
    return _made("Table 6 beside ours", "500 random scenes. Published EAs are lower bounds.", names, rows)


def _table_7(damaged: pd.DataFrame | None, printed: Published) -> Finding | None:
    if damaged is None:
        return None
    said = {str(row[0]): row for row in printed.tables["Table 7"].rows}
    rows = [
        (row["model"], row["damage"], said[row["damage"]][1], row["dae"], said[row["damage"]][2], row["ea"],
         said[row["damage"]][3], row["tau to clean"])
        for _, row in damaged[damaged["explainer"] == TRANSFORMER].iterrows()
    ]  # fmt: skip
    names = ("model", "damage", "published dae", "dae", "published ea", "ea", "published tau", "tau")
    return _made("Table 7 beside this run", printed.tables["Table 7"].note, names, rows)


def _table_9(gains: pd.DataFrame | None, printed: Published) -> Finding | None:
    if gains is None:
        return None
    said = {str(row[0]): row for row in printed.tables["Table 9"].rows}
    rows: list[tuple[Any, ...]] = []
    for _, row in gains[gains["explainer"] == TRANSFORMER].iterrows():
        both = said.get("baseline" if row["objective"] == "none" else row["objective"])
        rows.append((row["base"], row["objective"], *(both[2:4] if both else (None, None)), row["accuracy"], row["dae"],
                     row["dae change"], row["dae low"], row["dae high"], row["ea"]))  # fmt: skip
    names = ("base", "objective", "VSR accuracy", "VSR dae", "accuracy", "dae", "dae change", "low", "high", "ea")
    return _made("Table 9 beside this run, training", "Published for Qwen2-VL-7B on VSR, Transformer Attribution.",
                 names, rows)  # fmt: skip
