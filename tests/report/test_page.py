"""The files of a report: safe, whole, deterministic, and what they carry is what the run holds."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from karat.report import report
from karat.report.encode import number, packed, to_json
from karat.report.evidence import gather
from karat.report.maps import disagree
from karat.report.page import SCRIPTS
from karat.report.sample_pictures import encode_image, outline
from karat.report.samples import collect, metric_values
from karat.results.store import Store
from tests.report.runs import NASTY, make_run


def _chunk(page: Path, name: str) -> Any:
    text = (page.parent / "data" / f"{name}.js").read_text()
    start = f'window.KARAT.push("{name}",'
    assert text.startswith(start)
    assert text.endswith(");\n")
    return json.loads(text[len(start) : -3])


def _core(page: Path) -> Any:
    text = page.read_text().partition('id="data-core">')[2].partition("</script>")[0]
    return json.loads(text)


def _unpack(value: dict[str, Any]) -> np.ndarray:
    kind = {"f": "<f4", "i": "<i4", "u": "u1"}[value["kind"]]
    return np.frombuffer(base64.b64decode(value["data"]), kind).reshape(value["shape"])


class _Tags(html.parser.HTMLParser):
    """What a browser would build: elements, and all text outside scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nasty")
    return report([make_run(folder / "run", n=8, nasty=True, explainers=("nasty", "control/random"))], folder / "page")


@pytest.mark.parametrize("single", [False, True])
def test_hostile_names_stay_text(tmp_path: Path, single: bool) -> None:
    run = make_run(tmp_path / "run", n=6, nasty=True, explainers=("nasty", "control/random"))
    page = report([run], tmp_path / "page", single_file=single)
    parsed = _Tags()
    parsed.feed(page.read_text())
    assert not [tag for tag, _ in parsed.tags if tag == "img"]
    scripts = [attrs for tag, attrs in parsed.tags if tag == "script"]
    assert all("src" in a or a.get("type") == "application/json" or single for a in scripts)
    code = [a for a in scripts if a.get("type") != "application/json"]
    assert len(code) == len(SCRIPTS)
    assert any(NASTY in text for text in parsed.text)  # shown in full, as text
    assert not any(key and key.startswith("on") for _, attrs in parsed.tags for key in attrs)


@given(st.text())
def test_json_in_a_page_reads_back_and_holds_no_tag(text: str) -> None:
    written = to_json({"key": text})
    assert json.loads(written) == {"key": text}
    assert not re.search(r"[<>&\u2028\u2029]", written)
    written.encode("utf-8")  # lone surrogates too


def test_chunks_hold_no_closing_tag(nasty: Path) -> None:
    for path in (nasty.parent / "data").iterdir():
        assert "</" not in path.read_text()


