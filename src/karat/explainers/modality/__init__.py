"""One number for a sample or a dataset: how much of what the model does needs image and question together."""

from __future__ import annotations

from karat.explainers.modality.emap import Emap, Projection, emap, emap_of
from karat.explainers.modality.harsanyi import Harsanyi
from karat.explainers.modality.intershap import InterShap, Shares, intershap, values_of
from karat.explainers.modality.pid import Information, pid
from karat.explainers.modality.pid_answers import Pid, pid_of_answers, synergy_share
from karat.explainers.modality.pid_features import pid_clusters, pid_gaussian

__all__ = [
    "Emap",
    "Harsanyi",
    "Information",
    "InterShap",
    "Pid",
    "Projection",
    "Shares",
    "emap",
    "emap_of",
    "intershap",
    "pid",
    "pid_clusters",
    "pid_gaussian",
    "pid_of_answers",
    "synergy_share",
    "values_of",
]
