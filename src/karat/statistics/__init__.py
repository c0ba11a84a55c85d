"""Honest statistics on scores: mixed models, ranks, agreement, intervals, power, racing. No torch, no files.

Missing is a value: every function leaves out what is NaN by the rule in its docstring and returns how many it used.
"""

from __future__ import annotations

from karat.statistics.agreement import agreement_matrix, kendall, ranking_agreement, spearman
from karat.statistics.auc import auc, roc
from karat.statistics.bootstrap import bootstrap_mean, bootstrap_statistic, paired_difference
from karat.statistics.crossfit import Logistic, cross_fitted_scores, logistic
from karat.statistics.estimate import Estimate
from karat.statistics.mixed_model import GroupedFits, MixedModel, mixed_model, mixed_model_by
from karat.statistics.multiple import adjust
from karat.statistics.pareto import pareto
from karat.statistics.permutation import Permutation, shuffle_test, sign_flip_test
from karat.statistics.power import Separation, detectable_difference, paired_power, samples_to_separate, separation
from karat.statistics.proportions import proportion
from karat.statistics.ranks import (
    Friedman,
    MeanRanks,
    cliques,
    critical_difference,
    friedman,
    mean_ranks,
    rank_intervals,
    wide,
    wilcoxon_against_best,
)
from karat.statistics.sequential import Race, anytime_interval, race
from karat.statistics.trend import Trend, jonckheere, page
from karat.statistics.variance import EtaSquared, eta_squared, variance_partition
from karat.statistics.wins import paired_wins

__all__ = [
    "Estimate",
    "EtaSquared",
    "Friedman",
    "GroupedFits",
    "Logistic",
    "MeanRanks",
    "MixedModel",
    "Permutation",
    "Race",
    "Separation",
    "Trend",
    "adjust",
    "agreement_matrix",
    "anytime_interval",
    "auc",
    "bootstrap_mean",
    "bootstrap_statistic",
    "cliques",
    "critical_difference",
    "cross_fitted_scores",
    "detectable_difference",
    "eta_squared",
    "friedman",
    "jonckheere",
    "kendall",
    "logistic",
    "mean_ranks",
    "mixed_model",
    "mixed_model_by",
    "page",
    "paired_difference",
    "paired_power",
    "paired_wins",
    "pareto",
    "proportion",
    "race",
    "rank_intervals",
    "ranking_agreement",
    "roc",
    "samples_to_separate",
    "separation",
    "shuffle_test",
    "sign_flip_test",
    "spearman",
    "variance_partition",
    "wide",
    "wilcoxon_against_best",
]
