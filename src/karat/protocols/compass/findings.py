"""What the protocol concludes from a run, as sentences, tables and figures; the numbers are those of the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.roles import Results
from karat.protocols.common.controls import UNIFORM
from karat.protocols.common.judge import one_sided
from karat.protocols.common.rows import rows_of, unfolded
from karat.protocols.common.words import interval, number, table_rows
from karat.protocols.compass import analysis, comparisons, diagnostics, interventions, synthetic
from karat.protocols.compass.analysis import CHANCE, LABELS, Reading
from karat.protocols.compass.comparisons import Best, Gain, Generation, Twin
from karat.protocols.compass.interventions import Probe, Swap
from karat.results.facts import parts_of
from karat.statistics import Estimate, adjust

_HIDDEN = ["is_control", "name"]  # facts for code: tables show the label


def findings(run: Results) -> list[Finding]:
    """Everything that the rows and their details allow; what a run has no samples for is left out."""
    scores, parts = run.scores(), parts_of(run.manifest)
    table = analysis.readings(scores)
    if table.empty:
        return []
    best = comparisons.best_explainers(table, parts)
    concluded: list[Finding | None] = [
        _main(table), _best(best, comparisons.generations(scores, best)), _gains(comparisons.gains(scores, parts)),
        _twins(comparisons.twins(scores, parts)), _estimators(analysis.estimators(scores)),
    ]  # fmt: skip
    battery = diagnostics.Battery.of(run)
    if battery is not None:
        concluded += [
            _labels(battery), _probes(interventions.probes(battery)), _swaps(interventions.swaps(battery)),
            _partitions(interventions.partitions(battery)), _centres(diagnostics.centres(battery)),
            *_varied(diagnostics.varied(battery)), _stability(diagnostics.stability(battery)),
        ]  # fmt: skip
    concluded += [_relational(synthetic.relational_table()), _injection(synthetic.injection_table())]
    return [finding for finding in concluded if finding is not None]


def _table(
    title: str,
    about: str,
    sentences: Sequence[str],
    frame: pd.DataFrame,
    section: str = "",
    figures: Sequence[Figure] = (),
) -> Finding:
    visible = unfolded(frame.drop(columns=[name for name in _HIDDEN if name in frame]))
    heads, rows = tuple(map(str, visible.columns)), table_rows(visible)
    return Finding(title, about, tuple(sentences), heads, rows, section, tuple(figures))


def _series(name: str, x: Sequence[str], estimates: Sequence[Estimate]) -> Series:
    low, high = tuple(number(one.low) for one in estimates), tuple(number(one.high) for one in estimates)
    return Series(name, tuple(x), tuple(number(one.value) for one in estimates), low, high)


def _numbers(values: pd.Series[float]) -> tuple[float | None, ...]:
    return tuple(number(value) for value in values)


def _by_run(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for (model, dataset), part in frame.groupby(["model", "dataset"], sort=True):
        yield f"{model} on {dataset}", part


def _main(table: pd.DataFrame) -> Finding:
    table = table.assign(p=adjust_known([one_sided(one)[0] for one in table["advantage"]]))
    sentences, figures = [], []
    for where, part in _by_run(table):
        real = part[~part["is_control"] & part["dae"].map(lambda dae: np.isfinite(dae.value))]
        flat = [row.dae.value for row in rows_of(part, Reading) if row.name == UNIFORM]
        if len(real):
            best = min(rows_of(real, Reading), key=lambda row: row.dae.value)
            clear = rows_of(real[real["p"] < 0.05], Reading)
            knowing = [f"{row.explainer} (skill {row.skill.value:.2f})" for row in clear]
            sentences.append(
                f"{where}: {best.explainer} points best, {interval(best.dae, 1)} degrees off"
                + (f", where a flat map scores {flat[0]:.1f}" if flat else "") + "; better at its own question than at "
                "those of other pictures: " + (", ".join(knowing) if knowing else "no explainer") + "."
            )  # fmt: skip
        lines = (("chance", CHANCE), *((("flat map", flat[0]),) if flat else ()))
        series = _series("DAE", part["explainer"].tolist(), part["dae"].tolist())
        figures.append(Figure(where, "intervals", "", "degrees", (series,), lines=lines, headline=True))
    return _table(
        "Where does the evidence point?",
        "Degrees between the direction of the evidence, seen from the reference object, and the target (DAE), its "
        "share within 45 degrees (EA), and the accuracy of the model. 11.25 is the floor of a peak among eight "
        "sectors, 90 is a random direction; a flat map is below 90 because most of the picture lies on the target's "
        "side of the reference. `null dae`: the same maps read at the questions of other pictures; `advantage` over it "
        "in degrees, `p` of no advantage (one-sided, corrected for their number), `skill` = 1 - Σ error / Σ null "
        "error. `permuted`: the map's own cells in random places. `excess dae` counts only evidence above a sector's "
        "share of the picture.",
        sentences, table, figures=figures,
    )  # fmt: skip


def adjust_known(p: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Holm's correction of the p-values that there are."""
    values = np.array(p, dtype=np.float64)
    known = np.isfinite(values)
    if known.any():
        values[known] = adjust(values[known], "holm")
    return values


