"""What values were computed from, errors and notes of attributions: kept, read back, recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import toys

from karat.engine.run import run
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.claim import Claim, Comparison
from karat.kernel.errors import BadInput
from karat.kernel.row import Outcomes
from karat.kernel.spec import Spec
from karat.probe.session import Session
from karat.protocols.localization import Localization
from karat.protocols.paper import paper
from karat.results import load_run
from karat.results.details import KEYS, Details
from karat.results.joined import Joined
from karat.results.record import record
from karat.results.run import Run


@dataclass(frozen=True)
class Curves:
    """One score whose detail is a curve of the sample's own number."""

    card: ClassVar[Card] = Card("toys/curves", "keeps a curve", "protocol")
    scores: ClassVar[tuple[Card, ...]] = (Card("end", "last point", "metric"),)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        numbers = np.array([float(sample.id.split("-")[1]) for sample in session.samples])
        if 3 in numbers and len(numbers) > 1:
            raise ValueError("sample 3 is special")
        if 3 in numbers:
            return {"end": Outcomes(np.array([np.nan]), {0: "special"})}
        detail = numbers[:, None] * np.linspace(0, 1, 5)
        return {
            "end": Outcomes(detail[:, -1], details={"curve": detail}, texts={"id": [s.id for s in session.samples]})
        }


@dataclass(frozen=True)
class Unsure:
    """A map, words, a note and an error each."""

    card: ClassVar[Card] = Card("toys/unsure", "has error bars", "explainer")

    def __call__(self, session: Session) -> list[Attribution]:
        ramp = np.arange(16.0).reshape(4, 4)
        return [
            Attribution(
                ramp, np.arange(4.0), standard_error=ramp / 30, words_error=np.full(4, 0.3), notes={"lost": 0.2}
            )
            for _ in session.samples
        ]


def _spec(**changes: Any) -> Spec:
    return Spec.parse(toys.spec(protocol=f"{__name__}:Curves", **changes))


def test_details_come_back_for_every_sample_and_nan_where_there_was_none(tmp_path: Path) -> None:
    finished = run(_spec(), tmp_path, workers=0)
    details = finished.details("end")
    keys, values = details.keys, details.arrays["curve"]
    scores = finished.scores()
    assert len(keys) == len(scores) == len(values)
    assert values.dtype == np.float64
    numbers = keys["sample"].str.split("-").str[1].astype(float).to_numpy()
    special = numbers == 3
    np.testing.assert_allclose(values[~special], numbers[~special, None] * np.linspace(0, 1, 5))
    assert np.isnan(values[special]).all()
    assert special.sum() == keys["explainer"].nunique()
    assert details.texts["id"] == ["" if number == 3 else f"square-{number:g}" for number in numbers]
    assert len(details.complete("curve")) == (~special).sum()
    assert len(finished.details("none")) == 0


def test_details_are_kept_without_maps(tmp_path: Path) -> None:
    finished = run(_spec(keep_maps=False), tmp_path, workers=0)
    assert finished.details("end").arrays["curve"].shape[1] == 5
    assert all(not shard.maps() for shard in finished.shards())


def test_errors_and_notes_keep_the_unit_of_their_map(tmp_path: Path) -> None:
    finished = run(Spec.parse(toys.spec(explainers=[f"{__name__}:Unsure"])), tmp_path, workers=0)
    kept = finished.attributions(next(iter(finished.cells())))[0]
    np.testing.assert_allclose(kept["visual_error"], kept["visual"] / 30, atol=1e-3)
    np.testing.assert_allclose(kept["words_error"], np.full(4, 0.1), atol=1e-3)  # words were divided by their peak, 3
    assert kept["note:lost"] == 0.2


def test_rows_know_the_right_answer_and_the_probability_of_the_given_one(tmp_path: Path) -> None:
    scores = run(_spec(), tmp_path, workers=0).scores()
    assert set(scores["expected"]) == {"here"}
    np.testing.assert_allclose(scores["probability"].astype(float), 16 / 256)


def test_a_record_is_read_like_the_run_it_came_from(tmp_path: Path) -> None:
    finished = run(_spec(), tmp_path / "run", workers=0)
    record(finished, tmp_path / "record", details=("end",))
    again = load_run(tmp_path / "record")
    before, after = finished.scores(), again.scores()
    assert list(before.columns) == list(after.columns)
    for column in before.columns:
        if column in ("value", "passes", "probability"):
            np.testing.assert_allclose(before[column].astype(float), after[column].astype(float), rtol=1e-6)
        else:
            assert before[column].isna().equals(after[column].isna())
            assert before[column].dropna().tolist() == after[column].dropna().tolist()
    details, kept = finished.details("end"), again.details("end")
    assert details.keys.to_numpy().tolist() == kept.keys.to_numpy().tolist()
    np.testing.assert_array_equal(kept.arrays["curve"], details.arrays["curve"])
    assert kept.texts == details.texts
    assert sum(path.stat().st_size for path in (tmp_path / "record").iterdir()) < 40_000
    with pytest.raises(BadInput, match="no details of nothing"):
        record(finished, tmp_path / "other", details=("nothing", "end"))


