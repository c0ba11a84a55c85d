"""Levels, findings, sweep and the paper's claims on a run whose every number is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from karat.engine.plan import plan
from karat.engine.run import run as carry_out
from karat.kernel.errors import BadInput
from karat.kernel.spec import Spec
from karat.protocols.common.published import load
from karat.protocols.paper import paper
from karat.protocols.semantic import export, gallery
from karat.protocols.semantic.analysis import per_class, per_image, predictions
from karat.protocols.semantic.claims import METHODS, OUT_OF_DOMAIN, Order, coverage, widest
from karat.protocols.semantic.configuration import choose_configuration, curves
from karat.protocols.semantic.prediction_claims import classes_differ, methods_differ, occurs, orthogonal
from karat.protocols.semantic.reasons import class_bias, least_that_can_differ, relations
from karat.report.compare import compare
from karat.results.run import Run

WORLD = "semantic_worlds:"


def spec(**changes: Any) -> Spec:
    return Spec.parse(
        {
            "name": "tiny",
            "protocol": {"name": "semantic", "threshold": 0.0, "thresholds": [0.0, 0.6]},
            "models": [f"{WORLD}GuesserRecipe"],
            "datasets": [{"name": f"{WORLD}Scenes", "n": 12, "predictions": 2}],
            "explainers": [f"{WORLD}Slope", {"name": f"{WORLD}Slope", "start": 3}, "control/uniform"],
            "shard_size": 8,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return carry_out(spec(), tmp_path_factory.mktemp("run") / "tiny", workers=0)


def slope(start: int) -> np.ndarray[Any, Any]:
    return np.clip(1 - np.abs(np.arange(8) - start) / 8, 0, None)[:7]  # the last column is ignored


def test_levels_are_means_of_means(done: Run) -> None:
    table = predictions(done)
    mine = table[table["explainer"] == "worlds/slope"]
    row = slope(0)
    cat, dog = 1 - row[:3].sum() / row.sum(), 1 - row[3:5].sum() / row.sum()
    both = mine[mine["image"] == "scene0"].set_index("rank")["sss"]
    np.testing.assert_allclose(both.loc[[1, 2]], [cat, dog], rtol=1e-5)
    images = per_image(mine).set_index("image")["sss"]
    np.testing.assert_allclose(images["scene0"], (cat + dog) / 2, rtol=1e-5)
    np.testing.assert_allclose(images["scene1"], cat, rtol=1e-5)  # no dog there: rank 2 has no score
    classes = per_class(mine).set_index("label")
    np.testing.assert_allclose(classes.loc[["cat", "dog"], "sss"], [cat, dog], rtol=1e-5)
    assert classes.loc["cat", "predictions"] == 12
    assert classes.loc["dog", "predictions"] == 6
    assert mine.loc[mine["image"] == "scene5", "own"].unique().tolist() == ["lion"]


def test_findings_say_what_the_numbers_are(done: Run) -> None:
    findings = {finding.title: finding for finding in done.findings()}
    overview = findings["How much of each explanation lies outside what it is about?"]
    rows = {row[2]: dict(zip(overview.columns, row, strict=True)) for row in overview.rows}
    np.testing.assert_allclose(rows["control/uniform"]["gain"], 0, atol=1e-6)
    assert rows["worlds/slope"]["coverage"] == 1
    assert rows["worlds/slope"]["answered"] == 1
    assert rows["worlds/slope"]["predictions"] == 18
    quadrants = findings["Right for the right reasons?"]
    counts = {row[3:6]: row[6] for row in quadrants.rows if row[2] == "worlds/slope"}
    assert sum(counts.values()) == 12  # the model made one prediction for each of twelve images
    assert counts["incorrect", "confident", "on the class"] + counts["incorrect", "confident", "spurious"] == 1
    assert not any(row[2].startswith("control/") for row in quadrants.rows)
    assert any(sentence.startswith("guesser on ") and "control/uniform, which never saw the model" in sentence
               for sentence in quadrants.sentences)  # fmt: skip


def test_export_as_csv_and_parquet(done: Run, tmp_path: Path) -> None:
    for kind, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        paths = export(done, tmp_path, kind)
        assert [path.name for path in paths] == [f"predictions.{kind}", f"images.{kind}", f"classes.{kind}"]
        assert len(read(paths[0])) == 12 * 2 * 3


def test_gallery_draws_a_row_for_every_kind(done: Run, tmp_path: Path) -> None:
    from PIL import Image

    dataset = plan(spec()).datasets[0]
    path = gallery(done, dataset, tmp_path / "g.png", model="guesser", explainer="worlds/slope")
    image = np.asarray(Image.open(path))
    kinds = {row[3:6] for row in done.findings()[1].rows if row[2] == "worlds/slope" and row[6]}
    assert image.shape[0] == 220 * len(kinds)
    assert (image != 255).any()
    with pytest.raises(BadInput, match="no scored rows"):
        gallery(done, dataset, tmp_path / "g.png", model="nobody", explainer="worlds/slope")


def test_a_gallery_needs_the_maps(tmp_path: Path) -> None:
    bare = carry_out(spec(keep_maps=False), tmp_path / "bare", workers=0)
    with pytest.raises(BadInput, match="keep_maps: true"):
        gallery(bare, plan(spec()).datasets[0], tmp_path / "g.png", model="guesser", explainer="worlds/slope")


def test_sweep_chooses_and_writes_a_spec(tmp_path: Path) -> None:
    """Slope from column 0 keeps far from chance on cats; the uniform map never does."""
    swept = carry_out(
        spec(
            name="sweep",
            protocol={"name": "semantic-sweep", "thresholds": [0.0, 0.5, 0.9]},
            datasets=[{"name": f"{WORLD}Scenes", "n": 12}],
            limit=10,
        ),
        tmp_path / "sweep",
        workers=0,
    )
    table = curves(swept, (0.0, 0.5, 0.9))
    row = slope(0)
    mine = table[(table["explainer"] == "worlds/slope") & (table["mode"] == "soft")].set_index("threshold")["SSS"]
    np.testing.assert_allclose(mine[0.0], 1 - row[:3].sum() / row.sum(), rtol=1e-5)
    np.testing.assert_allclose(mine[0.9], 0, atol=1e-7)
    assert (table[table["explainer"] == "control/uniform"]["margin"].abs() < 1e-6).all()
    chosen = choose_configuration(table, 0.95)
    written = yaml.safe_load((tmp_path / "sweep" / "chosen.yaml").read_text())
    assert chosen is not None
    assert written["protocol"]["threshold"] == chosen.threshold
    assert written["protocol"]["mode"] == chosen.mode
    names = [one["name"] for one in written["explainers"]]
    assert names == [f"{WORLD}Slope", "control/uniform"]  # the chosen one, and the controls
    assert "limit" not in written
    assert written["start"] == 10  # the images after those that it was chosen by
    planned = plan(Spec.parse(written))  # it is a spec that runs
    assert [(job.start, job.stop) for job in planned.grid] == [(10, 12)]


def test_a_limit_counts_images_however_often_each_is_asked_about(tmp_path: Path) -> None:
    for part in ("images", "masks"):
        (tmp_path / part).mkdir()
        for name in "abcd":
            Image.fromarray(np.ones((8, 8), np.uint8)).save(tmp_path / part / f"{name}.png")
    (tmp_path / "labels.txt").write_text("1: cat\n")
    folder = {"name": "segmentation/folder", "root": str(tmp_path), "predictions": 3}
    planned = plan(spec(datasets=[folder], limit=2, start=1))
    assert {(job.start, job.stop) for job in planned.grid} == {(3, 9)}  # six samples
    with pytest.raises(BadInput, match="no samples after the first 4 images"):
        plan(spec(datasets=[folder], start=4))


def test_the_choice_is_the_clearest_that_covers_enough() -> None:
    def row(
        explainer: str, threshold: float, separation: float, coverage: float, model: str = "m", signed: bool = False
    ) -> dict[str, Any]:
        return {"model": model, "dataset": "d", "explainer": explainer, "mode": "soft", "threshold": threshold,
                "separation": separation, "coverage": coverage, "signed": signed, "predictions": 48,
                "is_control": explainer == "control/center"}  # fmt: skip

    table = pd.DataFrame([row("a", 0.1, 1.0, 1.0), row("a", 0.5, 3.0, 0.5), row("b", 0.2, 2.0, 0.97),
                          row("control/center", 0.1, 9.0, 1.0)])  # fmt: skip
    chosen = choose_configuration(table, 0.95)
    assert chosen is not None
    assert (chosen.explainer, chosen.threshold) == ("b", 0.2)
    other = pd.concat([table, pd.DataFrame([row("a", 0.1, 2.0, 1.0, "n"), row("b", 0.2, -9.0, 1.0, "n")])])
    both = choose_configuration(other, 0.95)
    assert both is not None
    assert both.explainer == "a"
    assert choose_configuration(table, 0.999) is not None
    assert choose_configuration(table[table["coverage"] < 0.99], 0.999) is None


def test_a_signed_layer_is_chosen_only_where_there_is_no_other_and_near_ones_are_named() -> None:
    def row(explainer: str, separation: float, signed: bool = False) -> dict[str, Any]:
        return {"model": "m", "dataset": "d", "explainer": explainer, "mode": "soft", "threshold": 0.5,
                "separation": separation, "coverage": 1.0, "signed": signed, "predictions": 48,
                "is_control": False}  # fmt: skip

    table = pd.DataFrame([row("signed", 3.0, signed=True), row("first", 2.0), row("near", 1.8), row("far", 1.0)])
    chosen = choose_configuration(table, 0.95)
    assert chosen is not None
    assert (chosen.explainer, chosen.as_good, chosen.barred) == ("first", ("near",), ("signed",))
    alone = choose_configuration(table[table["signed"]], 0.95)
    assert alone is not None
    assert (alone.explainer, alone.barred) == ("signed", ())


def test_other_configurations_are_not_compared(done: Run, tmp_path: Path) -> None:
    other = carry_out(spec(protocol={"name": "semantic", "threshold": 0.3}), tmp_path / "other", workers=0)
    with pytest.raises(BadInput, match=r"threshold 0\.0 and 0\.3"):
        compare(done, other)
    same = carry_out(spec(models=[{"name": f"{WORLD}GuesserRecipe", "shift": 0.2}]), tmp_path / "same", workers=0)
    assert len(compare(done, same).changes) > 0


def test_published_tables() -> None:
    tables = load("semantic").tables
    assert {number: len(table.rows) for number, table in tables.items()} == {
        "Table 1": 9, "Table 2": 5, "Table 3": 11, "Table 4": 6, "Table 5": 2, "Table 6": 5, "Table 7": 5,
        "Table 8": 9, "Table 9": 11,
    }  # fmt: skip
    for number in ("Table 1", "Table 2", "Table 3", "Table 4", "Table 8", "Table 9"):
        assert all(0 < value < 1 for row in tables[number].rows for value in row[1:])  # type: ignore[operator]
        assert set(tables[number].columns[1:]) <= set(METHODS)
    from karat.models.zoo import entries

    named = {row[0] for number in ("Table 1", "Table 2", "Table 3", "Table 4") for row in tables[number].rows}
    assert named <= set(entries())
    assert set(OUT_OF_DOMAIN) <= named


def test_the_papers_own_falsification_test_does_not_hold_under_every_method() -> None:
    nothing = pd.DataFrame(columns=["model", "dataset", "explainer", "method", "image", "sss"])
    claim = Order("Table 3", OUT_OF_DOMAIN, 1, "", "", groups=True).judge(nothing)
    assert claim.verdict == "cannot tell"
    assert claim.published.startswith("holds on average under 5 of 7 methods")


def per_image_of(model: str, explainer: str, sss: Any, dataset: str = "d") -> pd.DataFrame:
    method = explainer.partition("(")[0]
    return pd.DataFrame(
        {"model": model, "dataset": dataset, "explainer": explainer, "method": method, "image": range(len(sss)),
         "sss": sss}
    )  # fmt: skip


def test_claims_are_judged_by_intervals(done: Run) -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 40)

    def images(shift: float) -> pd.DataFrame:
        parts = [("deit-base", 0.5 + shift), ("deit-tiny", 0.5), ("deit-small", 0.5)]
        return pd.concat(per_image_of(m, "attention/gar", v + noise * (m == "deit-base")) for m, v in parts)

    def verdict(shift: float) -> str:
        rivals = ("deit-tiny", "deit-small")
        return Order("Table 4", ("deit-base",), 1, "", "", rivals).judge(images(shift)).verdict

    assert verdict(0.1) == "agree"
    assert verdict(-0.1) == "disagree"
    assert verdict(0.0) == "cannot tell"
    comparison = paper("003", done)
    assert len(comparison.claims) == 19
    verdicts = {claim.text: claim.verdict for claim in comparison.claims}
    assert verdicts["SSD300 has the lowest SSS of all detectors"] == "cannot tell"
    because = {claim.text: claim.because for claim in comparison.claims}
    assert because["A threshold lowers SSS by dropping faint noise"].endswith("lower under 1 of 2")  # of two slopes
    numbers = ["This run", *(f"Table {k}" for k in (1, 2, 3, 4, 8, 9))]
    assert [t.section for t in comparison.tables] == numbers
    assert {row[0] for row in comparison.tables[0].rows} == {"guesser"}
    assert comparison.tables[1].columns[1:4] == ("GradCAM", "GradCAM++", "ScoreCAM")  # as printed: no such model here


def test_detection_coverage_is_judged_by_its_interval() -> None:
    def verdict(found: int, of: int) -> str:
        rows = pd.DataFrame({"model": "fcos", "dataset": "d", "image": range(of),
                             "own_confidence": [0.5] * found + [0.03] * (of - found)})  # fmt: skip
        return coverage(rows, ("fcos",), 0.04).verdict

    assert verdict(1000, 1000) == "agree"
    assert verdict(900, 1000) == "disagree"
    nothing = pd.DataFrame({"model": ["x"], "dataset": ["d"], "image": [0], "own_confidence": [0.5]})
    assert coverage(nothing, ("fcos",), 0.04).verdict == "cannot tell"
    assert verdict(10, 10) == "cannot tell"  # ten of ten may be 70 %
    two = [pd.DataFrame({"model": "fcos", "dataset": name, "image": range(900), "own_confidence": sure})
           for name, sure in (("a", 0.01), ("b", 0.5))]  # fmt: skip
    claim = coverage(pd.concat(two), ("fcos",), 0.04)
    assert claim.verdict == "disagree"  # on one of two datasets it finds nothing
    assert "fcos on a 0.000" in claim.ours
    assert "fcos on b 1.000" in claim.ours


def test_the_widest_spread_is_told_from_the_next() -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 40)

    def verdict(rollout: float, gar: float) -> str:
        parts = {("attention/rollout", "deit-tiny"): 0.3, ("attention/rollout", "deit-base"): 0.3 + rollout,
                 ("attention/gar", "deit-tiny"): 0.3, ("attention/gar", "deit-base"): 0.3 + gar}  # fmt: skip
        frames = [per_image_of(m, e, v + np.roll(noise, k)) for k, ((e, m), v) in enumerate(parts.items())]
        return widest(pd.concat(frames)).verdict

    assert verdict(0.3, 0.1) == "agree"
    assert verdict(0.1, 0.3) == "disagree"
    assert verdict(0.1, 0.1) == "cannot tell"


def detectors(means: dict[str, float], noise: float = 0.01) -> pd.DataFrame:
    """SSS of detectors under one method, forty images."""
    rng = np.random.default_rng(0)
    return pd.concat(per_image_of(m, "cam/gradcam", v + rng.normal(0, noise, 40)) for m, v in means.items())


LOWEST = Order("Table 2", ("ssd300",), -1, "", "")
HIGHEST = Order("Table 2", ("fcos", "ssdlite320"), 1, "", "")


def test_the_lowest_of_all_is_below_every_rival() -> None:
    names = [str(row[0]) for row in load("semantic").tables["Table 2"].rows]
    others = {name: 0.5 for name in names if name != "ssd300"}
    assert LOWEST.judge(detectors({"ssd300": 0.3, **others})).verdict == "agree"
    second = {**others, "fcos": 0.2}  # the mean of the rivals still lies above it
    assert LOWEST.judge(detectors({"ssd300": 0.3, **second})).verdict == "disagree"
    tied = {**others, "fcos": 0.3}
    assert LOWEST.judge(detectors({"ssd300": 0.3, **tied}, noise=0.05)).verdict == "cannot tell"


def test_two_that_are_highest_are_both_above_every_rival() -> None:
    names = [str(row[0]) for row in load("semantic").tables["Table 2"].rows]
    rest = {name: 0.3 for name in names if name not in ("fcos", "ssdlite320")}
    assert HIGHEST.judge(detectors({"fcos": 0.6, "ssdlite320": 0.6, **rest})).verdict == "agree"
    assert HIGHEST.judge(detectors({"fcos": 0.9, "ssdlite320": 0.1, **rest})).verdict == "disagree"


def test_a_claim_about_all_rivals_with_one_of_them_run_says_so() -> None:
    claim = LOWEST.judge(detectors({"ssd300": 0.3, "fcos": 0.5}))
    assert claim.verdict == "cannot tell"
    assert claim.because.endswith("1 of 4 rivals were run")
    assert LOWEST.judge(detectors({"ssd300": 0.6, "fcos": 0.5})).verdict == "disagree"  # one rival ahead is enough


def test_an_untold_claim_says_which_weights_and_data_it_needs() -> None:
    claim = LOWEST.judge(detectors({"ssd300": 0.3}))
    assert claim.verdict == "cannot tell"
    assert "ssd300" not in claim.because  # that one was run
    assert all(
        name in claim.because for name in ("fcos", "ssdlite320", "COCO-Stuff 10K", "karat run semantic-detectors")
    )


def rows_of(n: int = 60, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"model": "m", "dataset": "d", "explainer": "cam/gradcam", "method": "cam/gradcam", "is_control": False,
         "sample": [f"s{i}" for i in range(n)], "image": [f"i{i}" for i in range(n)], "outside": 0.5, **columns}
    )  # fmt: skip


def test_strong_dependence_on_the_method_can_be_refuted() -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 60)

    def verdict(gap: float) -> str:
        one, two = rows_of(sss=0.4 + noise), rows_of(sss=0.4 + gap + np.roll(noise, 1), explainer="cam/eigencam")
        return methods_differ(pd.concat([one, two])).verdict

    assert (verdict(0.2), verdict(0.01), verdict(0.051)) == ("agree", "disagree", "cannot tell")


def test_a_gap_that_one_method_makes_alone_is_no_dependence_on_the_method() -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 60)

    def verdict(*means: float) -> str:
        frames = [
            rows_of(sss=mean + np.roll(noise, k), explainer=f"cam/{k}", method=f"cam/{k}")
            for k, mean in enumerate(means)
        ]
        return methods_differ(pd.concat(frames)).verdict

    assert verdict(0.1, 0.11, 0.12, 0.5) == "cannot tell"
    assert verdict(0.1, 0.3, 0.5, 0.51) == "agree"
    assert verdict(0.1, 0.11, 0.12, 0.13) == "disagree"


def test_models_that_differ_leave_the_dependence_on_the_method_open() -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 60)
    frames = [
        rows_of(sss=mean + np.roll(noise, k), explainer=f"cam/{k}", model=model)
        for model, means in {"strong": (0.1, 0.3, 0.5), "flat": (0.1, 0.1, 0.1)}.items()
        for k, mean in enumerate(means)
    ]
    claim = methods_differ(pd.concat(frames))
    assert claim.verdict == "cannot tell"
    assert "1 of 2 models and datasets for, 1 against, 0 open" in claim.because


def test_a_relation_that_the_size_of_the_object_makes_is_told_with_size_allowed_for() -> None:
    rng = np.random.default_rng(0)
    outside = rng.random(500)
    rows = rows_of(500, outside=outside, confidence=1 - outside + rng.normal(0, 0.2, 500),
                   sss=outside + rng.normal(0, 0.2, 500))  # fmt: skip
    [relation] = relations(rows, "confidence")
    assert relation.rho.high < -0.4
    assert abs(relation.allowing_for_size) < 0.1
    assert "cam/gradcam -0.0" in orthogonal(rows).because


def test_configurations_of_one_method_and_datasets_are_not_pooled(done: Run) -> None:
    """Two layers of one CAM, one of which has the order turned round, are two verdicts and not one mean."""
    names = [str(row[0]) for row in load("semantic").tables["Table 2"].rows]
    means = {name: 0.5 for name in names} | {"ssd300": 0.3}
    usual = detectors(means)
    turned = detectors({name: 1 - mean for name, mean in means.items()}).assign(explainer="cam/gradcam(layer=x)")
    claim = LOWEST.judge(pd.concat([usual, turned]))
    assert claim.verdict == "cannot tell"
    assert claim.because == "holds under 1 of 2 methods, fails under 1"
    twice = pd.concat([usual, usual.assign(dataset="another")])  # the same images again: no more is known
    assert LOWEST.judge(twice).ours == LOWEST.judge(usual).ours


def test_orthogonality_is_refuted_by_a_relation_of_any_size_above_the_bar() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(400)

    def verdict(weight: float, n: int) -> str:
        sss = weight * (1 - confidence[:n]) + rng.random(n)
        return orthogonal(rows_of(n, sss=sss, confidence=confidence[:n])).verdict

    assert verdict(0.6, 400) == "disagree"
    assert verdict(0.0, 60) == "cannot tell"
    many = np.random.default_rng(1).random((2, 4000))
    assert orthogonal(rows_of(4000, sss=many[0], confidence=many[1])).verdict == "agree"


def test_a_kind_of_prediction_occurs_where_its_share_is_surely_above_one_in_a_hundred() -> None:
    kind = ("correct", "confident", "spurious")

    def verdict(spurious: int, n: int) -> str:
        sss = np.where(np.arange(n) < spurious, 0.9, 0.1)
        return occurs(rows_of(n, sss=sss, correct=1.0, own_confidence=0.9), kind, "truth", "", "").verdict

    assert (verdict(20, 60), verdict(1, 60), verdict(0, 1000)) == ("agree", "cannot tell", "disagree")


def test_a_kind_that_a_map_blind_to_the_model_has_as_often_does_not_tell_of_the_model() -> None:
    kind = ("correct", "confident", "spurious")

    def verdict(spurious: int, blind: int, n: int = 100) -> str:
        place = np.arange(n)
        facts = {"correct": 1.0, "own_confidence": 0.9}
        method = rows_of(n, sss=np.where(place < spurious, 0.9, 0.1), **facts)
        control = rows_of(n, sss=np.where(place < blind, 0.9, 0.1), **facts).assign(
            explainer="control/center", method="control/center", is_control=True
        )
        return occurs(pd.concat([method, control]), kind, "truth", "", "").verdict

    assert verdict(40, 5) == "agree"
    assert verdict(40, 40) == "cannot tell"
    assert verdict(5, 40) == "cannot tell"
    assert verdict(0, 0, n=1000) == "disagree"


def test_a_kind_that_occurs_under_a_minority_of_the_methods_is_not_told() -> None:
    kind = ("correct", "confident", "spurious")
    frames = [
        rows_of(200, sss=np.where(np.arange(200) < spurious, 0.9, 0.1), correct=1.0, own_confidence=0.9,
                explainer=f"cam/{k}")
        for k, spurious in enumerate((80, 2, 2))
    ]  # fmt: skip
    claim = occurs(pd.concat(frames), kind, "truth", "", "")
    assert claim.verdict == "cannot tell"
    assert "surely so under 1 of 3" in claim.because


def test_wrong_predictions_are_not_judged_by_explanations_of_the_true_class() -> None:
    kind = ("incorrect", "unsure", "spurious")
    rows = rows_of(60, sss=0.9, correct=0.0, own_confidence=0.2)
    assert occurs(rows, kind, "predicted", "", "").verdict == "agree"
    claim = occurs(rows, kind, "truth", "", "")
    assert claim.verdict == "cannot tell"
    assert "explains the true class" in claim.because


def test_a_class_that_differs_is_found_among_three_hundred_and_small_ones_are_named() -> None:
    """Resampled p-values had a floor that 288 classes lifted above every level."""
    rng = np.random.default_rng(0)
    sizes = [20] * 290 + [3] * 10
    labels = np.repeat([f"class{k}" for k in range(300)], sizes)
    n = len(labels)
    gain = rng.normal(0.5, 0.05, n) - 0.4 * (labels == "class7")
    rows = rows_of(n, sss=0.3 + 0.4 * (labels == "class7"), gain=gain, label=labels)
    bias = class_bias(rows)
    assert bias.classes.loc[bias.classes["p"] < 0.05, "label"].tolist() == ["class7"]
    assert len(bias.classes) == 290
    assert bias.too_small == tuple(f"class{k}" for k in range(290, 300))
    claim = classes_differ(rows)
    assert claim.verdict == "agree"
    assert "10 classes have fewer than the 14 images it takes" in claim.because
    assert "class7" in claim.ours
    assert "m · cam/gradcam" in claim.because  # one class may differ under several models
    merely = classes_differ(rows_of(n, sss=0.3, gain=gain, label=labels))  # worse than others, yet on the object
    assert merely.verdict == "cannot tell"
    assert merely.ours == "1 of 290 classes differ from the mean of their model"
    nowhere = classes_differ(rows_of(n, sss=0.7, gain=gain, label=labels))  # no class is looked at in the right place
    assert nowhere.verdict == "cannot tell"
    none = rows_of(n, sss=0.3, gain=rng.normal(0.5, 0.05, n), label=labels)
    assert classes_differ(none).verdict == "cannot tell"


def test_the_least_size_fits_the_number_of_classes() -> None:
    for classes in (1, 10, 288, 10_000):
        least = least_that_can_differ(np.full(classes, 40))
        assert 2.0 ** (1 - least) * classes < 0.05 <= 2.0 ** (2 - least) * classes


def test_a_signed_layer_is_a_caution(tmp_path: Path) -> None:
    """A ViT has no activated map; a ResNet has one."""

    def cautions(architecture: str) -> tuple[str, ...]:
        model = {"name": "classifier", "architecture": architecture, "labels": ["cat", "dog", "lion"], "size": 64}
        one = spec(models=[model], explainers=["cam/gradcam"], datasets=[{"name": f"{WORLD}Scenes", "n": 2}])
        return carry_out(one, tmp_path / architecture, workers=0).findings()[0].cautions

    assert cautions("resnet10t") == ()
    [caution] = cautions("vit_tiny_patch16_224")
    assert caution.startswith("vit_tiny_patch16_224: cam/gradcam read a signed layer (")
