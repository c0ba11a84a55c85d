"""RePOPE, CV-Bench and MMStar in their published formats: written here as they are published, and real where it is."""

from __future__ import annotations

import base64
import csv
import io
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from real_data import real_data

from karat.datasets.vqa import CVBench, MMStar, RePOPE
from karat.datasets.vqa.files import INSTRUCTION, ParquetRows, locate
from karat.datasets.vqa.repope import named_object
from karat.kernel.errors import BadInput
from karat.protocols.common.published import load


def png(level: int, size: tuple[int, int] = (6, 4)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (level, 0, 0)).save(out, format="PNG")
    return out.getvalue()


@pytest.fixture
def repope(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for split in ("random", "popular"):
        rows = [
            {
                "question_id": 1,
                "image": "COCO_val2014_000000000007.jpg",
                "text": "Is there a dog in the image?",
                "label": "yes",
            },
            {
                "question_id": 2,
                "image": "COCO_val2014_000000000007.jpg",
                "text": "Is there an umbrella in the image?",
                "label": "no",
            },
        ]
        (tmp_path / f"coco_repope_{split}.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
    Image.new("RGB", (20, 10), (1, 2, 3)).save(tmp_path / "images" / "000000000007.jpg")
    return tmp_path


def cv_bench_file(path: Path, rows: int = 3, **changes: object) -> Path:
    data = {
        "idx": list(range(rows)), "type": ["2D"] * rows, "task": ["Count", "Relation", "Count"][:rows],
        "image": [{"bytes": png(i), "path": None} for i in range(rows)],
        "question": ["How many scarfs are in the image?"] * rows, "choices": [["3", "1", "0"]] * rows,
        "answer": ["(B)"] * rows,
        "prompt": ["How many scarfs are in the image? Select from the following choices.\n(A) 3\n(B) 1\n(C) 0"] * rows,
    }  # fmt: skip
    pq.write_table(pa.table(data | changes), path, row_group_size=2)
    return path


def mmstar_rows() -> dict[str, list[object]]:
    return {
        "index": [0, 1], "question": ["Which way?\nOptions: A: left, B: right, C: up, D: down", "How many?"],
        "image": [png(5), png(6)], "answer": ["B", "D"], "category": ["logical reasoning", "math"],
        "l2_category": ["x", "y"],
    }  # fmt: skip


def test_repope(repope: Path) -> None:
    data = RePOPE(str(repope), images=str(repope / "images"), splits=("random", "popular"))
    assert len(data) == 2  # the two splits ask the same
    first, second = data.load(0, 2)
    assert (first.text, first.answer, first.choices) == ("Is there a dog in the image?", "yes", ("yes", "no"))
    assert first.size == (10, 20)
    assert second.meta["object"] == "umbrella"
    assert first.phrases == ()  # yes/no questions are put without a directive
    assert [s.id for s in data.load(0, 2)] == ["random-0001", "random-0002"]
    assert (first.meta["split"], first.meta["repeats"]) == ("random+popular", 2)
    assert first.meta["photo"] == "COCO_val2014_000000000007.jpg"
    first.image[0, 0] = 0  # nothing in it is read-only


def test_repope_asks_about_one_photograph_at_a_time(repope: Path) -> None:
    rows = [
        {
            "question_id": k,
            "image": f"COCO_val2014_{photo:012d}.jpg",
            "text": f"Is there a {name} in the image?",
            "label": "no",
        }
        for k, (photo, name) in enumerate([(7, "cat"), (8, "cat"), (7, "dog"), (7, "cat"), (8, "cat")])
    ]
    (repope / "coco_repope_random.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
    Image.new("RGB", (20, 10)).save(repope / "images" / "000000000008.jpg")
    samples = RePOPE(str(repope), images=str(repope / "images"), splits=("random",)).load(0, 9)
    assert [(s.id, s.meta["repeats"]) for s in samples] == [("random-0000", 2), ("random-0002", 1), ("random-0001", 2)]
    rows[3]["label"] = "yes"  # a repeat that contradicts is a question of its own
    (repope / "coco_repope_random.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert len(RePOPE(str(repope), images=str(repope / "images"), splits=("random",))) == 4


def test_repope_says_which_picture_is_missing(repope: Path) -> None:
    (repope / "images" / "000000000007.jpg").unlink()
    with pytest.raises(
        BadInput, match=r"2 of 2 questions have no picture, the first is .*000000000007\.jpg.*missing: skip"
    ):
        len(RePOPE(str(repope), images=str(repope / "images"), splits=("random",)))
    assert len(RePOPE(str(repope), images=str(repope / "images"), splits=("random",), missing="skip")) == 0


def test_repope_with_boxes_has_an_oracle(repope: Path) -> None:
    boxes = {
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"image_id": 7, "category_id": 18, "bbox": [2.0, 1.0, 5.4, 3.6]}],
    }
    (repope / "instances.json").write_text(json.dumps(boxes))
    data = RePOPE(str(repope), str(repope / "images"), splits=("random",), boxes=str(repope / "instances.json"))
    dog, umbrella = data.load(0, 2)
    assert dog.regions[0].boxes == ((2, 1, 5, 4),)
    assert dog.mask("target").sum() == 20
    assert umbrella.regions == ()


def test_repope_boxes_follow_a_photograph_that_was_resized(repope: Path) -> None:
    boxes = {
        "images": [{"id": 7, "width": 40, "height": 40}],
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"image_id": 7, "category_id": 18, "bbox": [8.0, 8.0, 20.0, 32.0]}],
    }
    path = repope / "instances.json"
    path.write_text(json.dumps(boxes))
    options = {"images": str(repope / "images"), "splits": ("random",), "boxes": str(path)}
    assert RePOPE(str(repope), **options).load(0, 1)[0].regions[0].boxes == ((4, 2, 10, 8),)
    path.write_text(json.dumps({**boxes, "images": []}))
    with pytest.raises(BadInput, match=r"reaches \(28, 40\), the picture is 20×10"):
        RePOPE(str(repope), **options).load(0, 1)


