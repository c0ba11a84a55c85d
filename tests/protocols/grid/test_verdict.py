"""The verdict on explanations whose worth is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from karat.engine.run import run
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.protocols.grid.analysis import tidy
from karat.protocols.grid.findings import dose_findings, seed_findings, sentences, verdict_finding
from karat.protocols.grid.verdict import (
    Dose,
    Pair,
    detection_threshold,
    dose_curve,
    seed_pairs,
    seed_summaries,
    separations,
    verdict,
    verdicts,
)
from karat.statistics import auc, cross_fitted_scores, paired_wins
from tests.protocols.grid.made import of_explainer, of_model

META = {"meta.mode": "pure", "meta.qtype": "M", "meta.depth": 2, "meta.bucket": "D2_M_F0_d0.3", "meta.seed": 0,
        "meta.preset": "certified", "meta.form": 0, "meta.density": 0.3, "answer": "1", "expected": "1",
        "status": "score", "reason": ""}  # fmt: skip


def frame(
    shift: Mapping[str, float],
    n: int = 200,
    seed: int = 0,
    explainer: str = "x",
    seeds: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """Rows in which the distractor mass of each model is noise plus its shift."""
    rng = np.random.default_rng(seed)
    columns = {
        model: of_model("t", model[2:].split("#")[0], **({"seed": seeds[model]} if seeds else {})) for model in shift
    }
    rows = [
        {**META, **columns[model], **of_explainer(explainer), "metric": metric, "sample": f"{i:03}", "value": value,
         "meta.index": i}
        for i in range(n) for model, extra in shift.items()
        for metric, value in (("distractor_mass", rng.normal() + extra), ("anchor_mass", rng.normal()))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def pair(change: np.ndarray, parts: tuple[str, ...]) -> Pair:
    values = np.stack([np.zeros_like(change), change])
    return Pair(values, parts, [str(i) for i in range(len(change))], len(change))


def test_the_directed_verdict_is_the_chance_of_a_larger_statistic() -> None:
    [row] = verdict(frame({"t.pure": 0.0, "t.spur": 1.0}, n=400)).itertuples()
    assert row.low < stats.norm.cdf(1 / 2) < row.high  # four normals of variance one: two models, two parts
    assert (row.samples, row.of, row.parts) == (400, 400, "distractor_mass, anchor_mass")


def test_what_moves_the_wrong_way_lies_below_one_half_and_still_differs() -> None:
    [row] = verdict(frame({"t.pure": 1.5, "t.spur": 0.0})).itertuples()
    assert row.high < 0.5
    assert row.differs > row.differs_null > 0.5  # a classifier may be turned round: that is all it says


def test_every_part_has_its_sign() -> None:
    parts = ("distractor_mass", "anchor_mass", "relation_mass")
    for k, sign in enumerate((1, -1, -1)):
        change = np.zeros((8, 3))
        change[:, k] = 0.1
        assert pair(change, parts).directed().value == (1.0 if sign > 0 else 0.0)
    assert pair(np.tile([0.1, 0.1, 0.0], (8, 1)), parts).directed().value == 0.5  # the parts weigh alike


def test_a_part_that_one_twin_lacks_is_left_out_for_both() -> None:
    """The pure twin has no anchor mass on some samples: the spur twin's must not count there."""
    rows = frame({"t.pure": 0.0, "t.spur": 5.0}, n=40)
    anchors = rows["metric"] == "anchor_mass"
    rows.loc[anchors & (rows["model"] == "t.spur"), "value"] = 100.0
    assert verdict(rows)["directed"].item() == 0.0  # where both have it, it decides
    lacking = rows.assign(value=rows["value"].mask(anchors & (rows["model"] == "t.pure")))
    assert verdict(lacking)["directed"].item() == 1.0
    assert verdict(lacking)["parts"].item() == "distractor_mass"
    some = rows.assign(value=rows["value"].mask(anchors & (rows["model"] == "t.pure") & (rows["sample"] < "010")))
    assert verdict(some)["directed"].item() == 0.25


def test_no_difference_is_seen_no_more_often_than_is_said() -> None:
    """By simulation over sample sizes and shares of ties: at most 2.5 % of intervals lie above one half, and at most
    2.5 % below it."""
    rng = np.random.default_rng(0)
    for n in (10, 20, 60, 200):
        for ties in (0.0, 0.3):
            changes = rng.normal(size=(1500, n)) * (rng.random((1500, n)) >= ties)
            intervals = [pair(one[:, None], ("distractor_mass",)).directed() for one in changes]
            allowed = stats.binom.ppf(0.999, 1500, 0.025) / 1500  # of the simulation itself
            assert np.mean([one.low > 0.5 for one in intervals]) <= allowed
            assert np.mean([one.high < 0.5 for one in intervals]) <= allowed


