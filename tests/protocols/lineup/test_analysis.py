"""Analysis: habits, doses and implants on rows whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from karat.protocols.lineup import analysis
from karat.protocols.lineup.pointing import POINTED


def explained(accuses: dict[str, str], n: int = 20) -> pd.DataFrame:
    """An explainer that accuses one cue of every model: rule → cue."""
    rows = []
    for sample in range(n):
        for rule, cue in accuses.items():
            of = {f"of_{each}": 1.0 if each == cue else 0.1 for each in POINTED}
            uses = {f"uses_{each}": float(each == rule) for each in POINTED}
            rows.append({"explainer": "mine", "sample": str(sample), "meta.photograph": str(sample), **of, **uses})
    return pd.DataFrame(rows)


def test_a_habit_is_no_knowledge() -> None:
    """Always the frame: right wherever the rule is the frame, and so would be its accusations of other models."""
    [always] = analysis.habits(explained({"tag": "frame", "frame": "frame", "word": "frame"})).to_dict("records")
    assert always["blind"] == 1 / 3
    assert always["excess"] == 0
    [knows] = analysis.habits(explained({"tag": "tag", "frame": "frame", "word": "word"})).to_dict("records")
    assert (knows["blind"], knows["excess"]) == (0.0, 1.0)
    assert knows["excess_low"] > 0


def scored(metric: str, value: Any, **facts: Any) -> list[dict[str, Any]]:
    fixed = {"metric": metric, "explainer.is_control": False, "model.family": "photovlm", "model.implant": "scratch",
             "model.seed": 0, "model.dose": 1.0} | {k.replace("_", "."): v for k, v in facts.items()}  # fmt: skip
    return [{**fixed, "sample": str(i), "meta.photograph": str(i), "value": float(value(i))} for i in range(24)]


def test_a_dose_is_read_against_where_nothing_was_planted() -> None:
    """One explainer accuses the tag as often as its dose, one always: only the first is shown to know of it."""
    rows = []
    for dose, variant in ((1.0, "content"), (0.25, "tag"), (0.5, "tag"), (1.0, "tag")):
        share = 0.0 if variant == "content" else dose
        facts = {"model_variant": variant, "model_dose": dose}
        rows += scored("accuses_tag", lambda i, share=share: i < 24 * share, explainer="knows", **facts)
        rows += scored("accuses_tag", lambda i: True, explainer="always", **facts)
    frame = analysis.doses(pd.DataFrame(rows)).set_index(["explainer", "dose"])
    assert frame.loc["knows", "share"].tolist() == [0.0, 0.25, 0.5, 1.0]
    assert frame.loc[("knows", 0.5), "excess_low"] > 0
    assert (frame.loc["always", "share"] == 1).all()
    assert (frame.loc["always", "excess_low"] <= 0).all()
    alike = pd.DataFrame(rows).drop(columns=["model.seed", "model.implant"])  # facts that no model of a run differs in
    assert analysis.doses(alike)["share"].tolist() == frame["share"].tolist()


def test_without_a_null_there_is_no_dose_curve() -> None:
    rows = [row for dose in (0.5, 1.0) for row in scored("accuses_tag", lambda i: True, explainer="mine",
            model_variant="tag", model_dose=dose)]  # fmt: skip
    assert analysis.doses(pd.DataFrame(rows)).empty


def test_the_order_of_explainers_by_implant() -> None:
    """The same order for another seed, the opposite one for another implant."""
    shares = {"a": 0.9, "b": 0.5, "c": 0.1}
    rows = []
    for implant, seed in (("scratch", 0), ("scratch", 1), ("lora", 0)):
        for name, share in shares.items():
            own = 1 - share if implant == "lora" else share
            rows += scored(
                "pointing", lambda i, own=own: i < 24 * own, explainer=name, model_variant="tag", model_implant=implant,
                model_seed=seed,
            )  # fmt: skip
    frame = analysis.implants(pd.DataFrame(rows)).set_index("differs_in")
    assert frame.loc["seed", "tau"] == 1
    assert frame.loc["implant", "tau"] == -1
    assert len(frame) == 2  # scratch seed 1 and lora seed 0 differ in both
    undosed = pd.DataFrame(rows).drop(columns="model.dose")  # a run without doses has no such column
    assert analysis.implants(undosed)["tau"].tolist() == frame["tau"].tolist()


def test_parts_are_both_one_or_neither() -> None:
    rows = scored(
        "parts_named", lambda i: (0.0, 0.5, 1.0)[i % 3], explainer="mine", model="m", model_mechanism="either"
    )
    [row] = analysis.parts(pd.DataFrame(rows)).to_dict("records")
    assert np.allclose([row["both"], row["one"], row["neither"]], 1 / 3)


def test_one_photograph_is_one_that_all_models_followed() -> None:
    rows = explained({"tag": "tag", "frame": "word"}, n=3)
    rows["model"] = [f"m.{rule}" for _ in range(3) for rule in ("tag", "frame")]
    table = analysis.one_photograph(rows.drop(index=0))  # the first is one that a model did not follow its rule on
    assert table["mine"].to_dict() == {"m.tag": "tag", "m.frame": "word"}
    assert analysis.one_photograph(pd.DataFrame()).empty