def test_repope_in_parquet_brings_its_own_images(tmp_path: Path) -> None:
    """The form in which POPE stands on the hub: all splits in one table, as `category`."""
    rows = {
        "question_id": ["1", "2", "3"], "question": ["Is there a dog in the image?"] * 3,
        "answer": ["yes", "no", "yes"], "category": ["random", "popular", "random"],
        "image": [{"bytes": png(i), "path": None} for i in range(3)],
    }  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "test-00000-of-00001.parquet")
    data = RePOPE(str(tmp_path), splits=("random",))
    assert [s.id for s in data.load(0, 2)] == ["random-0001", "random-0003"]
    assert data.load(1, 2)[0].image[0, 0].tolist() == [2, 0, 0]
    assert data.label == "repope.random"


def test_repope_bad_lines(repope: Path) -> None:
    (repope / "coco_repope_random.json").write_text('{"question_id": 1}\n')
    with pytest.raises(BadInput, match="line 1: expected one question as JSON"):
        len(RePOPE(str(repope), splits=("random",)))


def test_the_real_repope() -> None:
    real, images = real_data("pope_repope"), real_data("coco_images")
    data = RePOPE(str(real / "annotations"), images=str(images), missing="skip")
    samples = data.load(0, len(data))
    assert (len(data), sum(int(sample.meta["repeats"]) for sample in samples)) == (511, 303 + 292 + 287)
    photos = [sample.meta["photo"] for sample in samples]
    assert sum(photo != following for photo, following in pairwise(photos)) == len(set(photos)) - 1  # side by side
    sample = samples[0]
    assert sample.image.shape[2] == 3
    assert sample.answer in sample.choices


def test_the_real_splits_repeat_questions() -> None:
    files = sorted((real_data("pope_repope") / "annotations").glob("coco_repope_*.json"))
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    published = load("synergy").facts
    assert len(rows) == published["questions_repope"]["value"]
    assert len({(row["image"], row["text"]) for row in rows}) == published["questions_repope_distinct"]["value"]


def test_every_real_question_names_its_object() -> None:
    lines = (real_data("pope_repope") / "annotations/coco_repope_popular.json").read_text().splitlines()
    objects = {named_object(json.loads(line)["text"]) for line in lines}
    assert {"person", "dining table", "umbrella"} <= objects
    assert not any(name.startswith(("a ", "an ")) or "?" in name for name in objects)


def test_cv_bench(tmp_path: Path) -> None:
    data = CVBench(str(cv_bench_file(tmp_path / "test_2d.parquet")))
    assert len(data) == 3
    last = data.load(2, 3)[0]  # of the second row group
    assert last.image[0, 0].tolist() == [2, 0, 0]
    assert (last.answer, last.choices) == ("B", ("A", "B", "C"))
    assert last.text.startswith("How many scarfs")
    assert last.text.endswith("Answer directly with only the letter inside parentheses, and nothing else. \n")
    told = [last.text[a:b] for (a, b), marked in zip(last.words, last.word_mask(INSTRUCTION), strict=True) if marked]
    assert told[:3] == ["Answer", "directly", "with"]
    assert not last.word_mask(INSTRUCTION)[0]


