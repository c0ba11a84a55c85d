"""Memory of explainers on machines that nobody here has, before any weight is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import toys

from karat.engine import worker
from karat.engine.check import foretold
from karat.engine.footprint import (
    Footprint,
    Subject,
    footprints,
    memory_cautions,
    planned_footprints,
    rooms,
    tight_models,
    what_is_kept,
)
from karat.engine.inventory import Gpu, Inventory
from karat.engine.places import place
from karat.engine.plan import Plan, plan
from karat.engine.run import placement, run
from karat.kernel.errors import BadInput
from karat.kernel.registry import build
from karat.kernel.sample import Sample
from karat.kernel.spec import Spec
from karat.models import recipe
from karat.probe.memory import dimensions
from karat.probe.session import Session

GB = 2**30
LLAMA = {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 11008, "num_attention_heads": 32,
         "vocab_size": 32064}  # fmt: skip
SEVEN = Subject("llava-7b", dimensions(LLAMA), 2048, 0, rows=1, number=2.0, weights=13.5 * GB)
NAMES = ("perturbation/rise", "attention/rollout", "cam/gradcam", "gradient/gradient", "relevance/attnlrp")
EXPLAINERS = [build("explainer", name, {}) for name in NAMES]


def made(room: float | None, subject: Subject = SEVEN) -> dict[str, Footprint]:
    return {name: one for one in footprints(subject, EXPLAINERS, room) for name in one.explainers}


def test_what_an_explainer_keeps_follows_from_what_it_needs() -> None:
    kept = [what_is_kept(explainer.card) for explainer in EXPLAINERS]
    assert kept == ["nothing", "heads", "layer_gradients", "gradients", "gradients"]


def test_on_a_large_card_everything_fits() -> None:
    assert all(one.fits and not one.tight for one in made(80 * GB).values())
    assert all(one.fits and not one.tight for one in made(None).values())


def test_on_a_small_card_traces_are_checkpointed_and_what_cannot_be_is_said() -> None:
    some = made(19 * GB)
    assert some["gradient/gradient"].tight
    assert some["cam/gradcam"].tight
    assert not some["attention/rollout"].tight
    assert not some["relevance/attnlrp"].fits  # it traces by itself
    assert any("only asks" in way for way in some["relevance/attnlrp"].ways)
    texts = memory_cautions({0: list(some.values())})
    assert any("relevance/attnlrp" in text and "will not fit into the 19.0 GB" in text for text in texts)
    assert any("cam/gradcam" in text and "checkpointed" in text for text in texts)


def test_every_way_that_is_named_does_fit() -> None:
    many = made(24 * GB, replace(SEVEN, rows=32))["relevance/attnlrp"]
    assert not many.fits
    [fewer] = [way for way in many.ways if way.startswith("batch_size: ")]
    rows = int(fewer.removeprefix("batch_size: "))
    assert made(24 * GB, replace(SEVEN, rows=rows))["relevance/attnlrp"].fits
    assert not made(24 * GB, replace(SEVEN, rows=2 * rows))["relevance/attnlrp"].fits


@pytest.mark.parametrize(
    ("inventory", "parameters", "options", "expected"),
    [
        (Inventory(16, 64 * GB, (Gpu("0", 24 * GB), Gpu("1", 24 * GB))), {}, {}, 24 * GB),
        (Inventory(16, 64 * GB, (Gpu("0", 24 * GB), Gpu("1", 24 * GB))), {}, {"per_device": 2}, 12 * GB),
        (Inventory(16, 64 * GB, (Gpu("0", 24 * GB), Gpu("1", 24 * GB))), {"device": "auto"}, {}, 48 * GB),
        (Inventory(16, 64 * GB, (Gpu("0"),)), {}, {}, None),
        (Inventory(4, 40 * GB), {"device": "cpu"}, {}, 8 * GB),
        (Inventory(4, 40 * GB), {"device": "cpu"}, {"workers": 1}, 32 * GB),
    ],
)
def test_what_a_worker_has_follows_from_its_place(
    inventory: Inventory, parameters: dict[str, Any], options: dict[str, Any], expected: float | None
) -> None:
    assert rooms(place({0: toys.OnGpu(**parameters)}, inventory, {0: 100}, **options)) == {0: expected}


# ---- a run on a machine with little memory


def planned() -> Plan:
    return plan(Spec.model_validate({
        "karat": 1, "name": "tight", "protocol": "localization", "models": ["gridvlm.pure", "gridprog.pure"],
        "explainers": ["attention/grad_rollout", "gradient/gradient"], "batch_size": 2,
        "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 2}], "skip": [
            {"model": "gridprog.pure", "explainer": "attention/grad_rollout"}],
    }))  # fmt: skip


def free(plan: Plan, share: float) -> int:
    """Bytes of which two workers get `share` of what the largest trace of gridvlm takes plainly."""
    peak = max(one.peak for one in planned_footprints(plan, {})[0])
    return round(2 * share * peak / 0.8)


def test_only_models_whose_configuration_is_known_are_foretold() -> None:
    assert set(planned_footprints(planned(), {})) == {0}


def test_a_run_checkpoints_where_the_forecast_says_so_and_its_rows_are_the_same(
    tmp_path: Path,
) -> None:
    wanted = planned()
    large, small = Inventory(2, 64 * GB), Inventory(2, free(wanted, 0.95))
    for inventory, tight in ((large, frozenset[int]()), (small, frozenset({0}))):
        placed = placement(wanted, wanted.jobs(()), 2, None, inventory)
        assert tight_models(planned_footprints(wanted, rooms(placed))) == tight
    frames = []
    for name, inventory in (("plain", large), ("tight", small)):
        finished = run(wanted.spec, tmp_path / name, workers=2, inventory=inventory)
        told = [event["text"] for event in finished.events() if event["event"] == "warning"]
        assert any("checkpointed" in text for text in told) == (name == "tight")
        frames.append(finished.scores().sort_values(["cell", "sample", "metric"]).reset_index(drop=True))
    columns = ["sample", "metric", "value"]
    pd.testing.assert_frame_equal(frames[0][columns], frames[1][columns])


def test_a_worker_makes_checkpointed_sessions_of_the_models_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []

    def session(*args: Any, **kwargs: Any) -> Session:
        made.append(kwargs["checkpointed"])
        return Session(*args, **kwargs)

    monkeypatch.setattr(worker, "Session", session)
    wanted = replace(planned(), checkpointed=frozenset({0}))
    for job in wanted.jobs(()):
        worker.run_job(wanted, job)
    assert made == [True, False]


def test_check_says_what_will_not_fit_before_weights_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = recipe("gridvlm.pure")
    monkeypatch.setattr(type(twin), "load", lambda self: pytest.fail("weights were loaded"))
    sample = Sample("check", np.zeros((96, 96, 3), np.uint8), "How many circles?")
    sizes = foretold(twin, sample.image, sample.text, 1 * GB)
    assert all(one.fits for one in sizes)
    with pytest.raises(BadInput, match=r"will not fit into the .* would fit|nothing that Karat knows"):
        foretold(twin, sample.image, sample.text, 2**20)
    assert foretold(recipe("gridprog.pure"), sample.image, sample.text, 1.0) == []
