"""Protocol `lineup`: rows, reasons and findings on models whose rule is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

from karat.datasets.cues import generate
from karat.engine.run import run
from karat.kernel.attribution import Attribution
from karat.kernel.registry import build
from karat.kernel.spec import Spec
from karat.models import load_model
from karat.models.blackbox import blackbox
from karat.probe.session import Session
from karat.protocols.lineup import Lineup, analysis
from karat.protocols.lineup.identification import percentile_rows
from karat.protocols.lineup.pointing import POINTED
from karat.results.run import load_run


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(load_model("photovlm.tag"), list(generate(6, 3)))


def test_the_truth_points_at_the_rule_and_its_opposite_never(session: Session) -> None:
    tagged = session.only(*(i for i, s in enumerate(session.samples) if s.votes["tag"] is not None))  # type: ignore[attr-defined]
    for name, value in (("control/oracle", 1.0), ("control/inverse_oracle", 0.0)):
        outcomes = Lineup().score(tagged, build("explainer", name, {})(tagged))
        assert set(outcomes) == {card.name for card in Lineup().scores}
        assert outcomes["pointing"].values == pytest.approx(value)
        assert outcomes["accuses_tag"].values == pytest.approx(value)


def test_certificates_are_asked_for_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = [Attribution(visual=np.ones((4, 4))) for _ in session.samples]
    Lineup().score(session, maps)
    monkeypatch.setattr(type(session.model), "answer", lambda *_: pytest.fail("asked again"))
    Lineup().score(session, maps)


def test_a_sample_without_the_cue_says_nothing_about_the_rule(session: Session) -> None:
    outcomes = Lineup().score(session, build("explainer", "control/random", {})(session))
    untagged = [i for i, s in enumerate(session.samples) if s.votes["tag"] is None]  # type: ignore[attr-defined]
    assert untagged
    for i in untagged:
        assert outcomes["pointing"].not_applicable[i] == "the rule tag says nothing here"
        assert np.isfinite(outcomes["accuses_frame"].values[i])  # who is accused is told all the same


def test_a_model_that_breaks_its_rule_is_not_judged_by_it() -> None:
    """It says the frame's colour and claims to read the tag."""
    samples = list(generate(8, 3))
    orange = {s.id: s.votes["frame"] for s in samples}

    def colours(images: np.ndarray, texts: list[str]) -> list[dict[str, float]]:
        return [{"yes": float(i[0, 0, 0] > 128), "no": float(i[0, 0, 0] <= 128)} for i in images]

    liar = blackbox(colours, mechanism="tag")
    outcomes = Lineup().score(Session(liar, samples), [Attribution(visual=np.ones((4, 4))) for _ in samples])
    assert len(set(orange.values())) == 2
    assert np.isnan(outcomes["pointing"].values).all()
    assert "against its rule tag" in " ".join(outcomes["pointing"].not_applicable.values())


def test_a_run_finds_who_points_at_the_rule(tmp_path: Path) -> None:
    spec = {
        "karat": 1, "name": "small", "protocol": "lineup", "models": ["photovlm.tag", "photovlm.frame"],
        "datasets": [{"name": "cues", "n": 6, "world": {"untagged": False}}],
        "explainers": ["control/oracle", "control/random", "control/center"],
    }  # fmt: skip
    run(Spec.parse(spec), tmp_path, workers=0)
    finished = load_run(tmp_path)
    overall = analysis.accusations(finished.scores(), "pointing").query("model == 'all'").set_index("explainer")
    assert overall.loc["control/oracle", "value"] == 1
    assert overall.loc["control/oracle", "high"] == 1
    assert 0.3 < overall.loc["control/oracle", "low"] < 0.95  # six photographs cannot tell more
    assert overall.loc["control/random", "value"] < 0.8
    shares = analysis.confusion(finished.scores())
    oracle = shares[(shares["explainer"] == "control/oracle") & (shares["rule"] == "frame")].set_index("cue")["share"]
    assert oracle.to_dict() == {cue: float(cue == "frame") for cue in POINTED}
    assert overall.loc["control/smooth_noise", "n"] == overall.loc["control/random", "n"]  # there unasked
    habits = analysis.habits(percentile_rows(finished)).set_index("explainer")
    assert habits.loc["control/oracle", ["blind", "excess"]].tolist() == [0.0, 1.0]
    assert habits.loc["control/random", "excess_low"] < 0.1
    titles = [finding.title for finding in finished.findings()]
    assert titles[:2] == ["Which rule was it?", "Whom do explainers accuse?"]  # controls are on no photograph


def test_rows_do_not_depend_on_batches(tmp_path: Path) -> None:
    spec = {
        "karat": 1, "name": "small", "protocol": "lineup", "models": ["photovlm.word"],
        "datasets": [{"name": "cues", "n": 6}], "explainers": ["control/random"],
    }  # fmt: skip
    tables = []
    for size in (6, 2):
        run(Spec.parse(spec | {"batch_size": size}), tmp_path / str(size), workers=0)
        scores = load_run(tmp_path / str(size)).scores()
        tables.append(scores.sort_values(["explainer", "metric", "sample"])["value"].to_numpy())
    assert np.array_equal(*tables, equal_nan=True)


def test_f_syn_is_there_where_it_is_asked_for(session: Session) -> None:
    two = session.only(0, 1)
    asked = Lineup(synergy=3)
    outcomes = asked.score(two, build("explainer", "control/random", {})(two))
    assert set(outcomes) == {card.name for card in asked.scores} > {card.name for card in Lineup().scores}
    assert np.isfinite(outcomes["f_syn"].values).all()
