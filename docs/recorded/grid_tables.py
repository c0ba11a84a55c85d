"""Tables of docs/tutorials/grid.md, and of what absence does to the twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from record_tables import Row, claims_table, markdown, number, rows

from karat.kernel.empty import EMPTY
from karat.models import recipe
from karat.models.weights.absence import broken_states, kept_answers

FAMILIES = ("gridprog", "gridnet", "gridvlm")
TWINS = ("gridnet.pure", "gridnet.spur", "gridvlm.pure", "gridvlm.spur")
NAMES = {
    "attention/raw": "raw attention", "attention/rollout": "attention rollout", "attention/gar": "GAR",
    "attention/grad_rollout": "gradient rollout", "attention/generic": "Generic attention", "attention/daam": "DAAM",
    "cam/ablationcam": "Ablation-CAM", "cam/eigencam": "Eigen-CAM", "cam/eigengradcam": "Eigen-Grad-CAM",
    "cam/gradcam": "Grad-CAM", "cam/gradcam_pp": "Grad-CAM++", "cam/layercam": "LayerCAM", "cam/scorecam": "Score-CAM",
    "cam/xgradcam": "XGrad-CAM", "control/center": "*centre*", "control/edges": "*edges*",
    "control/inverse_oracle": "*inverse oracle*", "control/oracle": "*oracle*", "control/random": "*noise*",
    "control/uniform": "*flat map*", "gradient/contrastive_grad_x_act": "contrastive Grad×Act",
    "gradient/deeplift": "DeepLift", "gradient/fullgrad": "FullGrad", "gradient/grad_x_act": "Grad×Act",
    "gradient/gradient": "gradient", "gradient/gradient_norm": "gradient norm",
    "gradient/gradient_shap": "GradientSHAP", "gradient/input_x_gradient": "Input×Gradient",
    "gradient/integrated_gradients": "integrated gradients", "gradient/smoothgrad": "SmoothGrad",
    "interaction/dime": "DIME", "interaction/multishap": "MultiSHAP",
    "interaction/multiviz": "MultiViz", "perturbation/leave_one_out": "leave one out", "perturbation/lime": "LIME",
    "perturbation/occlusion": "occlusion", "perturbation/rise": "RISE", "relevance/attnlrp": "AttnLRP",
    "relevance/cplrp": "CP-LRP", "shapley/kernel_shap": "KernelSHAP",
    "shapley/permutation": "Shapley values, by permutations",
}  # fmt: skip


def called(explainer: str) -> str:
    name, _, parameters = explainer.partition("(")
    return NAMES[name] + (", unimodal" if "part=uc" in parameters else "")


def short(value: float | None) -> str:
    """.957, 1.00 and –.12"""
    text = number(value, 2)
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def by_family(table: tuple[Row, ...]) -> dict[tuple[str, str], Row]:
    """Rows by explainer and family; the size of a family's cells is no part of its name here."""
    return {(str(row["explainer"]), str(row["family"]).partition(" (")[0]): row for row in table}


def ranked(known: Mapping[tuple[str, str], Row]) -> list[str]:
    """Methods before controls, each kind by the mean of its directed verdicts."""
    values: dict[str, list[float]] = {}
    for (explainer, _), row in known.items():
        values.setdefault(explainer, []).append(float(row["directed"]))
    mean = {explainer: sum(own) / len(own) for explainer, own in values.items()}
    return sorted(mean, key=lambda explainer: (explainer.startswith("control/"), -mean[explainer], explainer))


def verdict() -> str:
    """The directed verdict with its interval, and the AUC beside the largest AUC of 19 exchanges."""
    known = by_family(rows("grid", "Which twin made this explanation?"))
    body = []
    for explainer in ranked(known):
        cells = [called(explainer)]
        for family in FAMILIES:
            row = known.get((explainer, family))
            cells += ["", ""] if row is None else [verdict_cell(row), null_cell(row)]
        body.append(cells)
    heads = (head for family in FAMILIES for head in (f"{family}: directed", "AUC (null)"))
    return markdown(("explainer", *heads), body)


def verdict_cell(row: Row) -> str:
    few = "" if row["samples"] == row["of"] else f", {row['samples']}/{row['of']}"
    return f"{short(row['directed'])} ({short(row['low'])} to {short(row['high'])}{few})"


def null_cell(row: Row) -> str:
    return f"{short(row['differs'])} ({short(row['differs_null'])})"


def own_mass() -> str:
    """Mean own_mass of the pure and of the spur twin, both on pure samples."""
    known = by_family(rows("grid", "Which twin made this explanation?"))
    titles = {str(row["family"]).partition(" (")[0]: str(row["family"]) for row in known.values()}
    means = {
        (family, twin): {
            str(row["explainer"]): row["mean"]
            for row in rows("grid", f"Between floor and ceiling: {title}, {twin} twin on pure")
            if row["score"] == "own_mass"
        }
        for family, title in titles.items() for twin in ("pure", "spur")
    }  # fmt: skip
    body = []
    for explainer in ranked(known):
        cells = [
            " / ".join(short(means.get((family, twin), {}).get(explainer)) for twin in ("pure", "spur"))
            for family in FAMILIES
        ]
        if any(cell != "– / –" for cell in cells):
            body.append((called(explainer), *cells))
    return markdown(("explainer", *FAMILIES), body)


def kept() -> str:
    """What hidden cells look like, and what that does to the twins; bold is a state that breaks one."""
    body = []
    for twin in TWINS:
        revision = recipe(twin).revision
        broken, shares = broken_states(twin, revision), kept_answers(twin, revision)
        cells = []
        for state in EMPTY:
            share = shares[state]
            text = f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"
            cells.append(f"**{text}**" if state in broken else text)
        body.append((twin, str(shares[EMPTY[0]].n), *cells))
    return markdown(("twin", "samples", *EMPTY), body)


def altered(claim: str) -> str:
    """What is measured otherwise than in version 0.1, of the claims that it bears on."""
    reasons = []
    if "cannot tell the twins apart" in claim:
        reasons.append("the verdict has a direction, an AUC had none")
    if "DIME" in claim or "MultiSHAP" in claim:
        reasons.append("hidden cells are white, which these twins take for empty, and not grey or black")
    if "InterSHAP" in claim:
        reasons.append("a block of one answer has no score, where it had .5")
    return "; ".join([*reasons, "`gridnet` has other weights, and other samples are drawn"])


TABLES: Mapping[str, Callable[[], str]] = {
    "grid/verdict": verdict, "grid/own_mass": own_mass, "grid/kept": kept,
    "grid/claims": lambda: claims_table("grid", "grid/claims_before.json", altered),
}  # fmt: skip
