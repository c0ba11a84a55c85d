import numpy as np
import pytest
from PIL import Image
from real_data import real_data

from karat.datasets.cues import CuesDataset, World, generate
from karat.datasets.cues.layout import MARGIN, make_layout
from karat.datasets.cues.photographs import EMBEDDED, FEWEST, Photograph, open_photographs
from karat.datasets.segmentation import Folder
from karat.kernel.errors import KaratError
from karat.kernel.identity import generator
from karat.kernel.registry import build
from karat.testing import check_dataset


def folder(path, masks, labels="1: car\n2: bus\n"):
    """A folder in the layout of segmentation/folder; `masks` are arrays of class numbers, whatever their size."""
    (path / "images").mkdir(parents=True)
    (path / "masks").mkdir()
    for i, mask in enumerate(masks):
        noise = np.random.default_rng(i).integers(0, 256, (*mask.shape, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path / "images" / f"{i:03d}.png")
        Image.fromarray(mask.astype(np.uint8)).save(path / "masks" / f"{i:03d}.png")
    (path / "labels.txt").write_text(labels)
    return str(path)


def box(number, height=60, width=90, where=(20, 30, 25, 30)):
    mask = np.zeros((height, width), np.uint8)
    top, left, tall, wide = where
    mask[top : top + tall, left : left + wide] = number
    return mask


CARS = World(classes=("car", "bus"))


def test_any_folder_with_masks_of_any_proportions_will_do(tmp_path):
    wide = [box(1), box(1, where=(5, 60, 30, 28)), box(1, 90, 60), box(1, 64, 64, (10, 5, 30, 40))]
    root = folder(tmp_path, [*wide, *(np.where(mask, 2, 0) for mask in wide)])
    samples = generate(12, images=root, world=CARS)
    for sample in samples:
        assert sample.size == (192, 192)
        assert sample.mask("content").any()
        assert "car" in sample.text
        column = (
            np.nonzero(sample.with_cues(tag=None, sticker=None, frame=None).mask("content"))[1].mean() + 0.5
        ) / 192
        assert (column < 0.5) == sample.votes["side"]
    named = {"name": "segmentation/folder", "root": root}
    for same in (Folder(root), named):
        assert generate(1, images=same, world=CARS)[0].image.tobytes() == samples[0].image.tobytes()


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([box(0)] * 8, "no masks of classes at all"),
        ([np.ones((40, 40), np.uint8)] * 4 + [box(2)] * 4, "mask over nearly everything"),
        ([box(1, where=(1, 1, 4, 4))] * 4 + [box(2)] * 4, "object too small"),
        ([box(1)] * 4 + [np.maximum(box(1), box(2, where=(0, 0, 15, 30)))] * 4, "both classes"),
        ([box(1)] * 4 + [box(2)] * (FEWEST - 1), "photographs of 'bus'"),
    ],
)
def test_photographs_that_will_not_do_are_refused_with_the_reason(tmp_path, masks, message):
    with pytest.raises(KaratError, match=message):
        generate(1, images=folder(tmp_path, masks), world=CARS)


def test_wrong_classes_are_answered_with_those_there_are():
    with pytest.raises(KaratError, match="masks of cat, dog"):
        generate(1, world=World(classes=("cat", "horse")))
    with pytest.raises(KaratError, match="two values that differ"):
        World(classes=("dog", "dog"))
    with pytest.raises(KaratError, match="name"):
        open_photographs({"root": "x"}, ("cat", "dog"))


def test_the_embedded_ones_are_attributed():
    names = sorted(path.stem for path in (EMBEDDED / "images").iterdir())
    assert names == sorted(path.stem for path in (EMBEDDED / "masks").iterdir())
    assert len(names) == 48
    text = (EMBEDDED / "ATTRIBUTION.md").read_text()
    assert "CC BY-SA 4.0" in text
    assert "Oxford-IIIT Pet" in text
    assert sum(path.stat().st_size for path in EMBEDDED.rglob("*") if path.is_file()) < 1_000_000


def test_the_embedded_ones_are_of_the_test_split():
    import csv

    with (real_data("pets192") / "index.csv").open() as file:
        split = {row["name"]: row["split"] for row in csv.DictReader(file)}
    assert {split[path.stem] for path in (EMBEDDED / "images").iterdir()} == {"test"}


@pytest.mark.parametrize("where", [(0, 0, 40, 12), (10, 15, 30, 34), (0, 0, 63, 40), (30, 50, 34, 14)])
def test_windows_keep_the_object_on_the_left_wherever_it_lies(where):
    """The centre of the whole object, in the window's own coordinates."""
    mask = box(1, 64, 64, where).astype(bool)
    one = Photograph("a", np.zeros((64, 64, 3), np.uint8), mask, "car")
    world = World()
    for k in range(20):
        window = make_layout(one, one, world, 1, generator(k, "x", "test")).yes
        column = np.nonzero(mask)[1].mean() + 0.5
        column = 64 - column if window.flipped else column
        assert (column - window.left) / window.size <= 0.5 - MARGIN + 1e-9
        inside = world.frame_width * window.size
        assert window.left + inside >= -1e-9
        assert window.left + window.size - inside <= 64 + 1e-9
        assert window.top + inside >= -1e-9
        assert window.top + window.size - inside <= 64 + 1e-9


def test_it_is_a_dataset_like_any_other():
    check_dataset(CuesDataset(6))
    built = build("dataset", "cues", {"n": 6, "seed": 1, "world": {"pixels": 96, "untagged": False}})
    assert len(built) == 6
    samples = built.load(2, 5)
    assert [sample.id for sample in samples] == ["1-000002", "1-000003", "1-000004"]
    assert all(sample.votes["tag"] is not None for sample in samples)
    assert samples[0].size == (96, 96)
    assert built.label == "cues seed 1"
    assert built.revision != CuesDataset(images="x").label
