"""Several runs of one protocol, read as one."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys

from assay.engine.run import run
from assay.kernel.errors import BadInput
from assay.kernel.spec import Spec
from assay.results.joined import Joined

ORDER = ["model", "dataset", "explainer", "sample", "metric"]
RANDOM, CENTER, EDGES = "control/random", "control/center", "control/edges"


def test_two_runs_read_as_the_one_that_has_all_their_explainers(tmp_path: Path) -> None:
    first, second, both = (
        run(Spec.parse(toys.spec(explainers=names)), tmp_path / str(k), workers=0)
        for k, names in enumerate([[RANDOM, CENTER], [RANDOM, EDGES], [RANDOM, CENTER, EDGES]])
    )
    joined = Joined.of([first, second]).scores().sort_values(ORDER, ignore_index=True)
    whole = both.scores().sort_values(ORDER, ignore_index=True)
    assert joined.equals(whole)  # the second's control/random is not counted again
    assert Joined.of([first]) is first


def test_what_an_earlier_run_has_stands_even_of_fewer_samples(tmp_path: Path) -> None:
    few = run(Spec.parse(toys.spec(explainers=[RANDOM], limit=4)), tmp_path / "few", workers=0)
    many = run(Spec.parse(toys.spec(explainers=[RANDOM, EDGES])), tmp_path / "many", workers=0)
    counts = Joined.of([few, many]).scores().groupby("explainer")["sample"].nunique()
    assert counts[RANDOM] == 4 < counts[EDGES]


def test_runs_of_different_protocols_are_refused(tmp_path: Path) -> None:
    localization = run(Spec.parse(toys.spec()), tmp_path / "a", workers=0)
    other = run(Spec.parse(toys.spec(protocol="audit")), tmp_path / "b", workers=0)
    with pytest.raises(BadInput, match="audit, localization"):
        Joined.of([localization, other])
