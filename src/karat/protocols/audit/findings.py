"""What a run of the audit shows: whom to trust, the ladder, what fools whom, and who agrees with whom."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from karat.kernel.card import Direction
from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.kernel.roles import Results
from karat.kernel.typing import Scalar
from karat.models.randomised import Randomised
from karat.protocols.audit.ladder import LEVELS, RANDOM, RUNGS, SWAPS, Trial, order, trials
from karat.protocols.audit.shuffled import noticed
from karat.protocols.audit.trust import FOOLED, Trust, trust
from karat.protocols.common.controls import ORACLE
from karat.results.facts import parts_of
from karat.statistics.agreement import agreement_matrix

LADDER, AGREEMENT = "The ladder", "Who agrees with whom"


def findings(run: Results) -> list[Finding]:
    """The verdict first, then what it rests on."""
    directions: dict[str, Direction] = {name: card["direction"] for name, card in run.manifest["scores"].items()}
    scores = run.scores()
    models = parts_of(run.manifest)["model"]
    shuffled = {name: str(facts["of"]) for name, facts in models.items() if facts["name"] == Randomised.card.name}
    every = trials(scores, directions, shuffled)
    if not every:
        return []
    known = [trial for trial in every if trial.whole is None]  # of shuffled weights nothing true is known
    judged = [trust(list(group)) for _, group in groupby(known, key=lambda trial: trial.metric)]
    worth = [_verdict(judged), _ladder(known)] if known else []
    return [*worth, _fooled(every), _models(every), *noticed(every), *_agreement(scores, directions)]


def _verdict(judged: Sequence[Trust]) -> Finding:
    rows = [
        (
            t.metric,
            None if t.orders is None else t.orders.tau,
            None if t.orders is None else t.orders.low,
            None if t.orders is None else t.orders.high,
            None if t.mass is None else t.mass.tau,
            "-" if t.sees is None else f"{100 * t.sees:.0f} % swapped",
            t.own_reasons or "-",
            t.reads_words or "-",
            ", ".join(_short(name) for name in t.fooled_by) or "-",
            ", ".join((*t.blind_on, *(f"{m} (backwards)" for m in t.backwards_on))) or "-",
        )
        for t in judged
    ]
    return Finding(
        title="Which metric can be trusted with what?",
        about="Each metric scored explanations whose worth is known, on models whose mechanism is known. The worst "
        "model counts. tau: agreement with the true order from the oracle to noise as ever more cells and words change "
        "places; noise tau: as more and more of the mass is noise, which leaves ranks alone for a while. Sees: the "
        "fewest swaps that these samples find with 80 % power. Own reasons: whether the truth about this model "
        "scores above the truth about its twin. Fooled by: what has never met the model, yet beats a half-true "
        "explanation.",
        sentences=tuple(t.advice for t in judged),
        columns=(
            "metric",
            "tau",
            "low",
            "high",
            "noise tau",
            "sees",
            "own reasons",
            "reads words",
            "fooled by",
            "blind on",
        ),
        rows=tuple(rows),
    )


def _ladder(trials: Sequence[Trial]) -> Finding:
    rows: list[tuple[Scalar, ...]] = []
    figures = []
    for ladder, rungs in (("swaps", SWAPS), ("noise", RUNGS)):
        drawn: dict[str, list[Series]] = {}
        for trial in trials:
            placed = order(trial, rungs)
            if placed is None:
                continue
            means = trial.table.reindex(columns=[RANDOM, "control/uniform", ORACLE, "control/inverse_oracle"]).mean()
            rows.append(
                (ladder, trial.metric, trial.model, placed.tau, placed.low, placed.high,
                 f"{placed.adjacent} of {placed.pairs}", placed.sees,
                 *(None if np.isnan(value) else float(value) for value in means), placed.n)
            )  # fmt: skip
            there = [(level, way) for level, rung in zip((0.0, *LEVELS, 1.0), rungs, strict=True)
                     if np.isfinite(way := trial.way(rung))]  # fmt: skip
            if there:  # on a model whose truth is unknown, no rung has a score
                drawn.setdefault(trial.model, []).append(Series(trial.metric, *zip(*there, strict=True)))
        figures += [
            Figure(f"The ladder of {ladder} on {model}", "lines", f"share of {ladder}",
                   "from noise (0) to the oracle (1)", tuple(series), note="A metric that works falls from 1 to 0.",
                   lines=(("noise", 0.0), ("oracle", 1.0)), headline=True)
            for model, series in sorted(drawn.items())
        ]  # fmt: skip
    perfect = sum(row[3] == 1 for row in rows)
    return Finding(
        title="Does the metric order explanations of known quality?",
        about="Values are turned so that higher is better. Sees: the lowest rung told from the oracle with 80 % power.",
        sentences=(f"{perfect} of {len(rows)} times a metric puts all rungs of a ladder in the right order.",),
        columns=("ladder", "metric", "model", "tau", "low", "high", "adjacent right", "sees", "random", "uniform",
                 "oracle", "inverse oracle", "n"),
        rows=tuple(rows), section=LADDER, figures=tuple(figures),
    )  # fmt: skip


def _fooled(trials: Sequence[Trial]) -> Finding:
    """Where everything that is not on the ladder stands between noise and the oracle."""
    others = sorted({name for trial in trials for name in trial.table.columns} - {*RUNGS, *SWAPS})
    names = tuple(_short(name) for name in others)
    ways = [tuple(None if np.isnan(way := trial.way(name)) else way for name in others) for trial in trials]
    rows = tuple((trial.metric, trial.model, *way) for trial, way in zip(trials, ways, strict=True))
    figure = Figure(
        "Between noise (0) and the oracle (1)", "grid", "explanation", "metric",
        tuple(Series(f"{t.metric} · {t.model}", names, way) for t, way in zip(trials, ways, strict=True)),
        note="1 or more: the metric takes this for the truth. 0 or less: for noise.",
    )  # fmt: skip
    return Finding(
        title="Where does everything else stand?",
        about="0 is noise and 1 the oracle, by the metric's own scale. Controls that never met the model belong at 0.",
        sentences=(), columns=("metric", "model", *names), rows=rows,
        section=FOOLED, figures=(figure,),
    )  # fmt: skip


def _models(trials: Sequence[Trial]) -> Finding:
    """The oracle against noise on every model: where a metric sees nothing, or sees it backwards."""
    models = sorted({trial.model for trial in trials})
    metrics = list(dict.fromkeys(trial.metric for trial in trials))
    effect = {(trial.metric, trial.model): trial.effect for trial in trials}
    effects = {metric: tuple(effect.get((metric, model)) for model in models) for metric in metrics}
    rows = tuple((metric, *values) for metric, values in effects.items())
    return Finding(
        title="On which models does it work?",
        about="How far the oracle stands above noise, in standard deviations of the paired difference: below 0 the "
        "metric prefers noise; near 0 it is blind on such a model.",
        sentences=(), columns=("metric", *models), rows=rows, section=FOOLED,
        figures=(
            Figure("The oracle above noise, in standard deviations", "grid", "model", "metric",
                   tuple(Series(metric, tuple(models), values) for metric, values in effects.items())),
        ),
    )  # fmt: skip


def _agreement(scores: pd.DataFrame, directions: dict[str, Direction]) -> list[Finding]:
    """Kendall's tau between metrics over all explainers that both can score."""
    tables = {}
    for metric, direction in directions.items():
        rows = scores[(scores["metric"] == metric) & scores["value"].notna()]
        if direction == "none" or rows.empty:
            continue
        table = rows.pivot_table(index=["model", "dataset", "sample"], columns="explainer", values="value")
        tables[metric] = table.loc[:, table.notna().mean() > 0.5]
    if len(tables) < 2:
        return []
    every = pd.concat(tables.values(), axis=1).index
    tables = {metric: table.reindex(every) for metric, table in tables.items()}
    matrix = agreement_matrix(
        tables, {m: directions[m] for m in tables}, rng=generator(0, "audit", "agreement"), resamples=500
    )
    names = list(tables)
    tau = dict(zip(matrix.index.tolist(), matrix["tau"].tolist(), strict=True))
    series = tuple(
        Series(a, tuple(names), tuple(1.0 if a == b else tau.get((a, b), tau.get((b, a))) for b in names))
        for a in names
    )
    pairs = tuple(
        (*names_of, *(None if np.isnan(value) else value for value in numbers), n)
        for names_of, numbers, n in zip(
            matrix.index.tolist(), matrix[["tau", "low", "high"]].to_numpy().tolist(), matrix["n"].tolist(), strict=True
        )
    )
    return [
        Finding(
            title="Do metrics agree on who is better?",
            about="Kendall's tau between the orders of explainers by mean rank; intervals over samples.",
            sentences=tuple(_collapse(matrix) + _reversals(matrix)),
            columns=("first", "second", "tau", "low", "high", "n"), rows=pairs, section=AGREEMENT,
            figures=(Figure("Agreement of metrics", "grid", "metric", "metric", series, note="1 agree, -1 reversed"),),
        )
    ]  # fmt: skip


