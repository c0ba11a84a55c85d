"""What creg2026 claims, judged on the analysis of a run: agree, disagree or cannot tell.

A claim about every explainer and model is a family of tests (`common.judge.all_hold`), one per row; `because` counts
them. Margins that the paper does not give are ours and stand in the words of the claim or beside its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.roles import Results
from karat.protocols.common import published
from karat.protocols.common.controls import NOISE
from karat.protocols.common.judge import all_hold, one_sided
from karat.protocols.common.rows import rows_of
from karat.protocols.common.words import interval, rounded
from karat.protocols.compass import (
    analysis,
    comparisons,
    diagnostics,
    interventions,
    published_tables,
    recorded_runs,
    synthetic,
)
from karat.protocols.compass.analysis import BOX, CHANCE, TRANSFORMER, Order, Reading
from karat.protocols.compass.comparisons import Gain, Generation
from karat.protocols.compass.interventions import Partitioned, Probe, Swap
from karat.results.facts import parts_of
from karat.statistics import Estimate, adjust

NO_DETAILS = "the run keeps no details"
Sides = tuple[float, float]  # p-values against "not as claimed" and against "as claimed"


@dataclass(frozen=True)
class Question:
    """A claim of the paper before it is judged."""

    text: str
    where: str
    published: str

    def unanswered(self, why: str) -> Claim:
        return Claim(self.text, self.where, self.published, why, "cannot tell")

    def judged(self, ours: str, sides: Sequence[Sides], because: str = "") -> Claim:
        """By a family of tests, one a row."""
        family = all_hold([one for one, _ in sides], [other for _, other in sides])
        told = family.counts + (f"; {because}" if because else "")
        return Claim(self.text, self.where, self.published, ours, family.verdict, told)


def above(estimate: Estimate, bound: float = 0.0) -> Sides:
    return one_sided(estimate, bound)


def below(estimate: Estimate, bound: float = 0.0) -> Sides:
    over, under = one_sided(estimate, bound)
    return under, over


def within(estimate: Estimate, margin: float, centre: float = 0.0) -> Sides:
    """Two one-sided tests for it; either side beyond the margin against it."""
    low, high = one_sided(estimate, centre - margin), one_sided(estimate, centre + margin)
    return max(low[0], high[1]), min(1.0, 2 * min(low[1], high[0]))


def compare(run: Results) -> Comparison:
    """Every claim that a run's samples can speak to; the rest says what is missing. And the paper's tables."""
    scores, parts, printed = run.scores(), parts_of(run.manifest), published.load("compass")
    table = analysis.readings(scores)
    best = comparisons.best_explainers(table, parts)
    gains = comparisons.gains(scores, parts)
    if (trained := recorded_runs.training(gains)) is not None:
        gains = recorded_runs.training_gains(trained)
    patterns, injected = synthetic.relational_table(), synthetic.injection_table()
    claims = [
        *layout_claims(table), *order_claims(analysis.orders(scores), _labels_of(table)),
        *estimator_claims(analysis.estimators(scores)),
        *accuracy_claims(comparisons.generations(scores, best)),
        *(training_claims(gains) if trained is None else recorded_runs.training_claims(gains)),
        *instrument_claims(patterns, injected),
    ]  # fmt: skip
    tables = [*published_tables.table_1(table, parts, printed)]
    battery = diagnostics.Battery.of(run)
    if battery is not None:
        centres, varied = diagnostics.centres(battery), diagnostics.varied(battery)
        partitions = interventions.partitions(battery)
        claims += intervention_claims(interventions.probes(battery), interventions.swaps(battery), partitions)
        claims += [*centre_claims(centres), *reading_claims(varied), *stability_claims(diagnostics.stability(battery))]
        tables += published_tables.table_3(centres, best, parts, printed)
        tables += published_tables.table_4(partitions, printed)
        tables += published_tables.table_7(varied, printed)
    else:
        questions = (*_INTERVENTIONS.values(), *_CENTRES.values(), *_READINGS.values(), *_STABILITY.values())
        claims += [question.unanswered(NO_DETAILS) for question in questions]
    if (photographs := recorded_runs.photographs(run)) is not None:
        claims += recorded_runs.photograph_claims(photographs)
        tables += recorded_runs.photograph_tables(photographs, printed)
    tables += published_tables.table_5(injected, printed)
    tables += published_tables.table_6(patterns, printed)
    tables += published_tables.table_8(table, parts, printed)
    tables += published_tables.table_9(
        gains, best, parts, printed, "this run" if trained is None else recorded_runs.LORA
    )
    return Comparison(tuple(claims), tuple(sorted(tables, key=lambda finding: finding.title)))


def _labels_of(table: pd.DataFrame) -> set[str]:
    """Labels of the paper's main explainer."""
    return set(table.loc[table["name"] == TRANSFORMER, "explainer"])


