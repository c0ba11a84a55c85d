"""The loaders on real files of the public datasets, where those are present."""

from __future__ import annotations

import json

import numpy as np
from real_data import real_data

from karat.datasets.segmentation import Ade20k, Coco, CocoStuff, ImageNetS, Voc
from karat.datasets.segmentation.scene import ALIAS
from karat.datasets.segmentation.vocabulary import aliases


def test_voc_on_real_files() -> None:
    root = real_data("seg_native") / "VOCdevkit" / "VOC2012"
    samples = Voc(str(root)).load(0, 3)
    assert [s.answer for s in samples] == ["person", "chair", "bus"]
    assert {r.name for r in samples[1].regions if r.role != ALIAS} == {"chair", "person", "sofa", "ignore"}
    assert {r.name for r in samples[1].regions if r.role == ALIAS} == set(aliases(["chair", "person", "sofa"]))
    assert all(0.05 < s.mask("ignore").mean() < 0.1 for s in samples)  # VOC's borders


def test_ade_on_real_files() -> None:
    root = real_data("seg_native")
    first = Ade20k(str(root / "ADEChallengeData2016")).load(0, 1)[0]
    assert first.answer == "sky"
    assert {"building", "grass", "tree"} <= {r.name for r in first.regions}
    full = Ade20k(str(root / "ADE20K_2021_17_01"), split="training").load(0, 3)
    assert [s.answer for s in full] == ["road", "sidewalk", "building"]
    assert all("problem" not in s.meta for s in full)


def test_coco_stuff_on_a_real_image() -> None:
    root = real_data("seg_native") / "cocostuff-10k-v1.1"
    [sample] = CocoStuff(str(root)).load(0, 1)
    assert {r.name for r in sample.regions} == {"zebra", "tree", "clouds", "sky-other", "ignore"}


def test_imagenet_s_layout_on_real_pets() -> None:
    root = real_data("seg_native") / "ImageNetS919_from_pets"
    samples = ImageNetS(str(root)).load(0, 24)
    assert len({s.answer for s in samples}) == 24
    by_name = {s.id: s for s in samples}
    assert by_name["pug_195"].answer == "pug"
    assert all(s.mask("ignore").any() for s in samples)


def test_coco_masks_have_the_area_that_was_annotated() -> None:
    root = real_data("coco128_instances")
    data = Coco(str(root), split="train2017")
    about = json.loads((root / "annotations" / "instances_train2017.json").read_text())
    names = {c["id"]: c["name"] for c in about["categories"]}
    ratios = []
    for sample in data.load(0, 40):
        mine = [a for a in about["annotations"] if a["image_id"] == int(sample.id)]
        alone = [a for a in mine if sum(b["category_id"] == a["category_id"] for b in mine) == 1 and a["area"] > 500]
        for one in alone:
            region = next(r for r in sample.regions if r.name == names[one["category_id"]])
            ratios.append(region.mask(*sample.size).sum() / one["area"])
    assert len(ratios) > 30
    np.testing.assert_allclose(ratios, 1, atol=0.05)