def test_intervals_cover_real_effects() -> None:
    rng = np.random.default_rng(1)
    for n in (20, 60, 200):
        for shift in (0.3, 1.0, 2.0):
            truth = stats.norm.cdf(shift)
            drawn = rng.normal(size=(800, n)) + shift
            intervals = [pair(one[:, None], ("distractor_mass",)).directed() for one in drawn]
            covered = np.mean([one.low <= truth <= one.high for one in intervals])
            assert covered >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 800), (n, shift)
            assert np.mean([one.high - one.low for one in intervals]) < 2.6 / np.sqrt(n)  # safe, not useless


def test_differing_is_said_once_in_twenty_by_chance() -> None:
    rng = np.random.default_rng(2)
    told = []
    for _ in range(400):
        shared = rng.normal(size=(30, 3))  # both twins of a sample are alike
        values = shared + rng.normal(size=(2, 30, 3))
        observed, null = Pair(values, ("a", "b", "c"), [""] * 30, 30).differs(rng)
        told.append(observed > null)
    assert stats.binom.ppf(0.001, 400, 0.05) <= sum(told) <= stats.binom.ppf(0.999, 400, 0.05)


def test_fitting_all_exchanges_at_once_is_fitting_each() -> None:
    """A slow twin: one exchange after the other, and a logistic regression instead of the discriminant."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 60, 2))
    values[1, :, 0] += 1.5
    swaps = rng.random((4, 60)) < 0.5
    fold = rng.permutation(60) % 5
    together = separations(values, swaps, fold)
    for swap, found in zip(swaps, together, strict=True):
        exchanged = np.where(swap[None, :, None], values[::-1], values)
        [alone] = separations(exchanged, np.zeros((1, 60), dtype=bool), fold)
        assert found == pytest.approx(alone)
    [observed] = separations(values, np.zeros((1, 60), dtype=bool), fold)
    second, clusters = np.repeat([False, True], 60), np.tile(np.arange(60), 2)
    odds = cross_fitted_scores(values.reshape(120, 2), second, clusters, rng=rng)
    assert observed == pytest.approx(auc(odds, second).value, abs=0.03)


def test_what_is_missing_is_counted_and_who_says_nothing_is_named() -> None:
    rows = frame({"t.pure": 0.0, "t.spur": 1.0})
    rows.loc[(rows["sample"] == "007") & (rows["model"] == "t.pure"), "value"] = np.nan
    silent = rows.assign(explainer="silent", value=np.nan)
    both = tidy(pd.concat([rows, silent], ignore_index=True))
    [found] = verdict_finding(both, verdicts(both), {})
    [row] = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert (row["explainer"], row["samples"], row["of"]) == ("x", 199, 200)
    assert found.sentences[-1] == ("No verdict on silent on t: too few scores of places or words that both twins have.")


def test_a_verdict_that_hangs_on_failed_explanations_is_none() -> None:
    """Ten of two hundred show the shortcut; the others failed, or are not applicable."""
    rows = frame({"t.pure": 0.0, "t.spur": 9.0})
    others = (rows["sample"] >= "010") & (rows["model"] == "t.spur")
    lost = rows["value"].mask(others)
    for status, hangs in (("failure", True), ("not_applicable", False)):
        [one] = verdicts(tidy(rows.assign(value=lost, status=rows["status"].mask(others, status))))
        assert (one.directed, one.samples, one.of, one.failed) == (1.0, 10, 200, 190 if hangs else 0)
        assert one.low > 0.5
        assert one.hangs == hangs == (not one.shows)
        assert one.low_tied == (pytest.approx(paired_wins([1.0] * 10 + [0.0] * 190).low) if hangs else one.low)
        told = list(sentences([one]))
        assert any("hangs on what 190 samples" in sentence for sentence in told) == hangs
        assert ("0 of 1 methods show" in told[0]) == hangs


def test_too_few_shared_samples_give_no_verdict() -> None:
    assert verdict(frame({"t.pure": 0.0, "t.spur": 1.0}, n=3)).empty


def test_rows_of_another_kind_are_refused() -> None:
    with pytest.raises(BadInput, match=r"no meta\.mode"):
        verdict(pd.DataFrame({"model": ["a"]}))


def test_the_oracle_is_at_one_its_inverse_below_one_half_and_noise_at_one_half(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": ["gridprog.pure", "gridprog.spur"],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3", "D2_SO_F1_d0.7"], "per_bucket": 15}],
            "explainers": ["control/oracle", "control/inverse_oracle", "control/random", "control/uniform"],
        }
    )
    rows = tidy(run(spec, tmp_path, workers=0).scores())
    table = {one.explainer: one for one in verdicts(rows)}
    assert table["control/oracle"].directed == 1.0
    assert table["control/oracle"].low > 0.8
    assert table["control/inverse_oracle"].high < 0.5
    assert table["control/inverse_oracle"].differs == 1.0  # what the verdict was before
    assert table["control/uniform"].directed == 0.5
    assert table["control/random"].low <= 0.5 <= table["control/random"].high
    said = list(sentences(list(table.values())))
    assert said[0].startswith("Control: control/oracle on gridprog: shows the shortcut (directed 1.00")
    assert any("control/random on gridprog: cannot be shown" in line for line in said)
    assert any("control/inverse_oracle on gridprog: points the wrong way" in line for line in said)


def test_the_best_comes_first_and_controls_last() -> None:
    parts = [
        frame({"t.pure": 0.0, "t.spur": shift}, seed=k, explainer=name)
        for k, (name, shift) in enumerate(
            {"fair": 1.0, "control/oracle": 9.0, "good": 3.0, "blind": 0.0, "turned": -3.0}.items()
        )
    ]
    table = verdicts(tidy(pd.concat(parts, ignore_index=True)))
    assert [one.explainer for one in table] == ["good", "fair", "blind", "turned", "control/oracle"]
    said = list(sentences(table))
    assert said[0].startswith("On t, 2 of 4 methods show the shortcut more often than chance; best is good")
    assert said[1] == "On t, 1 of 4 point the wrong way: turned."
    assert [line.split(" on t")[0] for line in said[2:]] == [
        "good",
        "fair",
        "blind",
        "turned",
        "Control: control/oracle",
    ]


def test_a_broken_twin_is_said_first() -> None:
    rows = tidy(frame({"t.pure": 0.0, "t.spur": 1.0}))
    [found] = verdict_finding(rows, verdicts(rows), {"t": "t.spur follows its mechanism on 3 %"})
    assert found.sentences[0] == "No verdict on t can be trusted: t.spur follows its mechanism on 3 %."
    assert "t.spur follows" in found.rows[0][-1]


def test_no_verdict_at_all_says_why() -> None:
    rows = tidy(frame({"t.pure": 0.0, "t.spur": 1.0}).assign(value=np.nan))
    [found] = verdict_finding(rows, verdicts(rows), {})
    assert found.rows == ()
    assert found.sentences[0].startswith("No verdict on x on t: too few")
    alone = tidy(frame({"t.pure": 0.0}))
    assert list(verdict_finding(alone, verdicts(alone), {})) == []  # one twin alone is no question


# ---- doses


def threshold(curve: list[Dose], explainer: str = "x") -> float:
    return detection_threshold([one for one in curve if one.explainer == explainer])


def test_the_dose_curve_rises_and_has_a_threshold() -> None:
    doses = {"t.pure": 0.0, "t.dose(0.1)": 0.02, "t.dose(0.5)": 1.0, "t.dose(0.9)": 2.0, "t.spur": 3.0}
    curve = dose_curve(tidy(frame(doses)))
    assert [one.dose for one in curve] == [0.1, 0.5, 0.9, 1.0]
    assert [one.directed for one in curve] == sorted(one.directed for one in curve)
    assert threshold(curve) == 0.5


def test_a_dose_of_nothing_is_detected_no_more_often_than_by_chance() -> None:
    curves = [
        dose_curve(tidy(frame({"t.pure": 0.0, "t.dose(0)": 0.0, "t.dose(0.5)": 3.0}, n=50, seed=seed)))
        for seed in range(12)
    ]
    flat = [one for curve in curves for one in curve]
    assert sum(one.detected for one in flat if one.dose == 0.0) <= 2
    assert all(one.detected for one in flat if one.dose == 0.5)
    [found] = dose_findings(tidy(frame({"t.pure": 0.0, "t.dose(0.5)": 3.0})))
    assert found.sentences[0].startswith("x shows the shortcut of t from dose 0.5 on (directed 0.9")


def test_a_dose_without_scores_is_not_one_that_is_missed() -> None:
    rows = frame({"t.pure": 0.0, "t.dose(0.5)": 3.0, "t.spur": 3.0})
    silent = rows.assign(explainer="oracle")
    silent.loc[silent["model"] == "t.dose(0.5)", "value"] = np.nan
    both = tidy(pd.concat([rows, silent], ignore_index=True))
    curve = dose_curve(both)
    assert np.isnan(threshold(curve, "oracle"))
    assert threshold(curve) == 0.5
    [found] = dose_findings(both)
    assert "oracle has no scores at dose 0.5: no threshold of t." in found.sentences
    assert "oracle" not in {series.name for series in found.figures[0].series}
    detected = {(row[0], row[1]): row[-2] for row in found.rows}
    assert detected == {("oracle", 0.5): "no scores", ("oracle", 1.0): "yes", ("x", 0.5): "yes", ("x", 1.0): "yes"}


def test_what_is_seen_at_a_small_dose_alone_is_not_called_unseen() -> None:
    [found] = dose_findings(tidy(frame({"t.pure": 0.0, "t.dose(0.5)": 3.0, "t.spur": 0.0})))
    assert found.sentences[0] == "x shows the shortcut of t at dose 0.5, but not from any dose on."


def test_the_dose_is_seen_on_compiled_twins_of_any_cell_size(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    spec = Spec.parse(
        {
            "protocol": "grid",
            "models": [{"name": "gridprog.pure", "cell": 16}, {"name": "gridprog", "dose": 0.5, "cell": 16},
                       {"name": "gridprog.spur", "cell": 16}],
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3", "D2_SO_F1_d0.7"], "per_bucket": 15, "cell": 16}],
            "explainers": ["gradient/input_x_gradient", "control/random"],
        }
    )  # fmt: skip
    [found] = [f for f in run(spec, tmp_path, workers=0).findings() if f.title.startswith("How strong must")]
    cells = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert sorted({row["dose"] for row in cells}) == [0.5, 1.0]
    assert {row["detected"] for row in cells if row["explainer"] == "control/random"} == {"no"}
    assert any(row["detected"] == "yes" for row in cells if row["explainer"] == "gradient/input_x_gradient")


# ---- seeds


def of_seeds(shift: Mapping[str, float]) -> pd.DataFrame:
    """Models `t.pure#0`: the seed after the hash."""
    return tidy(frame(shift, n=60, seeds={name: int(name.split("#")[1]) for name in shift}))


def test_mechanisms_count_where_they_differ_more_than_seeds() -> None:
    apart = {f"t.{twin}#{seed}": 4.0 * (twin == "spur") for twin in ("pure", "spur") for seed in range(3)}
    rows = of_seeds(apart)
    pairs = seed_pairs(rows)
    kinds = [one.mechanisms for one in pairs]
    assert (kinds.count("different"), kinds.count("same")) == (9, 12)
    [summary] = seed_summaries(pairs)
    assert summary.counts
    assert summary.lowest_same == pytest.approx(1 - summary.highest_same)  # both orders
    [found] = seed_findings(rows)
    assert found.sentences == ("On t, 1 of 1 methods separate mechanisms further than seeds: x.",)


def test_other_weights_that_move_as_far_as_mechanisms_do_not_count() -> None:
    by_seed = {f"t.{twin}#{seed}": 4.0 * seed for twin in ("pure", "spur") for seed in range(3)}
    [summary] = seed_summaries(seed_pairs(of_seeds(by_seed)))
    assert not summary.counts
    assert summary.highest_same > 0.9


def test_twins_pair_by_seed_and_one_seed_has_no_null() -> None:
    rows = of_seeds({"t.pure#0": 0.0, "t.spur#0": 3.0, "t.pure#1": 3.0, "t.spur#1": 0.0})
    directed = {one.family: one.directed for one in verdicts(rows)}
    assert directed["t (seed 0)"] > 0.8 > 0.2 > directed["t (seed 1)"]
    assert seed_pairs(of_seeds({"t.pure#0": 0.0, "t.spur#0": 3.0})) == []
    assert list(seed_findings(tidy(frame({"t.pure": 0.0, "t.spur": 3.0})))) == []


def test_seeds_of_a_run_are_compared(tmp_path: Path) -> None:
    """Untrained networks: other weights, and no mechanism to tell apart."""
    torch = pytest.importorskip("torch")
    from karat.models.gridnet.files import default_shape, save_network
    from karat.models.gridnet.network import GridNetwork

    models = []
    for number, (twin, seed) in enumerate((twin, seed) for twin in ("pure", "spur") for seed in range(3)):
        torch.manual_seed(number)
        path = save_network(GridNetwork(default_shape()), tmp_path / f"{twin}{seed}.safetensors")
        models.append({"name": f"gridnet.{twin}", "seed": seed, "weights": str(path)})
    spec = Spec.parse(
        {
            "protocol": "grid", "models": models,
            "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 6, "cell": 16}],
            "explainers": ["gradient/input_x_gradient", "control/oracle"],
        }
    )  # fmt: skip
    result = run(spec, tmp_path / "run", workers=0)
    pairs = [one for one in seed_pairs(tidy(result.scores())) if one.explainer == "gradient/input_x_gradient"]
    assert [one.mechanisms for one in pairs].count("different") == 9
    assert [one.mechanisms for one in pairs].count("same") == 12
    [found] = [finding for finding in result.findings() if finding.title == "Mechanisms, or just other weights?"]
    counts = {row[0:2]: row[found.columns.index("counts")] for row in found.rows}
    assert counts == {("gridnet", "gradient/input_x_gradient"): "no", ("gridnet", "control/oracle"): "yes"}
