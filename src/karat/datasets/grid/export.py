"""`export`: grid samples as files: PNG + JSONL in the published layout, or Parquet for Hugging Face `datasets`.

Files appear whole or not at all: each is written beside its place and renamed; the JSONL index, last, names only
images that are there. Bytes depend on the arguments alone, not on the number of workers.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from karat.datasets.grid.bucket import Bucket, parse_bucket
from karat.datasets.grid.bucket import buckets as standard_buckets
from karat.datasets.grid.generate import generate_batch, make_world
from karat.datasets.grid.plan import plan
from karat.datasets.grid.sample import GridSample, assemble
from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput, ExtraMissing

FORMATS = ("jsonl", "parquet")
CHUNK = 64  # samples per task and per Parquet row group; part of the format, so that bytes do not depend on workers
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Task:
    """A slice of one bucket for one worker."""

    bucket: Bucket
    world: World
    preset: str
    mode: str
    seed: int
    indices: range
    first_id: int
    folder: str | None  # where its images go; None where they are embedded

    def samples(self) -> list[GridSample]:
        return assemble(generate_batch(self.bucket, self.indices, self.seed, self.preset, self.mode, world=self.world))


def export(
    out: str | Path,
    preset: str = "certified",
    mode: str = "pure",
    per_bucket: int = 50,
    split: str = "val",
    seed: int = 0,
    buckets: Sequence[str] | None = None,
    progress: Progress | None = None,
    format: str = "jsonl",
    workers: int = 1,
    start: int = 0,
    world: World | None = None,
) -> list[Path]:
    """Write start .. start + per_bucket - 1 of every bucket to the folder `out`; returns the index files.

    jsonl:   images/{split}/{bucket}/{index}.png, grounding_{split}.jsonl, qa_{split}.jsonl, certificates_{split}.jsonl
    parquet: {split}.parquet with the images inside; `datasets.load_dataset("parquet", data_files=...)` reads it.

    `progress(done, total)` is called after every chunk.
    """
    if format not in FORMATS:
        raise BadInput(f"unknown format {format!r}; formats: {', '.join(FORMATS)}")
    if not split.replace("-", "").replace("_", "").isalnum():
        raise BadInput(f"a split is a plain word such as train or val, got {split!r}")
    if per_bucket < 1 or start < 0 or workers < 1:
        raise BadInput(f"per_bucket and workers count from 1 and start from 0, got {per_bucket}, {workers}, {start}")
    world = make_world(preset) if world is None else world
    chosen = [parse_bucket(name) for name in (_default_buckets(preset) if buckets is None else buckets)]
    if len({bucket.name for bucket in chosen}) < len(chosen) or not chosen:
        raise BadInput("buckets must be given, each once")
    for bucket in chosen:
        if preset == "certified":
            plan(bucket, world)  # refuse before anything is written
        generate_batch(bucket, [], seed, preset, mode, world=world)
    root = Path(out)
    folder = str(root / "images" / split) if format == "jsonl" else None
    tasks = []
    for place, bucket in enumerate(chosen):
        for first in range(start, start + per_bucket, CHUNK):
            indices = range(first, min(first + CHUNK, start + per_bucket))
            number = place * per_bucket + first - start
            tasks.append(_Task(bucket, world, preset, mode, seed, indices, number, folder))
    for bucket in chosen:
        (root if folder is None else Path(folder) / bucket.name).mkdir(parents=True, exist_ok=True)
    total = per_bucket * len(chosen)
    if format == "jsonl":
        return _write_jsonl(root, split, tasks, workers, total, progress)
    return [_write_parquet(root / f"{split}.parquet", tasks, workers, total, progress)]


def _default_buckets(preset: str) -> Sequence[str]:
    return standard_buckets(published_only=preset == "paper")


def _run(tasks: Sequence[_Task], work: Callable[[_Task], Any], workers: int) -> Iterator[tuple[_Task, Any]]:
    """The results of the tasks in their order, whoever finishes first."""
    if workers == 1:
        yield from ((task, work(task)) for task in tasks)
        return
    # Spawned, not forked: the caller may have threads or a GPU.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from zip(tasks, pool.map(work, tasks), strict=True)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name only when it is complete."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _png(sample: GridSample) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(sample.image).save(buffer, format="PNG", compress_level=6)
    return buffer.getvalue()


# --- JSONL ---------------------------------------------------------------------------------------------------------


def _write_jsonl(
    root: Path, split: str, tasks: Sequence[_Task], workers: int, total: int, progress: Progress | None
) -> list[Path]:
    paths = [root / f"{name}_{split}.jsonl" for name in ("grounding", "qa", "certificates")]
    done = 0
    with whole_file(paths[0]) as grounding, whole_file(paths[1]) as qa, whole_file(paths[2]) as certificates:
        for task, texts in _run(tasks, _jsonl_task, workers):
            for file, text in zip((grounding, qa, certificates), texts, strict=True):
                file.write(text)
            done += len(task.indices)
            if progress is not None:
                progress(done, total)
    return paths


def _jsonl_task(task: _Task) -> tuple[bytes, bytes, bytes]:
    """Write the images of a slice; return its lines of the three index files."""
    lines: tuple[list[str], list[str], list[str]] = ([], [], [])
    assert task.folder is not None
    folder = Path(task.folder)
    for number, sample in enumerate(task.samples(), start=task.first_id):
        name = f"{task.bucket.name}/{sample.meta['index']:06d}.png"
        with whole_file(folder / name) as file:
            file.write(_png(sample))
        for part, row in zip(lines, rows(sample, number, f"images/{folder.name}/{name}"), strict=True):
            part.append(json.dumps(row, separators=(",", ":")) + "\n")
    grounding, qa, certificates = ("".join(part).encode() for part in lines)
    return grounding, qa, certificates


def rows(sample: GridSample, image_id: int, file_name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The grounding, question and certificate rows of one sample.

    `annotations` has targets and anchors, as published; `objects` adds the distractors with their roles. Boxes are
    xywh. `span` counts words, last one included; `char_span` counts characters, end excluded.  Token spans of one
    particular tokenizer are left to its user.
    """
    text = sample.text or ""
    objects = [
        {
            "id": image_id * sample.scene.world.n_cells + number, "image_id": image_id, "bbox": list(region.boxes[0]),
            "category_id": item.code, "category_name": item.label, "color": item.label.split(" ")[0],
            "shape": item.label.split(" ")[1], "role": item.role, "name": item.name,
        }
        for number, (region, item) in enumerate(zip(sample.regions, sample.scene.objects, strict=True))
    ]  # fmt: skip
    ids = {item["name"]: item["id"] for item in objects}
    spans = []
    for phrase in sample.phrases:
        if phrase.role in ("target", "anchor"):
            inside = [k for k, (a, b) in enumerate(sample.words) if phrase.span[0] <= a and b <= phrase.span[1]]
            spans.append(
                {
                    "span": [inside[0], inside[-1]], "char_span": list(phrase.span),
                    "phrase": text[slice(*phrase.span)], "role": phrase.role,
                    "box_ids": [ids[name] for name in phrase.regions],
                }
            )  # fmt: skip
    words = [text[a:b] for a, b in sample.words]
    grounding = {
        "image": {"id": image_id, "file_name": file_name},
        "annotations": [item for item in objects if item["role"] in ("target", "anchor")],
        "sentence": {"text": text, "words": words, "spans": spans},
        "objects": objects,
    }
    qa = {"image_id": image_id, "question": text, "answer": sample.answer, **sample.meta}
    return grounding, qa, {"image_id": image_id, **certificate_row(sample)}


