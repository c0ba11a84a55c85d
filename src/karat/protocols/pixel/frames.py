"""What the findings of `pixel` share: means with intervals, and the paper's names of explainers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from karat.kernel.identity import generator
from karat.results.facts import PARTS
from karat.statistics import Estimate, bootstrap_mean, paired_difference, proportion

if TYPE_CHECKING:
    from karat.results.details import Details
    from karat.results.run import Run

TRUTH, SINGLE = "control/planted_shapley", "control/planted_deletion"
PAPER_NAMES = {
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
IMAGES = {"cifar10": ("C10", "CIFAR-10"), "cifar100": ("C100", "CIFAR-100"), "imagenet": ("IN", "ImageNet")}


def base(explainer: str) -> str:
    """The registered name, without parameters."""
    return explainer.partition("(")[0]


def paper_name(explainer: str) -> str:
    """The paper's name of an explainer, or its own where the paper has none."""
    name = PAPER_NAMES.get(base(explainer), explainer)
    return f"{name} (uniform)" if "baseline=uniform" in explainer and name != explainer else name


def is_method(explainer: str) -> bool:
    """Controls (noise, the truth itself) are references, not competitors."""
    return not explainer.startswith("control/")


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows of one run of `pixel`. Tables and means are asked for again and again, and made once."""

    run: Run
    _wide: dict[tuple[str, str], pd.DataFrame] = field(default_factory=dict, repr=False)
    _means: dict[tuple[str, str, str], Estimate] = field(default_factory=dict, repr=False)

    @cached_property
    def rows(self) -> pd.DataFrame:
        return self.run.scores()

    @cached_property
    def models(self) -> list[str]:
        return sorted(self.rows["model"].unique())

    @cached_property
    def judged(self) -> list[str]:
        """Models that the shortcut decides at least some images of."""
        found = self.rows[(self.rows["metric"] == "weighted_iou") & self.rows["value"].notna()]
        return [model for model in self.models if model in set(found["model"])]

    @property
    def images(self) -> str:
        """The paper's short name of the image set whose shortcut this run has."""
        return IMAGES[self._preset][0]

    @property
    def images_in_full(self) -> str:
        return IMAGES[self._preset][1]

    @property
    def _preset(self) -> str:
        first = self.run.spec["datasets"][0]
        return str(first.get("preset", "cifar10")) if isinstance(first, dict) else "cifar10"

    def network(self, model: str) -> str:
        """The paper's architecture that a model goes beside: by its name, else a ViT if attention could be explained,
        else a ResNet."""
        named = [row for part, row in (("vgg", "VGG"), ("swin", "SwinT"), ("vit", "ViT")) if part in model.lower()]
        if named:
            return named[0]
        rows = self.rows[(self.rows["model"] == model) & self.rows["value"].notna()]
        return "ViT" if rows["explainer"].str.startswith("attention/").any() else "ResNet"

    def trained_on_deletions(self, model: str) -> bool:
        """Whether cells were taken out of the images that the model was trained on: its SDS is IDSDS then."""
        facts = self.run.manifest.get(PARTS, {}).get("model", {}).get(model, {})
        return float(facts.get("deleted") or 0.0) > 0

    def is_twin_with_deletions(self, model: str, plain: str) -> bool:
        """Whether a model is of the same architecture as a plain one, and trained on deletions."""
        facts = self.run.manifest.get(PARTS, {}).get("model", {})
        same = facts.get(model, {}).get("architecture") == facts.get(plain, {}).get("architecture")
        return same and self.trained_on_deletions(model) and not self.trained_on_deletions(plain)

    def column(self, model: str) -> str:
        """The column of tables 3 and 4 that a model goes beside."""
        return f"{self.images}+{'ViT' if self.network(model) in ('ViT', 'SwinT') else 'ResNet'}"

    def accuracy(self, model: str) -> np.ndarray[Any, Any]:
        """(images, 3): right without the shortcut, right with it, decided by it."""
        facts = self.run.details("dominant").complete()
        keys = facts.keys
        mine = facts.take(((keys["model"] == model) & ~keys.duplicated(["model", "dataset", "sample"])).to_numpy())
        images = pd.MultiIndex.from_frame(mine.keys[["dataset", "sample"]])
        decided = self.wide(model, "dominant").mean(axis=1).reindex(images)
        right = (mine.arrays["clean_right"], mine.arrays["perturbed_right"])
        return np.column_stack([*right, decided.to_numpy(float)])

    def explainers(self, model: str) -> list[str]:
        """By the paper's order, then by name."""
        order = list(PAPER_NAMES)
        found = self.rows.loc[self.rows["model"] == model, "explainer"].unique()
        return sorted(found, key=lambda name: (order.index(base(name)) if base(name) in order else len(order), name))

    def wide(self, model: str, metric: str) -> pd.DataFrame:
        """One row per sample and dataset, one column per explainer; NaN where there is no value."""
        if (model, metric) not in self._wide:
            rows = self.rows[(self.rows["model"] == model) & (self.rows["metric"] == metric)]
            self._wide[model, metric] = rows.pivot_table(
                index=["dataset", "sample"], columns="explainer", values="value", dropna=False, observed=True
            )
        return self._wide[model, metric]

    def mean(self, model: str, metric: str, explainer: str) -> Estimate:
        asked = model, metric, explainer
        if asked not in self._means:
            table = self.wide(model, metric)
            values = table[explainer] if explainer in table else pd.Series(dtype=float)
            rng = generator(0, f"{model}/{explainer}", metric)
            scores = values.to_numpy(float)
            # hits may be shared among ties, so that they are not all 0 or 1
            self._means[asked] = (
                proportion(scores) if metric == "hit" else bootstrap_mean(scores, rng=rng, resamples=1000)
            )
        return self._means[asked]

    def difference(self, model: str, metric: str, first: str, second: str) -> Estimate:
        """Mean of first - second over the images that both have."""
        table = self.wide(model, metric)
        rng = generator(0, f"{model}/{first}/{second}", metric)
        return paired_difference(table[first].to_numpy(float), table[second].to_numpy(float), rng=rng, resamples=1000)

    def has(self, metric: str) -> bool:
        return bool((self.rows["metric"] == metric).any())

    def truths(self, model: str) -> Details:
        """One row per image: what `protocol` kept about its truth."""
        kept = self.run.details("weighted_iou").complete()
        keys = kept.keys
        return kept.take(((keys["model"] == model) & ~keys.duplicated(["model", "dataset", "sample"])).to_numpy())
