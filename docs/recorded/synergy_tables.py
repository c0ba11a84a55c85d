"""Tables of docs/tutorials/synergy.md and docs/how-to/someone-elses-model.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from record_tables import HERE, Row, claims_table, markdown, number, rows

NAMES = {
    "control/random": "*random*", "control/oracle": "*oracle*", "gradient/input_x_gradient": "input × gradient",
    "attention/rollout": "attention rollout", "attention/grad_rollout": "gradient rollout",
    "relevance/attnlrp": "AttnLRP", "vlm/llava_cam(copies=0)": "Grad-CAM (LLaVA-CAM without smoothing)",
    "vlm/llava_cam(copies=10)": "LLaVA-CAM", "vlm/tam": "TAM", "perturbation/occlusion": "occlusion",
    "cam/gradcam": "Grad-CAM", "gradient/deeplift": "DeepLIFT",
}  # fmt: skip
MAIN = "Do the features that are ranked first matter together?"
CALIBRATION = "Does F_syn stand in for the exact interaction index?"


def called(explainer: str) -> str:
    if "integrated" in explainer:
        return "integrated gradients, 5 steps"
    if "leave_one_out" in explainer:
        return "leave-one-out"
    return NAMES.get(explainer) or NAMES[explainer.partition("(")[0]]


def effects() -> str:
    body = []
    for row in sorted(rows("clevr", MAIN), key=lambda one: -(one["mean"] or -9)):
        known = row["low"] is not None
        effect = interval_of(row, "effect", "low", "high") if known else "–"
        body.append((called(row["explainer"]), number(row["mean"], 3), effect, f"{row['coverage']:.0%}"))
    return markdown(("explainer", "mean F_syn", "effect", "coverage"), body)


def dividends() -> str:
    body = [
        (
            row["model"],
            *(str(row[name]) for name in ("n", "synergistic", "redundant")),
            interval_of(row, "dividend", "low", "high"),
        )
        for row in rows("clevr", "Do image and text bring the answer only together?")
    ]
    return markdown(("model", "questions", "synergistic", "redundant", "mean dividend"), body)


def interval_of(row: Row, value: str, low: str, high: str, digits: int = 3) -> str:
    return f"{number(row[value], digits)} ({number(row[low], digits)} to {number(row[high], digits)})"


def calibration_by_explainer() -> str:
    """Spearman's rho of the calibration record, a row per model."""
    told = {(row["model"], row["explainer"]): row for row in rows("calibration", CALIBRATION)}
    explainers = sorted({explainer for _, explainer in told} - {"all"}, key=called)
    body = [
        (model, *(number(told[model, one]["rho"], 2) if (model, one) in told else "" for one in explainers),
         interval_of(told[model, "all"], "rho", "rho low", "rho high", 2), str(told[model, "all"]["n"]))
        for model in sorted({model for model, _ in told}, key=lambda one: (one == "all", one))
    ]  # fmt: skip
    return markdown(("model", *map(called, explainers), "all", "explanations"), body)


def calibration() -> str:
    body = [
        (row["model"], row["explainer"] if row["explainer"] == "all" else called(row["explainer"]), str(row["n"]),
         interval_of(row, "rho", "rho low", "rho high", 2), number(row["fewer passes"]))
        for row in rows("clevr", CALIBRATION) if row["model"] == "all" or row["explainer"] == "all"
    ]  # fmt: skip
    return markdown(("model", "explainer", "explanations", "ρ", "times fewer passes"), body)


def rankings() -> str:
    body = [
        (f"{row['first']} and {row['second']}", interval_of(row, "tau", "low", "high", 2), number(row["p"], 2),
         str(row["n"]))
        for row in rows("clevr", "Do image and text rank the explainers alike?") if row["dataset"] == "all"
    ]  # fmt: skip
    return markdown(("rankings by", "τ", "p", "blocks"), body)


def races() -> str:
    told = [json.loads(line) for line in (HERE / "synergy" / "races.jsonl").read_text().splitlines()]
    body = []
    for world in dict.fromkeys(row["world"] for row in told):
        own = [row for row in told if row["world"] == world]
        used, by_sample = sorted(row["samples"] for row in own), [row["by_sample"] for row in own]
        early = sorted(n for n in by_sample if n is not None)
        body.append((world, str(len(own)), str(sum(row["winner"] is not None for row in own)),
                     str(used[len(used) // 2]), str(len(early)), str(early[len(early) // 2]) if early else "–"))  # fmt: skip
    heads = ("world", "races", "called", "samples used (median)", "called, were every sample a bet",
             "samples then (median)")  # fmt: skip
    return markdown(heads, body)


def main_effects() -> str:
    """The ranking of `synergy-grid` beside the paper's, failures left out and counted as noise."""
    printed = {str(row["explainer"]): row["effect published"] for row in rows("synergy", "Table 1: F_syn and effects")}
    body = []
    for row in rows("synergy", MAIN):
        explainer = str(row["explainer"])
        paper = "cam/gradcam" if explainer == "vlm/llava_cam(copies=0)" else explainer.partition("(")[0]
        known = row["low"] is not None
        filled = [f"{end}, failures as noise" for end in ("effect", "low", "high")]
        body.append((called(explainer), number(row["mean"], 3),
                     interval_of(row, "effect", "low", "high") if known else "–",
                     interval_of(row, *filled) if known and row[filled[0]] is not None else "–",
                     number(printed.get(paper), 3), f"{row['coverage']:.0%}"))  # fmt: skip
    heads = ("explainer", "mean F_syn", "effect", "effect, failures as noise", "the paper's effect", "coverage")
    return markdown(heads, body)


def altered(claim: str) -> str:
    """What is judged otherwise than in version 0.1, of the claims that it bears on."""
    reasons = {
        "metric some explainers": "corrected for the number of explainers",
        "recorded run of": "another record: four explainers on twins that reason",
        "largest effect": "against every rival, corrected for their number",
    }
    own = [reason for part, reason in reasons.items() if part in claim]
    return own[0] if own else "other weights of gridvlm, the paper's own Grad-CAM, failed explanations counted two ways"


TABLES: Mapping[str, Callable[[], str]] = {
    "synergy/races": races, "clevr/effects": effects, "clevr/dividends": dividends, "clevr/calibration": calibration,
    "clevr/rankings": rankings, "synergy/calibration": calibration_by_explainer, "synergy/effects": main_effects,
    "synergy/claims": lambda: claims_table("synergy", "synergy/claims_before.json", altered),
}  # fmt: skip