def certificate_row(sample: GridSample) -> dict[str, Any]:
    """The certificate as plain lists; regions are lists of cells counted row by row."""
    proof = sample.certificate

    def cells(masks: Any) -> list[list[int]]:
        return [np.flatnonzero(mask).tolist() for mask in masks]

    effects = {}
    for item in sample.scene.objects:
        effect = proof.effect(item.cell)
        effects[item.name] = {
            "removal": effect.removal, "recolour": list(effect.recolour), "reshape": list(effect.reshape),
            "move": list(effect.move),
        }  # fmt: skip
    return {
        "answer": proof.answer, "counts": list(proof.counts), "valid": cells(proof.valid),
        "confusers": cells(proof.confusers), "confuser_objects": list(proof.confuser_objects),
        "heuristics": dict(proof.heuristics), "alters": effects,
    }  # fmt: skip


# --- Parquet -------------------------------------------------------------------------------------------------------


def _parquet_task(task: _Task) -> list[dict[str, Any]]:
    table = []
    for number, sample in enumerate(task.samples(), start=task.first_id):
        grounding, qa, certificate = rows(sample, number, f"{task.bucket.name}/{sample.meta['index']:06d}.png")
        text = sample.text or ""
        table.append(
            {
                "id": sample.id,
                "image": {"bytes": _png(sample), "path": grounding["image"]["file_name"]},
                **{name: qa[name] for name in ("question", "answer", *sample.meta)},
                "objects": [
                    {name: item[name] for name in ("name", "role", "color", "shape", "bbox")}
                    for item in grounding["objects"]
                ],
                "phrases": [
                    {"role": p.role, "text": text[slice(*p.span)], "char_span": [*p.span], "objects": [*p.regions]}
                    for p in sample.phrases
                ],
                "certificate": json.dumps(certificate, separators=(",", ":")),
            }
        )
    return table


