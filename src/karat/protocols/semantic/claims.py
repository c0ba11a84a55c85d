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

from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.finding import Finding
from karat.kernel.identity import generator
from karat.kernel.typing import Scalar
from karat.protocols.common.judge import CANNOT_TELL, Family, above, all_hold, below
from karat.protocols.common.published import Table, load
from karat.protocols.common.words import interval, number
from karat.protocols.semantic.analysis import (
    KEYS,
    LEVEL,
    SPURIOUS,
    Kind,
    best_blind,
    class_bias,
    confused_classes,
    excess,
    mean,
    methods_of,
    per_image,
    predictions,
    quadrants,
    relations,
    share_of_kind,
    target_of,
)
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
STRONG = 0.05  # from here on a difference of SSS between methods counts as strong: it would reorder half of table 1
NEGLIGIBLE = 0.1  # a rank correlation within ± this is small by convention: one column tells 1 % of the other
SOME = 0.01  # "some" predictions are more than one in a hundred
NEARLY_ALL = 0.95
_OTHERWISE = (
    "Other data and other configurations give other numbers: SSS is for comparing models under one configuration."
)


def compare(run: Results) -> Comparison:
    """Claims that need models the run does not have are "cannot tell": run the spec that is named with them."""
    rows = predictions(run)
    images = per_image(rows)
    levels = {number: rows if number in ("Table 8", "Table 9") else images for number in SPECS}
    claims = [*_of_models(images, rows, run), *_of_predictions(images, rows, run)]
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


