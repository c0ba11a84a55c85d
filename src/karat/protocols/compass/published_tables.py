"""The tables of creg2026 with a run's numbers in them: each dataset and each model beside its own."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.controls import NOISE
from karat.protocols.common.published import Published, Table
from karat.protocols.common.rows import rows_of
from karat.protocols.common.words import number, table_rows
from karat.protocols.compass.analysis import BOX, GEOMETRY, TRANSFORMER, Reading
from karat.protocols.compass.comparisons import Best, Gain
from karat.protocols.compass.diagnostics import Centre, Varied
from karat.protocols.compass.interventions import Partitioned
from karat.results.facts import Parts

#: What the paper calls an explainer, by its registered name.
METHODS = {
    GEOMETRY: "Geometry oracle", BOX: "Box-only", TRANSFORMER: "Transformer Attribution", "cam/gradcam": "GradCAM",
    "perturbation/rise": "RISE", "gradient/contrastive_grad_x_act": "Contrastive Grad×Act",
    "attention/rollout": "Attention rollout", "gradient/integrated_gradients": "Integrated Gradients", NOISE: "Random",
}  # fmt: skip
DATASETS = {"spatial/vsr": "VSR", "spatial/coco_pairs": "COCO-Pairs", "spatial/vg": "VG-Spatial"}
#: What the paper calls a model, by the hub id that a spec names.
MODELS = {
    "Qwen/Qwen2-VL-7B-Instruct": "Qwen2-VL-7B", "Qwen/Qwen2.5-VL-7B-Instruct": "Qwen2.5-VL-7B",
    "Qwen/Qwen2-VL-2B-Instruct": "Qwen2-VL-2B", "llava-hf/llava-1.5-7b-hf": "LLaVA-1.5-7B",
    "Qwen/Qwen3-VL-8B-Instruct": "Qwen3-VL-8B",
}  # fmt: skip
Rows = list[tuple[Scalar, ...]]


def _made(title: str, about: str, names: tuple[str, ...], rows: Rows) -> tuple[Finding, ...]:
    return (Finding(title, about, (), names, table_rows(pd.DataFrame(rows, columns=list(names)))),) if rows else ()


def _printed(table: Table, keys: Sequence[str]) -> dict[tuple[Scalar, ...], dict[str, Scalar]]:
    """The rows of a printed table by their key columns."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {tuple(row[key] for key in keys): row for row in rows}


def _dataset(parts: Parts, label: str) -> str | None:
    """What the paper calls a dataset of the run; None for one that is not in it."""
    return DATASETS.get(str(parts["dataset"].get(label, {}).get("name")))


def _cells(row: dict[str, Scalar] | None, dataset: str | None, *columns: str) -> tuple[Scalar, ...]:
    """Printed numbers of one dataset; None where the paper has no such row, or no such dataset."""
    return tuple(None if row is None or dataset is None else row.get(f"{dataset} {name}") for name in columns)


def table_1(readings: pd.DataFrame, parts: Parts, printed: Published) -> tuple[Finding, ...]:
    by_method = _printed(printed.tables["Table 1"], ["method"])
    rows: Rows = []
    for row in rows_of(readings, Reading):
        dataset = _dataset(parts, row.dataset)
        theirs = _cells(by_method.get((METHODS.get(row.name),)), dataset, "dae", "ea")
        ours = number(row.dae.value), number(row.ea), number(row.skill.value), number(row.accuracy)
        rows.append((row.model, row.dataset, row.explainer, *theirs, *ours))
        if row.name == GEOMETRY:  # the paper's oracle is never drawn as a map
            rows.append((row.model, row.dataset, "the boxes themselves", *theirs, 0.0, 1.0, 1.0, number(row.accuracy)))
    names = ("model", "dataset", "explainer", "published dae", "published ea", "dae", "ea", "skill", "accuracy")
    about = (
        "Published for Qwen2-VL-7B, each dataset beside its own column; datasets that the paper does not have stand "
        "alone. control/geometry is a point that is drawn and read, half a sector off at most; the paper takes the "
        "direction of the boxes themselves, exactly 0."
    )
    return _made("Table 1 beside this run", about, names, rows)


def table_3(centres: pd.DataFrame, best: pd.DataFrame, parts: Parts, printed: Published) -> tuple[Finding, ...]:
    """Each model with the explainer that points best for it."""
    theirs = {(row[0], row[1]): row[2] for row in printed.tables["Table 3"].rows}
    of_target = {"target (to the reference)": "target", "target (as asked)": "target"}
    rows: Rows = []
    for one in rows_of(best, Best):
        same = (centres["model"] == one.model) & (centres["dataset"] == one.dataset)
        for row in rows_of(centres[same & (centres["explainer"] == one.explainer)], Centre):
            known = theirs.get((_dataset(parts, one.dataset), of_target.get(row.centre, row.centre)))
            change = tuple(number(value) for value in (row.change.value, row.change.low, row.change.high))
            rows.append((row.model, row.dataset, row.explainer, row.centre, known, row.dae, *change))
    names = ("model", "dataset", "explainer", "centre", "published dae", "dae", "change", "low", "high")
    about = (
        "The explainer that points best for each model. The paper says neither which direction is true from a wrong "
        "centre nor which explainer it took."
    )
    return _made("Table 3 beside this run", about, names, rows)


