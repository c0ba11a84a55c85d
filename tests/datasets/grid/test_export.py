"""Files: layout, spans, bytes that do not depend on workers, and nothing half written."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from karat.datasets.grid import export, generate
from karat.datasets.grid.world import World
from karat.kernel.errors import BadInput

SOME = ("D2_M_F0_d0.7", "D1_REL_F0_d0.3", "D3_CMP_F0_d0.3")


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_published_layout(tmp_path: Path):
    seen: list[tuple[int, int]] = []
    paths = export(tmp_path, per_bucket=3, split="train", seed=5, buckets=SOME, progress=lambda *at: seen.append(at))
    assert [path.name for path in paths] == ["grounding_train.jsonl", "qa_train.jsonl", "certificates_train.jsonl"]
    assert seen[-1] == (9, 9)
    grounding, qa, proofs = (_lines(path) for path in paths)
    samples = [sample for bucket in SOME for sample in generate(bucket, 3, seed=5)]
    for row, question, proof, sample in zip(grounding, qa, proofs, samples, strict=True):
        assert row["image"]["id"] == question["image_id"] == proof["image_id"]
        assert (question["question"], question["answer"]) == (sample.text, sample.answer)
        with Image.open(tmp_path / row["image"]["file_name"]) as image:
            np.testing.assert_array_equal(np.asarray(image), sample.image)
        sentence = row["sentence"]
        boxes = {item["id"]: item for item in row["annotations"]}
        assert {item["role"] for item in boxes.values()} <= {"target", "anchor"}
        assert len(row["objects"]) == len(sample.regions)
        for span in sentence["spans"]:
            first, last = span["span"]
            assert " ".join(sentence["words"][first : last + 1]) == span["phrase"]
            assert sentence["text"][slice(*span["char_span"])] == span["phrase"]
            for number in span["box_ids"]:
                item = boxes[number]
                assert item["category_name"] == f"{item['color']} {item['shape']}"
                assert item["shape"] in span["phrase"]
                x, y, w, h = item["bbox"]
                assert sample.mask("target", "anchor")[y : y + h, x : x + w].all()
        assert proof["heuristics"] == dict(sample.certificate.heuristics)
        removed = {name for name, effect in proof["alters"].items() if effect["removal"]}
        assert removed == {o.name for o in sample.scene.objects if sample.certificate.removal[o.cell]}
    assert len({item["id"] for row in grounding for item in row["objects"]}) == sum(
        len(r["objects"]) for r in grounding
    )


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_bytes_do_not_depend_on_workers(tmp_path: Path, format: str):
    for workers in (1, 2):
        export(
            tmp_path / str(workers),
            per_bucket=70,
            buckets=SOME[:2],
            format=format,
            workers=workers,
            world=World(cell=8),
        )
    assert _digest(tmp_path / "1") == _digest(tmp_path / "2")


def test_a_later_slice_has_the_same_images(tmp_path: Path):
    export(tmp_path / "all", per_bucket=6, buckets=SOME[:1])
    export(tmp_path / "end", per_bucket=2, start=4, buckets=SOME[:1])
    whole, part = _digest(tmp_path / "all"), _digest(tmp_path / "end")
    images = [name for name in part if name.endswith(".png")]
    assert len(images) == 2
    assert all(whole[name] == part[name] for name in images)


def test_parquet_holds_images_and_describes_its_features(tmp_path: Path):
    (path,) = export(tmp_path, mode="spur", per_bucket=4, split="val", buckets=SOME, format="parquet")
    table = pq.read_table(path)
    described = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert described["image"] == {"_type": "Image"}
    assert set(described) == set(table.column_names)
    samples = [sample for bucket in SOME for sample in generate(bucket, 4, mode="spur")]
    for row, sample in zip(table.to_pylist(), samples, strict=True):
        with Image.open(io.BytesIO(row["image"]["bytes"])) as image:
            np.testing.assert_array_equal(np.asarray(image), sample.image)
        assert (row["id"], row["question"], row["answer"]) == (sample.id, sample.text, sample.answer)
        assert [item["name"] for item in row["objects"]] == [region.name for region in sample.regions]
        assert json.loads(row["certificate"])["counts"] == list(sample.certificate.counts)


def test_an_interrupted_export_leaves_no_index(tmp_path: Path):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(tmp_path, per_bucket=2, buckets=SOME[:1], progress=stop)
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".jsonl" or "partial" in path.name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "formats: jsonl, parquet"),
        ({"split": "../x"}, "plain word"),
        ({"per_bucket": 0}, "count from 1"),
        ({"buckets": ["D2_M_F0_d0.7", "D2_M_F0_d0.7"]}, "each once"),
        ({"buckets": ["D2_M_F0_d0.05"]}, "objects at least"),
        ({"preset": "paper", "buckets": ["D1_REL_F0_d0.3"]}, "not published"),
    ],
)
def test_bad_requests_write_nothing(tmp_path: Path, options: dict, message: str):
    with pytest.raises(BadInput, match=message):
        export(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
