"""What a run of `pixel` holds, as tables: accuracies, the truth and its error, what explainers score, how orders agree.
`findings` and `claims` render and judge them. Facts come from the run's parts, never from labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from karat.explainers.control_planted import PlantedShapley, PlantedSingleDeletion
from karat.explainers.external import FromCaptum
from karat.kernel.identity import generator
from karat.kernel.typing import Scalar
from karat.results.facts import parts_of
from karat.statistics import (
    Estimate,
    bootstrap_mean,
    bootstrap_statistic,
    paired_difference,
    proportion,
    ranking_agreement,
)

if TYPE_CHECKING:
    from karat.results.details import Details
    from karat.results.run import Run

Metric = Literal["weighted_iou", "ceiling", "hit", "deletion", "addition", "dominant", "ids", "sds", "sd"]
TRUTH, SINGLE = PlantedShapley.card.name, PlantedSingleDeletion.card.name
ORDER = {  # registered names and the paper's, in its order
    "gradient/deconvnet": "Deconvnet",
    "gradient/gradient": "Gradient",
    "gradient/guided_backprop": "GBP",
    "gradient/input_x_gradient": "IxG",
    "cam/gradcam": "Grad-CAM",
    "gradient/integrated_gradients": "IG",
    "gradient/deeplift": "DeepLift",
    "gradient/gradient_shap": "GradientSHAP",
    "perturbation/occlusion": "Occlusion",
    "perturbation/lime": "LIME",
    "shapley/kernel_shap": "KernelSHAP",
    "perturbation/rise": "RISE",
    "perturbation/extremal": "EP",
    "attention/rollout": "AR",
    SINGLE: "SD",
    TRUTH: "Ours",
}
CAPTUM = {"Deconvolution": "Deconvnet", "GuidedBackprop": "GBP", "DeepLift": "DeepLift", "InputXGradient": "IxG"}
IMAGES = {"cifar10": ("C10", "CIFAR-10"), "cifar100": ("C100", "CIFAR-100"), "imagenet": ("IN", "ImageNet")}
FEWEST = 8  # images from which an interval is given


@dataclass(frozen=True)
class Explained:
    """An explainer of the run. `paper` is its row in the paper's tables, `variant` how it departs from that row's own
    configuration ("uniform" baseline, as "captum" computes it); both are None where there is nothing to say."""

    label: str
    name: str
    is_control: bool
    paper: str | None
    variant: str | None

    @property
    def is_truth(self) -> bool:
        return self.name == TRUTH

    @property
    def short(self) -> str:
        """For figures: the paper's name where it has one."""
        return self.label if self.paper is None else f"{self.paper} ({self.variant})" if self.variant else self.paper

    @staticmethod
    def of(label: str, facts: Mapping[str, Scalar]) -> Explained:
        name, is_control = str(facts["name"]), bool(facts["is_control"])
        if name == FromCaptum.card.name:
            return Explained(label, name, is_control, CAPTUM.get(str(facts["method"])), "captum")
        baseline = facts.get("baseline")
        variant = str(baseline) if baseline not in (None, "zero") else None
        return Explained(label, name, is_control, ORDER.get(name), variant)


@dataclass(frozen=True)
class Network:
    """A model of the run: the paper's kind of network, the images and seeds it was trained with, and the share of them
    that had a cell taken out (its SDS is IDSDS then)."""

    label: str
    network: str | None
    architecture: str | None
    deleted: float
    images: str | None
    seed: int | None
    shortcut_seed: int | None

    @property
    def column(self) -> str | None:
        """ResNet or ViT: the half of tables 3 and 4 that it goes beside."""
        return None if self.network is None else "ViT" if self.network in ("ViT", "SwinT") else "ResNet"

    @staticmethod
    def of(label: str, facts: Mapping[str, Any]) -> Network:
        names = ("network", "architecture", "images", "seed", "shortcut_seed")
        known = {name: facts.get(name) for name in names}
        return Network(label, deleted=float(facts.get("deleted") or 0.0), **known)


@dataclass(frozen=True)
class Accuracy:
    """Shares of a model's images that are right without the shortcut, right with it, and decided by it; `gain` is what
    the shortcut adds."""

    model: str
    clean: float
    perturbed: float
    decided: float
    gain: Estimate
    images: int