def _of_predictions(images: pd.DataFrame, rows: pd.DataFrame, run: Results) -> list[Claim]:
    target = target_of(run)
    competing = rows[~rows["is_control"].astype(bool)]  # a control explains nothing
    return [
        methods_differ(images),
        orthogonal(competing),
        occurs(rows, ("correct", "confident", "spurious"), target,
               "Some correct, confident predictions rest on spurious features", "figure 3"),
        occurs(rows, ("incorrect", "unsure", "spurious"), target,
               "Some wrong, unsure predictions look at the wrong place", "figure 4"),
        occurs(rows, ("correct", "confident", "on the class"), target,
               "Some correct, confident predictions look at the right place", "appendix A.2"),
        occurs(rows, ("incorrect", "unsure", "on the class"), target,
               "Some wrong, unsure predictions look at the right place", "appendix A.3"),
        similar_classes(competing),
        classes_differ(competing),
        threshold_helps(run),
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
        verdict = _most(agree, disagree, len(verdicts))
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


def _most(agree: int, disagree: int, of: int) -> Agreement:
    return "agree" if 2 * agree > of else "disagree" if 2 * disagree > of else CANNOT_TELL


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


# --- predictions, methods, thresholds, classes


def methods_differ(images: pd.DataFrame) -> Claim:
    """Strong where the widest gap of every model is surely above the bar, and not by one method alone: the one that
    lies farthest out is left aside. Refuted where every model's widest gap, with it, is surely below the bar."""
    text, where = "SSS depends strongly on the explanation method", "section 4.1, figure 2"
    published = "table 1: 0.14 to 0.58 for FlexiViT alone"
    verdicts: list[Agreement] = []
    widest_gaps: dict[str, Estimate] = {}
    alone: set[str] = set()  # methods without which a gap is not surely strong
    for (model, dataset), group in images.groupby(["model", "dataset"]):
        wide = group.pivot_table(index="image", columns="explainer", values="sss", observed=True)[methods_of(group)]
        if wide.shape[1] > 1:
            low, high = _ends(wide)
            rest = wide.drop(columns=_farthest(wide)) if wide.shape[1] > 2 else wide
            gap = _widest_gap(wide, model, dataset)
            widest_gaps[f"{model} on {dataset}: {high} - {low}"] = gap
            with_all, without = above(gap, STRONG), above(_widest_gap(rest, model, dataset), STRONG)
            if with_all == "agree" and without != "agree":
                alone.add(_farthest(wide))
            verdicts.append("disagree" if with_all == "disagree" else "agree" if without == "agree" else CANNOT_TELL)
    if not verdicts:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs two methods or more on one model")
    least, most = (pick(widest_gaps.items(), key=lambda one: one[1].value) for pick in (min, max))
    ours = " to ".join(f"{interval(gap)} ({name})" for name, gap in dict((least, most)).items())
    verdict = verdicts[0] if len(set(verdicts)) == 1 else CANNOT_TELL
    counts = [verdicts.count(one) for one in ("agree", "disagree", CANNOT_TELL)]
    because = (
        f"strongly: by more than {STRONG:g}, whichever method is left out; {counts[0]} of {len(verdicts)} models and "
        f"datasets for, {counts[1]} against, {counts[2]} open"
    )
    because += f": there one method makes the gap ({', '.join(sorted(alone))})" if alone else ""
    return Claim(text, where, published, ours, verdict, f"{because}; corrected for choosing the extreme pair")


def _ends(wide: pd.DataFrame) -> tuple[str, str]:
    """The columns with the lowest and the highest mean."""
    means = wide.mean()
    return str(means.idxmin()), str(means.idxmax())


def _farthest(wide: pd.DataFrame) -> str:
    """The column without which the means lie closest together."""
    return min(_ends(wide), key=lambda one: float(np.ptp(wide.drop(columns=one).mean())))


def _widest_gap(wide: pd.DataFrame, *names: object) -> Estimate:
    low, high = _ends(wide)
    pairs = wide.shape[1] * (wide.shape[1] - 1) / 2
    rng = generator(0, "\0".join(map(str, names)), "semantic/methods")
    return paired_difference(wide[high], wide[low], rng=rng, confidence=1 - LEVEL / pairs)


def orthogonal(rows: pd.DataFrame) -> Claim:
    """Negligible in every combination agrees; more than negligible in any, after correction, disagrees."""
    text, where, published = "SSS is orthogonal to the confidence of predictions", "section 1", "stated, no number"
    correlations = relations(rows, "confidence", correct=True)
    if not correlations:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs predictions with a confidence")
    largest = max(correlations, key=lambda one: abs(one.rho.value))
    ours = (
        f"largest |ρ|: {largest.model} on {largest.dataset} · {largest.explainer} {interval(largest.rho, 2, sign=True)}"
    )
    beyond = [one for one in correlations if one.rho.low > NEGLIGIBLE or one.rho.high < -NEGLIGIBLE]
    verdict: Agreement = "disagree" if beyond else CANNOT_TELL
    if all(one.rho.low > -NEGLIGIBLE and one.rho.high < NEGLIGIBLE for one in correlations):
        verdict = "agree"
    because = (
        f"orthogonal: every |ρ| below {NEGLIGIBLE:g}, small by convention; surely above it in {len(beyond)} of "
        f"{len(correlations)} combinations, intervals corrected over all"
    )
    if beyond:
        sized = ", ".join(f"{one.model} · {one.explainer} {one.allowing_for_size:+.2f}" for one in beyond)
        because += f"; with the size of the object allowed for: {sized}"
    if verdict == CANNOT_TELL:
        because += "; needs more images"
    return Claim(text, where, published, ours, verdict, because)


def occurs(table: pd.DataFrame, kind: Kind, target: str, text: str, where: str) -> Claim:
    """A kind of prediction that the paper shows examples of. One example would be an anecdote, and a map that never saw
    the model has some, too: under most methods its share must be more than a few, and more than under the best of the
    controls that are blind to the model."""
    published = "examples"
    if kind[0] == "incorrect" and target != "predicted":
        because = "the run explains the true class, not the wrong prediction: use target: predicted, region: image"
        return Claim(text, where, published, "-", CANNOT_TELL, because)
    competing = table[~table["is_control"].astype(bool)]
    tests = max(1, competing[KEYS].drop_duplicates().shape[0])
    shares = [share for share in quadrants(competing, confidence=1 - LEVEL / tests) if share.kind == kind]
    if not shares:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs predictions that are known to be right or wrong")
    blind = best_blind(table)
    verdicts: list[Agreement] = []
    references: list[float] = []
    for share in shares:
        verdict = above(share.share, SOME)
        control = blind.get((share.model, share.dataset))
        if verdict == "agree" and control is not None:
            more = excess(table, share, control, confidence=1 - LEVEL / tests)
            verdict = "agree" if more.low > 0 else CANNOT_TELL
        verdicts.append(verdict)
        if control is not None:
            references.append(share_of_kind(table, (share.model, share.dataset, control), kind))
    most = max(shares, key=lambda one: one.share.value)
    ours = f"up to {most.share.value:.1%} of predictions ({most.model} on {most.dataset} · {most.explainer})"
    if references:
        ours += f"; of a map that never saw the model {min(references):.1%} to {max(references):.1%}"
    agree, disagree = (verdicts.count(one) for one in ("agree", "disagree"))
    because = (
        f"some: more than {SOME:.0%}{' and than under the best blind control' if references else ''}, surely so under "
        f"{agree} of {len(verdicts)} models, datasets and methods, surely fewer under {disagree}"
    )
    verdict = _most(agree, disagree, len(verdicts))
    if verdict == CANNOT_TELL:
        because += "; needs methods that agree, or more images"
    return Claim(text, where, published, ours, verdict, because)


def threshold_helps(run: Results) -> Claim:
    """Needs the curves that `thresholds` of the protocol keeps."""
    text, where, published = "A threshold lowers SSS by dropping faint noise", "appendix C", "figures 9 and 10"
    thresholds = [float(t) for t in run.spec["protocol"].get("thresholds") or ()]
    kept = run.details("sss")
    if 0.0 not in thresholds or 0.6 not in thresholds or not len(kept.keys):
        return Claim(text, where, published, "-", CANNOT_TELL, "needs protocol.thresholds that hold 0 and 0.6")
    scores = run.scores()
    control = dict(zip(scores["explainer"], scores["explainer.is_control"], strict=True))
    at = [thresholds.index(0.6), thresholds.index(0.0)]
    gaps: dict[str, Estimate] = {}
    for place, part in kept.keys.groupby(KEYS):
        if not control[place[2]]:
            both = kept.arrays["soft"][part.index.to_numpy()][:, at].astype(np.float64)
            rng = generator(0, "\0".join(map(str, place)), "semantic/threshold")
            gaps[" · ".join(map(str, place))] = paired_difference(both[:, 0], both[:, 1], rng=rng)
    if not gaps:
        return Claim(text, where, published, "-", CANNOT_TELL, "needs methods: the run has controls only")
    down, up = (sum(judge(gap) == "agree" for gap in gaps.values()) for judge in (below, above))
    least, most = (pick(gaps.items(), key=lambda one: one[1].value) for pick in (max, min))
    ours = " to ".join(f"{interval(gap, sign=True)} ({name})" for name, gap in dict((least, most)).items())
    because = f"SSS at 0.6 minus SSS at 0, lower under {down} of {len(gaps)}"
    return Claim(text, where, published, ours, _most(down, up, len(gaps)), because)


def classes_differ(rows: pd.DataFrame) -> Claim:
    """Under one method a class is explained elsewhere (mean SSS from one half), surely worse than the mean by `gain`,
    which is corrected for the size of the objects, while another is explained on the object. Classes that merely
    differ do not tell it."""
    text, where = "Models look in the right place for some classes and not for others", "appendix A.5"
    published = "DeiT Small: 0.0005 (plate) to 0.999 (waffle iron)"
    bias = class_bias(rows)
    small = f"{len(bias.too_small)} classes have fewer than the {bias.least_images} images it takes"
    if bias.classes.empty:
        return Claim(text, where, published, "-", CANNOT_TELL, f"needs larger classes: {small}")
    apart = bias.classes[bias.classes["p"] < LEVEL].sort_values("gap")
    counted = f"{len(apart)} of {len(bias.classes)} classes differ from the mean of their model"
    elsewhere = apart[(apart["gap"] < 0) & (apart["sss"] >= SPURIOUS)]
    for low in elsewhere.to_dict("records"):
        beside = bias.classes[(bias.classes[KEYS] == [low[key] for key in KEYS]).all(axis=1)]
        high = beside.loc[beside["sss"].idxmin()]
        if high["sss"] < SPURIOUS:
            ends = f"SSS {low['sss']:.2f} ({low['label']}) and {high['sss']:.2f} ({high['label']})"
            ours = f"{counted}; {ends} under one method"
            because = f"{low['model']} · {low['explainer']}, corrected over all classes; {small}"
            return Claim(text, where, published, ours, "agree", because)
    because = f"none of them is explained elsewhere (SSS from {SPURIOUS:g}); needs more or larger classes: {small}"
    return Claim(text, where, published, counted, CANNOT_TELL, because)


def similar_classes(rows: pd.DataFrame) -> Claim:
    text, where = (
        "A model may look at one of two similar classes in the right place and not at the other",
        "appendix A.4",
    )
    published = "Indian elephant 0.52, African elephant 0.34"
    pairs = confused_classes(rows)
    if not pairs:
        return Claim(text, where, published, "-", CANNOT_TELL, "no two classes with enough images were confused")
    apart = [pair for pair in pairs if pair.apart]
    if not apart:
        most = max(pair.images for pair in pairs)
        because = f"intervals overlap: needs more than {most} images of each class"
        return Claim(text, where, published, f"{len(pairs)} pairs, none apart", CANNOT_TELL, because)
    first = apart[0]
    ours = (
        f"{len(apart)} of {len(pairs)} pairs apart, as {first.label} {first.sss:.2f} and {first.other} "
        f"{first.sss_of_other:.2f}"
    )
    return Claim(text, where, published, ours, "agree", "intervals corrected for the number of pairs do not overlap")


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
