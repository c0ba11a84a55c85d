import sys
import types

import numpy as np
import pytest
from PIL import Image

from karat.datasets.shortcut import ShortcutDataset
from karat.datasets.shortcut.leaves import LABELS, picture
from karat.datasets.shortcut.sources import of_arrays, open_source
from karat.kernel.errors import KaratError


def noise(n, side=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def test_leaves_are_the_same_bytes_in_any_slice_and_balanced():
    data = ShortcutDataset(n=40)
    whole = data.load(0, 40)
    part = data.load(13, 17)
    for a, b in zip(whole[13:17], part, strict=True):
        assert a.id == b.id
        np.testing.assert_array_equal(a.image, b.image)
        np.testing.assert_array_equal(a.twin, b.twin)
    assert {s.answer for s in whole} == set(LABELS)
    assert all(sum(s.answer == name for s in whole) == 4 for name in LABELS)


def test_splits_and_seeds_of_leaves_differ():
    train, test = ShortcutDataset(split="train", n=5), ShortcutDataset(split="test", n=5)
    assert not np.array_equal(train.load(0, 1)[0].twin, test.load(0, 1)[0].twin)
    other = ShortcutDataset(n=5, seed=7)
    np.testing.assert_array_equal(other.load(0, 1)[0].twin, test.load(0, 1)[0].twin)
    assert not np.array_equal(other.shortcut.kernels, test.shortcut.kernels)
    with pytest.raises(KaratError, match="train and test"):
        ShortcutDataset(split="val", n=5).load(0, 1)


def test_leaves_have_the_spectrum_of_photographs():
    """Power falls with frequency as 1/f^a, a near 2; white noise has 0."""
    power = np.zeros((32, 17))
    for i in range(60):
        grey = picture(i).mean(-1)
        power += np.abs(np.fft.rfft2(grey - grey.mean())) ** 2
    frequency = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.rfftfreq(32)[None, :])
    used = (frequency > 1 / 32) & (frequency < 0.4)
    slope = np.polyfit(np.log(frequency[used]), np.log(power[used]), 1)[0]
    assert -3.2 < slope < -1.2


def test_npz_files(tmp_path):
    images, classes = noise(6), np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)
    path = tmp_path / "set.npz"
    np.savez(path, x_test=images, y_test=classes, classes=np.array(["cat", "dog", "owl"]))
    data = ShortcutDataset(source=str(path))
    assert len(data) == 6
    samples = data.load(0, 6)
    assert {s.id for s in samples} == {f"test-{i:06d}" for i in range(6)}
    for sample in samples:
        i = int(sample.id[-6:])
        assert sample.answer == ("cat", "dog", "owl")[classes[i]]
        np.testing.assert_array_equal(sample.twin, images[i])
    before = data.revision
    images[0, 0, 0] += 1
    np.savez(path, x_test=images, y_test=classes, classes=np.array(["cat", "dog", "owl"]))
    assert ShortcutDataset(source=str(path)).revision != before
    with pytest.raises(KaratError, match="x_train"):
        open_source(str(path), "train")
    with pytest.raises(KaratError, match="no arrays"):
        open_source(str(tmp_path / "gone.npz"))