def _real(table: pd.DataFrame) -> pd.DataFrame:
    return table[~table["is_control"].astype(bool)]


def _span(estimates: Sequence[Estimate], digits: int = 1, sign: bool = False) -> str:
    values = [one.value for one in estimates if np.isfinite(one.value)]
    ends = [rounded(end, digits, sign) for end in (min(values), max(values))] if values else ["no value"]
    return " to ".join(dict.fromkeys(ends))


# ---- who points where


def layout_claims(table: pd.DataFrame) -> Iterator[Claim]:
    question = Question(
        "Box-only geometry points more than 30 degrees better than every model-based explainer", "section 4.2, table 1",
        "more than 30 on every dataset, 34 to 43; table 1 itself has 28.4 on VSR, and 28.4 to 51.3 for the two methods",
    )  # fmt: skip
    real = [row for row in rows_of(_real(table), Reading) if np.isfinite(row.gap.value)]
    if not real:
        yield question.unanswered("no explainer beside control/box_only")
    else:
        near = min(real, key=lambda row: row.gap.value)
        yield question.judged(
            f"gaps of {_span([row.gap for row in real])} degrees", [above(row.gap, 30.0) for row in real],
            f"nearest to the box: {near.explainer} on {near.model}, {interval(near.gap, 1)} degrees behind it",
        )  # fmt: skip
    yield noise_claim(table)


def noise_claim(table: pd.DataFrame) -> Claim:
    question = Question("Noise through the same projection is at chance, within 10 degrees of 90", "table 1",
                        "89.9 to 94.2, EA .221 to .257")  # fmt: skip
    noise = [row for row in rows_of(table[table["name"] == NOISE], Reading) if np.isfinite(row.dae.value)]
    if not noise:
        return question.unanswered("no control/random in the run")
    return question.judged(
        f"{interval(noise[0].dae, 1)}, {noise[0].ea:.3f}", [within(row.dae, 10.0, CHANCE) for row in noise],
        "sums over sectors favour the side with more picture, which is the target's; a peak drawn at random gives 90",
    )  # fmt: skip


def order_claims(orders: pd.DataFrame, transformer: set[str]) -> Iterator[Claim]:
    question = Question("Transformer Attribution points best", "section 4.2, table 1",
                        "49.4 against 53.5 (GradCAM) and more on COCO-Pairs")  # fmt: skip
    rivals = [
        (row, 1 if row.first in transformer else -1)
        for row in rows_of(orders, Order) if (row.first in transformer) != (row.second in transformer)
    ]  # fmt: skip
    if not rivals:
        yield question.unanswered(f"no {TRANSFORMER} beside others")
    else:
        sides = [above(row.lead) if sign > 0 else below(row.lead) for row, sign in rivals]
        leads = [sign * row.lead.value for row, sign in rivals]
        yield question.judged(f"{min(leads):+.1f} to {max(leads):+.1f} degrees ahead of a rival, by sample", sides)
    question = Question("The explainer that points best depends on the model", "F.1, table 8",
                        "Transformer Attribution or GradCAM")  # fmt: skip
    yield _depends(question, orders)