def _collapse(matrix: pd.DataFrame) -> list[str]:
    """fsyn2026 4.2: orders by one modality do not carry over to the other."""
    pair = ("srg_visual", "srg_text")
    if pair not in matrix.index:
        return []
    tau, low, high = matrix[["tau", "low", "high"]].to_numpy()[matrix.index.get_loc(pair)].tolist()
    if not np.isfinite(low):
        return []
    text = f"tau of the orders by image and by text curves is {tau:.2f} [{low:.2f}, {high:.2f}]"
    if high < 0.5:
        return [f"Unimodal collapse (fsyn2026): reproduced on known truth; {text}."]
    return [f"Unimodal collapse (fsyn2026): {'not reproduced' if low > 0.5 else 'cannot tell'}; {text}."]


def _reversals(matrix: pd.DataFrame) -> list[str]:
    """pixelrules2024 table 5: metrics that turn one another's order round."""
    down = matrix[matrix["high"] < 0]
    turned = [f"{a} and {b} ({tau:.2f})" for (a, b), tau in zip(down.index.tolist(), down["tau"], strict=True)]
    if not turned:
        return ["Ranking reversals (pixelrules2024): no two metrics turn each other's order round in this run."]
    return [f"Ranking reversals (pixelrules2024): {len(turned)} pairs, such as {', '.join(turned[:3])}."]


def _short(explainer: str) -> str:
    return explainer.removeprefix("control/")
