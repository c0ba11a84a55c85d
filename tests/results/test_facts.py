"""Facts of parts are columns: no label has to be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import toys

from karat.engine.run import run
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.results import load_run
from karat.results.facts import with_facts
from karat.results.joined import Joined


def _run(folder: Path, **changes: object) -> Path:
    run(Spec.parse(toys.spec(**changes)), folder, workers=0)
    return folder


def test_rows_carry_name_family_and_whether_an_explainer_is_a_control(tmp_path: Path) -> None:
    explainers = ["toys:Noise", {"name": "control/center", "width": 0.1}, {"name": "control/center", "width": 0.3}]
    scores = load_run(_run(tmp_path, explainers=explainers)).scores()
    by = scores.drop_duplicates("explainer").set_index("explainer")
    assert by["explainer.is_control"].sum() == 2
    assert set(by["explainer.name"]) == {"toys/noise", "control/center"}
    wide = by[by["explainer.name"] == "control/center"]["explainer.width"]
    assert sorted(wide) == [0.1, 0.3]
    assert by.loc[~by["explainer.is_control"], "explainer.width"].isna().all()  # it has no width
    assert scores["model.name"].nunique() == 1


def test_a_parameter_that_tells_nothing_apart_is_no_column(tmp_path: Path) -> None:
    whole = load_run(_run(tmp_path, explainers=[{"name": "control/center", "width": 0.1}]))
    assert "explainer.width" not in whole.scores()
    assert whole.parts["explainer"]["control/center(width=0.1)"]["width"] == 0.1


def test_runs_read_as_one_have_the_facts_of_both(tmp_path: Path) -> None:
    one = load_run(_run(tmp_path / "one", explainers=[{"name": "control/center", "width": 0.1}]))
    two = load_run(_run(tmp_path / "two", explainers=[{"name": "control/center", "width": 0.3}]))
    scores = Joined.of([one, two]).scores()
    assert sorted(scores["explainer.width"].unique()) == [0.1, 0.3]


def test_a_run_of_an_older_version_says_how_to_mend_it(tmp_path: Path) -> None:
    whole = load_run(_run(tmp_path))
    whole.store.write_json("manifest.json", {k: v for k, v in whole.manifest.items() if k != "parts"})
    with pytest.raises(BadInput, match="written by an older Karat"):
        load_run(tmp_path).scores()
    before = sorted(path.name for path in (tmp_path / "scores").iterdir())
    assert len(load_run(_run(tmp_path)).scores())
    assert sorted(path.name for path in (tmp_path / "scores").iterdir()) == before  # nothing was computed anew


def test_facts_keep_their_kind() -> None:
    rows = pd.DataFrame({"model": ["a", "b", "a"], "dataset": "d", "explainer": "e"})
    parts = {
        "model": {
            "a": {"name": "m", "seed": 0, "dose": None, "ready": True},
            "b": {"name": "m", "seed": 1, "dose": 0.5, "ready": False},
        },
        "dataset": {"d": {"name": "d"}},
        "explainer": {"e": {"name": "e", "is_control": False}},
    }
    found = with_facts(rows, parts)
    assert found["model.seed"].tolist() == [0, 1, 0]
    np.testing.assert_array_equal(found["model.dose"], [np.nan, 0.5, np.nan])
    assert found["model.ready"].tolist() == [True, False, True]
    assert found["explainer.is_control"].dtype == bool