def test_cifar_binary_files(tmp_path):
    images = noise(10)
    planes = images.transpose(0, 3, 1, 2).reshape(10, 3072)
    labels = np.arange(10, dtype=np.uint8)
    records = np.concatenate([labels[:, None], planes], axis=1)
    for k in range(1, 6):
        records[2 * k - 2 : 2 * k].tofile(tmp_path / f"data_batch_{k}.bin")
    records[:3].tofile(tmp_path / "test_batch.bin")
    (tmp_path / "batches.meta.txt").write_text("\n".join("abcdefghij"))
    train, test = open_source(str(tmp_path), "train"), open_source(str(tmp_path), "test")
    np.testing.assert_array_equal(train.images(range(10)), images)
    np.testing.assert_array_equal(train.classes, labels)
    assert test.labels == tuple("abcdefghij")
    assert len(test.classes) == 3
    (tmp_path / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(KaratError, match="whole number"):
        open_source(str(tmp_path), "test")


def test_cifar_100_reads_fine_labels(tmp_path):
    images = noise(4)
    planes = images.transpose(0, 3, 1, 2).reshape(4, 3072)
    coarse, fine = np.full((4, 1), 7, np.uint8), np.array([[99], [3], [50], [0]], np.uint8)
    for name in ("train", "test"):
        np.concatenate([coarse, fine, planes], axis=1).tofile(tmp_path / f"{name}.bin")
    source = open_source(str(tmp_path), "test")
    assert source.classes.tolist() == [99, 3, 50, 0]
    assert len(source.labels) == 100
    np.testing.assert_array_equal(source.images([2]), images[[2]])


def test_the_pickled_version_of_cifar_is_refused(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x02}")
    with pytest.raises(KaratError, match="pickle"):
        open_source(str(tmp_path))


def test_folders_of_pictures(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "test" / name).mkdir(parents=True)
        for k in range(2):
            wide = np.zeros((40, 60, 3), dtype=np.uint8)
            wide[:, 10:50] = 40 * k + (100 if name == "bee" else 0)
            Image.fromarray(wide).save(tmp_path / "test" / name / f"{k}.png")
    source = open_source(str(tmp_path), "test", side=20)
    assert source.labels == ("ant", "bee")
    assert source.classes.tolist() == [0, 0, 1, 1]
    shown = source.images([1, 2])
    assert shown.shape == (2, 20, 20, 3)
    assert (shown[0] == 40).all()  # the central square only: the black margins are cut
    assert (shown[1] == 100).all()
    before = source.revision
    Image.fromarray(np.zeros((40, 60, 3), np.uint8)).save(tmp_path / "test" / "ant" / "0.png")
    Image.fromarray(np.ones((40, 60, 3), np.uint8)).save(tmp_path / "test" / "ant" / "1.png")
    assert open_source(str(tmp_path), "test", side=20).revision != before
    (tmp_path / "empty").mkdir()
    with pytest.raises(KaratError, match="one folder of pictures a class"):
        open_source(str(tmp_path / "empty"))


def test_hugging_face_datasets(monkeypatch):
    class Image_:
        pass

    Image_.__name__ = "Image"
    ClassLabel = type("ClassLabel", (), {"names": ["x", "y"]})
    pictures = [Image.fromarray(each) for each in noise(3)]
    columns = {"picture": pictures, "kind": [1, 0, 1]}

    class Table:
        features = {"picture": Image_(), "kind": ClassLabel()}  # noqa: RUF012
        _fingerprint = "abc"

        def __getitem__(self, column):
            return columns[column]

    asked = []
    module = types.ModuleType("datasets")
    module.__version__ = "4.0.0"
    module.load_dataset = lambda name, split: asked.append((name, split)) or Table()
    monkeypatch.setitem(sys.modules, "datasets", module)
    source = open_source("hf:owner/set", "test")
    assert asked == [("owner/set", "test")]
    assert source.labels == ("x", "y")
    assert source.classes.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(source.images([0, 1, 2]), noise(3))
    monkeypatch.setattr(Table, "features", {"picture": Image_()})
    with pytest.raises(KaratError, match="ClassLabel"):
        open_source("hf:owner/set")


@pytest.mark.parametrize("version", ["1.18.4", "2.14.0", "3.6.0"])
def test_a_library_that_can_run_code_of_the_hub_is_refused(monkeypatch, version):
    """datasets 4.0 dropped scripts, and with them trust_remote_code; older ones may run what comes with the data."""
    asked = []
    module = types.ModuleType("datasets")
    module.__version__ = version
    module.load_dataset = lambda *given, **named: asked.append(given)
    monkeypatch.setitem(sys.modules, "datasets", module)
    with pytest.raises(KaratError, match=f"datasets 4 or newer, not {version}"):
        open_source("hf:owner/set")
    assert asked == []


def test_arrays_are_checked():
    assert of_arrays(noise(2), [0, 1], ["a", "b"]).labels == ("a", "b")
    with pytest.raises(KaratError, match="between 0 and 1"):
        of_arrays(noise(2), [0, 2], ["a", "b"])
    with pytest.raises(KaratError, match="uint8"):
        of_arrays(noise(2).astype(float), [0, 1], ["a", "b"])


def test_what_is_not_there_is_said():
    with pytest.raises(KaratError, match="no images at"):
        open_source("nowhere/at/all")
