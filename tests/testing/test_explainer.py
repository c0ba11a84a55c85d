"""The kit on every registered explainer, and on explainers that break one law each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.registry import build, registered
from karat.testing import Broken, World, check_explainer, explainer_laws, worlds_for

pytest.importorskip("torch")

# Small budgets: the laws do not depend on them.
SMALL: dict[str, dict[str, Any]] = {
    "gradient/integrated_gradients": {"steps": 4},
    "gradient/smoothgrad": {"samples": 4},
    "gradient/gradient_shap": {"samples": 4},
    "perturbation/leave_one_out": {"visual": (4, 4)},
    "perturbation/occlusion": {"cells": 4, "window": 1},
    "perturbation/rise": {"masks": 40, "cells": 4, "word_masks": 8},
    "perturbation/lime": {"visual": (4, 4), "budget": 60},
    "perturbation/extremal": {"areas": (0.25,), "cells": 4, "steps": 4, "budget": 64},
    "shapley/kernel_shap": {"visual": (4, 4), "budget": 120},
    "shapley/permutation": {"visual": (4, 4), "budget": 100},
    "shapley/pixelshap_tokenshap": {"visual": (4, 4), "budget": 200, "compare": "probability"},
    "interaction/multishap": {"visual": (2, 2), "budget": 150},
    "interaction/faith_shap": {"visual": (2, 2), "budget": 150},
    "interaction/weighted_banzhaf": {"visual": (2, 2), "budget": 150},
    "interaction/dime": {"visual": (2, 2), "alterations": 10, "batch": 3},
    "modality/emap": {"batch": 3},
    "modality/intershap": {"batch": 3},
    "modality/pid": {"batch": 3},
}
TOGETHER = {"interaction/dime", "modality/emap", "modality/intershap", "modality/pid"}  # explain samples by one another
# Methods that promise an axiom. Others break it for good reasons: `test_axioms_tell_methods_apart`.
PROMISES: dict[str, set[str]] = {
    **{f"gradient/{name}": {"finds", "dummy"} for name in ("input_x_gradient", "integrated_gradients", "deeplift")},
    "gradient/gradient_norm": {"finds", "dummy"},
    "gradient/gradient": {"finds", "dummy"},
    "cam/layercam": {"finds", "dummy"},
    "perturbation/leave_one_out": {"finds", "dummy", "symmetry"},
    "shapley/permutation": {"finds", "dummy", "symmetry"},
    "shapley/kernel_shap": {"finds"},
    "control/oracle": {"finds", "dummy", "symmetry"},
}
# Their worlds are elsewhere: shortcuts with a clean twin, answers token by token, files.
ELSEWHERE = ("control/planted", "vlm/", "elsewhere/saved")
NAMES = [name for name in registered("explainer") if not name.startswith(ELSEWHERE)]


@pytest.mark.parametrize("name", NAMES)
def test_every_explainer_keeps_the_laws(name: str) -> None:
    if name == "elsewhere/grad_cam":
        pytest.importorskip("pytorch_grad_cam")
    explainer = build("explainer", name, SMALL.get(name, {}))
    check_explainer(explainer, axioms=PROMISES.get(name, ()), alone=name not in TOGETHER)  # type: ignore[arg-type]


def test_axioms_tell_methods_apart() -> None:
    """Grad-CAM weighs whole channels, noise finds nothing, edges never met the model."""
    for name in ("cam/gradcam", "control/random", "control/edges"):
        broken = [law.name for law in explainer_laws(build("explainer", name, {}), axioms=["dummy"]) if not law.holds]
        assert broken, name
        assert all(law.startswith("dummy (spotlight") for law in broken), broken


# ---- explainers that break a law


@dataclass(frozen=True)
class Good:
    card: ClassVar[Card] = Card("kit/good", "one half everywhere", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Any) -> Any:
        return [Attribution(np.full((4, 4), 0.5)) for _ in session.samples]


@dataclass(frozen=True)
class TooFew(Good):
    def __call__(self, session: Any) -> Any:
        return super().__call__(session)[1:]


@dataclass(frozen=True)
class Negative(Good):
    def __call__(self, session: Any) -> Any:
        return [Attribution(np.full((4, 4), -0.5)) for _ in session.samples]


@dataclass(frozen=True)
class Undeclared(Good):
    def __call__(self, session: Any) -> Any:
        return [Attribution(np.ones((4, 4)), np.ones(len(sample.words))) for sample in session.samples]


@dataclass(frozen=True)
class GlobalNoise(Good):
    def __call__(self, session: Any) -> Any:
        return [Attribution(np.random.random((4, 4))) for _ in session.samples]


@dataclass(frozen=True)
class ByBatch(Good):
    def __call__(self, session: Any) -> Any:
        return [Attribution(np.full((4, 4), float(len(session.samples)))) for _ in session.samples]


@dataclass(frozen=True)
class Scribbles(Good):
    def __call__(self, session: Any) -> Any:
        session.samples[0].image[0, 0, 0] += 1
        return super().__call__(session)


@dataclass(frozen=True)
class Crashes(Good):
    def __call__(self, session: Any) -> Any:
        raise KeyError("attention")  # what it needs and did not declare


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (TooFew, "one attribution per sample"),
        (Negative, "negative only where signed"),
        (Undeclared, "with the parts its card gives"),
        (GlobalNoise, "the same seed gives the same"),
        (ByBatch, "a batch is its samples alone"),
        (Scribbles, "nothing is left behind"),
        (Crashes, "it explains, or says why not"),
    ],
)
def test_what_is_broken_is_named(kind: type[Any], law: str) -> None:
    check_explainer(Good())
    with pytest.raises(Broken, match=law):
        check_explainer(kind())


@dataclass(frozen=True)
class Leaks(Good):
    card: ClassVar[Card] = dataclasses.replace(Good.card, needs=frozenset({"gradients"}))
    how: str = "hook"

    def __call__(self, session: Any) -> Any:
        import torch

        module = session.torch_model.module
        if self.how == "hook":
            module.register_forward_hook(lambda *_: None)
        elif self.how == "mode":
            module.train()
        elif self.how == "gradients":
            torch.set_grad_enabled(False)
        else:
            session.torch_model.readout(session.inputs, session.targets).sum().backward()
        return super().__call__(session)


@pytest.mark.parametrize(
    ("how", "named"), [("hook", "hooks of"), ("mode", "mode of"), ("gradients", "are recorded"), ("grad", "weight")]
)
def test_leaks_are_named(how: str, named: str) -> None:
    import torch

    from karat.testing.worlds import spotlight_network

    world = spotlight_network.__wrapped__()  # of its own: it is spoilt afterwards
    try:
        laws = explainer_laws(Leaks(how=how), worlds=[world])
    finally:
        torch.set_grad_enabled(True)
    [law] = [law for law in laws if law.name.startswith("nothing is left behind (")]
    assert not law.holds
    assert named in law.found


def test_a_card_that_is_not_whole_stops_the_trial() -> None:
    @dataclass(frozen=True)
    class Unnamed(Good):
        card: ClassVar[Card] = dataclasses.replace(Good.card, needs=frozenset({"telepathy"}))

    with pytest.raises(Broken, match="telepathy, which no model can offer"):
        check_explainer(Unnamed())

    @dataclass
    class Soft:
        card: ClassVar[Card] = Good.card

        def __call__(self, session: Any) -> Any:
            return Good()(session)

    with pytest.raises(Broken, match="frozen=True"):
        check_explainer(Soft())


def test_who_finds_no_world_is_told_so() -> None:
    @dataclass(frozen=True)
    class Boxes(Good):
        card: ClassVar[Card] = dataclasses.replace(Good.card, needs=frozenset({"boxes"}))

    with pytest.raises(Broken, match=r"none offers boxes: give worlds="):
        check_explainer(Boxes())
    with pytest.raises(BadInput, match="no axiom"):
        check_explainer(Good(), axioms=["magic"])  # type: ignore[list-item]


def test_worlds_offer_what_is_needed_and_no_inside_beyond_it() -> None:
    assert [world.name for world in worlds_for(())] == ["spotlight", "spotlight of images"]
    assert [world.name for world in worlds_for({"text"})] == ["spotlight"]
    assert [world.name for world in worlds_for({"gradients"})] == ["spotlight network", "gridprog.pure"]
    for world in (*worlds_for(()), *worlds_for({"gradients"})):
        assert isinstance(world, World)
        assert len(world.answers) == len(world.samples)


def test_the_spotlight_does_what_it_says() -> None:
    [world, _] = worlds_for(())
    sample = world.samples[0]
    level = float(sample.image[4:8, 8:12].mean()) / 255
    assert world.model.score([sample], ["yes"])[0] == pytest.approx(0.1 + 0.5 * level + 0.3)
    assert sample.mask("target")[4:8, 8:12].all()
    assert sample.mask("target").sum() == 16
