import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from karat.datasets.spatial.coco import Picture
from karat.datasets.spatial.pair import Thing
from karat.kernel.errors import KaratError
from karat.models import load_model
from karat.models.photovlm.skills import COCO, draw, held_out, popularity
from karat.models.photovlm.skills_training import SkillsRecipe, train_skills

PICTURE = Picture(
    "x.jpg",
    (100, 100),
    (
        Thing("cat", (5.0, 40.0, 20.0, 20.0)),
        Thing("dog", (70.0, 40.0, 20.0, 20.0)),
        *(Thing("cup", (10.0 * k, 5.0, 8.0, 8.0)) for k in range(3)),
        Thing("fork", (50.0, 90.0, 1.0, 1.0)),  # too small to be asked about
        *(Thing("book", (3.0 * k, 80.0, 9.0, 9.0)) for k in range(7)),  # too many to count
    ),
)
POPULAR = popularity({"x": PICTURE})


def drawn(skill, n=200, mirrored=False):
    rng = np.random.default_rng(0)
    return [draw("x", PICTURE, skill, POPULAR, rng, mirrored) for _ in range(n)]


def test_presence_is_true_and_both_answers_come_as_often():
    asked = drawn("presence")
    there = {thing.name for thing in PICTURE.things}
    for question in asked:
        named = [noun for noun in COCO if f" {noun} in" in question.text]
        noun = max(named, key=len)
        assert (noun in there) == (question.answer == "yes")
        assert noun != "fork"
    counts = Counter(question.answer for question in asked)
    assert abs(counts["yes"] - counts["no"]) < 50


def test_counts_are_those_of_the_boxes():
    asked = {question.text: question.answer for question in drawn("counting")}
    assert asked["How many cups are in the image?"] == "3"
    assert asked["How many cats are in the image?"] == "1"
    assert not any("books" in text or "forks" in text for text in asked)
    assert "0" in asked.values()


def test_relations_follow_the_boxes_and_the_mirror():
    plain = {question.text: question.answer for question in drawn("relation")}
    mirror = {question.text: question.answer for question in drawn("relation", mirrored=True)}
    [left] = [text for text in plain if "where is the cat relative to the dog" in text]
    assert (plain[left], mirror[left]) == ("1", "2")
    assert draw("x", Picture("x", (9, 9), ()), "relation", POPULAR, np.random.default_rng(0)) is None


def test_one_picture_in_six_is_held_out():
    assert 120 < sum(held_out(f"{i:012d}") for i in range(1000)) < 220


@pytest.mark.slow
def test_training_ends_in_a_model_that_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("KARAT_CACHE", str(tmp_path / "cache"))
    images = {}
    for i in range(60):
        name = f"{i:012d}"
        images[name] = {"size": [64, 48], "boxes": [[i % 80, 4, 4, 20, 20], [(i + 7) % 80, 40, 20, 20, 20]]}
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(
            tmp_path / f"{name}.jpg"
        )
    (tmp_path / "boxes.json").write_text(json.dumps({"categories": list(COCO), "images": images}))
    recipe = SkillsRecipe(str(tmp_path), str(tmp_path / "boxes.json"), steps=3, batch=4, evaluate_every=3)
    path = train_skills(recipe, tmp_path / "out")
    model = load_model("photovlm.coco", weights=str(path))
    assert model.mechanism is None
    assert "mechanism" not in model.capabilities
    with pytest.raises(KaratError, match="at least 50"):
        _ = SkillsRecipe(str(tmp_path / "cache"), str(tmp_path / "boxes.json")).pictures
