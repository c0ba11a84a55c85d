"""What comes from outside cannot run code, escape its folder, unpack without end, or be served to strangers."""

from __future__ import annotations

import ast
import gzip
import json
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import toys

from karat.datasets.arrays import load_archive, load_array
from karat.datasets.segmentation.files import read_image
from karat.datasets.shortcut.sources import open_source
from karat.datasets.spatial.coco import read_json
from karat.datasets.spatial.vsr import read_statements
from karat.engine.plan import plan
from karat.engine.run import run
from karat.engine.score import score
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.results.store import Store

SOURCES = sorted((Path(__file__).parents[2] / "src" / "karat").rglob("*.py"))
TREES = {path: ast.parse(path.read_text("utf-8")) for path in SOURCES}


def calls(name: str, owner: str = "") -> list[tuple[Path, ast.Call]]:
    """Calls of `owner.name(...)` (or of `name` on anything, or alone, where no owner is given) in Karat's source."""
    found = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                of = getattr(getattr(node.func, "value", None), "id", "")
                if called == name and (not owner or of == owner):
                    found.append((path, node))
    return found


def keyword(call: ast.Call, name: str) -> object:
    return next((getattr(k.value, "value", ...) for k in call.keywords if k.arg == name), None)


def imported() -> set[str]:
    names: set[str] = set()
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    return names


def test_the_source_is_really_looked_at() -> None:
    assert len(SOURCES) > 200
    assert len(calls("safe_load")) >= 3


def test_nothing_unpickles() -> None:
    assert not {"cPickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"} & imported()
    assert not calls("loads", "pickle") + calls("load", "pickle") + calls("Unpickler")
    of_numpy, of_torch = calls("load", "np"), calls("load", "torch")
    assert of_numpy
    assert of_torch
    assert all(keyword(call, "allow_pickle") is False for _, call in of_numpy), of_numpy
    assert all(keyword(call, "weights_only") is True for _, call in of_torch), of_torch


def test_yaml_is_safe_and_code_is_never_evaluated() -> None:
    unsafe = [c for name in ("unsafe_load", "full_load", "load_all") for c in calls(name)]
    evaluated = [c for name in ("eval", "exec") for c in calls(name) if isinstance(c[1].func, ast.Name)]
    assert not unsafe + calls("load", "yaml") + evaluated  # module.eval() is torch's


def test_no_code_from_the_hub_runs_unless_asked_for_by_name() -> None:
    adapters = [call for _, call in calls("from_pretrained", "PeftModel")]  # local safetensors into a module: no code
    loads = [one for one in calls("from_pretrained") if one[1] not in adapters]
    assert len(loads) >= 3
    assert not [c for c in loads if keyword(c[1], "trust_remote_code") is not False]  # left out, transformers may ask


@pytest.mark.parametrize(
    "text",
    [
        "protocol: !!python/object/apply:os.system ['touch {touched}']",
        "!!python/object/new:os.system ['touch {touched}']",
        "protocol: !!python/name:os.system ''",
    ],
)
def test_a_spec_cannot_execute_anything(text: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    path = tmp_path / "spec.yaml"
    path.write_text(text.replace("{touched}", str(touched)))
    with pytest.raises(BadInput, match="is not YAML"):
        Spec.read(path)
    assert not touched.exists()


def test_aliases_that_unfold_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path.write_text("\n".join(lines))
    with pytest.raises(BadInput, match="unfold"):
        Spec.read(path)
    path.write_text("protocol: &a [*a]")
    with pytest.raises(BadInput, match="contains itself"):
        Spec.read(path)


def test_a_pickle_in_an_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match=r"not a plain \.npy array"):
        load_array(tmp_path / "objects.npy", "maps")


def bomb(side: int) -> bytes:
    """A PNG of side × side grey pixels in a few hundred bytes, or so its header says."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = zlib.compress(b"\0" * 10_000, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_an_image_that_unpacks_into_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb(60_000))
    with pytest.raises(Exception, match="decompression bomb"):
        read_image(path)


def test_names_in_a_run_do_not_lead_out_of_it(tmp_path: Path) -> None:
    """A shard names the file of its maps; a forged one that points elsewhere is not believed."""
    (tmp_path / "secret").write_bytes(b"secret")
    run(Spec.parse(toys.spec()), tmp_path / "run", workers=0)
    store = Store(tmp_path / "run")
    for name in ("../secret", "/etc/passwd", "scores/../../secret"):
        assert store.read_shard(name) is None


def test_the_page_is_served_to_this_computer_only_and_nothing_else_with_it(tmp_path: Path) -> None:
    from karat.report import serve

    assert serve.HOST == "127.0.0.1"
    binding = [call for path, call in calls("_Server") if path.name == "serve.py"]
    assert binding
    for call in binding:
        address = call.args[0]
        assert isinstance(address, ast.Tuple)
        assert getattr(address.elts[0], "id", "") == "HOST"


def test_no_archive_is_unpacked_to_disk() -> None:
    """Were one ever to be, path traversal would have to be refused first; `extractall` and `unpack_archive` are not."""
    assert "tarfile" not in imported()
    assert not calls("extractall") + calls("extract") + calls("unpack_archive")
    assert {path.name for path, _ in calls("ZipFile")} == {
        "arrays.py",
        "submission.py",
    }  # these look at sizes, names


@pytest.mark.parametrize(
    "name", ["../secret.jpg", "/etc/passwd", "a/../../secret.jpg", "..\\secret.jpg", "C:\\a.jpg", "a\0"]
)
def test_names_in_annotations_do_not_lead_out_of_their_folder(name: str, tmp_path: Path) -> None:
    """A question or an object names its picture: a name that leads elsewhere is refused, not opened."""
    from PIL import Image

    from karat.datasets.spatial.pair import find_picture

    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "secret.jpg")
    with pytest.raises(BadInput, match="leads out of"):
        find_picture(str(images), name)
    asked = {"question_id": 1, "image": name, "text": "Is there a cat in the image?", "label": "no"}
    (tmp_path / "coco_repope_random.json").write_text(json.dumps(asked) + "\n")
    spec = toys.spec(
        datasets=[{"name": "repope", "source": str(tmp_path), "images": str(images), "splits": ["random"]}]
    )
    with pytest.raises(BadInput, match="leads out of"):
        plan(Spec.parse(spec))


def test_gzip_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "annotations.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 100_000 + b"]"))
    assert read_json(path, "boxes") == []  # dense, but not large
    path.write_bytes(gzip.compress(b" " * 2**27))
    with pytest.raises(BadInput, match="more than 64 MB"):
        read_json(path, "boxes")
    (tmp_path / "train.jsonl.gz").write_bytes(path.read_bytes())
    with pytest.raises(BadInput, match="more than 64 MB"):
        read_statements(tmp_path, "train")
    path.write_bytes(gzip.compress(b"[1, 2]")[:-4])
    with pytest.raises(BadInput, match="is damaged"):
        read_json(path, "boxes")


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    """A member says how much it unpacks into, and no more than that is ever read of it."""
    path = tmp_path / "maps.npz"
    np.savez_compressed(path, a=np.zeros((1000, 1000)))
    assert load_archive(path, "maps")["a"].shape == (1000, 1000)  # dense, but not large
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.npy", b"\0" * 1000)
        packed.getinfo("a.npy").file_size = 2**40
    for read in (lambda: load_archive(path, "maps"), lambda: score(path, path), lambda: open_source(str(path))):
        with pytest.raises(BadInput, match="would unpack into 1024 GB"):
            read()
