"""Parameters of models: written once, bounded as data, refused before anything is loaded; and the facts of recipes."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from karat.kernel.errors import BadInput
from karat.kernel.registry import registered
from karat.kernel.roles import DescribesInput, FetchesWeights, KnowsMechanism, Labelled, StatesFacts, plays
from karat.models import blackbox, classifier, clip, detector, recipe, vlm
from karat.models.clip import ClipParameters
from karat.models.clip_recipe import ClipRecipe
from karat.models.organisms.files import shipped_path
from karat.models.vlm import VLMParameters, VLMRecipe
from karat.protocols.compass.lora import Lora

PUBLIC = {"blackbox": blackbox, "classifier": classifier, "clip": clip, "detector": detector, "vlm": vlm}
# What a recipe needs before it can say anything about itself.
LEAST = {"vlm": {"path": "acme/one"}, "clip": {"path": "acme/one"}, "blackbox": {"fn": "os.path:join"}}
LEAST |= {"zoo": {"variant": "resnet50"}, "organism": {"path": str(shipped_path("photovlm", "content", "scratch"))}}


@pytest.mark.parametrize(("function", "kind"), [(vlm, VLMParameters), (clip, ClipParameters)])
def test_a_public_function_has_the_fields_of_its_dataclass(function: Any, kind: type) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    assert [p.name for p in parameters[:4]] == ["source", "processor", "name", "mechanism"]
    assert [(p.name, p.default) for p in parameters[4:]] == [(f.name, f.default) for f in dataclasses.fields(kind)]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[4:])
    assert f"def {function.__name__}(" in inspect.getsource(function)


@pytest.mark.parametrize(("made", "kind"), [(VLMRecipe, VLMParameters), (ClipRecipe, ClipParameters)])
def test_a_recipe_adds_only_where_the_model_is(made: Any, kind: Any) -> None:
    own = {field.name for field in dataclasses.fields(made)} - {field.name for field in dataclasses.fields(kind)}
    assert own == {"path"}


def test_typing_errors_are_answered_with_what_would_be_right() -> None:
    with pytest.raises(BadInput, match=r"no parameter of vlm is called 'dtpe'\. Did you mean 'dtype'"):
        vlm("acme/one", dtpe="bfloat16")
    with pytest.raises(BadInput, match="vlm has 2 faults"):
        vlm("acme/one", quantised="2bit", max_tiles=0)
    with pytest.raises(BadInput, match=r"dtype: Input should be 'float32', 'bfloat16', .*; got 'x'"):
        clip("acme/one", dtype="x")
    with pytest.raises(TypeError, match="takes at most 4 positional arguments"):
        vlm("acme/one", None, None, None, "bfloat16")


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_say_their_arguments_returns_and_an_example(name: str) -> None:
    documented = inspect.getdoc(PUBLIC[name]) or ""
    assert "Args:" in documented
    assert "Returns:" in documented
    assert f"{name}(" in documented
    arguments = documented.partition("Args:")[2].partition("Returns:")[0]
    for parameter in inspect.signature(PUBLIC[name]).parameters.values():
        assert parameter.name in arguments or parameter.kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("kind", [VLMParameters, ClipParameters])
def test_every_keyword_is_documented_where_it_stands(kind: Any) -> None:
    for field in dataclasses.fields(kind):
        assert f"    {field.name}: " in (kind.__doc__ or "")


@pytest.mark.parametrize("name", registered("model"))
def test_every_recipe_states_plain_facts(name: str) -> None:
    made = recipe(name, **LEAST.get(name, {}))
    assert plays(made, StatesFacts)
    assert plays(made, Labelled)
    assert isinstance(made.facts["family"], str)
    assert all(value is None or isinstance(value, str | int | float | bool) for value in made.facts.values())


def test_facts_tell_what_a_label_would_have_to_be_read_for() -> None:
    assert recipe("gridprog.dose(0.25)").facts == {
        "family": "gridprog", "variant": "dose", "dose": 0.25, "size": 6, "cell": 64,
    }  # fmt: skip
    assert [recipe(f"gridprog.{v}").facts["dose"] for v in ("pure", "spur", "redundant")] == [0.0, 1.0, None]
    shuffled = recipe("randomised", of="gridnet.spur", share=0.5, seed=3).facts
    assert shuffled["family"] == "gridnet"
    assert (shuffled["of"], shuffled["shuffled"], shuffled["share"]) == ("gridnet.spur", "cascading", 0.5)
    trained = Lora("gridvlm.pure", "direction", seed=4).facts
    assert (trained["family"], trained["of"], trained["strategy"]) == ("gridvlm", "gridvlm.pure", "direction")
    assert recipe("zoo.resnet50", random=True).facts["architecture"] == "torchvision:resnet50"
    assert recipe("pixelnet.vit").facts["architecture"] == "vit-small"


def test_hooks_are_asked_for_by_their_roles() -> None:
    assert plays(recipe("classifier"), DescribesInput)
    assert plays(recipe("zoo.resnet50"), FetchesWeights)
    assert plays(recipe("gridnet.spur"), KnowsMechanism)
    assert not plays(recipe("vlm", path="acme/one"), KnowsMechanism)
    assert not plays(recipe("gridprog"), DescribesInput)
