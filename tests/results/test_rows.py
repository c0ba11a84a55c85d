"""`Rows` against the same rows in pandas; what is read again, and what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from karat.kernel.errors import BadInput
from karat.results import load_run
from karat.results.record import record
from karat.results.rows import NO_ROW, Rows
from tests.report.runs import make_run


def _frame(rows: Rows, protocol: str, metric: str) -> pd.DataFrame:
    """The arrays of a score as rows again."""
    values = rows.values(protocol, metric)
    m, e, s = np.nonzero(values.state != NO_ROW)
    reasons = [None if r < 0 else rows.reasons.texts[r] for r in values.reason[m, e, s].tolist()]
    return pd.DataFrame({
        "model": [values.models[k] for k in m], "explainer": [values.explainers[k] for k in e],
        "sample": [rows.samples.texts[k][1] for k in s], "value": values.values[m, e, s],
        "status": [("score", "failure", "not_applicable")[k] for k in values.state[m, e, s]], "reason": reasons,
        "passes": values.passes[m, e, s],
    })  # fmt: skip


def _same(rows: Rows, path: Path) -> None:
    order = ["model", "explainer", "sample"]
    scores = load_run(path).scores()
    assert len(rows) == len(scores)
    for metric, wanted in scores.groupby("metric"):
        found = _frame(rows, "grid", str(metric)).sort_values(order, ignore_index=True)
        wanted = wanted.sort_values(order, ignore_index=True)[list(found)]
        found["reason"], wanted["reason"] = found["reason"].fillna(""), wanted["reason"].astype(object).fillna("")
        pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


@pytest.mark.parametrize("recorded", [False, True])
def test_rows_are_those_of_the_frame(tmp_path: Path, recorded: bool) -> None:
    path = make_run(tmp_path / "run", n=40, shard_size=16, maps=False)
    if recorded:
        path = Path(record(load_run(path), tmp_path / "kept").path)
    rows = Rows()
    rows.read(load_run(path), 0, "run")
    _same(rows, path)
    scores = load_run(path).scores()
    items = rows.items("grid")
    first = scores.drop_duplicates(["model", "sample"]).set_index(["model", "sample"])
    assert len(items.model) == len(first)
    for m, s, answer in zip(items.model, items.sample, items.answer, strict=True):
        assert rows.answers.texts[answer] == first.loc[(rows.models.texts[m], rows.samples.texts[s][1]), "answer"]
    values, codes = rows.meta["depth"].column(len(rows.samples))
    meta = scores.drop_duplicates("sample").set_index("sample")["meta.depth"]
    assert all(values[codes[k]] == meta[name] for k, (_, name) in enumerate(rows.samples.texts))


def test_reading_again_opens_new_shards_alone(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=32, shard_size=16, maps=False, unfinished=True)
    rows = Rows()
    assert len(rows.read(load_run(path), 0, "run")) == rows.read_shards == 3
    assert rows.read(load_run(path), 0, "run") == []
    make_run(tmp_path / "run", n=32, shard_size=16, maps=False)
    assert len(rows.read(load_run(path), 0, "run")) == 1
    assert rows.read_shards == 4
    _same(rows, path)


def test_a_damaged_shard_is_refused(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=8, maps=False)
    shard = next((path / "scores").iterdir())
    shard.write_bytes(shard.read_bytes() + b"x")
    with pytest.raises(BadInput, match="damaged"):
        Rows().read(load_run(path), 0, "run")


def test_failures_are_counted_by_explainer_and_reason(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n=20, maps=False)
    rows = Rows()
    rows.read(load_run(path), 0, "run")
    failed = load_run(path).scores().query("status == 'failure'")
    assert rows.failures() == [("gradient/input", "map: all zero", len(failed))]
