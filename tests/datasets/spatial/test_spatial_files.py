"""COCO, VSR and Visual Genome in their published formats, from small files and, where present, the real ones."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from real_data import real_data

from karat.datasets.spatial import CocoPairs, VGSpatial, Vsr, coverage
from karat.datasets.spatial.coco import CATEGORIES, read_instances
from karat.datasets.spatial.pair import overlap
from karat.datasets.spatial.vsr import match_category, read_statements
from karat.kernel.errors import BadInput
from karat.protocols.common import published


def _coco(folder: Path, pictures: int = 12) -> Path:
    """Pictures 200 x 100 with a cup and a bottle on opposite sides of it, a crowd, and two twins of one name."""
    places = {0: ((4, 40), (150, 40)), 1: ((150, 40), (4, 40)), 2: ((90, 2), (90, 70)), 3: ((90, 70), (90, 2))}
    images, notes = [], []
    for i in range(pictures):
        images.append({"id": i, "file_name": f"{i:012d}.jpg", "width": 200, "height": 100})
        for category, (x, y) in zip((1, 2), places[i % 4], strict=True):
            notes.append({"image_id": i, "category_id": category, "bbox": [x, y, 30, 20], "iscrowd": 0})
        notes.append({"image_id": i, "category_id": 3, "bbox": [60, 30, 20, 20], "iscrowd": 1})
        notes += [{"image_id": i, "category_id": 4, "bbox": [100 + 20 * k, 10, 15, 15], "iscrowd": 0} for k in (0, 1)]
        Image.fromarray(np.full((50, 100, 3), i, np.uint8)).save(folder / f"{i:012d}.jpg")  # half the annotated size
    names = enumerate(("cup", "bottle", "chair", "dog"), start=1)
    data = {"images": images, "annotations": notes, "categories": [{"id": k, "name": name} for k, name in names]}
    path = folder / "instances.json"
    path.write_text(json.dumps(data))
    return path


def test_native_coco_gives_balanced_clear_pairs(tmp_path: Path) -> None:
    data = CocoPairs(str(_coco(tmp_path)), str(tmp_path), n=8)
    samples = data.load(0, len(data))
    assert Counter(sample.meta["relation"] for sample in samples) == dict.fromkeys(
        ("left", "right", "above", "below"), 2
    )
    for sample in samples:
        assert {sample.meta["target"], sample.meta["reference"]} == {"cup", "bottle"}  # no crowd, no ambiguous dog
        assert sample.size == (50, 100)
        target, anchor = (sample.mask(role) for role in ("target", "anchor"))
        assert target.sum() == anchor.sum() == 15 * 10  # boxes scaled with the picture
        rows, columns = np.nonzero(target)
        away = {
            "left": columns.mean() < np.nonzero(anchor)[1].mean(),
            "above": rows.mean() < np.nonzero(anchor)[0].mean(),
        }
        assert away.get(str(sample.meta["relation"]), True)
        assert sample.answer == str(1 + ("left", "right", "above", "below").index(str(sample.meta["relation"])))
        assert sum(region.role == "distractor" for region in sample.regions) == 2


def test_any_slice_is_the_same_and_the_seed_decides(tmp_path: Path) -> None:
    path = str(_coco(tmp_path))
    data = CocoPairs(path, n=8, kinds=("plain", "probe", "swap", "move"))
    whole = [sample.id for sample in data.load(0, len(data))]
    assert whole == [sample.id for start in range(len(data)) for sample in data.load(start, start + 1)]
    assert len(set(whole)) == len(whole) == len(data) == 8 * (1 + 4 + 1 + 1)
    assert [pair.id for pair in CocoPairs(path, n=8, seed=1).pairs] != [pair.id for pair in data.pairs]


def test_interventions_say_what_they_changed(tmp_path: Path) -> None:
    data = CocoPairs(str(_coco(tmp_path)), n=4, kinds=("plain", "probe", "swap"))
    plain, *probes, swap = data.load(0, 6)
    assert [probe.meta["explain"] for probe in probes] == ["1", "2", "3", "4"]
    assert all(probe.text == plain.text and probe.answer is None for probe in probes)
    assert {sample.meta["origin"] for sample in (plain, *probes, swap)} == {plain.id}
    assert swap.meta["target"] == plain.meta["reference"]
    assert float(swap.meta["angle"]) == pytest.approx((float(plain.meta["angle"]) + 180) % 360)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="each once"):
        CocoPairs("x", kinds=("plain", "turn"))


def test_files_that_are_no_annotations_say_so(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"images": [1]}')
    with pytest.raises(BadInput, match="not a COCO instances file"):
        read_instances(str(wrong))
    with pytest.raises(BadInput, match="no file at"):
        len(CocoPairs(str(tmp_path / "none.json")))


def _vsr(folder: Path, rows: list[dict[str, Any]]) -> None:
    with gzip.open(folder / "test.jsonl.gz", "wt") as file:
        file.write("\n".join(json.dumps(row) for row in rows))


def test_vsr_statements_meet_their_boxes(tmp_path: Path) -> None:
    captions = [("The cup is at the left side of the bottle.", "at the left side of", 1),
            ("The cup is on the bottle.", "on", 1),
            ("The cup is left of the bottle.", "left of", 0), ("The wug is left of the bottle.", "left of", 1),
            ("The dog is right of the cup.", "right of", 1)]  # fmt: skip
    _vsr(
        tmp_path,
        [{"image": f"{k:012d}.jpg", "caption": c, "relation": r, "label": v} for k, (c, r, v) in enumerate(captions)],
    )
    data = Vsr(str(tmp_path), str(_coco(tmp_path)), relations="cardinal")
    assert [(pair.target.name, pair.reference.name, pair.relation) for pair in data.pairs] == [
        ("cup", "bottle", "left"), ("cup", "bottle", "above"), ("dog", "cup", "right"),
    ]  # fmt: skip
    assert data.pairs[2].meta["instances"] == 2
    [row] = coverage(tmp_path, ("test",), "published", str(tmp_path / "instances.json"))
    assert (row.positive, row.matched, row.valid, row.coverage) == (4, 1, 1, 0.25)


def test_names_are_matched_conservatively() -> None:
    assert len(CATEGORIES) == len(set(CATEGORIES)) == 80
    assert match_category("teddy bear") == "teddy bear"
    assert match_category("bear") == "bear"
    assert match_category("plant") == "potted plant"
    assert match_category("baseball") is None  # bat or glove?
    assert match_category("wug") is None
    assert match_category("car") == "car"  # not carrot: whole words only


def test_table_2_of_the_paper_to_the_sample() -> None:
    folder = real_data("vsr") / "splits" / "random"
    rows = coverage(folder)
    printed = {str(row[0]): row for row in published.load("compass").tables["Table 2"].rows}
    for row in rows:
        assert (row.positive, row.matched) == printed[row.split][1:3]
        assert round(row.coverage, 3) == printed[row.split][3]
    # None of the relations that meet the printed counts is horizontal.
    assert sum(one.relation in ("left of", "right of") for one in read_statements(folder, "test")) == 42


def test_real_boxes_of_coco() -> None:
    data = CocoPairs(str(real_data("coco_val2017_boxes") / "coco_val2017_boxes_4313.json.gz"))
    assert Counter(pair.relation for pair in data.pairs) == dict.fromkeys(("left", "right", "above", "below"), 75)
    assert len({pair.picture for pair in data.pairs}) == 300
    assert max(overlap(pair.reference.box, pair.target.box) for pair in data.pairs) < 0.5


def test_visual_genome_where_annotators_and_boxes_agree(tmp_path: Path) -> None:
    places = {"left": (0, 40), "right": (160, 40), "above": (80, 0), "below": (80, 80)}
    words = {"left": "to the left of", "right": "right of", "above": "above", "below": "under"}
    objects, relations, sizes = [], [], []
    for k, (relation, (x, y)) in enumerate([*places.items(), *places.items()]):
        cat = {"x": x, "y": y, "w": 30, "h": 20, "names": ["Cat", "feline"]}
        mat = {"x": 80, "y": 40, "w": 30, "h": 20, "names": ["mat"]}
        objects.append({"image_id": k, "objects": [cat, mat]})
        sizes.append({"image_id": k, "width": 200, "height": 100})
        predicate = (
            words[relation] if k < 4 else words[{"left": "right"}.get(relation, "left")]
        )  # wrong in the second four
        relations.append(
            {"image_id": k, "relationships": [{"predicate": predicate.upper(), "subject": cat, "object": mat}]}
        )
    for name, content in (("objects", objects), ("image_data", sizes), ("relationships", relations)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = {name: str(tmp_path / f"{name}.json") for name in ("objects", "image_data")}
    stated = VGSpatial(**files, relationships=str(tmp_path / "relationships.json"), n=4)
    assert [(pair.target.name, pair.relation) for pair in stated.pairs] == [("cat", r) for r in places]
    assert {pair.picture for pair in stated.pairs} == {f"{k}.jpg" for k in range(4)}
    assert len(VGSpatial(**files, n=8)) == 8  # boxes alone: every picture asks something
    assert len(stated.load(1, 3)) == 2
