"""`karat paper 003`: what SemScore claims, judged on the tables of `analysis`, and its own tables beside ours.

A claim about an order is about every rival: it holds under a method where each of its models lies on the claimed side
of each rival, and fails where one pair, after Holm's correction, lies on the other. "Most methods" is more than half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.claim import Claim, Comparison
from karat.kernel.finding import Finding
from karat.kernel.identity import generator
from karat.kernel.typing import Scalar
from karat.protocols.common.judge import CANNOT_TELL, Family, above, all_hold, majority
from karat.protocols.common.published import Table, load
from karat.protocols.common.words import interval, number
from karat.protocols.semantic.analysis import (
    KEYS,
    LEVEL,
    mean,
    per_image,
    predictions,
)
from karat.protocols.semantic.prediction_claims import claims_of_predictions
from karat.protocols.semantic.target import LEAST
from karat.statistics import Estimate, bootstrap_statistic, paired_difference, proportion

if TYPE_CHECKING:
    from karat.kernel.roles import Results

METHODS = {
    "GradCAM": "cam/gradcam", "GradCAM++": "cam/gradcam_pp", "ScoreCAM": "cam/scorecam", "LayerCAM": "cam/layercam",
    "EigenCAM": "cam/eigencam", "EigenGradCAM": "cam/eigengradcam", "AblationCAM": "cam/ablationcam",
    "XGradCAM": "cam/xgradcam", "FullGrad": "gradient/fullgrad", "DAAM": "attention/daam", "GAR": "attention/gar",
    "Attention Rollout": "attention/rollout",
}  # fmt: skip
OUT_OF_DOMAIN = ("clip-rsicd", "quiltnet", "plip", "fashionclip", "pubmedclip")
SPECS = {
    "Table 1": "semantic-classifiers", "Table 2": "semantic-detectors", "Table 3": "semantic-falsification",
    "Table 4": "semantic-attention", "Table 8": "semantic-classifiers", "Table 9": "semantic-falsification",
}  # fmt: skip
DATA = {"Table 1": "ImageNet-S", "Table 2": "COCO-Stuff 10K", "Table 3": "COCO-Stuff 10K", "Table 4": "ImageNet-S"}
NEARLY_ALL = 0.95
_OTHERWISE = (
    "Other data and other configurations give other numbers: SSS is for comparing models under one configuration."
)


def compare(run: Results) -> Comparison:
    """Claims that need models the run does not have are "cannot tell": run the spec that is named with them."""
    rows = predictions(run)
    images = per_image(rows)
    levels = {number: rows if number in ("Table 8", "Table 9") else images for number in SPECS}
    claims = [*_of_models(images, rows, run), *claims_of_predictions(images, rows, run)]
    published = load("semantic").tables
    beside = [_beside(published[number], level, SPECS[number]) for number, level in levels.items()]
    return Comparison(tuple(claims), (_own(images), *beside))


def _of_models(images: pd.DataFrame, rows: pd.DataFrame, run: Results) -> list[Claim]:
    two = load("semantic").tables["Table 2"]
    least = float(run.spec["protocol"].get("min_confidence", LEAST))
    low, high = -1, 1
    return [
        Order("Table 1", ("flexivit-base", "convit-small"), low, "section 4.1",
              "FlexiViT and ConViT have the lowest SSS under most methods").judge(images),
        Order("Table 1", ("swin-base", "hiera-base-plus"), high, "section 4.1",
              "Swin and Hiera have the highest SSS under most methods").judge(images),
        Order("Table 2", ("ssd300",), low, "section 4.2", "SSD300 has the lowest SSS of all detectors").judge(images),
        Order("Table 2", ("fcos", "ssdlite320"), high, "section 4.2",
              "FCOS and SSDLite have the highest SSS of all detectors").judge(images),
        coverage(rows, tuple(str(row[0]) for row in two.rows), least),
        Order("Table 3", OUT_OF_DOMAIN, high, "section 4.3",
              "CLIPs trained for other domains score worse on photographs (falsification test)",
              groups=True).judge(images),
        Order("Table 3", ("tinyclip-8m", "metaclip"), low, "section 4.3",
              "TinyCLIP 8M and MetaCLIP have low SSS under most methods", groups=True).judge(images),
        Order("Table 4", ("deit-base",), high, "section 4.4", "DeiT Tiny and Small are less spurious than DeiT Base",
              rivals=("deit-tiny", "deit-small")).judge(images),
        Order("Table 4", ("vit-small", "vit-base"), high, "section 4.4",
              "ViT Small and Base have the highest SSS of the attention maps").judge(images),
        widest(images),
    ]  # fmt: skip


# --- orders of models


@dataclass(frozen=True)
class Order:
    """`names` lie above (sign 1) or below (-1) `rivals` (by default all other models of the table): each of them every
    rival; or, where the paper speaks of `groups`, their mean the mean of the rivals."""

    table: str
    names: tuple[str, ...]
    sign: int
    where: str
    text: str
    rivals: tuple[str, ...] = ()
    groups: bool = False

    def judge(self, images: pd.DataFrame) -> Claim:
        table = load("semantic").tables[self.table]
        rivals = self.rivals or tuple(str(row[0]) for row in table.rows if row[0] not in self.names)
        published = self._published(table, rivals)
        verdicts: dict[str, Family] = {}
        gaps: dict[str, Estimate] = {}  # the pair that is nearest to the other side
        ran: set[str] = set()
        listed = images[images["method"].isin([METHODS[column] for column in table.columns[1:]])]
        for explainer, rows in listed.groupby("explainer", observed=True):  # a method may be run in several ways
            wide = rows.pivot_table(index=["dataset", "image"], columns="model", values="sss", observed=True)
            mine, others = [m for m in self.names if m in wide], [m for m in rivals if m in wide]
            if mine and others:
                ran |= {*mine, *others}
                tests = self._tests(wide, mine, others, str(explainer))
                verdicts[str(explainer)], gaps[str(explainer)] = _family(tests), min(tests, key=lambda gap: gap.value)
        if not verdicts:
            because = _needs(self.table, (*self.names, *rivals), images)
            return Claim(self.text, self.where, published, "-", CANNOT_TELL, because)
        agree, disagree = (sum(f.verdict == v for f in verdicts.values()) for v in ("agree", "disagree"))
        verdict = majority(agree, disagree, len(verdicts))
        missing = [name for name in (*self.names, *rivals) if name not in ran]
        because = f"holds under {agree} of {len(verdicts)} methods, fails under {disagree}"
        if missing:
            because += f"; {len(rivals) - len(set(missing) & set(rivals))} of {len(rivals)} rivals were run"
            verdict = CANNOT_TELL if verdict == "agree" else verdict  # a rival that was not run may be ahead
        ours = "; ".join(f"{name} nearest pair {interval(gap, sign=True)}" for name, gap in gaps.items())
        return Claim(self.text, self.where, published, ours, verdict, because)

    def _tests(self, wide: pd.DataFrame, mine: list[str], others: list[str], explainer: str) -> list[Estimate]:
        """Differences in the claimed direction, paired by image; an image of several datasets is one cluster."""
        pairs = [(mine, others)] if self.groups else [([a], [b]) for a, b in product(mine, others)]
        rng = generator(0, f"{self.text}\0{explainer}", "semantic/claim")
        images = wide.index.get_level_values("image")
        return [
            paired_difference(
                self.sign * wide[a].mean(axis=1), self.sign * wide[b].mean(axis=1), rng=rng, clusters=images
            )
            for a, b in pairs
        ]

    def _published(self, table: Table, rivals: Sequence[str]) -> str:
        models = [str(row[0]) for row in table.rows]
        holds = 0
        for column in table.columns[1:]:
            printed = dict(zip(models, (float(str(value)) for value in table.column(column)), strict=True))
            mine, others = ([self.sign * printed[m] for m in group] for group in (self.names, rivals))
            holds += bool(np.mean(mine) > np.mean(others) if self.groups else min(mine) > max(others))
        how = "on average" if self.groups else "against every rival"
        return f"holds {how} under {holds} of {len(table.columns) - 1} methods of {table.number.lower()}"


def _needs(table: str, models: Sequence[str], ran: pd.DataFrame) -> str:
    """What would tell a claim about the models of a table: those that a run lacks, or else its methods."""
    here = set(ran["model"])
    lacking = [name for name in models if name not in here]
    what = f"weights of {', '.join(lacking)}" if lacking else "the methods of the table on more than one model"
    return f"needs {what}, on {DATA[table]}: karat run {SPECS[table]}"


def _family(gaps: Sequence[Estimate]) -> Family:
    """Whether all differences are above zero, by their one-sided p-values."""
    p_for = [gap.p / 2 if gap.value > 0 else 1 - gap.p / 2 for gap in gaps]
    return all_hold(p_for, [1 - p for p in p_for])


def widest(images: pd.DataFrame, name: str = "Attention Rollout") -> Claim:
    """SSS spreads most over the models of table 4 under one method: largest minus smallest mean."""
    text, where, table = "Attention rollout tells models apart best", "section 4.4", load("semantic").tables["Table 4"]
    printed = {column: np.ptp([float(str(v)) for v in table.column(column)]) for column in table.columns[1:]}
    published = ", ".join(f"{column} {spread:.2f}" for column, spread in printed.items())
    here = images[images["model"].isin([str(row[0]) for row in table.rows])]
    here = here[here["method"].isin([METHODS[column] for column in printed])]
    wide = here.pivot_table(index="image", columns=["explainer", "model"], values="sss", observed=True).dropna()
    explainers = wide.columns.get_level_values(0)
    places = {str(label): np.flatnonzero(explainers == label) for label in explainers.unique()}
    methods = here.drop_duplicates("explainer").set_index("explainer")["method"]
    mine = [label for label in places if methods[label] == METHODS[name]]
    others = [label for label in places if label not in mine]
    if not mine or not others or min(map(len, places.values())) < 2 or len(wide) < 2:
        because = _needs("Table 4", [str(row[0]) for row in table.rows], images)
        return Claim(text, where, published, "-", CANNOT_TELL, because)

    def margin(rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
        spreads = {label: float(np.ptp(rows[:, at].mean(0))) for label, at in places.items()}
        return min(spreads[label] for label in mine) - max(spreads[label] for label in others)

    gap = bootstrap_statistic(wide.to_numpy(), margin, rng=generator(0, text, "semantic/claim"))
    ours = f"{name} minus the next {interval(gap, sign=True)}"
    return Claim(text, where, published, ours, above(gap), f"over {len(places[mine[0]])} models")


def coverage(rows: pd.DataFrame, detectors: Sequence[str], least: float) -> Claim:
    """The paper's detection coverage: images where the detector finds anything above the least confidence."""
    text, where = "The detectors find at least one thing in nearly every image", "section 4.2"
    published = f"{load('semantic').facts['coverage']['value']:g}"
    mine = rows[rows["model"].isin(detectors)]
    images = mine.groupby(["model", "dataset", "image"], as_index=False)["own_confidence"].max().dropna()
    if images.empty:
        because = _needs("Table 2", detectors, rows)
        return Claim(text, where, published, "-", CANNOT_TELL, because)
    groups = images.groupby(["model", "dataset"])["own_confidence"]
    level = 1 - LEVEL / groups.ngroups
    shares = {" on ".join(map(str, place)): proportion(group > least, confidence=level) for place, group in groups}
    ours = "; ".join(f"{place} {interval(share)}" for place, share in shares.items())
    verdicts = [above(share, NEARLY_ALL) for share in shares.values()]
    verdict = "disagree" if "disagree" in verdicts else CANNOT_TELL if CANNOT_TELL in verdicts else "agree"
    return Claim(text, where, published, ours, verdict, f"nearly every: more than {NEARLY_ALL:.0%}, for each detector")


