"""Findings of `lineup`: who points at the rule, whom explainers accuse instead, and whether rules can be told apart."""

from __future__ import annotations

import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.roles import Results
from karat.protocols.common.words import interval, table_rows
from karat.protocols.lineup import analysis
from karat.protocols.lineup.identification import identification, percentile_rows, spread
from karat.protocols.lineup.pointing import POINTED
from karat.statistics import Estimate

METRICS = {"pointing": "permuted", "pointing_matched": "matched"}


def findings(run: Results) -> list[Finding]:
    scores = run.scores()
    frames = {metric: analysis.accusations(scores, metric) for metric in (*METRICS, "pair_named", "f_syn")}
    if frames["pointing"].empty:
        return []
    rows = percentile_rows(run)
    made = [
        _pointing(frames, analysis.habits(rows), scores),
        *_photograph(rows),
        _confusion(analysis.confusion(scores), frames["pointing"]),
    ]
    for frame, tell in (
        (identification(rows), _identification),
        (spread(rows), _spread),
        (analysis.parts(scores), _parts),
        (frames["pair_named"], _pairs),
        (frames["f_syn"], _synergy),
        (analysis.doses(scores), _doses),
        (analysis.implants(scores), _implants),
    ):
        if not frame.empty:
            made.append(tell(frame))
    return made


def _estimate(row: pd.Series) -> Estimate:
    return Estimate(float(row["value"]), float("nan"), float(row["low"]), float(row["high"]), int(row["n"]), 0)


def _series(name: str, frame: pd.DataFrame, x: str, y: str) -> Series:
    return Series(name, *(tuple(row) for row in zip(*table_rows(frame, (x, y, "low", "high")), strict=True)))


def _overall(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["model"] == "all"].sort_values("value", ascending=False, kind="stable")


def _pointing(frames: dict[str, pd.DataFrame], habits: pd.DataFrame, scores: pd.DataFrame) -> Finding:
    """The verdict: how often the accused cue is one of the rule's, beside every kind of chance."""
    permuted, matched = _overall(frames["pointing"]), _overall(frames["pointing_matched"])
    methods, controls = permuted[~permuted["is_control"]], permuted[permuted["is_control"]]
    both = permuted.merge(matched, on="explainer", how="left", suffixes=("", " matched"))
    both = both.merge(habits.drop(columns="n"), on="explainer", how="left")
    sentences = []
    if len(methods):
        best, worst = methods.iloc[0], methods.iloc[-1]
        sentences.append(
            f"{best['explainer']} points at the rule most often: {interval(_estimate(best))} of samples; "
            f"{worst['explainer']} least: {interval(_estimate(worst))}."
        )
    sentences += [f"{row['explainer']} does in {interval(_estimate(row))}." for _, row in controls.iterrows()]
    idle = both[~both["is_control"] & (both["excess_low"] <= 0)]["explainer"].tolist()
    if idle:
        sentences.append(
            "Not shown to point at the rule more often than by habit (its accusations of other models would be as "
            f"right): {', '.join(idle)}."
        )
    sentences.append(
        "Samples on which a model did not follow its rule do not count: "
        + "; ".join(f"{model} followed {rule} on {kept} of {n}" for model, rule, kept, n in analysis.followed(scores))
        + "."
    )
    columns = (
        "explainer", "pointing", "low", "high", "by habit", "above habit", "above habit low", "above habit high",
        "matched", "matched low", "matched high", "samples",
    )  # fmt: skip
    names = (
        "explainer", "value", "low", "high", "blind", "excess", "excess_low", "excess_high",
        "value matched", "low matched", "high matched", "n",
    )  # fmt: skip
    series = tuple(
        _series(label, frame, "explainer", "value")
        for label, frame in (("among permutations", permuted), ("among other places", matched))
        if len(frame)
    )
    floors = tuple(
        (label, float(permuted.loc[permuted["explainer"] == name, "value"].iloc[0]))
        for name, label in (("control/random", "noise"), ("control/smooth_noise", "smooth noise"))
        if name in set(permuted["explainer"])
    )
    figure = Figure(
        "Who points at the rule?", "intervals", "explainer", "share of right accusations", series, lines=floors,
        headline=True,
    )  # fmt: skip
    return Finding(
        "Which rule was it?",
        "Every cue gets the percentile of its mass; the largest is accused. Right is a cue that the model's rule uses "
        "here. Over all samples that count, intervals clustered by photograph. Chance is what noise and smooth noise "
        "get; an explainer's own chance is its habit: what its accusations of models with other rules get.",
        tuple(sentences), columns, table_rows(both, names), figures=(figure,),
    )  # fmt: skip


def _photograph(rows: pd.DataFrame) -> list[Finding]:
    """One photograph, and what is said of each model that answers about it."""
    table = analysis.one_photograph(rows[~rows["explainer.is_control"]] if len(rows) else rows)
    if table.empty:
        return []
    rules = rows.drop_duplicates("model").set_index("model")["model.mechanism"]
    order = sorted(table.index, key=lambda model: (str(rules[model]), str(model)))
    explainers = tuple(map(str, table.columns))
    cells = tuple(
        (model, str(rules[model]), *(None if pd.isna(cue) else str(cue) for cue in table.loc[model])) for model in order
    )
    return [
        Finding(
            "One photograph, and a model for every rule",
            "The same photograph and question, put to models that answer by different rules; the cue that each "
            "explanation accuses. The samples of this page show the maps.",
            (), ("model", "rule", *explainers), cells,
        )
    ]  # fmt: skip


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