def test_cv_bench_tasks_folders_and_directives(tmp_path: Path) -> None:
    cv_bench_file(tmp_path / "test_2d.parquet")
    cv_bench_file(tmp_path / "test_3d.parquet", rows=1, type=["3D"], task=["Depth"])
    assert len(CVBench(str(tmp_path))) == 4
    counts = CVBench(str(tmp_path), tasks=("Count",), directive="answer")
    assert [s.id for s in counts.load(0, 2)] == ["2D-00000", "2D-00002"]
    assert counts.load(0, 1)[0].text.endswith("\nAnswer:")
    assert CVBench(str(tmp_path), directive="none").load(3, 4)[0].phrases == ()
    assert counts.label == CVBench(str(tmp_path), tasks=("Count",)).label == "cv_bench.Count"  # they pool over models


def test_cv_bench_changes_its_revision_with_its_bytes(tmp_path: Path) -> None:
    before = CVBench(str(cv_bench_file(tmp_path / "a.parquet"))).revision
    other = cv_bench_file(tmp_path / "b.parquet", answer=["(A)"] * 3)
    assert CVBench(str(other)).revision != before


def test_mmstar_parquet_and_tsv_are_the_same_questions(tmp_path: Path) -> None:
    rows = mmstar_rows()
    pq.write_table(pa.table(rows), tmp_path / "mmstar.parquet")
    with (tmp_path / "MMStar.tsv").open("w", newline="") as file:
        write = csv.writer(file, delimiter="\t")
        write.writerow([*rows, "A", "B", "C", "D"])
        for index, question, image, *rest in zip(*rows.values(), strict=True):
            write.writerow([index, question, base64.b64encode(image).decode(), *rest, "left", "right", "up", "down"])
    whole, table = MMStar(str(tmp_path)), MMStar(str(tmp_path / "MMStar.tsv"))
    assert len(whole) == len(table) == 2
    for ours, theirs in zip(whole.load(0, 2), table.load(0, 2), strict=True):
        assert ours.answer == theirs.answer
        np.testing.assert_array_equal(ours.image, theirs.image)
    assert table.load(0, 1)[0].text == whole.load(0, 1)[0].text  # choices in the question are not said twice
    assert "Options: A: left, B: right" in table.load(1, 2)[0].text
    assert len(MMStar(str(tmp_path), categories=("math",))) == 1
    with pytest.raises(BadInput, match="no category 'maths'; there are logical reasoning, math"):
        len(MMStar(str(tmp_path), categories=("maths",)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"answer": ["E", "D"]}, "question 0: the answer 'E' is none of A, B, C, D"),
        ({"image": [b"no image", png(1)]}, "question 0: the image cannot be read"),
    ],
)
def test_mmstar_bad_rows_are_named(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    pq.write_table(pa.table(mmstar_rows() | changes), tmp_path / "mmstar.parquet")
    with pytest.raises(BadInput, match=says):
        MMStar(str(tmp_path)).load(0, 1)


def test_wrong_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(BadInput, match="is not a Parquet file"):
        ParquetRows([tmp_path / "a.parquet"], ())
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(BadInput, match="has no column 'idx'; it has x"):
        len(CVBench(str(tmp_path / "b.parquet")))
    with pytest.raises(BadInput, match=r"holds none of mmstar\.parquet"):
        locate(str(tmp_path), ("mmstar.parquet",))
    with pytest.raises(BadInput, match=r"no file or folder at \./nowhere"):
        locate("./nowhere", ("x",))


def test_hub_ids_are_fetched_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    cv_bench_file(tmp_path / "test_2d.parquet")
    requests = []

    def download(source: str, file: str, repo_type: str, revision: str | None) -> str:
        requests.append((source, file, repo_type, revision))
        return str(tmp_path / file)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    monkeypatch.setattr(hub.HfApi, "list_repo_files", lambda *_, **__: ["README.md", "test_2d.parquet"])
    assert len(CVBench(hub_revision="abc")) == 3
    assert requests == [("nyu-visionx/CV-Bench", "test_2d.parquet", "dataset", "abc")]
    with pytest.raises(BadInput, match=r"holds none of mmstar\.parquet"):
        locate("owner/name", ("mmstar.parquet",))


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def offline(*_: object, **__: object) -> list[str]:
        raise OSError("no route to host")

    monkeypatch.setattr(hub.HfApi, "list_repo_files", offline)
    with pytest.raises(BadInput, match="cannot fetch the dataset owner/name from the hub: no route to host"):
        locate("owner/name", ("x",))