def _depends(question: Question, orders: pd.DataFrame) -> Claim:
    """Agree where two models of one dataset clearly order two explainers in opposite ways; disagree where one explainer
    is clearly ahead of all others on every model. Clearly: after Holm's correction over all orders."""
    several = orders[orders.groupby("dataset")["model"].transform("nunique") > 1] if len(orders) else orders
    known = [row for row in rows_of(several, Order) if np.isfinite(row.lead.p)]
    if not known:
        return question.unanswered("one model only, or one explainer")
    clear = np.asarray(adjust(np.array([row.lead.p for row in known]), "holm")) < 0.05
    ahead = {
        (row.dataset, row.model, *((row.first, row.second) if row.lead.value > 0 else (row.second, row.first)))
        for row, sure in zip(known, clear, strict=True) if sure
    }  # fmt: skip
    opposite = sorted({
        f"{a} and {b} on {dataset}" for dataset, model, a, b in ahead
        if a < b and any((dataset, other, b, a) in ahead for other in several["model"].unique() if other != model)
    })  # fmt: skip
    counts = f"{len(ahead)} of {len(known)} orders are clear, {len(opposite)} pairs clearly change places"
    if opposite:
        return Claim(question.text, question.where, question.published, f"change places: {', '.join(opposite[:3])}",
                     "agree", counts)  # fmt: skip
    winners = []
    for dataset, part in several.groupby("dataset"):
        names, models = set(part["first"]) | set(part["second"]), part["model"].unique()
        winners.append(any(
            all((dataset, model, name, other) in ahead for model in models for other in names - {name})
            for name in names
        ))  # fmt: skip
    verdict: Agreement = "disagree" if all(winners) else "cannot tell"
    ours = "one explainer is clearly ahead everywhere" if all(winners) else "no pair clearly changes places"
    return Claim(question.text, question.where, question.published, ours, verdict, counts)


def estimator_claims(estimators: pd.DataFrame) -> Iterator[Claim]:
    question = Question("Peak and circular mean tell the same story", "B.2", "56.0 and 49.5 degrees, r = .68")
    both = _real(estimators)["pearson"].tolist() if len(estimators) else []
    if not both:
        yield question.unanswered("no samples with both readings")
    else:
        yield question.judged(f"r from {_span(both, 2)}", [above(r) for r in both])


# ---- answers against directions


def accuracy_claims(generations: pd.DataFrame) -> Iterator[Claim]:
    question = Question("Better models do not point better", "section 6, table 9",
                        "accuracy .554 to .717 while DAE goes 61.1 to 69.5")  # fmt: skip
    rows = rows_of(generations, Generation)
    if not rows:
        yield question.unanswered("one model only, or models that answer alike")
    else:
        ours = [
            f"accuracy {row.worse_accuracy:.2f} to {row.better_accuracy:.2f}, DAE {interval(row.change, 1, sign=True)}"
            for row in rows
        ]
        yield question.judged("; ".join(ours), [above(row.change) for row in rows], "paired by sample")


def training_claims(gains: pd.DataFrame) -> Iterator[Claim]:
    answers = Question("All three training objectives improve the answers", "section 6, table 9",
                       ".554 to .708-.754 on VSR, one seed")  # fmt: skip
    direction = Question("None of them improves the direction reliably (by 2 degrees or more)", "section 6, table 9",
                         "61.1 to 61.7, 70.0 and 65.2 on VSR, one seed")  # fmt: skip
    rows = gains[~gains["objective"].isin(["none", "answers"])]
    if rows.empty:
        yield answers.unanswered("no trained model in the run")
        yield direction.unanswered("no trained model in the run")
        return
    once = rows_of(rows.drop_duplicates(["dataset", "base", "objective"]), Gain)
    seeds = f"over {min(row.seeds for row in once)} seeds"
    yield answers.judged(
        ", ".join(f"{row.objective} {interval(row.accuracy_change, 2, sign=True)}" for row in once),
        [above(row.accuracy_change) for row in once], seeds,
    )  # fmt: skip
    main = rows[rows["name"] == TRANSFORMER]
    judged = rows_of(main if len(main) else rows, Gain)
    # For it: no gain of 2 degrees; against it: a gain.
    yield direction.judged(
        ", ".join(f"{row.objective} {interval(row.dae_change, 1, sign=True)}" for row in judged),
        [(above(row.dae_change, -2.0)[0], below(row.dae_change)[0]) for row in judged],
        f"change of the DAE of {TRANSFORMER if len(main) else 'every explainer'}, {seeds}",
    )  # fmt: skip


# ---- the battery