def _estimators(table: pd.DataFrame) -> Finding | None:
    if table.empty:
        return None
    lower = int((table["circular_dae"] < table["peak_dae"]).sum())
    figures = [
        Figure(f"Peak and circular mean: {where}", "bars", "", "degrees", tuple(
            Series(name, tuple(part["explainer"]), _numbers(part[f"{name}_dae"])) for name in ("peak", "circular")
        ), lines=(("chance", CHANCE),))
        for where, part in _by_run(table)
    ]  # fmt: skip
    return _table(
        "Peak or circular mean?", "The same compasses read by their strongest sector and by their mean direction. "
        "Pearson's r is over samples; `same ea` is the share of samples where both readings are within 45 degrees of "
        "the truth, or neither is.",
        [f"The circular mean is closer to the truth than the peak for {lower} of {len(table)} rows; the two readings "
         f"agree on being right or wrong for {table['same_ea'].min():.0%} to {table['same_ea'].max():.0%} of the "
         "samples."], table, "The reading", figures,
    )  # fmt: skip


def _labels(battery: diagnostics.Battery) -> Finding | None:
    keys = battery.where("plain")
    if keys.empty:
        return None
    names = analysis.labels(battery.shares[keys["at"]], battery.readings[keys["at"], 0])
    keys = keys.assign(label=np.array(names, dtype=object))
    table = keys.dropna(subset=["label"]).groupby(analysis.GROUP)["label"].value_counts(normalize=True).unstack()
    table = table.fillna(0.0).reindex(columns=list(LABELS), fill_value=0.0).reset_index()
    figures = [
        Figure(where, "bars", "", "share of samples",
               tuple(Series(name, tuple(part["explainer"]), _numbers(part[name])) for name in LABELS))
        for where, part in _by_run(table)
    ]  # fmt: skip
    return _table("Aligned, diffuse, incorrect", "incorrect: the peak is more than 45 degrees off. Of the others, "
                  "aligned: the peak's sector holds twice an even share or more; diffuse: less.", (), table,
                  "The reading", figures)  # fmt: skip


# ---- between models


def _best(best: pd.DataFrame, pairs: pd.DataFrame) -> Finding | None:
    if best["model"].nunique() < 2:
        return None
    figures = [
        Figure(f"Accuracy and direction on {dataset}", "points", "accuracy", "DAE", tuple(
            Series(row.model, (round(row.accuracy, 3),), (number(row.dae.value),), (number(row.dae.low),),
                   (number(row.dae.high),)) for row in rows_of(part, Best)
        )) for dataset, part in best.groupby("dataset")
    ]  # fmt: skip
    sentences = [
        f"On {row.dataset}, {row.better} answers better than {row.worse} ({row.better_accuracy:.2f} against "
        f"{row.worse_accuracy:.2f}); the error of its best explainer {moved(row.change)} "
        f"({interval(row.change, 1, sign=True)} degrees, by sample)."
        for row in rows_of(pairs, Generation)
    ]  # fmt: skip
    about = "Every model with the explainer that points best for it, and the accuracy of its answers."
    title = "Do better answers come with better directions?"
    return _table(title, about, sentences, best, "Accuracy and direction", figures)


def moved(change: Estimate) -> str:
    """What an interval of a change says.

    >>> [moved(Estimate(v, 1.0, v - 2, v + 2, 9, 0)) for v in (-3.0, 1.0, 3.0)]
    ['falls', 'does not change clearly', 'rises']
    """
    return "falls" if change.high < 0 else "rises" if change.low > 0 else "does not change clearly"


