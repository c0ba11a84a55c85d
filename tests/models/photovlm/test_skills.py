import json
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image

from karat.datasets.spatial.coco import Picture
from karat.datasets.spatial.pair import Thing
from karat.kernel.errors import KaratError
from karat.models import load_model
from karat.models.organisms.files import read_origin
from karat.models.photovlm import skills_training
from karat.models.photovlm.skills import COCO, SKILLS, Question, draw, held_out, popularity
from karat.models.photovlm.skills_training import SkillsRecipe, SkillsTrainee, train_skills

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


@pytest.fixture
def coco(tmp_path):
    """Sixty noise pictures of two things each, side by side; folder and annotations."""
    images = {}
    for i in range(60):
        name = f"{i:012d}"
        images[name] = {"size": [64, 48], "boxes": [[i % 80, 4, 4, 20, 20], [(i + 7) % 80, 40, 20, 20, 20]]}
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(
            tmp_path / f"{name}.jpg"
        )
    (tmp_path / "boxes.json").write_text(json.dumps({"categories": list(COCO), "images": images}))
    return str(tmp_path), str(tmp_path / "boxes.json")


@pytest.fixture
def trainee(coco, monkeypatch):
    """Its features are noise: what the tower sees plays no part here."""
    features = np.random.default_rng(0).standard_normal((120, 144, 384)).astype(np.float16)
    monkeypatch.setattr(skills_training, "_kept", lambda *_: [features])
    return SkillsTrainee(SkillsRecipe(*coco, batch=2, each=3))


def test_questions_about_one_picture_share_what_it_costs_and_nothing_else(trainee):
    """Logits and gradients are those of every question asked alone."""
    rng = np.random.default_rng(1)
    questions = [
        trainee.draw(name, skill, rng, mirrored=name == trainee.train[1])
        for name in trainee.train[:2]
        for skill in SKILLS
    ]
    weight = trainee.module.model.multi_modal_projector.linear_1.weight
    logits, gradients = [], []
    for each in (3, 1):
        table, answers = trainee._logits(questions, each)
        trainee.module.zero_grad()
        table.log_softmax(-1).gather(2, answers[..., None]).sum().backward()
        logits.append(table.detach())
        gradients.append(weight.grad.clone())
    assert answers.shape == (6, 2)
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)
    assert gradients[0].abs().max() > 0
    assert not torch.allclose(logits[0][0], logits[0][3], atol=1e-3)  # another picture, another answer


def test_accuracy_is_measured_on_other_pictures_beside_guesses_that_see_none(trainee):
    measured = trainee.accuracy()
    assert set(measured) == set(SKILLS)
    for skill, row in measured.items():
        assert row["n"] == len(trainee.test), skill
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert 0 < row["most frequent answer"] <= 1
    yes, no = (Question("x", "presence", text, answer) for text, answer in (("a?", "yes"), ("b?", "no")))
    assert skills_training._guessed([yes, no], [yes, yes, no], by_words=False) == 0.5
    assert skills_training._guessed([yes, no], [yes, yes, no], by_words=True) == 1.0


@pytest.mark.slow
def test_training_ends_in_a_model_that_answers(coco, tmp_path, monkeypatch):
    monkeypatch.setenv("KARAT_CACHE", str(tmp_path / "cache"))
    path = train_skills(SkillsRecipe(*coco, steps=3, batch=4, each=2, evaluate_every=3), tmp_path / "out")
    model = load_model("photovlm.coco", weights=str(path))
    assert model.mechanism is None
    assert "mechanism" not in model.capabilities
    assert set(read_origin(path).recipe["accuracy"]) == set(SKILLS)
    with pytest.raises(KaratError, match="at least 50"):
        _ = SkillsRecipe(str(tmp_path / "cache"), coco[1]).pictures