_INTERVENTIONS = {
    "probe": Question("The compass hardly reacts to the probed answer", "E.1", "PTA 24.9 % (chance 25), JSD 0.004"),
    "swap": Question("Swapping the roles in the question moves the peak, by half a sector or more", "E.1",
                     "98.5 ± 52.7 degrees"),
    "partition": Question("Direction explains less of the compass than location", "table 4", "eta² .013 and .069"),
}  # fmt: skip


def intervention_claims(probes: pd.DataFrame, swaps: pd.DataFrame, partitions: pd.DataFrame) -> Iterator[Claim]:
    question, probed = _INTERVENTIONS["probe"], rows_of(_real(probes), Probe)
    if not probed:
        yield question.unanswered("no probes in the run (dataset kinds: probe)")
    else:
        best = max(probed, key=lambda row: row.pta.value)
        # For it: less than .35; against it: more than chance.
        yield question.judged(
            f"PTA at most {interval(best.pta)}, {best.explainer}",
            [(below(row.pta, 0.35)[0], above(row.pta, 0.25)[0]) for row in probed],
        )  # fmt: skip
    question, rows = _INTERVENTIONS["swap"], rows_of(_real(swaps), Swap)
    if not rows:
        yield question.unanswered("no swaps in the run (dataset kinds: swap)")
    else:
        more = sum(row.centre_shift > row.question_shift.value for row in rows)
        yield question.judged(
            f"{min(row.shift for row in rows):.0f} to {max(row.shift for row in rows):.0f}, of which the question "
            f"itself {_span([row.question_shift for row in rows], 0)}",
            [above(row.question_shift, 22.5) for row in rows],
            f"reading the unchanged map from the other object moves the peak more than the question does in {more} of "
            f"{len(rows)} rows",
        )  # fmt: skip
    question, parts = _INTERVENTIONS["partition"], rows_of(_real(partitions), Partitioned)
    if not parts:
        yield question.unanswered("no moves in the run (dataset kinds: move)")
    else:
        shares = {"direction": [row.eta2_direction for row in parts], "location": [row.eta2_location for row in parts]}
        spans = [f"{name} {min(values):.3f} to {max(values):.3f}" for name, values in shares.items()]
        yield question.judged(", ".join(spans), [above(row.location_lead) for row in parts])


_CENTRES = {
    "random": Question("The true reference is no better a centre than a random one", "E.2, table 3",
                       "one-sided p >= .93"),
    "target": Question("Read from the target itself, the error falls to 22.5 degrees", "table 3",
                       "22.5 on both datasets"),
}  # fmt: skip


def centre_claims(centres: pd.DataFrame) -> Iterator[Claim]:
    real = _real(centres)
    rows = real.loc[real["centre"] == "random", "change"].tolist()
    if not rows:
        yield from (question.unanswered("no readings around other centres") for question in _CENTRES.values())
        return
    # For it: less than 5 degrees better; against it: better at all.
    yield _CENTRES["random"].judged(
        f"{_span(rows, 1, sign=True)} degrees from a random centre",
        [(below(change, 5.0)[0], above(change)[0]) for change in rows],
    )  # fmt: skip
    here = [real[real["centre"] == f"target ({how})"]["dae"] for how in ("to the reference", "as asked")]
    yield Claim(
        _CENTRES["target"].text, _CENTRES["target"].where, _CENTRES["target"].published,
        f"{here[0].min():.0f} to {here[0].max():.0f} with the reference as the truth, {here[1].min():.0f} to "
        f"{here[1].max():.0f} with the direction asked for", "cannot tell",
        "from a point to itself there is no direction and the paper names no other; 22.5 is what an empty compass, "
        "sector 0, scores against 0 degrees where sectors begin at 0 degrees (origin edge)",
    )  # fmt: skip


_READINGS = {
    "rotation": Question("Turning the maps by a quarter costs direction", "table 7", "71.4 to 80.6 degrees"),
    "narrow": Question("A width of 0.3 is too narrow", "D.1", "consistently worse"),
    "wide": Question("Widths of 0.6 to 2.0 read alike", "D.1", "within 3 degrees"),
    "coarse": Question("Four sectors are too coarse", "D.1", "worse than eight"),
    "boxes": Question("Boxes that are 50 pixels off hardly matter", "D.2",
                      "3.7 degrees at most, the geometry oracle 24.2"),
}  # fmt: skip