# --- tables


def _own(images: pd.DataFrame) -> Finding:
    rows: list[tuple[Scalar, ...]] = []
    for keys, group in images.groupby(KEYS, sort=True):
        rows.append((*map(str, keys), *_mean(group["sss"], *map(str, keys))))
    return Finding(
        title="This run",
        about="Per-image SSS of the run's own models with a 95 % interval over images.",
        sentences=(),
        columns=("model", "dataset", "explainer", "SSS", "low", "high", "images"),
        rows=tuple(rows),
        section="This run",
    )


def _beside(table: Table, scored: pd.DataFrame, spec: str) -> Finding:
    """A published table with the run's means and intervals, one explainer of one model on one dataset a row; the table
    as it was printed where the run has none of its models."""
    models = [values for values in table.rows if values[0] in set(scored["model"])]
    columns: tuple[str, ...] = table.columns
    rows: list[tuple[Scalar, ...]] = list(table.rows)
    about = f"As published: the run has none of these models (`karat run {spec}`). {table.note}".strip()
    if models:
        columns = ("model", "method", "published", "dataset", "explainer", "ours", "low", "high", "n")
        about = f"Published beside this run's, with a 95 % interval. {_OTHERWISE} {table.note}".strip()
        rows = []
        for values in models:
            for method, value in zip(table.columns[1:], values[1:], strict=True):
                ours = scored[(scored["model"] == values[0]) & (scored["method"] == METHODS[method])]
                for (dataset, explainer), part in ours.groupby(["dataset", "explainer"], observed=True):
                    place = (str(dataset), str(explainer))
                    rows.append((values[0], method, value, *place, *_mean(part["sss"], str(values[0]), *place)))
                if ours.empty:
                    rows.append((values[0], method, value, None, None, None, None, None, 0))
    return Finding(f"{table.number}: {table.title}", about, (), columns, tuple(rows), section=table.number)


def _mean(values: pd.Series, *names: str) -> tuple[float | None, float | None, float | None, int]:
    estimate = mean(values, *names, "published")
    return number(estimate.value), number(estimate.low), number(estimate.high), estimate.n