def test_values_are_those_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=20)
    page = report([run], tmp_path / "page")
    items = _chunk(page, "items")
    evidence = gather([run])
    scores = evidence.runs[0].scores()
    names = [name for k in range(-(-len(evidence.order) // 1024)) for name in _chunk(page, f"texts-{k}")["id"]]
    core = _core(page)
    explainers = core["browser"]["explainers"]
    models, samples = items["item"]["model"], _unpack(items["item"]["sample"])
    model_codes = _unpack(models["codes"])
    for k, metric in enumerate(core["metrics"]):
        chunk = _chunk(page, f"values-{k}")
        values, codes = _unpack(chunk["values"]), _unpack(chunk["codes"])
        rows = scores[scores["metric"] == metric["name"]]
        assert (codes == 0).sum() == (rows["status"] == "score").sum()
        found = rows.set_index(["model", "explainer", "sample"])
        for e, explainer in enumerate(explainers):
            for i in range(len(samples)):
                name = names[samples[i]]
                row = found.loc[(models["values"][model_codes[i]], explainer, name)]
                if row["status"] == "score":
                    assert values[e, i] == pytest.approx(row["value"], abs=1e-6)
                    assert codes[e, i] == 0
                else:
                    assert np.isnan(values[e, i])
                    assert chunk["reasons"][codes[e, i] - 1] == [row["status"], row["reason"]]


def test_more_reasons_than_fit_in_a_byte_are_lumped(tmp_path: Path) -> None:
    n = 900
    run = make_run(tmp_path / "run", n=n, models=("twin.pure",), explainers=("gradient/input",), maps=False)
    store = Store(run)
    name = store.shards("scores", ".parquet")
    for k, shard in enumerate(name):  # other reasons, under the name of their content
        table = pq.read_table(run / shard)
        odd = np.arange(len(table)) % 3 == 0
        status = pa.array(np.where(odd, "failure", "score"))
        told = pa.array([f"reason {k} {i}" if broken else None for i, broken in enumerate(odd)])
        for column, values in (("status", status), ("reason", told)):
            table = table.set_column(table.column_names.index(column), column, values)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        store.remove(shard)
        store.write_shard("scores", ".parquet", sink.getvalue().to_pybytes())
    evidence = gather([run])
    chunk = metric_values(evidence, collect(evidence), "grid", evidence.metrics[0].name)
    codes = _unpack(chunk["codes"])
    assert len(chunk["reasons"]) <= 253
    assert codes.max() <= 254
    assert (codes == 254).any()
    scores = evidence.runs[0].scores()
    assert (codes == 0).sum() == (scores[scores["metric"] == "mass"]["status"] == "score").sum()


def test_maps_are_kept_to_a_255th(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=6, models=("twin.pure",), explainers=("cam/gradcam", "gradient/input"))
    page = report([run], tmp_path / "page")
    chunk = _chunk(page, _chunk(page, "items")["maps"][0])
    evidence = gather([run])
    view = evidence.shards[0].view
    maps = view.maps()
    for cell in view.cells:
        for position, parts in maps[cell["id"]].items():
            h, w, signed, data = chunk[str(position)][cell["place"][2]]["map"]
            levels = np.frombuffer(base64.b64decode(data), np.uint8).reshape(h, w).astype(float)
            values = (levels - 127) / 127 if signed else levels / 255
            assert bool(signed) == (cell["place"][2] == "gradient/input")
            np.testing.assert_allclose(values, parts["visual"].astype(float), atol=0.5 / 127 + 1e-3)


def test_an_extended_run_shows_all_explainers_of_a_sample_together(tmp_path: Path) -> None:
    """A later explainer is in a shard of its own: the sample's maps still come in one chunk."""
    make_run(tmp_path / "run", n=4, models=("twin.pure",), explainers=("cam/gradcam",))
    make_run(tmp_path / "run2", n=4, models=("twin.pure",), explainers=("control/random",))
    page = report([tmp_path / "run", tmp_path / "run2"], tmp_path / "page")
    (name,) = _chunk(page, "items")["maps"]
    assert all(set(shown) == {"cam/gradcam", "control/random"} for shown in _chunk(page, name).values())


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=10)
    digests = []
    for name in ("one", "two"):
        report([run], tmp_path / name)
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        digests.append([(p.relative_to(tmp_path / name), hashlib.sha256(p.read_bytes()).hexdigest()) for p in files])
    assert digests[0] == digests[1]


def test_an_earlier_report_leaves_nothing_behind(tmp_path: Path) -> None:
    report([make_run(tmp_path / "big", n=80)], tmp_path / "page")
    keep = tmp_path / "page" / "data" / "notes.txt"
    keep.write_text("mine")
    report([make_run(tmp_path / "small", n=4)], tmp_path / "page")
    assert len(list((tmp_path / "page" / "data").glob("scenes-*.js"))) == 1
    assert len(list((tmp_path / "page" / "tiles").iterdir())) <= 4
    assert keep.read_text() == "mine"


def test_a_single_file_needs_no_other(tmp_path: Path) -> None:
    page = report([make_run(tmp_path / "run", n=4)], tmp_path / "page", single_file=True)
    assert [p.name for p in (tmp_path / "page").rglob("*")] == ["index.html"]
    parsed = _Tags()
    parsed.feed(page.read_text())
    addresses = [a.get("src") or a.get("href") for tag, a in parsed.tags if tag in ("script", "link", "img")]
    assert all(a is None or a.startswith("data:") for a in addresses)


@pytest.mark.parametrize(
    ("dataset", "why"), [("tests.report.runs:Gone", "cannot load"), ("nowhere", "no dataset is called")]
)
def test_a_lost_dataset_leaves_the_tables(tmp_path: Path, dataset: str, why: str) -> None:
    page = report([make_run(tmp_path / "run", n=4, dataset=dataset)], tmp_path / "page")
    core = _core(page)
    assert why in core["browser"]["problems"]["pictures(n=4)"]
    assert _chunk(page, "boards-0")[0]["rows"]
    assert _chunk(page, _chunk(page, "items")["scenes"][0]) == {}


def test_a_changed_dataset_shows_no_pictures_of_others(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=4)
    manifest = Store(run).read_json("manifest.json")
    manifest["datasets"] = dict.fromkeys(manifest["datasets"], "0")
    Store(run).write_json("manifest.json", manifest)
    page = report([run], tmp_path / "page")
    assert "has changed since the run" in page.read_text()
    assert _chunk(page, _chunk(page, "items")["scenes"][0]) == {}


@pytest.mark.parametrize("twins", [1, 2])
def test_the_leaderboards_of_many_models_are_folded_away(tmp_path: Path, twins: int) -> None:
    models = [f"{name}.{kind}" for name in "ab"[:twins] for kind in ("pure", "spur")]
    run = make_run(tmp_path / "run", n=6, models=models, concluded=True, mechanisms=True, maps=False)
    text = report([run], tmp_path / "page").read_text()
    assert ("What the leaderboards of 4 models say" in text) == (twins == 2)
    assert all(f"<bdi>{model}</bdi>" in text for model in models)


def test_torch_stays_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=4)
    call = f"report([{str(run)!r}], {str(tmp_path / 'page')!r})"
    code = f"import sys; from karat.report import report; {call}; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "False"


def test_an_unwritable_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="Choose another --out") as caught:
        report([make_run(tmp_path / "run", n=4)], tmp_path / "file")
    assert type(caught.value).__name__ == "BadInput"


