"""What the sample browser shows: columns to filter and sort by, and maps that load when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from karat.report.encode import coded, packed
from karat.report.evidence import Evidence
from karat.report.maps import ItemKey, write_maps
from karat.report.page_output import Sink
from karat.report.sample_pictures import datasets, scene
from karat.report.slices import value_text

_SCENES = 32  # samples a chunk of scenes holds
_REASONS = 253  # distinct reasons kept in one byte; 0 is a score, 254 "another reason", 255 no row


@dataclass(frozen=True, eq=False)
class Items:
    """One item per (protocol, model, sample), in that order; `at` finds it."""

    table: pd.DataFrame  # protocol, model, cluster, sample (number), answer, expected, probability
    at: dict[ItemKey, int]
    samples: pd.DataFrame  # one row per sample: dataset, sample (id), cluster, meta.*; in order of the dataset
    explainers: tuple[str, ...]


def write_samples(evidence: Evidence, sink: Sink) -> dict[str, Any]:
    """Write all chunks of the browser; returns what its first look needs: names, counts and problems."""
    items = collect(evidence)
    truths, questions, problems = _write_scenes(evidence, items, sink)
    parts, disagreement = write_maps(evidence, items.at, {name: i for i, name in enumerate(items.explainers)}, sink)
    for k, metric in enumerate(evidence.metrics):
        sink.data(f"values-{k}", metric_values(evidence, items, metric.protocol, metric.name))
    sink.data("items", _columns(evidence, items, truths, questions, parts, disagreement))
    return {
        "explainers": list(items.explainers), "items": len(items.table), "samples": len(items.samples),
        "scenes": _SCENES, "problems": problems, "maps": bool((parts >= 0).any()),
    }  # fmt: skip


def collect(evidence: Evidence) -> Items:
    """Number the samples as their datasets do, and the items by protocol, model and sample."""
    scores = evidence.scores
    metas = [name for name in scores.columns if name.startswith("meta.")]
    samples = scores.drop_duplicates("cluster")[["cluster", "dataset", "sample", *metas]]
    places = {
        (cell["place"][3], sample): cell["place"][4] + position
        for shard in evidence.shards
        for cell in shard.view.cells[:1]
        for position, sample in enumerate(shard.view.samples)
    }
    where = [places.get(key, -1) for key in zip(samples["dataset"], samples["sample"], strict=True)]
    samples = samples.assign(where=where).sort_values(["dataset", "where", "sample"], kind="stable", ignore_index=True)
    numbers = dict(zip(samples["cluster"], samples.index, strict=True))
    columns = ["protocol", "model", "dataset", "sample"]
    table = scores.drop_duplicates(["protocol", "model", "cluster"])
    table = table.reindex(columns=[*columns, "cluster", "answer", "expected", "probability"])
    order = {name: i for i, name in enumerate(evidence.protocols)}
    table = table.assign(number=table["cluster"].map(numbers), first=table["protocol"].map(order))
    table = table.sort_values(["first", "model", "number"], kind="stable", ignore_index=True)
    at = {key: i for i, key in enumerate(table[columns].itertuples(index=False, name=None))}
    return Items(table, at, samples, tuple(sorted(scores["explainer"].unique())))


def _write_scenes(
    evidence: Evidence, items: Items, sink: Sink
) -> tuple[list[str | None], list[str | None], dict[str, str]]:
    """Chunks of scenes; returns the true answers, the questions, and why a dataset has no pictures."""
    loaders = datasets(evidence)
    truths: list[str | None] = [None] * len(items.samples)
    questions: list[str | None] = [None] * len(items.samples)
    for k, start in enumerate(range(0, len(items.samples), _SCENES)):
        chunk: dict[int, dict[str, Any]] = {}
        block = items.samples.iloc[start : start + _SCENES]
        keys = block[["dataset", "sample"]].itertuples(index=False, name=None)
        numbers = {key: start + i for i, key in enumerate(keys)}
        for name, first, last in _stretches(block):
            for sample in loaders[name].load(first, last).values():
                number = numbers.get((name, sample.id))
                if number is not None:
                    truths[number], questions[number] = sample.answer, sample.text
                    chunk[number] = scene(sample, sink)
        sink.data(f"scenes-{k}", chunk)
    return truths, questions, {name: loader.problem for name, loader in loaders.items() if loader.problem}


def _stretches(block: pd.DataFrame) -> Iterator[tuple[str, int, int]]:
    """(dataset, start, stop) of neighbouring samples: datasets load stretches quicker than singles."""
    going: tuple[str, int, int] | None = None
    for name, where in zip(block["dataset"], block["where"].astype(int), strict=True):
        if where < 0:  # a recorded run does not say where its samples stood
            continue
        if going is not None and going[0] == name and going[2] == where:
            going = (name, going[1], where + 1)
            continue
        if going is not None:
            yield going
        going = (name, where, where + 1)
    if going is not None:
        yield going


def metric_values(evidence: Evidence, items: Items, protocol: str, metric: str) -> dict[str, Any]:
    """(explainers, items of the protocol) values, and codes: 0 a score, 255 no row, the rest points into `reasons`."""
    frame = evidence.scores
    frame = frame[(frame["protocol"] == protocol) & (frame["metric"] == metric)]
    mine = items.table.index[items.table["protocol"] == protocol]
    key = pd.MultiIndex.from_frame(items.table.loc[mine, ["model", "cluster"]])
    across = key.get_indexer(pd.MultiIndex.from_frame(frame[["model", "cluster"]]))
    down = pd.Categorical(frame["explainer"], categories=list(items.explainers)).codes
    values = np.full((len(items.explainers), len(mine)), np.nan, dtype=np.float32)
    codes = np.full(values.shape, 255, dtype=np.uint8)
    values[down, across] = frame["value"].to_numpy(dtype=np.float32)
    codes[down, across] = 0
    silent = frame["status"].to_numpy() != "score"
    reasons = frame.loc[silent, ["status", "reason"]].fillna("")
    known = list(reasons.value_counts(sort=True).index[:_REASONS])
    number = {pair: i + 1 for i, pair in enumerate(known)}
    pairs = zip(reasons["status"], reasons["reason"], strict=True)
    codes[down[silent], across[silent]] = [number.get(pair, _REASONS + 1) for pair in pairs]
    return {
        "start": int(mine[0]), "values": packed(values, "f"), "codes": packed(codes, "u"),
        "reasons": [list(pair) for pair in known],
    }  # fmt: skip


def _columns(
    evidence: Evidence, items: Items, truths: list[str | None], questions: list[str | None],
    parts: np.ndarray[Any, Any], disagreement: np.ndarray[Any, Any],
) -> dict[str, Any]:  # fmt: skip
    table, samples = items.table, items.samples
    numbers = table["number"].to_numpy(dtype=np.int32)
    answers = [_text(answer) for answer in table["answer"]]
    for n, expected in zip(numbers, table["expected"], strict=True):
        truths[n] = _text(expected) or truths[n]  # what the run itself compared with
    pairs = [(answer, truths[n]) for n, answer in zip(numbers, answers, strict=True)]
    correct = [2 if answer is None or truth is None else int(answer == truth) for answer, truth in pairs]
    metas = [name for name in samples.columns if name.startswith("meta.")]
    return {
        "item": {
            "protocol": coded(list(table["protocol"])), "model": coded(list(table["model"])),
            "sample": packed(numbers, "i"), "answer": coded(answers), "correct": packed(np.array(correct), "u"),
            "probability": packed(table["probability"].to_numpy(dtype=np.float32, na_value=np.nan), "f"),
            "part": packed(parts, "i"), "disagreement": packed(disagreement, "f"),
        },
        "sample": {
            "id": list(samples["sample"]), "dataset": coded(list(samples["dataset"])), "question": questions,
            "truth": coded(truths),
            "meta": {name.removeprefix("meta."): coded([_text(value) for value in samples[name]]) for name in metas},
        },
    }  # fmt: skip


def _text(value: Any) -> str | None:
    return None if value is None or value is pd.NA or value != value else value_text(value)
