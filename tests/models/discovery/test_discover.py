"""What is found out about a model is what was written by hand for it: laws, grids, scores, gradients, attention."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import torch
from tiny_vlms import ANSWERS, KINDS

from karat.kernel.errors import BadInput
from karat.models.discovery import Discovered
from karat.models.vlm import vlm
from karat.probe import Session, trace
from karat.testing import vlm_laws

kinds = pytest.mark.parametrize("kind", KINDS)


@cache
def both(kind: str) -> tuple[Any, Any]:
    """Discovered, and by hand."""
    parts = tiny_vlms.make(kind)
    return vlm(*parts, family="discovered", max_new_tokens=4), vlm(*parts, max_new_tokens=4)


@kinds
def test_every_law_holds_within_the_budget(kind: str) -> None:
    model, _ = both(kind)
    asked = [tiny_vlms.samples(kind, 1)[0], tiny_vlms.samples(kind, 2, (70, 130))[1]]
    assert {law.name: law.found for law in vlm_laws(model, asked, ANSWERS[:2]) if not law.holds} == {}
    assert model.family.level == "opens"
    assert model.family.passes <= 64


@kinds
def test_it_is_what_was_written_by_hand(kind: str) -> None:
    model, known = both(kind)
    asked = tiny_vlms.samples(kind)
    np.testing.assert_allclose(model.score(asked, ANSWERS), known.score(asked, ANSWERS), rtol=1e-3)
    assert model.answer(asked) == known.answer(asked)
    assert model.attention_layers == known.attention_layers
    assert dict(model.layers) == dict(known.layers)
    one, other = (each.layout(each.encode(asked[:1])) for each in (model, known))
    assert one == other


@kinds
def test_attention_states_and_gradients_are_the_same(kind: str) -> None:
    asked = tiny_vlms.samples(kind, 1)
    seen = []
    for model in both(kind):
        layers = ["decoder.0", "norm.1", "vision.0", "vision.last"]
        with trace(model, asked, ["yes"], layers=layers, want={"activations", "gradients", "attention"}) as recorded:
            maps = {layer: recorded.spatial(layer, "gradients").clone() for layer in layers}
            seen.append((maps, [recorded.attention[name].clone() for name in model.attention_layers]))
    for layer, gradients in seen[0][0].items():
        torch.testing.assert_close(gradients, seen[1][0][layer], rtol=1e-2, atol=1e-4)
    for one, other in zip(seen[0][1], seen[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@kinds
def test_passes_of_synergy_are_unchanged(kind: str) -> None:
    from karat.metrics.synergy import synergy_question

    made = []
    for model in both(kind):
        session = Session(model, tiny_vlms.samples(kind, 1), ["yes"])
        game = session.game(0)
        value = session.ask([(game, synergy_question(game, range(game.n_visual), range(game.n_text)))])
        made.append((session.cost.passes.made, session.cost.images.made, value[0].value))
    assert made[0][:2] == made[1][:2]
    assert made[0][2] == pytest.approx(made[1][2], rel=1e-3, abs=1e-6)


def test_what_was_found_is_kept_and_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, _ = both("qwen2_vl")
    model.family.save(tmp_path / "family.json")
    assert Discovered.load(tmp_path / "family.json") == model.family
    again = vlm(*tiny_vlms.make("qwen2_vl"), family=str(tmp_path / "family.json"))
    assert again.family == model.family
    folder = tiny_vlms.saved("internvl", tmp_path / "weights")
    vlm(folder, family="discovered")
    [kept] = (tmp_path / "cache" / "karat" / "families").iterdir()
    monkeypatch.setattr("karat.models.discovery.discover.discover", lambda *_: pytest.fail("found out twice"))
    assert vlm(folder, family="discovered").family == Discovered.load(kept)
    (tmp_path / "family.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BadInput, match="not a discovered family"):
        Discovered.load(tmp_path / "family.json")


def test_what_was_found_is_said_in_words() -> None:
    words = both("internvl")[0].family.in_words()
    assert "internvl: opens" in words
    assert "56×112 pixels → 2 × 4 of 12 tokens" in words  # two tiles; the thumbnail's tokens have no cell
    assert "model.language_model.layers, attention in 4 of 4 layers" in words