def _spread(frame: pd.DataFrame) -> Finding:
    ordered = frame.sort_values("across", ascending=False, kind="stable")
    told = ordered[~ordered["is_control"]]
    sentences = tuple(
        f"{row['explainer']}: fitted on one seed it names the rule of another in {row['across']:.2f} "
        f"({row['across_low']:.2f} to {row['across_high']:.2f}; chance {row['chance']:.2f}); it tells two rules apart "
        f"in {row['rules']:.2f} and two seeds of one rule in {row['seeds']:.2f} (chance 0.50)."
        for _, row in told.head(3).iterrows()
    )
    columns = ("explainer", "named across seeds", "low", "high", "chance", "rules told apart", "seeds told apart", "n")
    return Finding(
        "Is it the rule, or this one model?",
        "Models of one rule that were trained from other seeds. What is fitted on one seed is put to the others, on "
        "other photographs. An explanation of the rule tells rules apart, one of an accident tells seeds apart.",
        sentences, columns,
        table_rows(ordered, ("explainer", "across", "across_low", "across_high", "chance", "rules", "seeds", "n")),
    )  # fmt: skip


def _parts(frame: pd.DataFrame) -> Finding:
    ordered = frame.sort_values(["rule", "both"], ascending=[True, False], kind="stable")
    best = ordered[~ordered["is_control"]].drop_duplicates("rule")
    sentences = tuple(
        f"{row['rule']}: {row['explainer']} names both in {row['both']:.2f} ({row['low']:.2f} to {row['high']:.2f}), "
        f"one of them in {row['one']:.2f}."
        for _, row in best.iterrows()
    )
    return Finding(
        "Are both parts named where both are needed?",
        "Where a rule uses two cues here, whether they are the two that are accused first.",
        sentences, ("explainer", "model", "rule", "both", "low", "high", "one", "neither", "samples"),
        table_rows(ordered, ("explainer", "model", "rule", "both", "low", "high", "one", "neither", "n")),
    )  # fmt: skip


def _pairs(frame: pd.DataFrame) -> Finding:
    models = frame[frame["model"] != "all"]
    return Finding(
        "Do pairs name the pair?",
        "Methods that score pairs of a place and a word: of all couples of an image cue and a word, is the one with "
        "the largest percentile the couple that the rule uses? Of 4 cues and 6 to 9 words, chance is 1 in 24 or less.",
        tuple(
            f"{row['explainer']} names the couple of {row['rule']} in {interval(_estimate(row))}."
            for _, row in models.iterrows()
        ),
        ("explainer", "model", "rule", "pair named", "low", "high", "samples"),
        table_rows(models, ("explainer", "model", "rule", "value", "low", "high", "n")),
    )  # fmt: skip


def _synergy(frame: pd.DataFrame) -> Finding:
    models = frame[frame["model"] != "all"].sort_values("value", ascending=False, kind="stable")
    sentences = []
    for explainer, own in models[~models["is_control"]].groupby("explainer", sort=False):
        first = own.iloc[0]
        sentences.append(f"{explainer}: F_syn is largest on {first['rule']}, {interval(_estimate(first))}.")
    return Finding(
        "Does F_syn single out the rule that needs both modalities?",
        "F_syn of every explanation by the rule of the model: only tag_xor_word and tag_and_word need image and word "
        "together; a rule of one cue has no synergy.",
        tuple(sentences), ("explainer", "model", "rule", "F_syn", "low", "high", "samples"),
        table_rows(models, ("explainer", "model", "rule", "value", "low", "high", "n")),
    )  # fmt: skip


def _doses(frame: pd.DataFrame) -> Finding:
    series = tuple(
        Series(
            f"{explainer} ({rule})", tuple(part["dose"]), tuple(part["share"]), tuple(part["low"]), tuple(part["high"])
        )
        for (explainer, rule), part in frame.groupby(["explainer", "rule"], sort=False)
    )
    sentences = []
    for (explainer, rule), part in frame[~frame["is_control"]].groupby(["explainer", "rule"], sort=False):
        above = part[part["excess_low"] > 0]["dose"]
        start = f"from a dose of {above.min():g} on" if len(above) else "at no dose"
        sentences.append(f"{explainer} is shown to accuse {rule} more often than where it was not planted {start}.")
    return Finding(
        "From which dose on is the rule accused?",
        "The model follows the planted rule with probability `dose`, else the content. The null is dose 0, the model "
        "that answers by content: how often the cue is accused where nothing was planted. `more` is against it, on the "
        "same samples.",
        tuple(sentences),
        ("explainer", "rule", "dose", "accused", "low", "high", "more", "more low", "more high", "samples"),
        table_rows(frame, ("explainer", "rule", "dose", "share", "low", "high", "excess", "excess_low", "excess_high",
                           "n")),
        figures=(Figure("Dose and accusation", "lines", "dose", "share of samples", series),),
    )  # fmt: skip


def _implants(frame: pd.DataFrame) -> Finding:
    ordered = frame.sort_values(["differs_in", "first", "second"], kind="stable")
    sentences = tuple(
        f"{row['first']} and {row['second']} order the explainers with tau {row['tau']:.2f} ({row['low']:.2f} to "
        f"{row['high']:.2f}) on {row['rules']} rules."
        for _, row in ordered.iterrows()
    )
    return Finding(
        "Does the order of explainers depend on how the rule got there?",
        "Kendall's tau of two orders of explainers by pointing, on samples that all of them have a score for. Two "
        "seeds differ by chance alone: implants differ only where their tau lies below that.",
        sentences, ("first", "second", "differ in", "rules", "tau", "low", "high", "samples"),
        table_rows(ordered, ("first", "second", "differs_in", "rules", "tau", "low", "high", "samples")),
    )  # fmt: skip
