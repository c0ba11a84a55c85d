"""Whether to believe a map: both verdicts can come out, on a model whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from karat.engine.explain_answer import explain_answer
from karat.engine.explain_check import ALIKE, Check, alike, check_maps, error_rates, rates
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
    [same] = check_maps(session(), {"own": own()}, {"own": own()})
    [other] = check_maps(session(), {"own": own()}, {"own": Attribution(np.random.default_rng(1).random((64, 64)))})
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
    check = Check("cam/x", 1.0, together=0.9, shuffled=0.1, agreement=0.5, mass=0.25)
    told = check.sentence()
    assert told.startswith("cam/x: Believe it: its order beats 100% of 39 random ones; ")
    assert "25% of the way from chance to the mask" in told
    assert told.endswith(error_rates("believe"))
    assert Check("cam/x", 0.9).verdict == "cannot tell"
    assert Check("cam/x", 0.9).sentence().startswith("cam/x: Cannot tell")


def test_the_recorded_rates_say_what_was_measured() -> None:
    record = rates()
    assert record["alike"] == ALIKE
    for kind in ("own map", "twin's map", "noise", "edges"):
        assert sum(record["rates"][kind].values()) == pytest.approx(1)
        assert record["maps"][kind] >= 20
    assert record["rates"]["own map"]["believe"] > record["rates"]["noise"]["believe"]
    assert "noise" in error_rates("believe")


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
