"""Identification: fitted on other photographs, and on other seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from karat.protocols.lineup.identification import cross_fitted, spread
from karat.protocols.lineup.pointing import POINTED


def test_right_where_rules_differ_and_at_chance_where_they_do_not() -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["tag", "frame"] * 60, dtype=object)
    photographs = np.repeat(np.arange(30), 4).astype(object)
    same = rng.random((120, 5))
    assert 0.35 < np.nanmean(cross_fitted(same, labels, photographs, "noise")) < 0.65
    told = same.copy()
    told[labels == "tag", 1] = 1.0
    # a uniform percentile lies nearer to 1 than to its mean in a quarter of its cases: 87.5 % is the most there is
    assert np.nanmean(cross_fitted(told, labels, photographs, "told")) > 0.8


def test_a_photograph_is_never_both_fitted_on_and_judged() -> None:
    """One photograph tells its own label and nothing else: known from itself it would be right, from others never."""
    labels = np.array(["tag", "frame"] * 10, dtype=object)
    photographs = np.arange(20).astype(object)
    alone = np.full((20, 5), 0.5)
    alone[labels == "tag", 0] = np.linspace(0, 1, 10)
    alone[labels == "frame", 0] = np.linspace(0, 1, 10)
    assert np.nanmean(cross_fitted(alone, labels, photographs, "alone")) <= 0.6


def rows(of_rule: float, of_seed: float) -> pd.DataFrame:
    """Explanations of two rules and two seeds: the percentile of the tag tells the rule, that of the frame the seed,
    each as far as it is said to."""
    rng, made = np.random.default_rng(3), []
    for photograph in range(40):
        for rule in (0, 1):
            for seed in (0, 1):
                percentiles = rng.random(len(POINTED)) * 0.2
                percentiles[1] += of_rule * rule
                percentiles[2] += of_seed * (seed if rule else 1 - seed)
                made.append(
                    {
                        "explainer": "mine", "explainer.is_control": False, "meta.photograph": str(photograph),
                        "model.mechanism": ("tag", "frame")[rule], "model.seed": seed, "model.family": "photovlm",
                        "model.implant": "scratch", **{f"of_{c}": p for c, p in zip(POINTED, percentiles, strict=True)},
                    }
                )  # fmt: skip
    return pd.DataFrame(made)


def test_the_rule_is_known_across_seeds_and_an_accident_of_a_model_is_not() -> None:
    [rule] = spread(rows(of_rule=0.7, of_seed=0.0)).to_dict("records")
    assert (rule["across"], rule["rules"]) == (1.0, 1.0)
    assert rule["seeds"] == pytest.approx(0.5, abs=0.12)
    [accident] = spread(rows(of_rule=0.0, of_seed=0.7)).to_dict("records")
    assert accident["seeds"] == accident["rules"] == 1.0  # each model differs from each other
    assert accident["across"] < 0.1  # and what was learnt on one seed is wrong on the other


def test_one_seed_has_no_spread() -> None:
    frame = rows(0.7, 0.0)
    assert spread(frame[frame["model.seed"] == 0]).empty
    assert spread(pd.DataFrame()).empty
