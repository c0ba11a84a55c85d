"""Tables of docs/tutorials/lineup.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from record_tables import HERE, Row, interval, markdown, number, rows

RECORD = "lineup"
NAMES = {
    "control/oracle": "*oracle*", "control/random": "*noise*", "control/smooth_noise": "*smooth noise*",
    "control/center": "*a blob in the middle*", "control/edges": "*edges of the picture*",
    "attention/rollout": "attention rollout", "attention/grad_rollout": "gradient rollout", "cam/gradcam": "Grad-CAM",
    "cam/hirescam": "HiResCAM", "gradient/gradient": "gradient", "gradient/input_x_gradient": "input × gradient",
    "relevance/attnlrp": "AttnLRP", "perturbation/leave_one_out(visual=(6, 6))": "leave-one-out, 6 × 6 cells",
}  # fmt: skip
CUES = ("content", "tag", "frame", "sticker", "word")
TWO = ("tag_xor_word", "tag_and_word", "either")  # rules of photovlm that use two cues


def of(row: Row, name: str, digits: int = 2) -> str:
    """A value with its interval, whose ends are called low and high."""
    low, high = number(row["low"], digits), number(row["high"], digits)
    return f"{number(row[name], digits)} ({low} to {high})"


def pointing() -> str:
    body = [
        (NAMES[row["explainer"]], of(row, "pointing"), number(row["by habit"], 2), interval(row, "above habit", 2),
         interval(row, "matched", 2), str(row["samples"]))
        for row in rows(RECORD, "Which rule was it?")
    ]  # fmt: skip
    heads = ("explainer", "points at the rule", "by habit", "above habit", "among other places", "explanations")
    return markdown(heads, body)


def accused() -> str:
    """Whom every explainer accuses where the word decides, and how often the right one elsewhere."""
    table = {(row["explainer"], row["rule"]): row for row in rows(RECORD, "Whom do explainers accuse?")}
    explainers = dict.fromkeys(explainer for explainer, _ in table)
    body = []
    for explainer in explainers:
        own = [table.get((explainer, cue)) for cue in CUES]
        if all(row is None or row[cue] is None for cue, row in zip(CUES, own, strict=True)):
            continue
        right = [number(row[cue] if row else None, 2) for cue, row in zip(CUES, own, strict=True)]
        word = table.get((explainer, "word"))
        instead = max(CUES[:-1], key=lambda cue: word[cue] or 0) if word else None
        told = f"{instead} ({number(word[instead], 2)})" if word and instead else "–"
        body.append((NAMES[explainer], *right, told))
    return markdown(("explainer", *(f"rule `{cue}`" for cue in CUES), "accused most where it is not the word"), body)


def parts() -> str:
    by: dict[str, dict[str, Row]] = {}
    for row in rows(RECORD, "Are both parts named where both are needed?"):
        if str(row["model"]).startswith("photovlm."):
            by.setdefault(str(row["explainer"]), {})[str(row["rule"])] = row
    order = sorted(by, key=lambda one: -sum(row["both"] for row in by[one].values()))
    body = [(NAMES[one], *(of(by[one][rule], "both") if rule in by[one] else "–" for rule in TWO)) for one in order]
    return markdown(("explainer", *(f"`{rule}`" for rule in TWO)), body)


def doses() -> str:
    table = rows(RECORD, "From which dose on is the rule accused?")
    levels = sorted({row["dose"] for row in table})
    body = []
    for explainer in dict.fromkeys(row["explainer"] for row in table):
        own = {row["dose"]: row for row in table if row["explainer"] == explainer}
        above = [dose for dose in levels if dose in own and own[dose]["more low"] > 0]
        cells = [number(own[dose]["accused"] if dose in own else None, 2) for dose in levels]
        body.append((NAMES[explainer], *cells, f"{above[0]:g}" if above else "none"))
    heads = ("explainer", *(f"dose {dose:g}" for dose in levels), "more than at 0 from")
    return markdown(heads, body)


def implants() -> str:
    body = [
        (str(row["first"]), str(row["second"]), str(row["rules"]), of(row, "tau"), str(row["samples"]))
        for row in rows(RECORD, "Does the order of explainers depend on how the rule got there?")
    ]
    return markdown(("first", "second", "rules", "τ of the two orders", "explanations of each"), body)


def reread() -> str:
    body = [
        (NAMES[row["explainer"]], row["reading"], number(row["same"], 2), number(row["right"], 2), str(row["n"]))
        for row in json.loads((HERE / "lineup_reread.json").read_text(encoding="utf-8"))
    ]
    return markdown(("explainer", "read from", "the same cue accused", "a cue of the rule", "maps"), body)


TABLES: Mapping[str, Callable[[], str]] = {
    "lineup/pointing": pointing, "lineup/accused": accused, "lineup/parts": parts, "lineup/doses": doses,
    "lineup/implants": implants, "lineup/reread": reread,
}  # fmt: skip