def _twins(table: pd.DataFrame) -> Finding | None:
    if table.empty:
        return None
    clear = [f"{row.explainer} ({row.family}, {row.metric})" for row in rows_of(table, Twin)
             if row.difference.value < 0 and row.p_adjusted < 0.05]  # fmt: skip
    sentence = (
        f"Points better for the twin that reasons: {', '.join(clear)}." if clear
        else "No explainer points better for the twin that reasons than for the twin that takes a shortcut."
    )  # fmt: skip
    series = [
        _series(f"{family}, {metric}", part["explainer"].tolist(), part["difference"].tolist())
        for (family, metric), part in table.groupby(["family", "metric"])
    ]
    figure = Figure("Reasoning twin minus shortcut twin", "intervals", "", "degrees", tuple(series),
                    lines=(("no difference", 0.0),))  # fmt: skip
    return _table(
        "The reasoning twin against the shortcut twin",
        "The same scenes and explainers, two models that answer for different reasons; differences per sample with 95 "
        "% intervals, p adjusted for their number. Below 0, the evidence of the twin that reasons points better.",
        [sentence], table, "Known truth", [figure],
    )  # fmt: skip


def _gains(table: pd.DataFrame) -> Finding | None:
    after = table[table["objective"] != "none"]
    if after.empty:
        return None
    sentences = []
    for (dataset, base, objective), part in after.groupby(["dataset", "base", "objective"], sort=False):
        row = rows_of(part, Gain)[0]
        changes = "; of ".join(f"{one.explainer} {moved(one.dae_change)}" for one in rows_of(part, Gain))
        sentences.append(
            f"{base} trained with `{objective}` on {dataset} ({row.seeds} seeds): accuracy "
            f"{row.accuracy - row.accuracy_change.value:.2f} to {row.accuracy:.2f} ({row.accuracy_change.low:+.2f} to "
            f"{row.accuracy_change.high:+.2f}); the DAE of {changes}."
        )
    figures = []
    for (dataset, base), part in table.groupby(["dataset", "base"], sort=False):
        points = [
            Series(str(name), tuple(round(float(x), 3) for x in one["accuracy"]), _numbers(one["dae"]))
            for name, one in part.groupby("objective", sort=False)
        ]
        figures.append(Figure(f"Accuracy and DAE of {base} on {dataset}, a point per explainer", "points", "accuracy",
                              "DAE in degrees", tuple(points), lines=(("chance", CHANCE),)))  # fmt: skip
        changes_of = [
            _series(str(name), one["explainer"].tolist(), one["dae_change"].tolist())
            for name, one in part[part["objective"] != "none"].groupby("objective", sort=False)
        ]
        figures.append(Figure(f"Change of the DAE of {base} on {dataset}", "intervals", "", "degrees",
                              tuple(changes_of), lines=(("no change", 0.0),)))  # fmt: skip
    return _table(
        "Accuracy against direction after training",
        "LoRA on the answers alone (`answers`) or with one objective on the evidence beside them; `none` is the model "
        "before. Changes are paired by sample; with two seeds or more their 95 % intervals are over seeds (Student's "
        "t), with one over samples. A rise of the DAE is a loss of direction.",
        sentences, table, "Accuracy and direction", figures,
    )  # fmt: skip


# ---- the battery


def _probes(table: pd.DataFrame) -> Finding | None:
    if table.empty:
        return None
    following = sorted({row.explainer for row in rows_of(table, Probe) if row.pta.low > 0.25})
    sentence = (
        f"Follow the probed answer more often than chance: {', '.join(following)}." if following
        else "No explainer follows the probed answer more often than chance (1 in 4)."
    )  # fmt: skip
    series = tuple(_series(where, part["explainer"].tolist(), part["pta"].tolist()) for where, part in _by_run(table))
    return _table(
        "Target intervention",
        "The same picture and question, each of the four answers explained in turn. PTA: how often the strongest "
        "quadrant is that of the probed answer (a map that does not react: exactly 1/4). JSD: divergence in bits of "
        "the compasses of opposite answers.", [sentence], table, "Interventions",
        [Figure("Probe agreement", "intervals", "", "PTA", series, lines=(("no reaction", 0.25),))],
    )  # fmt: skip