@given(arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_outlines_enclose_exactly_the_mask(mask: np.ndarray) -> None:
    """Crossing a vertical stroke turns inside to outside: walking each row rebuilds the mask; so does each column."""
    height, width = mask.shape
    rows, columns = np.zeros((height, width + 1), int), np.zeros((height + 1, width), int)
    for x, y, dx, dy in outline(mask):
        if dx:
            columns[y, x : x + dx] += 1
        else:
            rows[y : y + dy, x] += 1
    np.testing.assert_array_equal(np.cumsum(rows, axis=1)[:, :-1] % 2 == 1, mask)
    np.testing.assert_array_equal(np.cumsum(columns, axis=0)[:-1] % 2 == 1, mask)


def test_drawings_are_png_photographs_jpeg_and_both_small() -> None:
    flat = np.zeros((900, 600, 3), np.uint8)
    photo = np.random.default_rng(0).integers(0, 256, (900, 600, 3), dtype=np.uint8)
    assert encode_image(flat)[1] == "png"
    data, suffix = encode_image(photo)
    assert suffix == "jpg"
    import io

    from PIL import Image

    assert Image.open(io.BytesIO(data)).size == (299, 448)


def test_disagreement_is_0_for_equal_maps_2_for_opposite_ones() -> None:
    rng = np.random.default_rng(0)
    base = rng.random((16, 16))
    assert disagree([base, base * 3]) == pytest.approx(0)
    assert disagree([base, -base]) == pytest.approx(2)
    assert np.isnan(disagree([base]))
    assert np.isnan(disagree([base, np.ones((4, 4))]))  # a constant map has no order to agree with
    assert disagree([base.repeat(2, 0).repeat(2, 1), base]) == pytest.approx(0)


def test_numbers_and_arrays() -> None:
    assert number(float("nan")) is None
    assert number(None) is None
    assert number(0.123456789) == 0.123457
    values = np.array([[1.5, np.nan]], np.float32)
    np.testing.assert_array_equal(_unpack(packed(values, "f")), values)