def reading_claims(varied: pd.DataFrame) -> Iterator[Claim]:
    """Judged on explainers; where a run has none, on the filled box of the target."""
    real = _real(varied)
    real = real if len(real) else varied[varied["name"] == BOX]

    def changes(kind: str, *amounts: float) -> list[Estimate]:
        rows: list[Estimate] = real.loc[(real["kind"] == kind) & real["amount"].isin(amounts), "change"].tolist()
        return rows

    if real.empty:
        yield from (question.unanswered("no other readings") for question in _READINGS.values())
        return
    for name, rows in (("rotation", changes("rotation", 90.0)), ("narrow", changes("width", 0.3)),
                       ("coarse", changes("sectors", 4))):  # fmt: skip
        yield _READINGS[name].judged(f"{_span(rows, 1, sign=True)} degrees", [above(change) for change in rows])
    rows = changes("width", 0.6, 1.0, 1.5, 2.0)
    yield _READINGS["wide"].judged(f"{_span(rows, 1, sign=True)} degrees", [within(change, 3.0) for change in rows])
    rows = changes("box noise", 50)
    oracle = varied.loc[(varied["kind"] == "oracle") & (varied["amount"] == 50), "dae"].mean()
    yield _READINGS["boxes"].judged(
        f"{_span(rows, 1, sign=True)} degrees; the direction of the noisy boxes is {oracle:.1f} off",
        [within(change, 3.7) for change in rows],
        "how much 50 pixels are depends on the picture: 640 wide in COCO, 384 on the grid",
    )  # fmt: skip


_STABILITY = {
    ("explainer", "estimator"): Question("Peak and circular mean order the explainers alike", "B.2", "unchanged"),
    ("explainer", "width"): Question("Widths of 0.6 to 2.0 order the explainers alike", "B.2, D.1", "stable"),
    ("model", "width"): Question("Widths of 0.6 to 2.0 order the models alike", "B.2, D.1", "preserved"),
    ("explainer", "sectors"): Question("Other numbers and origins of sectors order the explainers alike", "B.2, D.1",
                                       "the same qualitative order"),
    ("explainer", "damage"): Question("Moderate damage to the maps keeps the order of explainers", "E.6, table 7",
                                      "preserved reasonably well"),
    ("explainer", "box noise"): Question("Boxes that are off keep the order of explainers", "D.2", "stable"),
}  # fmt: skip


def stability_claims(stability: pd.DataFrame) -> Iterator[Claim]:
    """Of all orders that the usual reading makes: does another reading keep them, or turn them round?"""
    for (among, kind), question in _STABILITY.items():
        rows = stability.loc[(stability["among"] == among) & (stability["kind"] == kind), "lead"].tolist()
        if not rows:
            yield question.unanswered(f"the usual reading tells no two {among}s apart")
        else:
            yield question.judged(
                f"leads of {_span(rows, 1, sign=True)} degrees, above 0 in {sum(one.value > 0 for one in rows)} of "
                f"{len(rows)}", [above(one) for one in rows], "orders that the usual reading makes after correction",
            )  # fmt: skip


# ---- the instrument


def instrument_claims(patterns: pd.DataFrame, injected: pd.DataFrame) -> Iterator[Claim]:
    drawn = patterns[patterns["map"] != synthetic.NOISE]
    holds = ((drawn["high"] < 14) & (drawn["ea"] >= 0.99)).all()
    yield Claim(
        "Relational patterns score like a filled target box", "table 6", "11.5 to 12.5 degrees, EA >= .996",
        f"{drawn['dae'].min():.1f} to {drawn['dae'].max():.1f} degrees, EA >= {drawn['ea'].min():.3f}",
        "disagree" if (drawn["low"] > 14).any() else "agree" if holds else "cannot tell",
        "below 14 degrees, a quarter above the floor of 11.25",
    )  # fmt: skip
    steady = bool((np.diff(injected["dae to direction"]) <= 1e-9).all())
    yield Claim(
        "An injected direction is recovered", "table 5", "11.1 degrees at alpha = 1, crossover near .3",
        f"{injected['dae to direction'].iloc[-1]:.1f} degrees at alpha = 1, crossover at "
        f"{synthetic.crossover(injected):.2f}",
        "agree" if steady else "disagree", "the crossover depends on widths that are not given",
    )  # fmt: skip
