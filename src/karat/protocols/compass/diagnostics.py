"""What was read from the same maps in other ways (`variations`): other centres, damaged maps, other settings, and
whether the order of explainers and of models stays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from karat.kernel.roles import Results
from karat.protocols.common.rows import frame_of
from karat.protocols.compass.analysis import KEYS, Explained, Floats, by_explainer, clustered_mean, mean_of, pictures
from karat.protocols.compass.variations import CENTRES, VARIATIONS, Kind, Variation
from karat.statistics import Estimate, adjust, kendall


@dataclass(frozen=True, eq=False)
class Battery:
    """Details of a whole run, row by row: `keys` (model, dataset, explainer, sample, name, is_control, picture, and
    what the sample is: origin, kind, variant, relation, zone), compasses around reference and target, other readings.
    """

    keys: pd.DataFrame
    shares: Floats
    around_target: Floats
    centres: Floats
    readings: Floats

    @staticmethod
    def of(run: Results) -> Battery | None:
        """None where a run keeps no details."""
        scores = run.scores()
        parts = [run.details(metric) for metric in ("compass/direction_error", "centre_advantage", "turn_penalty")]
        if not all(len(part.keys) for part in parts):
            return None
        about = [name for name in ("origin", "kind", "variant", "relation", "zone") if f"meta.{name}" in scores]
        facts = scores.drop_duplicates(["explainer", "sample"]).assign(picture=pictures)
        columns = ["explainer", "sample", "picture", "explainer.name", "explainer.is_control"]
        columns += [f"meta.{name}" for name in about]
        facts = facts[columns].set_axis(["explainer", "sample", "picture", "name", "is_control", *about], axis=1)
        keys = parts[0].keys[KEYS].astype(object).merge(facts.astype({"name": object}), on=["explainer", "sample"])
        assert len(keys) == len(parts[0].keys)
        assert all(part.keys[KEYS].equals(parts[0].keys[KEYS]) for part in parts)  # sorted alike
        arrays = (parts[0].arrays["shares"], parts[1].arrays["around_target"], parts[1].arrays["centres"],
                  parts[2].arrays["readings"])  # fmt: skip
        return Battery(keys, *(array.astype(np.float64) for array in arrays))

    def where(self, kind: str) -> pd.DataFrame:
        """Keys of the samples of one kind that have a compass, with `at`, their row in the arrays."""
        keys = self.keys.assign(at=np.arange(len(self.keys)))
        chosen = keys["kind"].to_numpy() == kind if "kind" in keys else np.full(len(keys), kind == "plain")
        return keys[chosen & np.asarray(np.isfinite(self.shares).all(axis=1))]


@dataclass(frozen=True)
class Centre(Explained):
    """The same maps read around another centre; `change` is the DAE there minus that at the true reference."""

    is_control: bool
    centre: str
    dae: float
    change: Estimate
    n: int


def centres(battery: Battery) -> pd.DataFrame:
    rows = []
    for names, is_control, part in by_explainer(battery.where("plain")):
        picture = part["picture"].to_numpy()
        table = battery.centres[part["at"]]
        for k, name in enumerate(CENTRES):
            both = table[np.isfinite(table[:, k] + table[:, 0])]
            if len(both):
                change = clustered_mean(table[:, k] - table[:, 0], picture)
                rows.append(Centre(*names, is_control, name, float(both[:, k].mean()), change, len(both)))
    return frame_of(rows, Centre)


@dataclass(frozen=True)
class Varied(Explained):
    """One other reading of an explainer's maps; `change` is to the usual reading, paired by sample."""

    name: str
    is_control: bool
    kind: Kind
    amount: float
    reading: str
    dae: float
    ea: float
    tau: float
    change: Estimate
    n: int


def varied(battery: Battery) -> pd.DataFrame:
    """A row of `Varied` per explainer and reading. `tau` is Kendall's, to the usual errors over samples."""
    rows = []
    for names, is_control, part in by_explainer(battery.where("plain")):
        name = str(part["name"].iloc[0])
        table = battery.readings[part["at"]]
        usual = table[:, 0]
        for k, how in enumerate(VARIATIONS):
            errors = table[:, k]
            kept = errors[np.isfinite(errors)]
            ea = float((kept <= 45 + 1e-9).mean()) if len(kept) else float("nan")
            tau = kendall(usual, errors).value if np.isfinite(usual + errors).sum() > 2 else float("nan")
            change = clustered_mean(errors - usual, part["picture"].to_numpy())
            of_kind, tau = (how.kind, how.amount, how.name), round(float(tau), 12)
            rows.append(Varied(*names, name, is_control, *of_kind, mean_of(errors), ea, tau, change, len(kept)))
    return frame_of(rows, Varied)


# ---- does the order stay?

#: Readings under which the paper says that rankings stay: B.2 and D.1, D.2, E.6 ("moderate, content-preserving").
REASONABLE: dict[str, tuple[Variation, ...]] = {
    "estimator": tuple(how for how in VARIATIONS if how.kind == "estimator"),
    "width": tuple(how for how in VARIATIONS if how.kind == "width" and how.amount >= 0.6),
    "sectors": tuple(how for how in VARIATIONS if how.kind in ("sectors", "origin") and how.amount != 8),
    "damage": tuple(
        how for how in VARIATIONS
        if (how.kind == "dropout" and how.amount <= 0.25) or (how.kind == "blur" and how.amount <= 1)
    ),
    "box noise": tuple(how for how in VARIATIONS if how.kind == "box noise"),
}  # fmt: skip


@dataclass(frozen=True)
class Stable:
    """Two explainers on one model (or two models under one explainer) that the usual reading tells apart; `lead` is by
    how much the better one stays ahead under another reading, paired by sample."""

    among: str
    within: str
    dataset: str
    better: str
    worse: str
    kind: str
    reading: str
    lead: Estimate


def stability(battery: Battery, level: float = 0.05) -> pd.DataFrame:
    """A row of `Stable` per pair that is told apart (Holm, within its dataset and what it is compared within) and
    reading of `REASONABLE`, once among explainers and once among models."""
    plain = battery.where("plain")
    plain = plain[~plain["is_control"]]
    rows: list[Stable] = []
    for among, within in (("explainer", "model"), ("model", "explainer")):
        for (dataset, name), part in plain.groupby(["dataset", within], sort=True):
            places = part.pivot(index="sample", columns=among, values="at").dropna()
            if places.shape[1] < 2 or len(places) < 3:
                continue
            picture = part.drop_duplicates("sample").set_index("sample")["picture"].reindex(places.index).to_numpy()
            errors = {str(one): battery.readings[places[one].to_numpy(np.intp)] for one in places}
            pairs = list(combinations(sorted(errors), 2))
            usual = [clustered_mean(errors[b][:, 0] - errors[a][:, 0], picture) for a, b in pairs]
            apart = adjust(np.array([one.p for one in usual]), "holm") < level
            for (a, b), lead, clear in zip(pairs, usual, apart, strict=True):
                if not clear:
                    continue
                better, worse = (a, b) if lead.value > 0 else (b, a)
                for kind, readings in REASONABLE.items():
                    for how in readings:
                        k = VARIATIONS.index(how)
                        under = clustered_mean(errors[worse][:, k] - errors[better][:, k], picture)
                        rows.append(Stable(among, str(name), str(dataset), better, worse, kind, how.name, under))
    return frame_of(rows, Stable)
