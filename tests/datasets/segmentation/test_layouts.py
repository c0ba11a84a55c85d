"""Every dataset on tiny files in its true format: classes, ignored pixels, sizes, label edge cases, wrong layouts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from segmentation_worlds import (
    H,
    W,
    ade,
    ade_full,
    coco,
    coco_stuff,
    folder,
    ids,
    imagenet_s,
    indexed,
    parquet,
    picture,
    voc,
)  # fmt: skip

from karat.datasets.segmentation import Ade20k, Coco, CocoStuff, Folder, ImageNetS, Parquet, Voc
from karat.datasets.segmentation.files import read_labels
from karat.datasets.segmentation.imagenet import MERGED, by_wnid, labels, members
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample

QUARTER = H * W // 4


def areas(sample: Sample, role: str = "class") -> dict[str, int]:
    return {r.name: int(r.mask(*sample.size).sum()) for r in sample.regions if r.role == role}


def test_voc(tmp_path: Path) -> None:
    data = Voc(str(voc(tmp_path)))
    b, a = data.load(0, 2)  # the order of val.txt
    assert (b.id, a.id) == ("b", "a")
    assert areas(a) == {"person": QUARTER, "cat": QUARTER}
    assert areas(a, "ignore") == {"ignore": QUARTER}
    assert areas(b) == {"tvmonitor": 2 * QUARTER}
    assert areas(b, "ignore") == {}
    with_background = Voc(str(tmp_path), background=True).load(0, 1)[0]
    assert areas(with_background) == {"background": 2 * QUARTER, "tvmonitor": 2 * QUARTER}
    assert with_background.image.shape == (H, W, 3)
    assert with_background.image.dtype == np.uint8


def test_ade_challenge_and_full(tmp_path: Path) -> None:
    [sample] = Ade20k(str(ade(tmp_path / "challenge"))).load(0, 1)
    assert areas(sample) == {"wall": 2 * QUARTER, "flag": QUARTER}
    assert areas(sample, "ignore") == {"ignore": QUARTER}
    [sample] = Ade20k(str(tmp_path / "challenge"), ignore=()).load(0, 1)
    assert areas(sample, "ignore") == {}
    [sample] = Ade20k(str(ade_full(tmp_path / "full")), split="training").load(0, 1)
    assert areas(sample) == {"building": 2 * QUARTER, "tree": QUARTER}


def test_coco_stuff_things_and_stuff(tmp_path: Path) -> None:
    root = str(coco_stuff(tmp_path))
    [sample] = CocoStuff(root, split="test").load(0, 1)
    assert areas(sample) == {"banner": QUARTER, "person": QUARTER, "wood": QUARTER}
    assert areas(sample, "ignore") == {"ignore": QUARTER}
    assert areas(CocoStuff(root, keep="things").load(0, 1)[0]) == {"person": QUARTER}
    assert areas(CocoStuff(root, keep="stuff").load(0, 1)[0]) == {"banner": QUARTER, "wood": QUARTER}
    assert areas(CocoStuff(root, ignore=()).load(0, 1)[0], "ignore") == {}


def test_coco_polygons_and_both_run_lengths(tmp_path: Path) -> None:
    data = Coco(str(coco(tmp_path)))
    assert len(data) == 1  # the image without annotations is no sample
    [sample] = data.load(0, 1)
    mask = {region.name: region.mask(H, W) for region in sample.regions}
    assert mask["cat"].all(axis=0).tolist() == [True, True, True] + [False] * 5
    assert mask["toothbrush"].all(axis=0).tolist() == [False] * 6 + [True, True]
    assert sample.answer == "cat"


def test_imagenet_s_numbers_and_ignored(tmp_path: Path) -> None:
    [sample] = ImageNetS(str(imagenet_s(tmp_path))).load(0, 1)
    assert areas(sample) == {"tench": QUARTER, by_wnid()[members(919)[-1]]: QUARTER}  # type: ignore[index]
    assert areas(sample, "ignore") == {"ignore": QUARTER}
    assert sample.mask("class", "ignore").sum() == 3 * QUARTER  # 0 lies outside


def test_imagenet_s_of_300_needs_its_list(tmp_path: Path) -> None:
    root = imagenet_s(tmp_path)
    with pytest.raises(BadInput, match=r"300 classes; 1 were found.*ImageNetS_categories_im300\.txt"):
        ImageNetS(str(root), size=300).load(0, 1)
    wnids = list(by_wnid())[:300]
    (root / "ImageNetS_categories_im300.txt").write_text("\n".join(reversed(wnids)))
    [sample] = ImageNetS(str(root), size=300).load(0, 1)
    assert sample.meta["problem"] is not None  # 919 is no class of the 300
    assert "919" in str(sample.meta["problem"])


def test_imagenet_s_flat_with_images_beside(tmp_path: Path) -> None:
    root = imagenet_s(tmp_path / "ImageNetS919")
    beside = tmp_path / "ImageNetVal" / "val"
    beside.mkdir(parents=True)
    shutil.move(root / "validation" / "n01440764" / "ILSVRC2012_val_1.JPEG", beside)
    shutil.rmtree(root / "validation")
    shutil.move(
        root / "validation-segmentation" / "n01440764" / "ILSVRC2012_val_1.png", root / "validation-segmentation"
    )
    assert areas(ImageNetS(str(root)).load(0, 1)[0])["tench"] == QUARTER


def test_merged_classes_of_imagenet_s_are_aliases(tmp_path: Path) -> None:
    root = imagenet_s(tmp_path)
    kept = MERGED["n04356056"]
    number = members(919).index(kept) + 1  # type: ignore[union-attr]
    colours = np.zeros((H, W, 3), dtype=np.uint8)
    colours[..., 0], colours[..., 1] = number % 256, number // 256
    from PIL import Image

    Image.fromarray(colours).save(root / "validation-segmentation" / "n01440764" / "ILSVRC2012_val_1.png")
    [sample] = ImageNetS(str(root)).load(0, 1)
    assert areas(sample) == {by_wnid()[kept]: H * W}
    assert areas(sample, "alias") == {by_wnid()["n04356056"]: H * W}
    assert not set(MERGED) & set(members(919))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["L", "P", "I;16"])
def test_folder_reads_every_indexed_png(tmp_path: Path, mode: str) -> None:
    numbers = ids(0, 3, 300, 2) if mode == "I;16" else ids(0, 3, 255, 2)
    [sample] = Folder(str(folder(tmp_path, mode, numbers))).load(0, 1)
    expected = {"cat": QUARTER, "dog": QUARTER} | ({"sky": QUARTER} if mode == "I;16" else {})
    assert areas(sample) == expected
    assert areas(sample, "ignore") == ({} if mode == "I;16" else {"ignore": QUARTER})
    assert sample.image.shape == (H, W, 3)  # a grey image becomes RGB


def test_parquet_row_groups_and_names(tmp_path: Path) -> None:
    data = Parquet(str(parquet(tmp_path / "train.parquet")))
    assert len(data) == 5
    samples = data.load(1, 5)  # over three row groups
    assert [s.id for s in samples] == ["00000001", "00000002", "00000003", "00000004"]
    assert [int(s.image[0, 0, 0]) for s in samples] == [1, 2, 3, 4]
    assert areas(samples[0]) == {"cat": 2 * QUARTER}
    assert areas(samples[0], "ignore") == {"ignore": QUARTER}
    given = Parquet(str(tmp_path), labels=("nothing", "lion"), split="train")
    assert areas(given.load(0, 1)[0]) == {"lion": 2 * QUARTER}
    with pytest.raises(BadInput, match="no column label; it has image, mask"):
        Parquet(str(tmp_path), mask="label").load(0, 1)


def test_arrow_files_as_save_to_disk_leaves_them(tmp_path: Path) -> None:
    parquet(tmp_path / "train" / "data-00000-of-00002.arrow", 3)
    parquet(tmp_path / "train" / "data-00001-of-00002.arrow", 2)
    parquet(tmp_path / "train" / "cache-123.arrow", 9)
    parquet(tmp_path / "test" / "data-00000-of-00001.arrow", 1)
    data = Parquet(str(tmp_path), split="train")
    assert len(data) == 5
    samples = data.load(0, 5)
    assert [int(s.image[0, 0, 0]) for s in samples] == [0, 1, 2, 0, 1]
    assert areas(samples[4]) == {"cat": 2 * QUARTER}
    assert len(Parquet(str(tmp_path))) == 6


def test_numbers_at_the_edges_of_every_format(tmp_path: Path) -> None:
    """0, 255 and 1000 are a class, outside or ignored as each dataset says; what nobody named is told, not scored."""
    mat = coco_stuff(tmp_path / "stuff")
    for dtype in (np.uint8, np.uint16, np.float64):  # MATLAB stores what it was given
        savemat(mat / "annotations" / "COCO_1.mat", {"S": ids(0, 1, 92, 182).astype(dtype)})
        assert areas(CocoStuff(str(mat)).load(0, 1)[0]) == {"banner": QUARTER, "person": QUARTER, "wood": QUARTER}
    savemat(mat / "annotations" / "COCO_1.mat", {"S": ids(0, 1, 255, 182).astype(np.uint8)})
    assert "class 255, which has no name" in str(CocoStuff(str(mat)).load(0, 1)[0].meta["problem"])

    challenge = ade(tmp_path / "ade")
    indexed(challenge / "annotations" / "validation" / "ADE_val_1.png", ids(0, 1, 255, 150), "L")
    assert "class 255, which has no name" in str(Ade20k(str(challenge)).load(0, 1)[0].meta["problem"])
    [sample] = Ade20k(str(challenge), ignore=(0, 255)).load(0, 1)
    assert areas(sample, "ignore") == {"ignore": 2 * QUARTER}

    wide = folder(tmp_path / "wide", "I;16", ids(0, 255, 1000, 2))
    assert areas(Folder(str(wide), ignore=(1000,), background=(0, 255)).load(0, 1)[0], "ignore") == {"ignore": QUARTER}
    assert "class 1000" in str(Folder(str(wide)).load(0, 1)[0].meta["problem"])
    (wide / "labels.txt").write_text("0: sky\n2: cat\n255: dog\n1000: sea\n")
    every = areas(Folder(str(wide), ignore=(), background=()).load(0, 1)[0])
    assert every == {"sky": QUARTER, "dog": QUARTER, "sea": QUARTER, "cat": QUARTER}


@pytest.mark.parametrize("number", [1, 255, 256, 257, 512, 919])
def test_imagenet_s_counts_over_the_byte(tmp_path: Path, number: int) -> None:
    """R + 256 G: 256 is (0, 1), where a byte alone would say other."""
    from PIL import Image

    root = imagenet_s(tmp_path)
    numbers = ids(0, number, 1000, number)
    colours = np.stack([numbers % 256, numbers // 256, np.zeros_like(numbers)], -1).astype(np.uint8)
    Image.fromarray(colours).save(root / "validation-segmentation" / "n01440764" / "ILSVRC2012_val_1.png")
    [sample] = ImageNetS(str(root)).load(0, 1)
    assert areas(sample) == {by_wnid()[members(919)[number - 1]]: 2 * QUARTER}  # type: ignore[index]
    assert areas(sample, "ignore") == {"ignore": QUARTER}


def test_masks_of_one_bit_and_masks_in_colour(tmp_path: Path) -> None:
    from PIL import Image

    root = folder(tmp_path)
    (root / "labels.txt").write_text("1: cat\n")
    Image.fromarray(ids(0, 1, 1, 0).astype(bool)).save(root / "masks" / "one.png")
    assert areas(Folder(str(root)).load(0, 1)[0]) == {"cat": 2 * QUARTER}
    Image.fromarray(np.zeros((H, W, 3), dtype=np.uint8)).save(root / "masks" / "one.png")
    assert "one.png is a RGB image" in str(Folder(str(root)).load(0, 1)[0].meta["problem"])


WRONG: list[tuple[Any, str]] = [
    (Voc, "JPEGImages/"), (Ade20k, "objectInfo150.txt"), (CocoStuff, "annotations/COCO_train2014"),
    (Coco, "instances_val2017.json"), (ImageNetS, "validation-segmentation/"), (Folder, "labels.txt"),
    (Parquet, "columns image and mask"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "expected"), WRONG)
def test_a_wrong_layout_is_answered_with_the_tree(tmp_path: Path, kind: Any, expected: str) -> None:
    (tmp_path / "something.txt").touch()
    with pytest.raises(BadInput) as error:
        len(kind(str(tmp_path)))
    assert "something.txt" in str(error.value)
    assert "Expected:\n" in str(error.value)
    assert expected in str(error.value)


def test_masks_without_images_are_said(tmp_path: Path) -> None:
    root = folder(tmp_path)
    indexed(root / "masks" / "two.png", ids(2, 2, 2, 2), "L")
    with pytest.raises(BadInput, match=r"1 of 2 masks have no image, the first two\.png"):
        len(Folder(str(root)))


def test_ranks_share_the_image_and_any_slice_is_the_same(tmp_path: Path) -> None:
    data = CocoStuff(str(coco_stuff(tmp_path)), predictions=4)
    ranks = data.load(0, 4)
    assert [s.id for s in ranks] == ["COCO_1#1", "COCO_1#2", "COCO_1#3", "COCO_1#4"]
    assert [s.answer for s in ranks] == ["banner", "person", "wood", None]  # by area, then by name
    assert all(s.image is ranks[0].image for s in ranks)
    [third] = data.load(2, 3)
    assert (third.id, third.answer, dict(third.meta)) == (ranks[2].id, ranks[2].answer, dict(ranks[2].meta))


def test_an_image_that_cannot_be_read_stops_nobody(tmp_path: Path) -> None:
    root = folder(tmp_path)
    picture(root / "images" / "two.png")
    indexed(root / "masks" / "two.png", ids(2, 2, 3, 3), "L")
    (root / "images" / "one.png").write_bytes(b"not an image")
    broken, whole = Folder(str(root)).load(0, 2)
    assert "cannot identify" in str(broken.meta["problem"])
    assert broken.regions == ()
    assert areas(whole) == {"cat": 2 * QUARTER, "dog": 2 * QUARTER}
    indexed(root / "masks" / "two.png", ids(2, 2, 9, 9), "L")
    assert "class 9, which has no name" in str(Folder(str(root)).load(1, 2)[0].meta["problem"])


def test_mask_and_image_must_have_one_size(tmp_path: Path) -> None:
    root = folder(tmp_path)
    indexed(root / "masks" / "one.png", ids(2, 2, 3, 3)[:-1], "L")
    assert "its image (6, 8)" in str(Folder(str(root)).load(0, 1)[0].meta["problem"])


def test_revision_follows_the_files_not_their_place(tmp_path: Path) -> None:
    one = Folder(str(folder(tmp_path / "one")))
    copy = Folder(str(shutil.copytree(tmp_path / "one", tmp_path / "two")))
    assert one.revision == copy.revision
    (tmp_path / "two" / "labels.txt").write_text("2: lion\n3: dog\n")
    assert Folder(str(tmp_path / "two")).revision != one.revision


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", "1: cat\n2: dog\n", {1: "cat", 2: "dog"}),
        ("a.txt", "cat\nbig dog\n", {0: "cat", 1: "big dog"}),
        ("a.csv", "id,name\n0,cat\n255,void\n", {0: "cat", 255: "void"}),
        ("a.tsv", "7\tcat\n", {7: "cat"}),
        ("a.json", '["cat", "dog"]', {0: "cat", 1: "dog"}),
        ("a.json", '{"4": "cat"}', {4: "cat"}),
    ],
)
def test_label_files(tmp_path: Path, name: str, text: str, expected: dict[int, str]) -> None:
    (tmp_path / name).write_text(text)
    assert read_labels(tmp_path / name) == expected


def test_imagenets_classes() -> None:
    assert len(labels()) == len(set(labels())) == 1000
    assert list(by_wnid()) == sorted(by_wnid())  # the order that classifiers count by
    assert len(members(50)) == 50  # type: ignore[arg-type]
    assert len(members(919)) == 919  # type: ignore[arg-type]
    assert members(300) is None