def table_4(partitions: pd.DataFrame, printed: Published) -> tuple[Finding, ...]:
    rows: Rows = [
        (row.model, row.explainer, factor, eta2, ours[str(factor)][0], share, ours[str(factor)][1])
        for row in rows_of(partitions, Partitioned)
        if not row.is_control
        for ours in (
            {
                "direction": (row.eta2_direction, row.within_direction),
                "location": (row.eta2_location, row.within_location),
            },
        )
        for factor, eta2, share in printed.tables["Table 4"].rows
    ]
    names = ("model", "explainer", "factor", "published eta2", "eta2", "published within-image share",
             "within-image share")  # fmt: skip
    return _made("Table 4 beside this run", "", names, rows)


def table_5(injected: pd.DataFrame, printed: Published) -> tuple[Finding, ...]:
    ours = {float(row["alpha"]): row for row in injected.to_dict("records")}
    rows: Rows = []
    for alpha, position, direction, _, follows in printed.tables["Table 5"].rows:
        mine = ours[float(str(alpha))]
        rows.append((alpha, position, mine["dae to position"], direction, mine["dae to direction"], follows,
                     mine["follows direction"]))  # fmt: skip
    names = ("alpha", "published to position", "to position", "published to direction", "to direction",
             "published follows direction", "follows direction")  # fmt: skip
    about = "500 random scenes; a bump fills the target's box, a wedge is a sector wide."
    return _made("Table 5 beside ours", about, names, rows)


def table_6(patterns: pd.DataFrame, printed: Published) -> tuple[Finding, ...]:
    ours = {str(row["map"]): row for row in patterns.to_dict("records")}
    rows: Rows = [
        (name, dae, ours[str(name)]["dae"], ours[str(name)]["low"], ours[str(name)]["high"], ea, ours[str(name)]["ea"])
        for name, dae, ea in printed.tables["Table 6"].rows
    ]
    names = ("map", "published dae", "dae", "low", "high", "published ea", "ea")
    return _made("Table 6 beside ours", "500 random scenes. Published EAs are lower bounds.", names, rows)


def table_7(varied: pd.DataFrame, printed: Published) -> tuple[Finding, ...]:
    theirs = _printed(printed.tables["Table 7"], ["damage"])
    rows: Rows = []
    for row in rows_of(varied[varied["name"] == TRANSFORMER], Varied):
        known = theirs.get((row.reading,))
        if known is not None:
            rows.append((row.model, row.dataset, row.reading, known["dae"], number(row.dae), known["ea"],
                         number(row.ea), known["tau to clean"], number(row.tau)))  # fmt: skip
    names = ("model", "dataset", "damage", "COCO-Pairs dae", "dae", "COCO-Pairs ea", "ea", "COCO-Pairs tau", "tau")
    return _made("Table 7 beside this run", printed.tables["Table 7"].note, names, rows)


def table_8(readings: pd.DataFrame, parts: Parts, printed: Published) -> tuple[Finding, ...]:
    """Models of the paper, where the run has them."""
    theirs = _printed(printed.tables["Table 8"], ["model", "method"])
    rows: Rows = []
    for row in rows_of(readings, Reading):
        model = MODELS.get(str(parts["model"].get(row.model, {}).get("path")))
        known = theirs.get((model, METHODS.get(row.name)))
        if known is not None:
            rows.append((model, row.dataset, row.explainer, *_cells(known, _dataset(parts, row.dataset), "dae", "ea"),
                         number(row.dae.value), number(row.ea)))  # fmt: skip
    names = ("model", "dataset", "explainer", "published dae", "published ea", "dae", "ea")
    return _made("Table 8 beside this run", "", names, rows)


def table_9(
    gains: pd.DataFrame, best: pd.DataFrame, parts: Parts, printed: Published, trained: str
) -> tuple[Finding, ...]:
    """`trained` says which run the gains are of."""
    theirs = _printed(printed.tables["Table 9"], ["setting"])
    columns = ("accuracy", "dae", "ea")
    rows: Rows = []
    for row in rows_of(gains[gains["name"] == TRANSFORMER], Gain):
        known = theirs.get(("baseline" if row.objective == "none" else row.objective,))
        change = tuple(number(value) for value in (row.dae_change.value, row.dae_change.low, row.dae_change.high))
        rows.append((row.base, row.dataset, row.objective, *_cells(known, _dataset(parts, row.dataset), *columns),
                     number(row.accuracy), number(row.dae), number(row.ea), *change, row.seeds))  # fmt: skip
    names = ("base", "dataset", "objective", "published accuracy", "published dae", "published ea", "accuracy", "dae",
             "ea", "dae change", "low", "high", "seeds")  # fmt: skip
    about = "Published for Qwen2-VL-7B, Transformer Attribution, one seed."
    generations: Rows = []
    for one in rows_of(best, Best):
        known = theirs.get((MODELS.get(str(parts["model"].get(one.model, {}).get("path"))),))
        if known is not None:
            theirs_of = _cells(known, _dataset(parts, one.dataset), *columns)
            ours = number(one.accuracy), number(one.dae.value), number(one.ea)
            generations.append((one.model, one.dataset, one.explainer, known["method"], *theirs_of, *ours))
    heads = ("model", "dataset", "explainer", "published explainer", "published accuracy", "published dae",
             "published ea", "accuracy", "dae", "ea")  # fmt: skip
    return (
        *_made(f"Table 9 beside {trained}, training", about, names, rows),
        *_made("Table 9 beside this run, generations", "Each model's best explainer.", heads, generations),
    )
