"""Tables of docs/tutorials/compass.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from record_tables import HERE, Row, claims_table, interval, markdown, number, rows

NAMES = {
    "control/oracle": "oracle", "control/geometry": "geometry", "control/box_only": "box-only",
    "control/uniform": "flat map", "control/random(cells=None)": "noise", "control/random(cells=24)": "noise",
    "control/random": "noise", "control/center": "a blob in the middle", "control/edges": "edges of the picture",
    "attention/grad_rollout": "gradient rollout", "attention/rollout": "attention rollout", "cam/gradcam": "Grad-CAM",
    "gradient/contrastive_grad_x_act(candidates=('left', 'right', 'above', 'below'))": "contrastive Grad×Act",
    "gradient/gradient_norm": "gradient norm",
    "gradient/integrated_gradients(steps=10)": "integrated gradients, 10 steps",
}  # fmt: skip
PUBLISHED = {("coco_pairs", "box-only"): "15.0 / .973", ("coco_pairs", "noise"): "94.2 / .257",
             ("vsr.train+dev+test published", "box-only"): "32.7 / .733",
             ("vsr.train+dev+test published", "noise"): "89.9 / .221"}  # fmt: skip
MAIN = "Where does the evidence point?"


def share(value: float) -> str:
    """.957 and 1.000"""
    return f"{value:.3f}".removeprefix("0")


def nulls() -> str:
    measured = json.loads((HERE / "compass" / "nulls.json").read_text())
    by = {(row["boxes"], row["noise"], row["null"]): row for row in measured}
    body = []
    for boxes, noise in dict.fromkeys((row["boxes"], row["noise"]) for row in measured):
        cells = [by[boxes, noise, null] for null in ("unrelated", "permuted")]
        body.append((boxes, noise, *(f"{share(c['below_05'])} ({number(c['mean_p'], 2)})" for c in cells)))
    return markdown(("boxes", "noise", "unrelated questions", "permuted cells"), body)


def photographs() -> str:
    body = []
    for row in rows("photographs", MAIN):
        name = NAMES[row["explainer"]]
        body.append((row["dataset"], str(row["n"]), name, interval(row, "dae"), share(row["ea"]),
                     PUBLISHED.get((row["dataset"], name), "–"), number(row["null dae"]), interval(row, "skill", 2),
                     number(row["p"], 3), number(row["excess dae"])))  # fmt: skip
    heads = ("dataset", "n", "map", "DAE", "EA", "published", "null DAE", "skill", "p", "excess")
    return markdown(heads, body)


def settings() -> str:
    kept = {"sectors 4": "four sectors", "sectors 8": "eight sectors", "sectors 16": "sixteen sectors",
            "sectors from 0 degrees": "eight, the first beginning at 0°", "width 0.3": "σ_r 0.3",
            "width 1": "σ_r 1", "width 2": "σ_r 2", "box noise 10": "boxes 10 pixels off",
            "box noise 50": "boxes 50 pixels off"}  # fmt: skip
    table = [row for row in rows("photographs", "Other settings") if row["explainer"] == "control/box_only"]
    datasets = list(dict.fromkeys(row["dataset"] for row in table))
    by: dict[tuple[str, str], Row] = {(row["dataset"], row["reading"]): row for row in table}
    body = [
        (name, *(f"{number(by[dataset, reading]['dae'])} / {share(by[dataset, reading]['ea'])}" for dataset in datasets))
        for reading, name in kept.items()
    ]
    return markdown(("box-only read with", *datasets), body)


def lora() -> str:
    table = rows("lora", "Accuracy against direction after training")
    explainers = list(dict.fromkeys(row["explainer"] for row in table))
    body = []
    for objective in dict.fromkeys(row["objective"] for row in table):
        own = {row["explainer"]: row for row in table if row["objective"] == objective}
        first = own[explainers[0]]
        cells = [objective if objective != "none" else "none (shaken)", number(first["accuracy"], 2)]
        cells += ["" if objective == "none" else interval(first, "accuracy change", 2, sign=True)]
        for explainer in explainers:
            row = own[explainer]
            change = "" if objective == "none" else f", {interval(row, 'dae change', 1, sign=True)}"
            cells.append(number(row["dae"]) + change)
        body.append(cells)
    return markdown(("objective", "accuracy", "change", *(f"DAE, {NAMES[one]}" for one in explainers)), body)


def losses() -> str:
    kept = json.loads((HERE / "compass" / "lora_losses.json").read_text())
    body = []
    for objective in dict.fromkeys(row["objective"] for row in kept):
        own = [row["history"] for row in kept if row["objective"] == objective]
        cells = [objective]
        for loss in ("answer", "auxiliary"):
            means = [sum(history[epoch][loss] for history in own) / len(own) for epoch in range(len(own[0]))]
            cells.append(" → ".join(number(mean, 2) for mean in means) if any(means) else "–")
        body.append(cells)
    return markdown(("objective", "loss of the answers by epoch", "loss of the objective by epoch"), body)


def twins(family: str) -> Callable[[], str]:
    def made() -> str:
        main = {(row["model"], row["explainer"]): row for row in rows("compass", MAIN)}
        differences = {
            row["explainer"]: row for row in rows("compass", "The reasoning twin against the shortcut twin")
            if row["family"] == family and row["metric"] == "compass/direction_error"
        }  # fmt: skip
        body = []
        for (model, explainer), row in main.items():
            if model != f"{family}.pure":
                continue
            other = main[f"{family}.spur", explainer]
            both = [cell for one in (row, other) for cell in (number(one["dae"]), skill(one))]
            gap = differences.get(explainer)
            body.append((NAMES[explainer], *both, interval(gap, "difference", 1, sign=True) if gap else "–"))
        heads = ("explainer", "DAE, twin that reasons", "skill", "DAE, shortcut twin", "skill",
                 "reasoning minus shortcut, DAE")  # fmt: skip
        return markdown(heads, body)

    return made


def skill(row: Row) -> str:
    """With a star where p, corrected, is below .05."""
    return number(row["skill"], 2) + ("*" if row["p"] is not None and row["p"] < 0.05 else "")


TABLES: Mapping[str, Callable[[], str]] = {
    "compass/nulls": nulls, "compass/photographs": photographs, "compass/settings": settings, "compass/lora": lora,
    "compass/losses": losses, "compass/compiled": twins("gridprog"), "compass/trained": twins("gridvlm"),
    "compass/claims": lambda: claims_table("compass", "compass/claims_before.json"),
}  # fmt: skip
