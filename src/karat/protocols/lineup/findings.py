"""Findings of `lineup`: who points at the rule, whom explainers accuse instead, and whether rules can be told apart."""

from __future__ import annotations

import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.roles import Results
from karat.protocols.common.words import interval, table_rows
from karat.protocols.lineup import analysis
from karat.protocols.lineup.pointing import POINTED
from karat.statistics import Estimate

METRICS = {"pointing": "permuted", "pointing_matched": "matched"}


def findings(run: Results) -> list[Finding]:
    scores = run.scores()
    frames = {metric: analysis.accusations(scores, metric) for metric in (*METRICS, "parts_named")}
    if frames["pointing"].empty:
        return []
    found = [_pointing(frames, scores), _confusion(analysis.confusion(scores), frames["pointing"])]
    identified = analysis.identification(run)
    if not identified.empty:
        found.append(_identification(identified))
    if not frames["parts_named"].empty:
        found.append(_parts(frames["parts_named"]))
    dose = analysis.doses(scores)
    if not dose.empty:
        found.append(_doses(dose))
    return found


def _estimate(row: pd.Series) -> Estimate:
    return Estimate(float(row["value"]), float("nan"), float(row["low"]), float(row["high"]), int(row["n"]), 0)


def _series(name: str, frame: pd.DataFrame, x: str, y: str) -> Series:
    return Series(name, *(tuple(row) for row in zip(*table_rows(frame, (x, y, "low", "high")), strict=True)))


def _overall(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["model"] == "all"].sort_values("value", ascending=False, kind="stable")


def _pointing(frames: dict[str, pd.DataFrame], scores: pd.DataFrame) -> Finding:
    """The verdict: how often the accused cue is one of the rule's."""
    permuted, matched = _overall(frames["pointing"]), _overall(frames["pointing_matched"])
    methods, controls = permuted[~permuted["is_control"]], permuted[permuted["is_control"]]
    sentences = []
    if len(methods):
        best, worst = methods.iloc[0], methods.iloc[-1]
        sentences.append(
            f"{best['explainer']} points at the rule most often: {interval(_estimate(best))} of samples; "
            f"{worst['explainer']} least: {interval(_estimate(worst))}."
        )
    sentences += [f"{row['explainer']} does in {interval(_estimate(row))}." for _, row in controls.iterrows()]
    counts = list(analysis.followed(scores))
    sentences.append(
        "Samples on which a model did not follow its rule do not count: "
        + "; ".join(f"{model} followed {rule} on {kept} of {n}" for model, rule, kept, n in counts)
        + "."
    )
    both = permuted.merge(matched, on="explainer", how="left", suffixes=("", " matched"))
    columns = ("explainer", "pointing", "low", "high", "matched", "matched low", "matched high", "samples")
    names = ("explainer", "value", "low", "high", "value matched", "low matched", "high matched", "n")
    rows = table_rows(both, names)
    series = tuple(
        _series(label, frame, "explainer", "value")
        for label, frame in (("among permutations", permuted), ("among other maps", matched))
    )
    figure = Figure("Who points at the rule?", "intervals", "explainer", "share of right accusations", series)
    return Finding(
        "Which rule was it?",
        "Every cue gets the percentile of its mass; the largest is accused. Right is a cue that the model's rule uses "
        "here. Over all samples that count, intervals clustered by photograph. Chance is what the controls get.",
        tuple(sentences), columns, rows, figures=(figure,),
    )  # fmt: skip


def _confusion(table: pd.DataFrame, pointing: pd.DataFrame) -> Finding:
    order = [e for e in _overall(pointing)["explainer"] if e in set(table["explainer"])]
    rules = list(dict.fromkeys(table["rule"]))
    keys = zip(table["explainer"], table["rule"], table["cue"], strict=True)
    shares = dict(zip(keys, table["share"].tolist(), strict=True))
    known = {(explainer, rule) for explainer, rule, _ in shares}
    rows = tuple(
        (explainer, rule, *(shares.get((explainer, rule, cue)) for cue in POINTED))
        for explainer in order
        for rule in rules
        if (explainer, rule) in known
    )
    figures = tuple(
        Figure(
            f"Whom {explainer} accuses", "grid", "accused cue", "share of samples",
            tuple(
                Series(rule, POINTED, tuple(shares.get((explainer, rule, cue)) for cue in POINTED))
                for rule in rules if (explainer, rule) in known
            ),
            note="rows: the rule that the model follows",
        )
        for explainer in order
    )  # fmt: skip
    return Finding(
        "Whom do explainers accuse?", "The share of samples on which each cue is the accused, by the model's rule.",
        (), ("explainer", "rule", *POINTED), rows, figures=figures,
    )  # fmt: skip


def _identification(frame: pd.DataFrame) -> Finding:
    ordered = frame.sort_values("value", ascending=False, kind="stable")
    best = ordered.iloc[0]
    figure = Figure(
        "Which rule made this explanation?", "intervals", "explainer", "share of explanations whose rule is named",
        (_series("named", ordered, "explainer", "value"),),
        lines=(("chance", float(best["chance"])),),
    )  # fmt: skip
    return Finding(
        "Can the rules be told apart?",
        "Linear discriminants of the percentiles, fitted on other photographs: an explanation may point at the wrong "
        "place and still be different for every rule.",
        (f"{best['explainer']}: {interval(_estimate(best))} of explanations lead to their rule; chance is "
         f"{best['chance']:.3f}.",),
        ("explainer", "named", "low", "high", "explanations", "chance"),
        table_rows(ordered, ("explainer", "value", "low", "high", "n", "chance")),
        figures=(figure,),
    )  # fmt: skip


def _parts(frame: pd.DataFrame) -> Finding:
    models = frame[frame["model"] != "all"]
    return Finding(
        "Are all parts of a rule named?",
        "Where a rule uses two cues, the share of them among the two that are accused first.",
        tuple(
            f"{row['explainer']} names {interval(_estimate(row))} of the parts."
            for _, row in _overall(frame).head(3).iterrows()
        ),
        ("explainer", "model", "rule", "parts named", "low", "high", "samples"),
        table_rows(models, ("explainer", "model", "rule", "value", "low", "high", "n")),
    )  # fmt: skip


def _doses(frame: pd.DataFrame) -> Finding:
    series = tuple(
        Series(
            f"{explainer} ({rule})", tuple(part["dose"]), tuple(part["share"]), tuple(part["low"]), tuple(part["high"])
        )
        for (explainer, rule), part in frame.groupby(["explainer", "rule"], sort=False)
    )
    return Finding(
        "From which dose on is the rule accused?",
        "The model follows the planted rule with probability `dose`, else the content.", (),
        ("explainer", "rule", "dose", "accused", "low", "high", "samples"),
        table_rows(frame, ("explainer", "rule", "dose", "share", "low", "high", "n")),
        figures=(Figure("Dose and accusation", "lines", "dose", "share of samples", series),),
    )  # fmt: skip
