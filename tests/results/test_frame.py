"""`frame_of` against whole frames joined and sorted; what is not asked for is not read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from karat.kernel.errors import BadInput
from karat.results import load_run
from karat.results.facts import with_facts
from karat.results.frame import ORDER, frame_of
from karat.results.joined import Joined
from karat.results.record import record
from tests.report.runs import make_run


def joined(tables: Iterable[pa.Table]) -> pd.DataFrame:
    """The slow twin: every table as a frame of objects, one below the other, sorted by the words themselves."""
    frames = [table.to_pandas() for table in tables]
    plain = [f.astype({n: "object" for n, kind in f.dtypes.items() if str(kind) == "category"}) for f in frames]
    return pd.concat(plain, ignore_index=True).sort_values(list(ORDER), kind="stable", ignore_index=True)


@pytest.mark.parametrize("nasty", [False, True])
def test_a_run_reads_like_its_files_joined_and_sorted(tmp_path: Path, nasty: bool) -> None:
    path = make_run(tmp_path / "run", n=40, shard_size=16, maps=False, nasty=nasty)
    run = load_run(path)
    files = [pq.read_table(file) for file in sorted((path / "scores").iterdir())]
    pd.testing.assert_frame_equal(run.scores(), with_facts(joined(files), run.parts))
    assert len(files) > 2


def test_a_record_keeps_the_order_it_was_given(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run", n=20, shard_size=8, maps=False))
    kept = record(run, tmp_path / "kept")
    assert run.scores()["sample"].tolist() == kept.scores()["sample"].tolist()
    pd.testing.assert_series_equal(run.scores()["value"], kept.scores()["value"])


def _table(rows: list[dict[str, Any]], **columns: Any) -> pa.Table:
    words = {name: pa.array([str(row[name]) for row in rows]).dictionary_encode() for name in ORDER}
    return pa.table({**words, **columns})


def test_files_that_differ_in_columns_and_kinds_join_as_frames_do() -> None:
    def rows(*samples: str) -> list[dict[str, Any]]:
        return [{**dict.fromkeys(ORDER, "x"), "sample": name} for name in samples]

    words = pa.array(["b", None]).dictionary_encode()
    tables = [
        _table(rows("s9", "s10"), number=pa.array([1, 2]), late=pa.array(["why", None])),
        _table(rows("s1"), word=pa.array(["a"]).dictionary_encode(), number=pa.array([2.5])),
        _table(rows("s2", "s3"), word=words, mixed=pa.array(["t", "u"]).dictionary_encode()),
        _table(rows("s4"), mixed=pa.array([True]), value=pa.array([0.5], pa.float32())),
    ]
    made, wanted = frame_of(tables), joined(tables)
    assert list(made) == list(wanted)
    for name in made:  # `late` is text in one file and missing in the others: objects here, text there
        assert list(map(str, made[name])) == list(map(str, wanted[name])), name
    assert made["value"].dtype == "float64"
    assert made["sample"].tolist() == ["s1", "s10", "s2", "s3", "s4", "s9"]
    some = frame_of(tables, ["word", "nowhere"])
    pd.testing.assert_frame_equal(some, made[["word"]])


@pytest.mark.parametrize("kind", ["run", "record", "joined"])
def test_some_scores_and_columns_are_those_rows_of_the_whole(tmp_path: Path, kind: str) -> None:
    run = load_run(make_run(tmp_path / "run", n=24, shard_size=8, maps=False))
    if kind == "record":
        run = record(run, tmp_path / "kept")
    if kind == "joined":
        more = make_run(tmp_path / "more", n=20, maps=False, explainers=("cam/gradcam", "perturbation/lime"))
        run = Joined.of([run, load_run(more)])
    whole = run.scores()
    columns = ["explainer", "value", "explainer.is_control", "meta.depth"]
    some = run.scores(metrics=["outside"], columns=columns)
    assert sorted(some) == sorted(columns)
    pd.testing.assert_frame_equal(some, whole[whole["metric"] == "outside"].reset_index(drop=True)[list(some)])
    plain = run.scores(metrics=["outside"], columns=["value", "model"])
    pd.testing.assert_frame_equal(plain, whole[whole["metric"] == "outside"].reset_index(drop=True)[list(plain)])
    assert run.scores(metrics=["no such score"]).empty
    assert "explainer.is_control" in run.scores(metrics=["no such score"])


def test_columns_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run", n=8, maps=False))
    [names] = {tuple(table.column_names) for table in run.tables(columns=["value"])}
    assert set(names) == {"value", "cell", *ORDER}


def test_damage_names_every_damaged_file(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=8, shard_size=4, maps=False)
    files = sorted((path / "scores").iterdir())[1:3]
    for file in files:
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadInput, match=f"damaged.*{files[0].name}.*{files[1].name}"):
        load_run(path).scores()