def _schema() -> Any:
    """The Arrow schema, with the feature description that Hugging Face `datasets` looks for in its metadata."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ExtraMissing("the Parquet export", "pyarrow", "data") from error
    text, whole, real = pa.string(), pa.int64(), pa.float64()
    plain = {
        "id": text, "question": text, "answer": text, "bucket": text, "preset": text, "mode": text, "depth": whole,
        "qtype": text, "form": whole, "density": real, "seed": whole, "index": whole,
    }  # fmt: skip
    numbers = pa.list_(whole)
    objects = {"name": text, "role": text, "color": text, "shape": text, "bbox": numbers}
    phrases = {"role": text, "text": text, "char_span": numbers, "objects": pa.list_(text)}
    fields = [pa.field("id", text), pa.field("image", pa.struct({"bytes": pa.binary(), "path": text}))]
    fields += [pa.field(name, kind) for name, kind in plain.items() if name != "id"]
    fields += [
        pa.field("objects", pa.list_(pa.struct(objects))),
        pa.field("phrases", pa.list_(pa.struct(phrases))),
        pa.field("certificate", text),
    ]

    def feature(kind: Any) -> Any:
        if pa.types.is_list(kind):
            return [feature(kind.value_type)]
        if pa.types.is_struct(kind):
            return {part.name: feature(part.type) for part in kind}
        return {"dtype": {whole: "int64", real: "float64"}.get(kind, "string"), "_type": "Value"}

    features = {part.name: feature(part.type) if part.name != "image" else {"_type": "Image"} for part in fields}
    described = json.dumps({"info": {"features": features}}, separators=(",", ":"))
    return pa.schema(fields, metadata={"huggingface": described})


def _write_parquet(path: Path, tasks: Sequence[_Task], workers: int, total: int, progress: Progress | None) -> Path:
    schema = _schema()
    import pyarrow as pa
    import pyarrow.parquet as pq

    done = 0
    with whole_file(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for task, table in _run(tasks, _parquet_task, workers):
            writer.write_table(pa.Table.from_pylist(table, schema=schema), row_group_size=CHUNK)
            done += len(task.indices)
            if progress is not None:
                progress(done, total)
    return path
