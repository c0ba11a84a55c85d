"""Ten thousand bad specs, images, masks and JSON lines: one clear line or a Failure row, never a traceback."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import toys
import yaml
from faulty import complaint, scaled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from karat.datasets.arrays import load_array
from karat.datasets.segmentation.files import read_image, read_indexed, read_labels
from karat.datasets.spatial.vsr import read_statements
from karat.engine.plan import plan
from karat.engine.run import run
from karat.engine.score import score
from karat.kernel.card import Card
from karat.kernel.errors import KaratError
from karat.kernel.sample import Region, Sample
from karat.kernel.spec import Spec
from karat.results.store import Store

Count = Callable[[str, int], None]
TIMES = 10_000
TRIED: Counter[str] = Counter()
quietly = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=4), st.dates()
)
names = st.sampled_from(
    ["control/random", "control/oracle", "cam/gradcam", "toys:Toy", "toys:Squares", "toys:Noise", "os:system", "grid",
     "localization", "gridprog.pure", "a:b:c", "..", "", ":", "toys:", "karat.kernel.spec:Spec", "nul\0", "é" * 40]
)  # fmt: skip
junk = st.recursive(
    scalars | names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=4),
    max_leaves=8,
)
components = names | st.fixed_dictionaries({"name": names | junk}, optional={"n": junk, "wait": junk, "layer": junk})
specs = st.fixed_dictionaries(
    {},
    optional={
        "karat": junk, "name": junk, "about": junk, "protocol": components | junk,
        "models": st.lists(components, max_size=3) | junk, "datasets": st.lists(components, max_size=3) | junk,
        "explainers": st.lists(components, max_size=3) | junk, "seed": junk, "shard_size": junk, "batch_size": junk,
        "limit": junk, "skip": junk, "keep_maps": junk, "surprise": junk,
    },
)  # fmt: skip


@st.composite
def nearly_sound(draw: st.DrawFn) -> dict[str, Any]:
    """A sound spec with one or two fields of it replaced: gets further than junk does."""
    spec = dict(toys.spec())
    for key in draw(
        st.lists(st.sampled_from([*spec, "seed", "limit", "skip", "keep_maps", "extra"]), min_size=1, max_size=2)
    ):
        spec[key] = draw(components | junk | st.lists(components, max_size=3))
    return spec


def small(data: Any) -> bool:
    """Not a plan of a billion cells: that would be slow, not wrong."""
    sizes = [component.get("n") for component in data.get("datasets") or () if isinstance(component, dict)] \
        if isinstance(data.get("datasets"), list) else []  # fmt: skip
    return all(not isinstance(size, int) or size < 10_000 for size in sizes)


@settings(max_examples=scaled(TIMES * 8 // 10), **quietly)
@given((specs | nearly_sound()).filter(small))
def test_fuzzed_specs(data: dict[str, Any]) -> None:
    complaint(lambda: plan(Spec.parse(data), strict=False))
    TRIED["specs"] += 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=scaled(TIMES * 2 // 10), **quietly)
@given(seed=st.integers(0, 2**32))
def test_fuzzed_spec_files(seed: int, folder: Path) -> None:
    path = folder / "spec.yaml"
    path.write_bytes(mutated(yaml.safe_dump(toys.spec()).encode(), random.Random(seed)))
    complaint(lambda: Spec.read(path))
    TRIED["specs"] += 1


def test_count_of_specs(count: Count) -> None:
    """Hypothesis calls a test many times, so that the two above cannot count by themselves."""
    assert TRIED["specs"] >= scaled(TIMES * 8 // 10) + scaled(TIMES * 2 // 10)
    count("fuzzed specs", TRIED["specs"])


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Bits flipped, bytes cut, doubled, replaced or moved: one to four times."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(found) + 1), chance.randint(1, 16)
        match chance.randrange(5):
            case 0 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                del found[at : at + length]
            case 2:
                found[at:at] = found[at : at + length]
            case 3:
                found[at : at + length] = chance.randbytes(length)
            case _:
                del found[at:]
        found = found or bytearray(b"\0")
    return bytes(found)


def pictures() -> list[tuple[str, bytes]]:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8))
    made = []
    for kind, mode in (("png", "RGB"), ("jpeg", "RGB"), ("png", "P"), ("webp", "RGB"), ("bmp", "L"), ("tiff", "RGB"),
                       ("gif", "P")):  # fmt: skip
        buffer = io.BytesIO()
        image.convert(mode).save(buffer, kind)
        made.append((kind, buffer.getvalue()))
    return made


@dataclass(frozen=True)
class Broken:
    """Images on disk, all of them damaged, and masks, every other one."""

    root: str
    n: int
    card: ClassVar[Card] = Card("tests/broken", "damaged images and masks", "dataset")
    revision: ClassVar[str] = "1"

    def __len__(self) -> int:
        return self.n

    @cached_property
    def _originals(self) -> list[tuple[str, bytes]]:
        return pictures()

    def load(self, start: int, stop: int) -> list[Sample]:
        return [self._sample(i) for i in range(start, stop)]

    def _sample(self, i: int) -> Sample:
        chance = random.Random(i)
        kind, data = self._originals[i % len(self._originals)]
        image, mask = Path(self.root) / f"image.{kind}", Path(self.root) / "mask.png"
        image.write_bytes(mutated(data, chance))
        mask.write_bytes(self._originals[2][1] if i % 2 else mutated(self._originals[2][1], chance))
        pixels, ids = read_image(image), read_indexed(mask)
        if pixels.shape[:2] != ids.shape:
            raise ValueError(f"mask {ids.shape} does not fit image {pixels.shape}")
        return Sample(f"{i}", pixels, regions=(Region("target", "target", pixels=ids > 100),))


@pytest.mark.filterwarnings("ignore")
def test_fuzzed_images_and_masks_are_scores_or_failures(tmp_path: Path, count: Count) -> None:
    n = scaled(TIMES * 2 // 3 + 2)
    spec = toys.spec(
        datasets=[{"name": f"{__name__}:Broken", "root": str(tmp_path), "n": n}], explainers=["control/edges"],
        shard_size=100, batch_size=10, keep_maps=False,
    )  # fmt: skip
    scores = run(Spec.parse(spec), tmp_path / "run", workers=0).scores()
    assert scores["sample"].nunique() == n
    assert set(scores.status) <= {"score", "failure", "not_applicable"}
    lost = scores[scores.status == "failure"]
    assert lost.reason.str.len().gt(0).all()
    assert scores.loc[scores.status == "score", "value"].notna().all()
    assert 0 < len(lost) < len(scores)
    count("fuzzed images through a run", n)
    count("fuzzed masks through a run", -(-n // 2))


def test_fuzzed_arrays(tmp_path: Path, count: Count) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.random.default_rng(0).random((3, 8, 8)))
    np.save(tmp_path / "good.npy", np.ones((3, 8, 8)))
    path = tmp_path / "map.npy"
    times = scaled(TIMES // 5)
    for seed in range(times):
        path.write_bytes(mutated(buffer.getvalue(), random.Random(seed)))
        complaint(lambda: load_array(path, "maps"))
        if seed % 20 == 0:
            complaint(lambda: score(path, tmp_path / "good.npy"))
    count("fuzzed .npy files", times)


def test_fuzzed_json_lines(tmp_path: Path, count: Count) -> None:
    """Events of a run and annotation files of datasets: what is not sound is passed over, or refused in one line."""
    line = json.dumps({"question_id": 1, "image": "a.jpg", "text": "Is there a cat in the image?", "label": "no"})
    said = {"image": "a.jpg", "caption": "The cat is left of the dog.", "relation": "left of", "label": 1}
    lines, statements = f"{line}\n{line}\n".encode(), f"{json.dumps(said)}\n{json.dumps(said)}\n".encode()
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")
    store = Store(tmp_path / "run")
    store.write("x", b"")
    repope = {"name": "repope", "source": str(tmp_path), "images": str(tmp_path), "splits": ["random"]}
    asked = Spec.parse(toys.spec(datasets=[repope]))
    times = scaled(TIMES // 2)
    for seed in range(times):
        chance = random.Random(seed)
        (tmp_path / "run" / "events.jsonl").write_bytes(mutated(lines, chance))
        for event in store.lines("events.jsonl"):
            assert event is None or isinstance(event, dict | list | str | int | float)
        (tmp_path / "train.jsonl").write_bytes(mutated(statements, chance))
        _only_plain_errors(lambda: read_statements(tmp_path, "train"))
        (tmp_path / "labels.txt").write_bytes(mutated(b"1: cat\n2: dog\n", chance))
        _only_plain_errors(lambda: read_labels(tmp_path / "labels.txt"))
        if seed % 10 == 0:
            (tmp_path / "coco_repope_random.json").write_bytes(mutated(lines, chance))
            complaint(lambda: plan(asked))
    count("fuzzed JSON lines and label files", 3 * times)


def _only_plain_errors(call: Callable[[], Any]) -> None:
    """What a dataset may raise: `plan` and `run_job` make one line or a Failure of it."""
    with suppress(KaratError, ValueError, KeyError, TypeError, AttributeError, OSError, IndexError):
        call()