def test_an_altered_record_is_refused_and_an_older_one_read(tmp_path: Path) -> None:
    kept = record(run(_spec(), tmp_path / "run", workers=0), tmp_path / "record", details=("end",))
    whole, values = kept.scores(), kept.details("end").arrays["curve"]
    for name, ask in (
        ("scores.parquet", lambda run: run.scores()),
        ("details.safetensors", lambda run: run.details("end")),
    ):
        path = tmp_path / "record" / name
        sound = path.read_bytes()
        path.write_bytes(sound[:-4] + b"oops")
        with pytest.raises(BadInput, match=f"{name} was altered after it was recorded"):
            ask(load_run(tmp_path / "record"))
        assert load_run(tmp_path / "record").damaged() == [name]
        path.write_bytes(sound)
    details = tmp_path / "record" / "details.safetensors"
    sound = details.read_bytes()
    details.unlink()
    with pytest.raises(BadInput, match=r"details\.safetensors is missing"):
        load_run(tmp_path / "record").details("end")
    details.write_bytes(sound)
    kept.store.write_json("manifest.json", {k: v for k, v in kept.manifest.items() if k != "recorded"})
    older = load_run(tmp_path / "record")
    pd.testing.assert_frame_equal(older.scores(), whole)
    np.testing.assert_array_equal(older.details("end").arrays["curve"], values)
    for name in ("scores.parquet", "details.safetensors"):  # no hash, but no error of Arrow's either
        (tmp_path / "record" / name).write_bytes(b"PAR1 oops")
        with pytest.raises(BadInput, match="was altered"):
            older.details("end")


def test_a_record_has_nan_for_details_that_failures_lack(tmp_path: Path) -> None:
    class Partly(Run):
        def details(self, metric: str) -> Details:
            whole = super().details(metric)
            return whole.take((whole.keys["explainer"] != whole.keys["explainer"].iloc[0]).to_numpy())

    finished = run(_spec(), tmp_path / "run", workers=0)
    details = finished.details("end")
    lost = (details.keys["explainer"] == details.keys["explainer"].iloc[0]).to_numpy()
    kept = record(Partly(finished.store), tmp_path / "record", details=("end",)).details("end")
    assert details.keys.to_numpy().tolist() == kept.keys.to_numpy().tolist()
    assert np.isnan(kept.arrays["curve"][lost]).all()
    assert 0 < lost.sum() < len(lost)
    np.testing.assert_array_equal(kept.arrays["curve"][~lost], details.arrays["curve"][~lost])


def test_details_of_several_runs_are_those_of_their_scores(tmp_path: Path) -> None:
    few = run(_spec(explainers=["control/random", "control/oracle"], limit=6), tmp_path / "few", workers=0)
    many = run(_spec(explainers=["control/random", "control/edges"]), tmp_path / "many", workers=0)
    joined = Joined.of([few, many])
    details = joined.details("end")
    keys, values = details.keys, details.arrays["curve"]
    rows = joined.scores().sort_values(list(KEYS), ignore_index=True)
    assert keys.to_numpy().tolist() == rows[list(KEYS)].to_numpy().tolist()
    assert keys.groupby("explainer").size().to_dict() == {
        "control/edges": 10, "control/oracle": 6, "control/random": 10,
    }  # fmt: skip
    np.testing.assert_allclose(values[:, -1], rows["value"])


@dataclass(frozen=True)
class Claims(Localization):
    card = Card("toys/claims", "has a paper", "protocol", paper="999")

    def paper(self, run: Run) -> Comparison:
        return Comparison((Claim("maps are good", "Table 1", "0.9", f"{len(run.scores())} rows", "cannot tell"),))


def test_a_paper_is_judged_by_a_run_of_its_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import karat.protocols.paper as room

    finished = run(Spec.parse(toys.spec(protocol=f"{__name__}:Claims")), tmp_path / "right", workers=0)
    other = run(_spec(), tmp_path / "wrong", workers=0)
    monkeypatch.setattr(room, "papers", lambda: {"999": f"{__name__}:Claims"})
    [claim] = paper("999", finished.path).claims
    assert claim.ours == "100 rows"
    [claim] = paper("999", finished, finished.path).claims
    assert claim.ours == "100 rows"  # what the first run has is not counted twice
    with pytest.raises(BadInput, match="is a run of protocol"):
        paper("999", finished, other)
    with pytest.raises(BadInput, match="is recorded here"):
        paper("999")