def _swaps(table: pd.DataFrame) -> Finding | None:
    if table.empty:
        return None
    figures = [
        Figure(f"Role swap: {where}", "bars", "", "degrees", (
            Series("shift", tuple(part["explainer"]), _numbers(part["shift"])),
            Series("of the centre alone", tuple(part["explainer"]), _numbers(part["centre_shift"])),
            Series("at the same centre", tuple(part["explainer"]), tuple(one.value for one in part["question_shift"])),
        ), lines=(("random peaks", 90.0),))
        for where, part in _by_run(table)
    ]  # fmt: skip
    real = rows_of(table[~table["is_control"]], Swap)
    reacting = sorted({row.explainer for row in real if row.question_shift.low > 0})
    return _table(
        "Query role swap",
        "`Where is A relative to B` instead of `B relative to A`. `shift` compares peaks seen from each question's own "
        "reference, as the paper seems to; `centre shift` is what the unchanged map shows when it is read from the "
        "other object; `question shift`, at the same centre, is what the question itself changes. Random peaks shift "
        "90 degrees.",
        [f"The question alone moves the peak for {', '.join(reacting)}." if reacting
         else "The question alone moves no peak."], table, "Interventions", figures,
    )  # fmt: skip


def _partitions(table: pd.DataFrame) -> Finding | None:
    if table.empty:
        return None
    figures = [
        Figure(where, "bars", "", "share of variance within a picture", tuple(
            Series(name, tuple(part["explainer"]), _numbers(part[f"within_{name}"]))
            for name in ("direction", "location")))
        for where, part in _by_run(table)
    ]  # fmt: skip
    return _table(
        "Variance partition: fix the target, move the reference",
        "The target stays, the reference moves to other places, some in the same direction, some in others. Shares of "
        "the variance of the whole compass that direction (the relation), location (the ninth of the picture that the "
        "reference stands in) and the picture explain, each alone; `within` splits what varies within a picture into "
        "between directions and between places in the same direction.", (), table, "Interventions", figures,
    )  # fmt: skip


def _centres(table: pd.DataFrame) -> Finding | None:
    if table.empty:
        return None
    other = table["centre"] != "reference"
    table = table.assign(p=np.where(other, [one_sided(one)[0] for one in table["change"]], np.nan))
    rows = table[table["centre"] == "random"]
    won = rows["explainer"][adjust_known(rows["p"].tolist()) < 0.05].unique().tolist()
    return _table(
        "Reference-centre randomisation",
        "The same maps read around other centres; change is the DAE there minus that at the true reference, `p` that "
        "of no loss there (one-sided, each by itself). From a new centre the truth is the direction to the target; `as "
        "asked` keeps the direction from reference to target.",
        [f"Better from the true reference than from a random centre: {', '.join(won)}." if won
         else "The true reference is no better a centre than a random one."], table, "Diagnostics",
        _bars(table, "centre", "DAE by centre"),
    )  # fmt: skip


def _varied(table: pd.DataFrame) -> list[Finding | None]:
    """creg2026 table 7 (damage), D.1 and D.2 (settings)."""
    if table.empty:
        return [None]
    readings = table.drop(columns=["kind", "amount"])
    damaged = table["kind"].isin(["usual", "dropout", "blur", "rotation"])
    turned = table[(table["kind"] == "rotation") & ~table["is_control"]]
    costs = [one.value for one in turned["change"]]
    wide = table[(table["kind"] == "width") & (table["amount"] >= 0.6) & ~table["is_control"]]
    changes = [abs(one.value) for one in wide["change"]]
    lines = []
    for where, part in _by_run(table[~table["is_control"] | (table["name"] == analysis.BOX)]):
        for kind, unit in (("width", "sigma_r"), ("sectors", "sectors"), ("box noise", "pixels")):
            of_kind = part[part["kind"] == kind]
            series = tuple(Series(str(explainer), tuple(one["amount"]), _numbers(one["dae"]))
                           for explainer, one in of_kind.groupby("explainer"))  # fmt: skip
            lines.append(Figure(f"DAE by {kind}: {where}", "lines", unit, "degrees", series))
    return [
        _table(
            "Damaged maps", "Dropout sets cells to 0, blur is in cells, rotation turns the map while the objects stay. "
            "Tau is Kendall's, between the errors of clean and damaged maps over samples.",
            [f"A quarter turn of the maps costs {np.mean(costs):.1f} degrees on average, and clearly in "
             f"{sum(one.low > 0 for one in turned['change'])} of {len(turned)} rows."] if costs else (),
            readings[damaged], "Diagnostics", _bars(table[damaged], "reading", "DAE by damage"),
        ),
        _table(
            "Other settings", "sigma is 2 sigma_r times the distance of the two objects; sectors may be centred at 0 "
            "degrees, as usual, or begin there; box noise moves both centres (the truth is that of the true boxes), "
            "and its oracle is the boxes' own direction, exactly 0 without noise. `change` is to the usual setting: "
            "sigma_r 0.6, eight sectors centred at 0 degrees, no noise.",
            [f"Widths of 0.6 to 2.0 change the DAE by {max(changes):.1f} degrees at most."] if changes else (),
            readings[~damaged], "Diagnostics", lines,
        ),
    ]  # fmt: skip


