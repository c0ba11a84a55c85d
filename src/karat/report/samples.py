"""What the sample browser shows: columns to filter and sort by; texts, pictures and maps that load when looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.report.encode import coded, packed
from karat.report.evidence import Evidence
from karat.report.maps import ItemKey, Placed, Written, write_maps
from karat.report.page_output import Sink
from karat.report.sample_pictures import Scenes, datasets, scene
from karat.report.slices import value_text
from karat.results.rows import NO_ROW
from karat.results.shard import STATUS

PICTURES = 2048  # samples whose pictures and maps a page holds, unless told otherwise
_SCENES = 32  # samples a chunk of scenes holds
_TEXTS = 1024  # samples a chunk of texts holds
_REASONS = 253  # distinct reasons kept in one byte; 0 is a score, 254 "another reason", 255 no row
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Items:
    """One item per (protocol, model, sample), in that order. Samples are numbered as the page counts them."""

    protocol: list[str]
    model: list[str]
    sample: Ints
    answer: Ints  # in `Rows.answers`, -1 where there is none
    expected: Ints
    probability: npt.NDArray[np.float64]
    starts: dict[str, tuple[int, int]]  # protocol → its first item, and one past its last
    explainers: tuple[str, ...]

    def at(self, evidence: Evidence) -> dict[ItemKey, int]:
        texts = evidence.rows.samples.texts
        named = [texts[k] for k in evidence.order.tolist()]
        return {
            (protocol, model, *named[s]): i
            for i, (protocol, model, s) in enumerate(zip(self.protocol, self.model, self.sample.tolist(), strict=True))
        }


@dataclass(frozen=True, eq=False)
class WrittenSamples:
    """What the page holds of its samples: `about` is what the browser's first look needs."""

    about: dict[str, Any]
    items: Items
    scenes: list[str | None]  # chunk of every 32 samples
    maps: Placed

    def scene(self, sample: int) -> tuple[str, int] | None:
        """Chunk of the picture of a sample, and its place there."""
        name = self.scenes[sample // _SCENES]
        return None if name is None else (name, sample % _SCENES)


def write_samples(evidence: Evidence, sink: Sink, pictures: int | None, written: Written) -> WrittenSamples:
    """Write all chunks of the browser."""
    items = collect(evidence)
    chosen = _chosen(len(evidence.order), pictures)
    truths, questions, chunks, problems = _write_scenes(evidence, chosen, sink, written)
    texts = evidence.rows.samples.texts
    named = [texts[k] for k in evidence.order.tolist()]
    some = None if chosen.all() else {named[s] for s in np.flatnonzero(chosen).tolist()}
    placed = write_maps(evidence, items.at(evidence), some, sink, written)
    for k, metric in enumerate(evidence.metrics):
        sink.data(f"values-{k}", metric_values(evidence, items, metric.protocol, metric.name))
    for k, start in enumerate(range(0, len(named), _TEXTS)):
        block = slice(start, start + _TEXTS)
        sink.data(f"texts-{k}", {"id": [name for _, name in named[block]], "question": questions[block]})
    sink.data("items", _columns(evidence, items, truths, chunks, placed))
    about = {
        "explainers": list(items.explainers), "items": len(items.sample), "samples": len(named), "scenes": _SCENES,
        "texts": _TEXTS, "problems": problems, "maps": bool((placed.chunk >= 0).any()), "pictures": int(chosen.sum()),
    }  # fmt: skip
    return WrittenSamples(about, items, chunks, placed)


def _chosen(samples: int, most: int | None) -> npt.NDArray[np.bool_]:
    """Whose pictures and maps the page holds: all, or whole chunks at even distances."""
    if most is None or samples <= most:
        return np.ones(samples, dtype=np.bool_)
    chunks = -(-samples // _SCENES)
    kept = np.linspace(0, chunks - 1, most // _SCENES).astype(np.intp)
    return np.isin(np.arange(samples) // _SCENES, kept)


def collect(evidence: Evidence) -> Items:
    """Items by protocol, model and number of the sample."""
    rows = evidence.rows
    numbers = np.empty(len(evidence.order), dtype=np.int32)
    numbers[evidence.order] = np.arange(len(evidence.order), dtype=np.int32)
    rank = {name: k for k, name in enumerate(sorted(rows.models.texts))}
    ranks = np.array([rank[name] for name in rows.models.texts], dtype=np.int32)
    protocols: list[str] = []
    parts: list[tuple[Any, ...]] = []
    starts: dict[str, tuple[int, int]] = {}
    for protocol in evidence.protocols:
        found = rows.items(protocol)
        order = np.lexsort((numbers[found.sample], ranks[found.model]))
        starts[protocol] = (len(protocols), len(protocols) + len(order))
        protocols += [protocol] * len(order)
        parts.append((found.model[order], numbers[found.sample][order], found.answer[order], found.expected[order],
                      found.probability[order]))  # fmt: skip
    model, sample, answer, expected, probability = (np.concatenate(column) for column in zip(*parts, strict=True))
    names = [rows.models.texts[k] for k in model.tolist()]
    explainers = sorted({place[2] for protocol in evidence.protocols for place in rows.places(protocol)})
    return Items(protocols, names, sample, answer, expected, probability, starts, tuple(explainers))


def _write_scenes(
    evidence: Evidence, chosen: npt.NDArray[np.bool_], sink: Sink, written: Written
) -> tuple[list[str | None], list[str | None], list[str | None], dict[str, str]]:
    """Chunks of scenes; returns the true answers, the questions, the chunks' names, why a dataset has no pictures."""
    loaders = datasets(evidence)
    texts, where = evidence.rows.samples.texts, evidence.rows.where
    truths: list[str | None] = [None] * len(chosen)
    questions: list[str | None] = [None] * len(chosen)
    chunks: list[str | None] = []
    for start in range(0, len(chosen), _SCENES):
        if not chosen[start]:
            chunks.append(None)
            continue
        block = evidence.order[start : start + _SCENES].tolist()
        told = "\n".join(f"{where[k]} {texts[k]}" for k in block)
        name = f"scenes-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
        chunks.append(name)
        if not (name in written.scenes and sink.keep(name, written.folder)):
            written.scenes[name] = _scenes([(*texts[k], where[k]) for k in block], loaders, name, sink)
        for i, (truth, question) in enumerate(written.scenes[name]):
            truths[start + i], questions[start + i] = truth, question
    return truths, questions, chunks, {name: loader.problem for name, loader in loaders.items() if loader.problem}


def _scenes(
    block: list[tuple[str, str, int]], loaders: dict[str, Scenes], name: str, sink: Sink
) -> list[tuple[str | None, str | None]]:
    """Write the scenes of (dataset, sample, place)s, by position; gives their true answers and questions."""
    positions = {(dataset, sample): i for i, (dataset, sample, _) in enumerate(block)}
    chunk: dict[int, dict[str, Any]] = {}
    told: list[tuple[str | None, str | None]] = [(None, None)] * len(block)
    for dataset, first, last in _stretches(block):
        for sample in loaders[dataset].load(first, last).values():
            position = positions.get((dataset, sample.id))
            if position is not None:
                told[position] = (sample.answer, sample.text)
                chunk[position] = scene(sample, sink)
    sink.data(name, chunk)
    return told


def _stretches(block: list[tuple[str, str, int]]) -> Iterator[tuple[str, int, int]]:
    """(dataset, start, stop) of neighbouring samples: datasets load stretches quicker than singles."""
    going: tuple[str, int, int] | None = None
    for name, _, where in block:
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
    rows = evidence.rows.values(protocol, metric)
    start, stop = items.starts[protocol]
    place = {name: k for k, name in enumerate(rows.models)}
    model = np.array([place[name] for name in items.model[start:stop]], dtype=np.intp)
    sample = evidence.order[items.sample[start:stop]]
    down = [items.explainers.index(name) for name in rows.explainers]
    values = np.full((len(items.explainers), stop - start), np.nan, dtype=np.float32)
    codes = np.full(values.shape, NO_ROW, dtype=np.uint8)
    values[down] = rows.values[model, :, sample].T
    state = rows.state[model, :, sample].T
    codes[down] = np.where(state == 0, 0, NO_ROW)
    silent = (state != 0) & (state != NO_ROW)
    pairs, inverse, n = np.unique(
        np.stack([state[silent], rows.reason[model, :, sample].T[silent]]), axis=1, return_inverse=True,
        return_counts=True,
    )  # fmt: skip
    ranked = np.argsort(-n, kind="stable")
    number = np.full(len(n), _REASONS + 1, dtype=np.uint8)
    number[ranked[:_REASONS]] = np.arange(1, min(len(n), _REASONS) + 1)
    part = codes[down]
    part[silent] = number[inverse.ravel()]
    codes[down] = part
    known = [pairs[:, k].tolist() for k in ranked[:_REASONS]]
    texts = evidence.rows.reasons.texts
    return {
        "start": start, "values": packed(values, "f"), "codes": packed(codes, "u"),
        "reasons": [[STATUS[state], texts[reason] if reason >= 0 else ""] for state, reason in known],
    }  # fmt: skip


def _columns(
    evidence: Evidence, items: Items, truths: list[str | None], chunks: list[str | None], placed: Placed
) -> dict[str, Any]:
    answers = evidence.rows.answers.texts
    for s, expected in zip(items.sample.tolist(), items.expected.tolist(), strict=True):
        if expected >= 0:
            truths[s] = value_text(answers[expected])  # what the run itself compared with
    texts = [None if a < 0 else value_text(answers[a]) for a in items.answer.tolist()]
    pairs = ((answer, truths[s]) for answer, s in zip(texts, items.sample.tolist(), strict=True))
    correct = [2 if answer is None or truth is None else int(answer == truth) for answer, truth in pairs]
    return {
        "item": {
            "protocol": coded(items.protocol), "model": coded(items.model), "sample": packed(items.sample, "i"),
            "answer": coded(texts), "correct": packed(np.array(correct), "u"),
            "probability": packed(items.probability, "f"),
            "chunk": packed(placed.chunk, "i"), "place": packed(placed.place, "i"),
            "disagreement": packed(placed.disagreement, "f"),
        },
        "sample": {
            "dataset": _recoded(list(evidence.datasets), evidence.dataset), "truth": coded(truths),
            "meta": {name: _meta(evidence, name) for name in evidence.rows.meta},
        },
        "scenes": chunks, "maps": placed.chunks,
    }  # fmt: skip


def _meta(evidence: Evidence, name: str) -> dict[str, Any]:
    values, codes = evidence.rows.meta[name].column(len(evidence.order))
    return _recoded([None if value != value else value_text(value) for value in values], codes[evidence.order])


def _recoded(values: list[Any], codes: Ints) -> dict[str, Any]:
    """As `coded`, from numbers."""
    known: dict[Any, int] = {}
    place = np.array([-1 if v is None else known.setdefault(v, len(known)) for v in values] + [-1], dtype=np.int32)
    return {"values": list(known), "codes": packed(place[codes], "i")}
