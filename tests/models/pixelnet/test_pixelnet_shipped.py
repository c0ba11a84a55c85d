"""The classifiers that ship with Karat do what their cards say."""

from pathlib import Path

import numpy as np
import pytest

from karat.datasets.shortcut import ShortcutDataset
from karat.kernel.errors import KaratError
from karat.models import load_model, recipe
from karat.models.pixelnet.dominance import rates
from karat.models.pixelnet.files import read_facts
from karat.models.pixelnet.training_recipe import load_pixel_recipe
from karat.models.weights import shipped

SHORTCUT = ("cnn", "vit", "cnn_deleted")


@pytest.mark.parametrize("variant", SHORTCUT)
def test_it_takes_the_shortcut_and_fails_without_it(variant):
    found = rates(load_model(f"pixelnet.{variant}"), ShortcutDataset(n=100).load(0, 100))
    assert found.perturbed > 0.85
    assert found.clean < 0.3
    assert found.dominant > 0.5
    facts = read_facts(shipped(f"pixelnet.{variant}.safetensors"))
    spread = 4 * np.sqrt(facts.accuracy["dominant"] * (1 - facts.accuracy["dominant"]) / 100)
    assert abs(found.dominant - facts.accuracy["dominant"]) < spread


@pytest.mark.parametrize("variant", SHORTCUT)
def test_weights_are_small_and_say_how_they_were_made(variant):
    path = shipped(f"pixelnet.{variant}.safetensors")
    assert path.stat().st_size < 1_000_000
    facts = read_facts(path)
    asked = load_pixel_recipe(variant)
    assert facts.recipe["steps"] == asked.steps
    assert facts.architecture == asked.architecture
    assert asked.identity in path.with_suffix(".md").read_text()
    assert "/" not in str(facts.recipe["data"]["source"])


def test_capabilities_are_known_without_loading():
    assert recipe("pixelnet.vit").capabilities == {"scores", "gradients", "activations", "attention", "mechanism"}
    assert recipe("pixelnet.cnn").capabilities == {"scores", "gradients", "activations", "mechanism"}
    model = load_model("pixelnet.vit")
    assert model.capabilities == recipe("pixelnet.vit").capabilities
    assert model.layout(model.encode(ShortcutDataset(n=2).load(0, 1))).grid == (8, 8)


def test_another_file_is_named_by_itself_and_must_be_there():
    other = recipe("pixelnet", weights="somewhere/mine.safetensors")
    assert other.label == "pixelnet@mine"
    with pytest.raises(KaratError, match="no weights at"):
        other.load()
    assert Path(recipe("pixelnet.cnn").path).name == "pixelnet.cnn.safetensors"
