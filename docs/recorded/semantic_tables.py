"""Tables of docs/tutorials/semantic.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from record_tables import Row, interval, markdown, number, rows

from karat.protocols.paper import RECORDED
from karat.protocols.semantic.analysis import between_models, methods_of, predictions
from karat.results.run import load_run

OVERVIEW = "How much of each explanation lies outside what it is about?"
SIZE = "SSS against the size of the object"
CLAIMS = "The paper's claims beside this run"
NET, SETS = "efficientnet-lite0", ("pets/original", "pets/with_artifact")


def shuffled() -> str:
    table = predictions(load_run(RECORDED / "semantic_shuffled"))
    level = {(row["model"], row["explainer"]): row for row in rows("semantic_shuffled", OVERVIEW)}
    body = []
    for gap in sorted(between_models(table), key=lambda one: -one.difference.value):
        own, other = level[NET, gap.model], level[next(m for m, _ in level if m != NET), gap.model]
        sign = 1 if gap.second == NET else -1
        ends = sorted(sign * end for end in (gap.difference.low, gap.difference.high))
        difference = {"gap": sign * gap.difference.value, "gap low": ends[0], "gap high": ends[1]}
        body.append((gap.model, number(own["per image"], 3), number(other["per image"], 3),
                     interval(difference, "gap", 3, sign=True), str(gap.difference.n)))  # fmt: skip
    return markdown(("explainer", "SSS, trained", "SSS, shuffled", "difference", "images with both"), body)


def facts() -> str:
    """What the recorded pets show beside their tables, as a list."""
    sizes = {row["model"]: row for row in rows("semantic", SIZE)
             if row["explainer"] == "cam/gradcam" and row["dataset"] == SETS[0]}  # fmt: skip
    of_size = " and ".join(f"{number(row['rho'], 2)} ({number(row['low'], 2)} to {number(row['high'], 2)}) on {model}"
                           for model in (NET, "deit-tiny") for row in [sizes[model]])  # fmt: skip
    table = predictions(load_run(RECORDED / "semantic"))
    mine = table[table["model"] == NET]
    cams = [name for name in methods_of(mine) if "ablation" not in name]
    means = mine[mine["explainer"].isin(cams)].pivot_table(index="explainer", columns="dataset", values="sss")
    moved = float((means[SETS[1]] - means[SETS[0]]).abs().max())
    right = [float(mine[mine["dataset"] == name].drop_duplicates("image")["correct"].mean()) for name in SETS]
    spread = float(np.ptp(means[SETS[0]]))
    lowest, middle = (_spread(cams, at) for at in (0.0, 0.3))
    return "\n".join((
        f"- **The threshold decides, too.** The spread of the CAMs of EfficientNet-Lite0 other than Ablation-CAM is "
        f"{number(lowest, 2)} without a threshold, {number(middle, 2)} at 0.3 of the range and {number(spread, 2)} at "
        "0.6, which is the one of these tables.",
        f"- **SSS is mostly the size of the animal, on CNNs.** Under Grad-CAM its rank correlation with the share of "
        f"the image outside the animal is {of_size}.",
        f"- **The tag hardly moves the maps** of EfficientNet-Lite0: SSS by {number(moved, 3)} at most under any CAM "
        f"but Ablation-CAM, though its accuracy falls from "
        f"{right[0]:.1%} to {right[1]:.1%}.",
    ))  # fmt: skip


def _spread(explainers: Sequence[str], threshold: float) -> float:
    """Largest minus smallest mean SSS on the photographs as they are, from the curves that the record keeps."""
    run = load_run(RECORDED / "semantic")
    kept = run.details("sss")
    at = [float(one) for one in run.spec["protocol"]["thresholds"]].index(threshold)
    curves = kept.keys.assign(sss=kept.arrays["soft"][:, at].astype(float))
    mine = curves[(curves["model"] == NET) & (curves["dataset"] == SETS[0]) & curves["explainer"].isin(explainers)]
    return float(np.ptp(mine.groupby("explainer")["sss"].mean()))


def claims() -> str:
    """Every claim under both recorded runs, and why."""
    true, given = (
        {str(row["claim"]): row for row in rows(name, CLAIMS)} for name in ("semantic", "semantic_predicted")
    )
    body = [(claim, str(row["verdict"]), str(given[claim]["verdict"]), _why(row, given[claim]))
            for claim, row in true.items()]  # fmt: skip
    return markdown(("claim", "true class explained", "predicted class explained", "what is measured, or needed"), body)


def _why(row: Row, other: Row) -> str:
    """From the run that says something."""
    told = row if row["ours"] != "-" or other["ours"] == "-" else other
    return str(told["because"]) if told["ours"] == "-" else f"{told['ours']}; {told['because']}"


def sweep() -> str:
    """What the sweep says of itself."""
    [finding] = load_run(RECORDED / "semantic_sweep").findings()
    return "\n".join(f"> {sentence}  " for sentence in finding.sentences)


TABLES: Mapping[str, Callable[[], str]] = {
    "semantic/shuffled": shuffled, "semantic/facts": facts, "semantic/claims": claims,
    "semantic/sweep": sweep,
}  # fmt: skip
