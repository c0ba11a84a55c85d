"""A first run has a forecast: two samples are timed, in a place of their own."""

from __future__ import annotations

from pathlib import Path

from karat.engine.events import renderer
from karat.engine.forecast import forecast
from karat.engine.plan import plan
from karat.engine.trial import trial
from karat.kernel.spec import Spec

SPEC = Spec.parse(
    {
        "name": "tried",
        "protocol": "grid",
        "models": ["gridprog.pure"],
        "datasets": [{"name": "grid", "buckets": ["D1_A_F1_d0.3"], "per_bucket": 6}],
        "explainers": [{"name": "perturbation/occlusion", "absence": "white"}],
        "shard_size": 3,
    }
)


def test_two_samples_are_enough_to_forecast(tmp_path: Path) -> None:
    planned = plan(SPEC)
    jobs, where = planned.jobs(()), str(tmp_path / "runs" / "tried")
    assert forecast(planned, jobs, where, 1).startswith("unknown")
    tried = trial(SPEC, str(tmp_path / "elsewhere" / "trial"), renderer("none"))
    told = forecast(planned, jobs, where, 1, tried)
    assert told.startswith("about")
    assert "guessed" not in told
    assert not Path(where).exists()