@dataclass(frozen=True)
class Truth:
    """How well the truth of a model's images is known, and what that leaves to score: `ceiling` is the weighted IoU of
    a truth of several times the effort."""

    model: str
    images: int
    pixels: int
    error: float
    largest_error: float
    spread: float
    trials: float
    passes: float
    gap: float
    repeat: float
    signal: float


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows of one run of `pixel`. Tables and means are asked for again and again, and made once."""

    run: Run
    _kept: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False)

    @cached_property
    def rows(self) -> pd.DataFrame:
        return self.run.scores()

    @cached_property
    def _parts(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        return parts_of(self.run.manifest)

    @cached_property
    def models(self) -> list[Network]:
        return [Network.of(label, self._parts["model"].get(label, {})) for label in sorted(self.rows["model"].unique())]

    @cached_property
    def judged(self) -> list[Network]:
        """Models that the shortcut decides at least some images of."""
        decided = self.rows[(self.rows["metric"] == "weighted_iou") & self.rows["value"].notna()]["model"].unique()
        return [model for model in self.models if model.label in set(decided)]

    @cached_property
    def preset(self) -> str:
        """The image set of the paper whose shortcut this run has."""
        return str(next(iter(self._parts["dataset"].values())).get("preset", "cifar10"))

    @property
    def images(self) -> str:
        """The paper's short name of that set; `images_in_full` its long one."""
        return IMAGES[self.preset][0]

    @property
    def images_in_full(self) -> str:
        return IMAGES[self.preset][1]

    def explainers(self, model: str) -> list[Explained]:
        """By the paper's order, then by name."""
        order = {name: k for k, name in enumerate(dict.fromkeys(ORDER.values()))}
        labels = self.rows.loc[self.rows["model"] == model, "explainer"].unique()
        listed = [Explained.of(label, self._parts["explainer"][label]) for label in labels]
        return sorted(listed, key=lambda one: (order.get(one.paper or "", len(order)), one.variant or "", one.label))

    def methods(self, model: str, metric: Metric) -> list[Explained]:
        """Explainers that compete and have a value: controls are references."""
        means = self.means(model, metric)
        return [one for one in self.explainers(model) if not one.is_control and one.label in means]

    def as_published(self, model: str, metric: Metric) -> list[Explained]:
        """Those of `methods` that the paper has, in its own configuration: each row of its tables once."""
        return [one for one in self.methods(model, metric) if one.paper is not None and one.variant is None]

    def truth(self, model: str) -> str | None:
        """The label of the truth among the explainers."""
        return next((one.label for one in self.explainers(model) if one.is_truth), None)

    # --- values

    def wide(self, model: str, metric: Metric) -> pd.DataFrame:
        """One row per sample and dataset, one column per explainer; NaN where there is no value."""
        return self._once(("wide", model, metric), lambda: self._pivot(model, metric))

    def _pivot(self, model: str, metric: Metric) -> pd.DataFrame:
        rows = self.rows[(self.rows["model"] == model) & (self.rows["metric"] == metric)]
        return rows.pivot_table(
            index=["dataset", "sample"], columns="explainer", values="value", dropna=False, observed=True
        )

    def means(self, model: str, metric: Metric) -> dict[str, float]:
        """Mean of each explainer that has a value, by its label."""
        means = self.wide(model, metric).mean()
        return {str(label): float(value) for label, value in means.items() if np.isfinite(value)}

    def mean(self, model: str, metric: Metric, explainer: str) -> Estimate:
        return self._once(("mean", model, metric, explainer), lambda: self._mean(model, metric, explainer))

    def _mean(self, model: str, metric: Metric, explainer: str) -> Estimate:
        table = self.wide(model, metric)
        values = table[explainer].to_numpy(float) if explainer in table else np.empty(0)
        if metric == "hit":  # hits may be shared among ties, so that they are not all 0 or 1
            return proportion(values)
        return bootstrap_mean(values, rng=generator(0, f"{model}/{explainer}", metric), resamples=1000)

    def difference(self, model: str, metric: Metric, first: str, second: str) -> Estimate:
        """Mean of first - second over the images that both have."""
        table = self.wide(model, metric)
        rng = generator(0, f"{model}/{first}/{second}", metric)
        return paired_difference(table[first].to_numpy(float), table[second].to_numpy(float), rng=rng, resamples=1000)

    def ceiling(self, model: str) -> Estimate:
        """Weighted IoU that a perfect explainer would have; not a number where the run did not ask."""
        values = self.wide(model, "ceiling")
        per_image = values.mean(axis=1).to_numpy(float) if len(values) else np.empty(0)
        return bootstrap_mean(per_image, rng=generator(0, model, "pixel/ceiling"), resamples=1000)

    def relative(self, model: str, explainer: str) -> Estimate:
        """Weighted IoU as a share of its ceiling, mean over mean, not cut at 1; the interval is over images."""
        return self._once(("relative", model, explainer), lambda: self._relative(model, explainer))

    def _relative(self, model: str, explainer: str) -> Estimate:
        table, ceilings = self.wide(model, "weighted_iou"), self.wide(model, "ceiling")
        if explainer not in table or not len(ceilings):
            return bootstrap_mean(np.empty(0), rng=generator(0, model, "pixel/relative"))
        pairs = pd.DataFrame({"value": table[explainer], "ceiling": ceilings.mean(axis=1)}).dropna().to_numpy(float)
        return ratio_of_means(pairs, generator(0, f"{model}/{explainer}", "pixel/relative"))

    def _once(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    # --- the shortcut and the truth

    def accuracy(self, model: str) -> Accuracy:
        """Tables 1 and 2."""
        facts = self.run.details("dominant").complete()
        keys = facts.keys
        mine = facts.take(((keys["model"] == model) & ~keys.duplicated(["model", "dataset", "sample"])).to_numpy())
        images = pd.MultiIndex.from_frame(mine.keys[["dataset", "sample"]])
        decided = self.wide(model, "dominant").mean(axis=1).reindex(images)
        clean, perturbed = mine.arrays["clean_right"], mine.arrays["perturbed_right"]
        gain = paired_difference(perturbed, clean, rng=generator(0, model, "pixel/gain"))
        return Accuracy(
            model, float(clean.mean()), float(perturbed.mean()), float(decided.mean()), gain, len(images)
        )  # fmt: skip

    def truths(self, model: str) -> Details:
        """One row per image: what `protocol` kept about its truth; none in a record, which leaves them out."""
        kept = self.run.details("weighted_iou").complete()
        keys = kept.keys
        return kept.take(((keys["model"] == model) & ~keys.duplicated(["model", "dataset", "sample"])).to_numpy())

    def known_truth(self, model: str) -> Truth | None:
        """How well the truth is known, from what was kept about it."""
        arrays = self.truths(model).arrays
        if not arrays or not len(arrays["error"]):
            return None
        names = ("error", "spread", "trials", "passes", "repeat")
        mean = {name: float(arrays[name].mean()) for name in names}
        return Truth(
            model, len(arrays["error"]), arrays["shapley"].shape[1], largest_error=float(arrays["error"].max()),
            gap=float(np.abs(arrays["gap"]).max()), signal=float(arrays["shapley"].std(axis=1).mean()), **mean,
        )  # fmt: skip

    def curve(self, model: str, metric: Literal["deletion", "addition"], explainer: str) -> tuple[float, ...]:
        """Accuracy after each pixel, mean over images; empty where there is none."""
        kept = self.run.details(metric).complete()
        mine = ((kept.keys["model"] == model) & (kept.keys["explainer"] == explainer)).to_numpy()
        return tuple(kept.arrays["accuracy"][mine].mean(axis=0).tolist()) if mine.any() else ()

    # --- orders

    def agreement(self, model: str, names: Sequence[str], first: Metric, second: Metric) -> Estimate:
        """Kendall's tau of two scores' orders of the explainers; the interval is over images."""
        tables = [self.wide(model, metric)[list(names)] for metric in (first, second)]
        rng = generator(0, model, f"pixel/{first}/{second}")
        return ranking_agreement(tables[0], tables[1].reindex(tables[0].index), rng=rng, resamples=1000)

    def identical(self, model: str) -> list[tuple[Explained, ...]]:
        """Explainers whose deletion and addition areas agree in every image; those that miss every patch agree for
        free."""
        tables = [self.wide(model, "deletion"), self.wide(model, "addition")]
        groups: dict[bytes, list[Explained]] = {}
        for one in self.explainers(model):
            if not one.is_control and all(one.label in table and table[one.label].notna().any() for table in tables):
                areas = np.stack([table[one.label].to_numpy(float) for table in tables])
                if np.nanmin(areas[0]) < 1 or np.nanmax(areas[1]) > 0:
                    groups.setdefault(areas.tobytes(), []).append(one)
        return [tuple(names) for names in groups.values() if len(names) > 1]

    def twin_with_deletions(self, plain: Network) -> Network | None:
        """A model of the same architecture that was trained with cells taken out."""
        return next(
            (m for m in self.judged if m.deleted and not plain.deleted and m.architecture == plain.architecture), None
        )


def ratio_of_means(pairs: npt.NDArray[np.float64], rng: np.random.Generator) -> Estimate:
    """Mean of the first column over mean of the second, with an interval over rows.

    >>> ratio_of_means(np.array([[1.0, 2.0]] * 10), np.random.default_rng(0)).value
    0.5
    """
    if len(pairs) < FEWEST or not pairs[:, 1].any():
        value = float(pairs[:, 0].mean() / pairs[:, 1].mean()) if len(pairs) and pairs[:, 1].any() else np.nan
        return Estimate(value, np.nan, np.nan, np.nan, len(pairs), 0)
    return bootstrap_statistic(pairs, lambda rows: float(rows[:, 0].mean() / rows[:, 1].mean()), rng=rng)


@dataclass(frozen=True)
class Standing:
    """One explainer over all models of one kind: the mean over models of its mean score, the least and the largest of
    them, and in how many it was best. Models differ in their seeds."""

    images: str
    network: str
    explainer: str
    models: int
    decided: int
    weighted_iou: float
    least: float
    largest: float
    relative: float
    hit: float
    first: int


def over_seeds(scored: Scored) -> list[Standing]:
    """Explainers by kind of model, where several models differ in nothing but their seeds."""
    kinds: dict[tuple[str, str], list[Network]] = {}
    for model in scored.judged:
        if model.images and model.network and not model.deleted:
            kinds.setdefault((model.images, model.network), []).append(model)
    rows = []
    for (images, network), models in sorted(kinds.items()):
        if len(models) < 2:
            continue
        overlaps = {model.label: scored.means(model.label, "weighted_iou") for model in models}
        competing = {model.label: {e.label for e in scored.methods(model.label, "weighted_iou")} for model in models}
        shared = [e for e in scored.explainers(models[0].label) if all(e.label in means for means in overlaps.values())]
        best = [max(competing[label], key=means.__getitem__) for label, means in overlaps.items()]
        decided = sum(len(scored.wide(model.label, "weighted_iou").dropna(how="all")) for model in models)
        for one in shared:
            values = [means[one.label] for means in overlaps.values()]
            hits = [scored.means(model.label, "hit").get(one.label, np.nan) for model in models]
            shares = [scored.relative(model.label, one.label).value for model in models]
            rows.append(Standing(
                images, network, one.label, len(models), decided, float(np.mean(values)), min(values), max(values),
                float(np.mean(shares)), float(np.mean(hits)), best.count(one.label),
            ))  # fmt: skip
    return rows


def places(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """1 for the greatest; ties share the better place."""
    array = np.array(values)
    return np.array([1.0 + (array > value).sum() for value in array])


@dataclass(frozen=True)
class Orders:
    """Explainers of a model as several scores order them: `means` and `places` by score, tau of every two."""

    model: str
    explainers: tuple[Explained, ...]
    means: dict[Metric, tuple[float, ...]]
    places: dict[Metric, npt.NDArray[np.float64]]
    taus: dict[tuple[Metric, Metric], Estimate]


def orders(scored: Scored, model: str, metrics: Sequence[Metric]) -> Orders | None:
    """None where fewer than two scores, or three explainers, have an order."""
    means = {metric: scored.means(model, metric) for metric in metrics}
    used: list[Metric] = [metric for metric in metrics if any(not e.is_control and e.label in means[metric]
                                                              for e in scored.explainers(model))]  # fmt: skip
    shared = [
        e for e in scored.explainers(model) if not e.is_control and all(e.label in means[metric] for metric in used)
    ]
    if len(shared) < 3 or len(used) < 2:
        return None
    labels = [one.label for one in shared]
    values = {metric: tuple(means[metric][label] for label in labels) for metric in used}
    taus = {pair: scored.agreement(model, labels, *pair) for pair in combinations(used, 2)}
    return Orders(model, tuple(shared), values, {metric: places(values[metric]) for metric in used}, taus)
