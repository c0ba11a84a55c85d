"""The rows of a run as the tables of fsyn2026 want them: one value per instance, model, dataset and explainer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from karat.kernel.card import Direction
from karat.kernel.identity import generator
from karat.statistics import GroupedFits, MixedModel, mixed_model, mixed_model_by, wide

if TYPE_CHECKING:
    from karat.results.run import Run

REFERENCE = "control/random"
FAITHFULNESS: tuple[str, ...] = ("f_syn", "srg_visual", "srg_text")
NAMES = {"f_syn": "F_syn", "srg_visual": "image SRG", "srg_text": "text SRG"}
BETTER: dict[str, Direction] = dict.fromkeys(FAITHFULNESS, "higher")
RANDOM = ("instance", "model", "dataset")
_BLOCK = ("dataset", "model", "instance")


@dataclass(frozen=True, eq=False)
class Scored:
    """`frame` has explainer, model, dataset, instance, metric, value (NaN where there is none), passes, status.

    `methods` are the explainers that are ranked: all but the controls, and of these only the random one, which is what
    effects are measured from. The other controls are references: they are shown, and compete with nobody.
    """

    frame: pd.DataFrame
    set_apart: tuple[str, ...] = ()  # models on which a high F_syn is no virtue (see `redundancy`)

    @staticmethod
    def of(run: Run, set_apart: tuple[str, ...] = ()) -> Scored:
        """`set_apart` models stay in the tables and leave the rankings; where all are, none is."""
        rows = run.scores()
        frame = rows[["explainer", "model", "dataset", "metric", "value", "passes", "status"]].copy()
        frame["instance"] = rows["dataset"].astype(str) + "/" + rows["sample"].astype(str)
        return Scored(frame, () if set(frame["model"]) <= set(set_apart) else set_apart)

    @cached_property
    def explainers(self) -> tuple[str, ...]:
        """Those with at least one F_syn, the random control first, then by name."""
        known = self.frame[(self.frame["metric"] == "f_syn") & self.frame["value"].notna()]["explainer"].unique()
        return tuple(sorted(map(str, known), key=lambda name: (name != REFERENCE, name)))

    @cached_property
    def methods(self) -> tuple[str, ...]:
        return tuple(name for name in self.explainers if name == REFERENCE or not name.startswith("control/"))

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(sorted(map(str, self.frame["dataset"].unique())))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(sorted(map(str, self.frame["model"].unique())))

    def all_rows(self, metric: str, dataset: str | None = None) -> pd.DataFrame:
        """Every explainer that has an F_syn, references too, on every model."""
        frame = self.frame[(self.frame["metric"] == metric) & self.frame["explainer"].isin(self.explainers)]
        return frame if dataset is None else frame[frame["dataset"] == dataset]

    def rows(self, metric: str, dataset: str | None = None) -> pd.DataFrame:
        """The methods that are ranked, on the models that they are ranked on."""
        frame = self.all_rows(metric, dataset)
        return frame[frame["explainer"].isin(self.methods) & ~frame["model"].isin(self.set_apart)]

    def wide(self, metric: str, dataset: str | None = None) -> pd.DataFrame:
        """One row per instance and model, one column per method."""
        return wide(self.rows(metric, dataset), "value", "explainer", _BLOCK)

    @property
    def reference(self) -> str:
        return REFERENCE if REFERENCE in self.methods else self.methods[0]

    @cached_property
    def effects(self) -> MixedModel:
        """F_syn by explainer, freed of instance, model and dataset (fsyn2026 Eq. 13)."""
        return mixed_model(self.rows("f_syn"), "value", "explainer", RANDOM, reference=self.reference)

    @cached_property
    def effects_by_dataset(self) -> GroupedFits:
        return mixed_model_by(self.rows("f_syn"), "dataset", "value", "explainer", RANDOM, reference=self.reference)

    def rng(self, what: str) -> np.random.Generator:
        """Bootstrap draws of a finding: the same whenever it is computed from the same rows."""
        return generator(0, what, "synergy/findings")


def number(value: Any) -> float | None:
    """A number for a table; missing is None, never NaN."""
    return None if value is None or pd.isna(value) or math.isinf(value) else float(value)


def instances(blocks: pd.DataFrame) -> np.ndarray[Any, Any]:
    """The instance of each row of a wide table: rows of one instance are one cluster."""
    return blocks.index.get_level_values("instance").to_numpy()


def spread(value: float | None, low: float | None, high: float | None) -> str:
    """
    >>> spread(0.12345, 0.1, 0.15)
    '0.123 (0.100 to 0.150)'
    """
    if value is None:
        return "no value"
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} ({low:.3f} to {high:.3f})"