def _stability(table: pd.DataFrame) -> Finding | None:
    if table.empty:
        return None
    reversed_ = sum(one.high < 0 for one in table["lead"])
    kept = sum(one.low > 0 for one in table["lead"])
    return _table(
        "Does the order stay?", "Pairs of explainers (on one model) and of models (under one explainer) that the usual "
        "reading tells apart after correction; `lead` is by how many degrees the better one is ahead under another "
        "reading, paired by sample.",
        [f"Of {len(table)} orders under other readings, {kept} stay clearly, {reversed_} are clearly reversed."], table,
        "Diagnostics", _lead_figure(table),
    )  # fmt: skip


def _lead_figure(table: pd.DataFrame) -> list[Figure]:
    means = table.assign(value=[one.value for one in table["lead"]]).groupby(["kind", "reading"])["value"].mean()
    series = [Series(str(kind), tuple(map(str, part.index.get_level_values("reading"))), tuple(map(float, part)))
              for kind, part in means.groupby(level="kind")]  # fmt: skip
    return [Figure("Mean lead by reading", "points", "", "degrees", tuple(series), lines=(("no lead", 0.0),))]


def _bars(table: pd.DataFrame, by: str, title: str) -> list[Figure]:
    """A figure per model and dataset: a group of bars per explainer, one bar per centre or damage."""
    return [
        Figure(f"{title}: {where}", "bars", "", "degrees", tuple(
            Series(str(name), tuple(one["explainer"]), _numbers(one["dae"]))
            for name, one in part.dropna(subset=["dae"]).groupby(by, sort=False)
        ))
        for where, part in _by_run(table)
    ]  # fmt: skip


# ---- the instrument


def _relational(table: pd.DataFrame) -> Finding:
    drawn = table[table["map"] != synthetic.NOISE]
    series = Series("DAE", *(tuple(table[name]) for name in ("map", "dae", "low", "high")))
    figure = Figure("Relational patterns", "intervals", "", "degrees", (series,),
                    lines=(("floor", 11.25), ("chance", CHANCE)))  # fmt: skip
    return _table(
        "The instrument on relational patterns", "Maps drawn on 500 random scenes: the reading is not made for a "
        "filled target box alone. 11.25 degrees is the floor of a peak among eight sectors. Noise is read around the "
        "middle of the picture, where every direction has as much room as its opposite.",
        [f"All patterns score {drawn['dae'].min():.1f} to {drawn['dae'].max():.1f} degrees."], table,
        "The instrument", [figure],
    )  # fmt: skip


def _injection(table: pd.DataFrame) -> Finding:
    series = tuple(
        Series(name, tuple(table["alpha"]), tuple(table[f"dae to {name}"])) for name in ("position", "direction")
    )
    return _table(
        "Signal injection", "A bump on the target mixed with a wedge 90 degrees off, on 500 random scenes. Where the "
        "reading changes sides depends on the widths of the two, which the paper does not give.",
        [f"The peak follows the injected direction from alpha = {synthetic.crossover(table):.2f} on."], table,
        "The instrument", [Figure("Signal injection", "lines", "alpha", "DAE", series, lines=(("chance", CHANCE),))],
    )  # fmt: skip
