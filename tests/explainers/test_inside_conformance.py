"""The table explainer × architecture: every supported pair is run, every other is refused with a reason."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from karat.kernel.errors import CapabilityMissing, KaratError
from karat.kernel.registry import build, registered
from karat.probe import Session
from tests.explainers.architectures import BUILDERS, DYNAMIC, READS_TEXT, model, samples, targets

NAMES = [name for name in registered("explainer") if name.split("/")[0] in ("gradient", "cam")]
PARAMETERS: dict[str, dict[str, Any]] = {
    "gradient/integrated_gradients": {"steps": 4},
    "gradient/smoothgrad": {"samples": 4},
    "gradient/gradient_shap": {"samples": 4},
}
OF_A_PAIR: dict[tuple[str, str], dict[str, Any]] = {
    ("gradient/contrastive_grad_x_act", "llava"): {"candidates": ("yes", "no", "1")},
    ("gradient/contrastive_grad_x_act", "gridvlm"): {"candidates": ("yes", "no", "1")},
    **{("gradient/contrastive_grad_x_act", key): {"candidates": ("yes", "no", "1")} for key in DYNAMIC},
    # ResNet-18's last layer has 512 channels: its first stage has 64.
    ("cam/scorecam", "resnet"): {"layer": "layer1"},
}
_NO_RELU = "has no ReLU"
_WITHOUT_RELU = ("vit", "swin", "gridprog", "gridvlm", "llava", "clip", *DYNAMIC)
REFUSED = {
    **{(f"gradient/{name}", key): _NO_RELU for name in ("guided_backprop", "deconvnet") for key in _WITHOUT_RELU},
    ("gradient/contrastive_grad_x_act", "resnet"): "needs attention",
    ("gradient/contrastive_grad_x_act", "swin"): "grids of different sizes",
}
WORDS = {
    *(f"gradient/{name}" for name in ("gradient", "gradient_norm", "input_x_gradient", "integrated_gradients")),
    *(f"gradient/{name}" for name in ("deeplift", "gradient_shap", "contrastive_grad_x_act")),
}
PAIRS = [(name, key) for name in NAMES for key in BUILDERS if (name, key) not in REFUSED]


# Differences over small numbers: in float32 other kernels for another batch size show in the fifth digit.
QUOTIENTS = {"cam/ablationcam", "cam/gradcam_pp", "cam/xgradcam"}


@cache
def in_double(key: str) -> Any:
    wide = copy.deepcopy(model(key))
    wide.module.double()
    return wide


def made(name: str, key: str) -> Any:
    return build("explainer", name, {**PARAMETERS.get(name, {}), **OF_A_PAIR.get((name, key), {})})


def asked(key: str) -> Session:
    return Session(model(key), samples(key), targets(key))


def state(module: torch.nn.Module) -> Any:
    """All that an explainer could leave behind."""
    return {
        name: (
            part.training,
            tuple(part._forward_hooks),
            tuple(part._forward_pre_hooks),
            tuple(part._backward_hooks),
            "forward" in part.__dict__,
            [(p.requires_grad, p.grad is None) for p in part.parameters(recurse=False)],
        )
        for name, part in module.named_modules()
    }, getattr(getattr(module, "config", None), "_attn_implementation", None)


@pytest.mark.parametrize(("name", "key"), PAIRS)
def test_supported_pairs(name: str, key: str) -> None:
    """Together equals one by one; what the card says is given is given; nothing is left behind."""
    built = in_double(key) if name in QUOTIENTS else model(key)
    n = 2 if name in ("cam/scorecam", "cam/ablationcam") else 3
    explainer, session = made(name, key), Session(built, samples(key, n), targets(key, n))
    session.model.answer(samples(key, 1))  # transformers puts its own hooks in at the first forward
    before = state(session.torch_model.module)
    together = explainer(session)
    assert state(session.torch_model.module) == before
    assert len(together) == len(session.samples)
    for i, attribution in enumerate(together):
        alone = explainer(session.only(i))[0]
        for part in ("visual", "words"):
            ours, other = getattr(attribution, part), getattr(alone, part)
            assert (ours is None) == (other is None)
            if ours is not None:
                assert part in explainer.card.gives
                assert np.isfinite(ours).all()
                assert attribution.signed or (ours >= 0).all()
                np.testing.assert_allclose(ours, other, atol=1e-5 * max(1.0, float(np.abs(other).max())))
        assert attribution.passes >= 1
        assert attribution.words is None or len(attribution.words) == len(session.samples[i].words)
        assert (attribution.words is not None) == (name in WORDS and key in READS_TEXT)
    assert any(np.any(attribution.visual) for attribution in together)


@pytest.mark.parametrize(("name", "key"), REFUSED)
def test_refused_pairs(name: str, key: str) -> None:
    explainer = made(name, key)
    if missing := explainer.card.needs - model(key).capabilities:  # what planning looks at
        error: KaratError = CapabilityMissing(name, missing, key, model(key).capabilities)
        assert re.search(REFUSED[name, key], str(error))
        return
    before = state(model(key).module)
    with pytest.raises(KaratError, match=REFUSED[name, key]):
        explainer(asked(key))
    assert state(model(key).module) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_cannot_be_looked_into_is_refused_in_planning(name: str) -> None:
    from karat.engine.plan import plan
    from karat.kernel.spec import Spec

    spec = Spec.parse({
        "protocol": "grid",
        "models": ["builtins:len"],  # any callable is a black box
        "datasets": [{"name": "grid", "buckets": ["D1_M_F0_d0.3"], "per_bucket": 4}],
        "explainers": [name],
    })  # fmt: skip
    with pytest.raises(KaratError, match=f"{name} needs .*; .* offers scores, text. Use .*wrap the model with"):
        plan(spec)


def test_words_at_layers_of_the_joint_sequence() -> None:
    """On a decoder layer CAMs and grad_x_act score words too (fsyn2026 A.2: GradCAM at the norm of a decoder layer)."""
    layers = {
        "llava": ("decoder.1", "model.language_model.layers.1.post_attention_layernorm"),
        "gridnet": ("decoder.1",),
        "gridprog": ("decoder.last",),
    }
    for key, named in layers.items():
        for layer in named:
            for name in ("cam/gradcam", "cam/gradcam_pp", "cam/xgradcam", "cam/layercam", "gradient/grad_x_act"):
                for i, attribution in enumerate(build("explainer", name, {"layer": layer})(asked(key))):
                    assert attribution.words is not None, (key, name)
                    assert len(attribution.words) == len(samples(key)[i].words)
            for name in ("cam/eigencam", "cam/eigengradcam"):
                assert build("explainer", name, {"layer": layer})(asked(key))[0].words is None


def test_the_table_in_the_docs_is_this_one() -> None:
    text = (Path(__file__).parents[2] / "docs/concepts/explainers-inside.md").read_text(encoding="utf-8")
    rows = {row[0].strip("`"): row[1:] for row in _rows(text) if row[0].strip("`") in NAMES}
    assert set(rows) == set(NAMES)
    for name, cells in rows.items():
        shown = dict(zip(BUILDERS, cells, strict=True))
        for key, cell in shown.items():
            expected = "–" if (name, key) in REFUSED else "map, words" if name in WORDS and key in READS_TEXT else "map"
            assert cell == expected, (name, key)


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in text.splitlines() if line[:1] == "|"]


# ---- one trace for all


@contextmanager
def counted(module: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    count = {"forward": 0, "backward": 0}
    real = torch.autograd.grad

    def grad(*args: Any, **kwargs: Any) -> Any:
        count["backward"] += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "grad", grad)
    handle = module.register_forward_pre_hook(lambda *_: count.__setitem__("forward", count["forward"] + 1))
    try:
        yield count
    finally:
        handle.remove()


SINGLE_PASS = [
    *(f"cam/{name}" for name in ("gradcam", "gradcam_pp", "xgradcam", "layercam", "eigencam", "eigengradcam")),
    *(f"gradient/{name}" for name in ("gradient", "gradient_norm", "input_x_gradient", "grad_x_act", "fullgrad")),
]


@pytest.mark.parametrize("key", ["resnet", "vit", "swin", "gridnet"])
@pytest.mark.parametrize("backwards", [False, True])
def test_all_single_pass_explainers_share_one_forward_and_backward(
    key: str, backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    explainers = [build("explainer", name, {}) for name in SINGLE_PASS]
    session = asked(key)
    session.expect(explainers)
    with counted(model(key).module, monkeypatch) as count:
        for explainer in explainers[:: -1 if backwards else 1]:
            explainer(session)
    assert count == {"forward": 1, "backward": 1}
    assert (session.cost.traces, session.cost.backwards) == (1, 1)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gradient/integrated_gradients", {"steps": 10, "batch_size": 4}),
        ("gradient/smoothgrad", {"samples": 10, "batch_size": 4}),
        ("gradient/gradient_shap", {"samples": 10, "batch_size": 4}),
        ("cam/scorecam", {"batch_size": 4}),
    ],
)
def test_no_batch_is_larger_than_asked_for(name: str, parameters: dict[str, Any]) -> None:
    sizes: list[int] = []
    explainer, session = build("explainer", name, parameters), asked("vit")
    session.trace(("vision.last",))
    handle = model("vit").module.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    try:
        found = explainer(session)
    finally:
        handle.remove()
    assert max(sizes) == 4
    assert sum(sizes) == sum(a.passes - (name == "cam/scorecam") for a in found)


def test_results_do_not_depend_on_the_batch_size_of_the_path() -> None:
    for name in ("gradient/integrated_gradients", "gradient/gradient_shap", "gradient/smoothgrad"):
        explainers = [build("explainer", name, {**PARAMETERS[name], "batch_size": size}) for size in (3, 32)]
        one, other = (explainer(asked("gridnet")) for explainer in explainers)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.visual, b.visual, atol=1e-5 * float(np.abs(b.visual).max()))


# ---- whatever happens


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["resnet", "llava"])
def test_nothing_is_left_behind_when_it_raises(name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if (name, key) in REFUSED:
        pytest.skip("refused")
    built = model(key)
    built.answer(samples(key, 1))
    session, explainer = asked(key), made(name, key)
    if name in ("cam/scorecam", "cam/ablationcam"):  # let them get past their trace
        session.trace(("vision.last", "layer1") if key == "resnet" else ("vision.last",))
    built.module.train()
    before, mode = state(built.module), torch.is_grad_enabled()
    monkeypatch.setattr(type(built), "readout", _broken)
    try:
        with pytest.raises(RuntimeError, match="broke"):
            explainer(session)
        assert state(built.module) == before
        assert torch.is_grad_enabled() == mode
    finally:
        built.module.eval()


def _broken(self: Any, inputs: Any, answers: Any) -> Any:
    self.module(inputs.pixels) if not hasattr(self, "family") else self.log_probability(inputs, answers)
    raise RuntimeError("it broke after its forward pass")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("key", ["resnet", "vit", "llava"])
def test_half_precision(key: str, dtype: torch.dtype) -> None:
    """Finite, in float32, and near what the same model says in float32."""
    module = copy.deepcopy(model(key).module).to(dtype)
    narrow = replace(model(key), module=module)
    for name in NAMES:
        if (name, key) in REFUSED or (key == "resnet" and name in ("cam/scorecam", "gradient/smoothgrad")):
            continue  # half-precision convolutions are slow on a CPU
        explainer = made(name, key)
        halves, fulls = explainer(Session(narrow, samples(key, 1), targets(key, 1))), explainer(asked(key).only(0))
        for half, full in zip(halves, fulls, strict=True):
            assert half.visual is not None
            assert half.visual.dtype == np.float32
            assert np.isfinite(half.visual).all(), name
            assert full.visual is not None
            if not np.any(full.visual) or name in UNSTEADY:
                continue
            alike = (half.visual * full.visual).sum() / np.sqrt((half.visual**2).sum() * (full.visual**2).sum() + 1e-30)
            assert alike > 0.8, (name, alike)


# Which channels are asked about, the turn of a component and quotients of tiny numbers may differ after rounding.
UNSTEADY = {
    *(f"cam/{name}" for name in ("ablationcam", "eigencam", "eigengradcam", "xgradcam", "gradcam_pp")),
    "gradient/deeplift",
}


def test_flat_negative_and_broken_maps_are_defined() -> None:
    """All-negative: zero, which is reported. NaN: stays NaN, which is reported; the sample beside it is untouched."""
    from tests.explainers import linear

    built = linear.features()
    session = Session(built, linear.samples(2), ["1", "1"])
    with torch.no_grad():
        built.module.head.weight.fill_(1.0)  # type: ignore[union-attr]
        built.module.maps.weight.fill_(1.0)  # type: ignore[union-attr]
    dark = [replace(sample, image=np.zeros_like(sample.image)) for sample in session.samples]
    for name in ("cam/gradcam", "cam/xgradcam", "cam/layercam"):
        found = build("explainer", name, {})(Session(built, dark, ["1", "1"]))
        assert [a.problem("visual") for a in found] == ["map: all zero"] * 2, name
    for name in ("cam/eigencam", "cam/eigengradcam"):  # a flat map has no component
        found = build("explainer", name, {})(Session(built, dark, ["1", "1"]))
        assert [a.problem("visual") for a in found] == ["map: all zero"] * 2, name
    broken = asked("vit")
    broken.inputs.pixels[1] = float("nan")
    for name in SINGLE_PASS:
        found = build("explainer", name, {})(broken)
        reasons = [a.problem("visual") for a in found]
        assert "NaN" in (reasons[1] or ""), name
        assert reasons[0] is None, name
