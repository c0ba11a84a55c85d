"""The main comparison: who points where, how far from chance and from plain localisation, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.kernel.finding import Figure, Finding, Series
from karat.kernel.identity import generator
from karat.statistics import Estimate, bootstrap_mean, bootstrap_statistic, paired_difference

Floats = npt.NDArray[np.float64]
GROUP = ["model", "dataset", "explainer"]
CHANCE = 90.0
BOX = "control/box_only"


def plain_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows of untouched questions: interventions are read apart."""
    return scores[scores["meta.kind"] == "plain"] if "meta.kind" in scores else scores


def wide(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per model, dataset, explainer and sample; a column per metric."""
    keys = [*GROUP, "sample"]
    return scores.pivot_table(index=keys, columns="metric", values="value", aggfunc="first").reset_index()


def stream(*names: object) -> np.random.Generator:
    return generator(0, "/".join(map(str, names)), "compass/findings")


def is_control(explainer: str) -> bool:
    return explainer.startswith("control/")


def groups(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    for key, part in frame.groupby(GROUP, sort=True):
        model, dataset, explainer = map(str, key)
        yield (model, dataset, explainer), part


def column(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(np.float64) if name in frame else np.full(len(frame), np.nan)


def main_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Per model, dataset and explainer: DAE with its interval, EA, other readings, accuracy, the gap to box-only."""
    frame = wide(plain_rows(scores))
    rows = []
    for (model, dataset, explainer), part in groups(frame):
        error = bootstrap_mean(column(part, "compass/direction_error"), rng=stream(model, dataset, explainer))
        over = bootstrap_mean(column(part, "excess_error"), rng=stream(model, dataset, explainer, "excess"))
        box = frame[(frame["model"] == model) & (frame["dataset"] == dataset) & (frame["explainer"] == BOX)]
        gap = _gap(part, box, stream(model, dataset, explainer, "gap"))
        rows.append((
            model, dataset, explainer, error.value, error.low, error.high, _mean(part, "edge_accuracy"),
            _mean(part, "mean_direction_error"), over.value, over.low, over.high, _mean(part, "accuracy"),
            gap.value, gap.low, gap.high, gap.p, error.n, error.n_dropped,
        ))  # fmt: skip
    return pd.DataFrame(rows, columns=[
        *GROUP, "dae", "dae low", "dae high", "ea", "mean dae", "excess dae", "excess low", "excess high", "accuracy",
        "gap to box-only", "gap low", "gap high", "gap p", "n", "without a direction",
    ])  # fmt: skip


def _mean(part: pd.DataFrame, name: str) -> float:
    values = column(part, name)
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _gap(part: pd.DataFrame, box: pd.DataFrame, rng: np.random.Generator) -> Estimate:
    both = part.merge(box, on="sample", suffixes=("", " box"))
    if not len(both):
        return Estimate(np.nan, np.nan, np.nan, np.nan, 0, 0)
    return paired_difference(
        column(both, "compass/direction_error"), column(both, "compass/direction_error box"), rng=rng
    )


def plain(table: pd.DataFrame) -> tuple[tuple[Any, ...], ...]:
    """Rows of a frame as a Finding keeps them: None for what is missing."""
    return tuple(
        tuple(None if isinstance(v, float) and np.isnan(v) else v for v in row)
        for row in table.itertuples(index=False, name=None)
    )


def _intervals(title: str, part: pd.DataFrame, lines: tuple[tuple[str, float], ...]) -> Figure:
    def numbers(name: str) -> tuple[float | None, ...]:
        return tuple(float(value) if np.isfinite(value) else None for value in column(part, name))

    series = Series("DAE", tuple(part["explainer"]), numbers("dae"), numbers("dae low"), numbers("dae high"))
    return Figure(title, "intervals", "", "degrees", (series,), lines=lines)


def main_finding(scores: pd.DataFrame) -> Finding | None:
    table = main_table(scores)
    if table.empty:
        return None
    sentences, figures = [], []
    for (model, dataset), part in table.groupby(["model", "dataset"], sort=True):
        real = part[~part["explainer"].map(is_control)].dropna(subset=["dae"])
        flat = part[part["explainer"] == "control/uniform"]["dae"]
        floor = float(flat.iloc[0]) if len(flat) else float("nan")
        # Where the reference stands at the rim, sectors without picture cannot win: there noise is below 90 too.
        noise = part[part["explainer"] == "control/random"]["excess low"]
        bar = min(CHANCE, float(noise.iloc[0])) if len(noise) and np.isfinite(noise.iloc[0]) else CHANCE
        seeing = real[real["excess high"] < bar]["explainer"].tolist()
        if len(real):
            best = real.sort_values("dae").iloc[0]
            sentences.append(
                f"{model} on {dataset}: {best['explainer']} points best, {best['dae']:.1f} degrees off "
                f"({best['dae low']:.1f} to {best['dae high']:.1f})"
                + (f", where a flat map scores {floor:.1f}" if np.isfinite(floor) else "")
                + "; freed from the layout of the picture, "
                + (f"{', '.join(seeing)} still point to the target." if seeing else "no explainer beats chance.")
            )
        lines = (("chance", CHANCE), ("flat map", floor)) if np.isfinite(floor) else (("chance", CHANCE),)
        figures.append(_intervals(f"{model} on {dataset}", part, lines))
    return Finding(
        "Where does the evidence point?",
        "Degrees between the direction of the evidence, seen from the reference object, and the target (DAE), its "
        "share within 45 degrees (EA), and the accuracy of the model. 11.25 is the floor of a peak among eight "
        "sectors, 90 is a random direction. A flat map is below 90 because most of the picture lies on the target's "
        "side of the reference: `excess dae` counts only evidence above that (a flat map 90; noise 90, or less where "
        "the reference stands at the rim: see control/random).",
        tuple(sentences), tuple(table.columns), plain(table), figures=tuple(figures),
    )  # fmt: skip


def estimators_finding(scores: pd.DataFrame) -> Finding | None:
    """Peak against circular mean (creg2026 B.2)."""
    rows: list[tuple[Any, ...]] = []
    for (model, dataset, explainer), part in groups(wide(plain_rows(scores))):
        if is_control(explainer) and explainer != BOX:
            continue
        pairs = np.column_stack([column(part, "compass/direction_error"), column(part, "mean_direction_error")])
        kept: Floats = pairs[np.isfinite(pairs).all(axis=1)]
        if len(kept) < 3:
            continue
        found = bootstrap_statistic(kept, _pearson, rng=stream(model, dataset, explainer, "r"), resamples=400)
        both = np.mean(kept, axis=0).tolist()
        agree = float((kept <= 45 + 1e-9).all(axis=1).mean() + (kept > 45 + 1e-9).all(axis=1).mean())
        rows.append((model, dataset, explainer, *both, found.value, found.low, found.high, agree, len(kept)))
    if not rows:
        return None
    names = ("model", "dataset", "explainer", "peak dae", "mean dae", "pearson r", "r low", "r high", "same ea", "n")
    table = pd.DataFrame(rows, columns=list(names))
    lower = int((table["mean dae"] < table["peak dae"]).sum())
    figures = tuple(
        Figure(f"Peak and circular mean: {model} on {dataset}", "bars", "", "degrees", tuple(
            Series(name, tuple(part["explainer"]), tuple(map(float, part[f"{name} dae"]))) for name in ("peak", "mean")
        ), lines=(("chance", CHANCE),))
        for (model, dataset), part in table.groupby(["model", "dataset"])
    )  # fmt: skip
    return Finding(
        "Peak or circular mean?", "The same compasses read by their strongest sector and by their mean direction. "
        "Pearson's r is over samples; `same ea` is the share of samples where both readings are within 45 degrees of "
        "the truth, or neither is.",
        (f"The circular mean is closer to the truth than the peak for {lower} of {len(table)} rows; the two readings "
         f"agree on being right or wrong for {table['same ea'].min():.0%} to {table['same ea'].max():.0%} of the "
         "samples.",),
        names, plain(table), section="The reading", figures=figures,
    )  # fmt: skip


def _pearson(rows: Floats) -> float:
    if len(rows) < 3 or np.ptp(rows, axis=0).min() == 0:
        return float("nan")
    return float(np.asarray(np.corrcoef(rows[:, 0], rows[:, 1]))[0, 1])


LABELS = ("aligned", "diffuse", "incorrect")


def labels(shares: Floats, errors: Floats) -> list[str | None]:
    """creg2026 figure 3 as a rule: incorrect where the peak is more than 45 degrees off; else aligned where its sector
    holds twice an even share or more, diffuse where it holds less. None without a compass.

    >>> labels(np.array([[0.7, 0.1, 0.1, 0.1], [0.3, 0.3, 0.2, 0.2], [0.7, 0.1, 0.1, 0.1]]), np.array([3.0, 3.0, 90.0]))
    ['aligned', 'diffuse', 'incorrect']
    """
    strong = shares.max(axis=1) >= 2 / shares.shape[1]
    found: list[str | None] = []
    for error, clear in zip(errors.tolist(), strong.tolist(), strict=True):
        found.append(
            None if np.isnan(error) else "incorrect" if error > 45 + 1e-9 else "aligned" if clear else "diffuse"
        )
    return found


def labels_finding(keys: pd.DataFrame, shares: Floats, scores: pd.DataFrame) -> Finding | None:
    """Share of each label, per explainer. `keys` and `shares` are the details of direction_error."""
    rows = plain_rows(scores)
    rows = rows[rows["metric"] == "compass/direction_error"][[*GROUP, "sample", "value"]]
    at = keys.reset_index().merge(rows, on=[*GROUP, "sample"], how="inner")
    if at.empty:
        return None
    at["label"] = labels(shares[at["index"].to_numpy()], at["value"].to_numpy(np.float64))
    table = at.dropna(subset=["label"]).groupby(GROUP)["label"].value_counts(normalize=True).unstack().fillna(0.0)
    table = table.reindex(columns=list(LABELS), fill_value=0.0).reset_index()
    figures = tuple(
        Figure(f"{model} on {dataset}", "bars", "", "share of samples",
               tuple(Series(name, tuple(part["explainer"]), tuple(map(float, part[name]))) for name in LABELS))
        for (model, dataset), part in table.groupby(["model", "dataset"])
    )  # fmt: skip
    return Finding(
        "Aligned, diffuse, incorrect", "incorrect: the peak is more than 45 degrees off. Of the others, aligned: the "
        "peak's sector holds twice an even share or more; diffuse: less.", (), (*GROUP, *LABELS), plain(table),
        section="The reading", figures=figures,
    )  # fmt: skip
