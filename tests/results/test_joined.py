"""Several runs of one protocol, read as one."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys

from karat.engine.run import run
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.results.joined import Joined
from karat.results.run import load_run

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


def test_the_run_with_the_most_samples_stands(tmp_path: Path) -> None:
    few = run(Spec.parse(toys.spec(explainers=[RANDOM], limit=4)), tmp_path / "few", workers=0)
    many = run(Spec.parse(toys.spec(explainers=[RANDOM, EDGES])), tmp_path / "many", workers=0)
    for order in ([few, many], [many, few]):
        counts = Joined.of(order).scores().groupby("explainer")["sample"].nunique()
        assert counts[RANDOM] == counts[EDGES] > 4


def test_runs_of_other_things_under_one_name_are_refused(tmp_path: Path) -> None:
    one = run(Spec.parse(toys.spec()), tmp_path / "one", workers=0)
    other = run(Spec.parse({**toys.spec(), "seed": 7}), tmp_path / "other", workers=0)
    with pytest.raises(BadInput, match="different seeds"):
        Joined.of([one, other])
    manifest = one.manifest
    [name] = manifest["models"]
    other.store.write_json("manifest.json", {**manifest, "models": {name: "trained again"}})
    with pytest.raises(BadInput, match=f"{name} is .* in one and trained again in another"):
        Joined.of([one, load_run(tmp_path / "other")])


def test_runs_of_different_protocols_are_refused(tmp_path: Path) -> None:
    localization = run(Spec.parse(toys.spec()), tmp_path / "a", workers=0)
    other = run(Spec.parse(toys.spec(protocol="audit")), tmp_path / "b", workers=0)
    with pytest.raises(BadInput, match="audit, localization"):
        Joined.of([localization, other])
