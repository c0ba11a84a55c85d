"""Whether to believe a map: both verdicts can come out, on a model whose truth is known."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from karat.engine import explain_check
from karat.engine.explain_answer import explain_answer
from karat.engine.explain_check import AGREES, ALIKE, Check, alike, asks, check_maps, error_rates, rates
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.blackbox import blackbox
from karat.probe.session import Session

IMAGE = np.zeros((64, 64, 3), np.uint8)
IMAGE[:16, :24] = 220


def corner(images: np.ndarray, texts: list[str]) -> list[dict[str, float]]:
    share = 0.1 + 0.8 * images[:, :16, :24].mean((1, 2, 3)) / 255
    return [{"yes": p, "no": 1 - p} for p in share]


def session() -> Session:
    return Session(blackbox(corner, name="corner", text=False), [Sample("s", IMAGE)], ["yes"])


def own() -> Attribution:
    return Attribution((IMAGE[..., 0] > 0).astype(float))


def test_the_truth_is_believed_and_its_opposite_is_not() -> None:
    rng = np.random.default_rng(0)
    maps = {"own": own(), "opposite": Attribution(1 - own().visual), "flat": Attribution(np.ones((4, 4)))}
    noise = {f"noise {k}": Attribution(rng.random((8, 8))) for k in range(12)}
    checks = {check.explainer: check for check in check_maps(session(), maps | noise)}
    assert checks["own"].verdict == "believe"
    assert checks["opposite"].verdict == "doubt"
    assert checks["flat"].order is None
    assert checks["flat"].verdict == "doubt"
    assert sum(checks[name].verdict == "believe" for name in noise) <= 2  # one in forty, by chance
    assert checks["own"].agreement == pytest.approx(
        np.mean(
            [alike(own().visual, one.visual) for name, one in (maps | noise).items() if name not in ("own", "flat")]
        )
    )


def test_a_map_that_ignores_the_weights_is_doubted() -> None:
    maps, noise = {"cam/layercam": own()}, Attribution(np.random.default_rng(1).random((64, 64)))
    [same] = check_maps(session(), maps, maps)
    [other] = check_maps(session(), maps, {"cam/layercam": noise})
    assert same.shuffled == pytest.approx(1.0)
    assert (same.verdict, other.verdict) == ("doubt", "believe")
    assert "stays the same when the weights are shuffled" in same.sentence()


def test_with_a_mask_it_says_how_much_lies_on_it() -> None:
    [right] = check_maps(session(), {"own": own()}, mask=IMAGE[..., 0] > 0)
    [wrong] = check_maps(session(), {"own": own()}, mask=IMAGE[..., 0] == 0)
    assert right.mass == pytest.approx(1.0)
    assert wrong.mass is not None
    assert wrong.mass < 0


def test_sentences_name_their_reasons_and_their_error_rates() -> None:
    check = Check("cam/layercam", 1.0, together=0.9, shuffled=0.1, agreement=0.5, mass=0.25, singly=0.6)
    sentence = check.sentence()
    assert sentence.startswith("cam/layercam: Believe it: its order beats 100% of 39 random ones; ")
    assert "as hiding them one at a time does at ρ 0.60" in sentence
    assert "25% of the way from chance to the mask" in sentence
    assert sentence.endswith(error_rates("believe", asking=False))
    assert replace(check, explainer="shapley/permutation").sentence().endswith(error_rates("believe", asking=True))
    unsure = replace(check, order=0.9)
    assert unsure.verdict == "cannot tell"
    assert unsure.sentence().startswith("cam/layercam: Cannot tell")


def test_a_map_of_the_image_alone_is_not_believed_and_nothing_that_does_no_better() -> None:
    believed = Check("cam/layercam", 1.0, singly=0.6)
    assert believed.verdict == "believe"
    rivalled = replace(believed, blind="control/edges")
    assert rivalled.verdict == "cannot tell"
    assert "control/edges, which never met the model, does as well" in rivalled.sentence()
    assert replace(believed, singly=0.2).verdict == "cannot tell"
    [check] = check_maps(session(), {"opposite": Attribution(1 - own().visual)})
    assert check.blind == "control/edges"  # the edges of what is bright are nearer to it than all that is dark
    [check] = check_maps(session(), {"own": own()})
    assert check.blind is None
    assert check.singly is not None
    assert check.singly > 0.9


def test_the_recorded_rates_say_what_was_measured() -> None:
    record = rates()
    assert (record["alike"], record["agrees"]) == (ALIKE, AGREES)
    assert record["seed"] != record["chosen_on"]  # other samples than those by which the rule was chosen
    judged = [(row["kind"], Check(**{f.name: row[f.name] for f in fields(Check)})) for row in record["judged"]]
    for how, asking in (("asks", True), ("looks inside", False)):
        for kind, shares in record["rates"][how].items():
            verdicts = [
                check.verdict
                for own_kind, check in judged
                if own_kind == kind and (kind not in ("own map", "twin's map") or asks(check.explainer) == asking)
            ]
            assert shares == {
                v: pytest.approx(verdicts.count(v) / len(verdicts)) for v in shares
            }  # by the rule of today
    shares_of = record["rates"]["asks"]
    assert shares_of["own map"]["believe"] > max(
        shares_of[kind]["believe"] for kind in ("noise", "smooth noise", "contrast")
    )
    assert "noise" in error_rates("believe", asking=True)
    assert error_rates("cannot tell", asking=True) == ""


def test_a_sentence_that_hardly_tells_twins_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(own: float, twin: float) -> dict[str, Any]:
        shares = {"own map": {"believe": own}, "twin's map": {"believe": twin}}
        return {"rates": {"asks": shares, "looks inside": shares}}

    for own_share, twin_share, hardly in ((0.4, 0.3, True), (0.8, 0.1, False), (0.0, 0.0, True)):
        monkeypatch.setattr(explain_check, "rates", lambda a=own_share, b=twin_share: record(a, b))
        assert ("hardly tells" in error_rates("believe", asking=False)) == hardly


def test_explanations_carry_the_verdicts() -> None:
    model = blackbox(corner, name="corner", text=False)
    made = explain_answer(model, IMAGE, explainer="perturbation/leave_one_out", check=True, mask=IMAGE)
    [verdict] = made.verdicts
    assert verdict.startswith("perturbation/leave_one_out: ")
    assert "mask" in verdict
    with pytest.raises(BadInput, match="they must be of one size"):
        explain_answer(model, IMAGE, explainer="perturbation/leave_one_out", mask=IMAGE[:32])
    with pytest.raises(BadInput, match="all of one kind"):
        explain_answer(model, IMAGE, explainer="perturbation/leave_one_out", mask=np.zeros_like(IMAGE))
