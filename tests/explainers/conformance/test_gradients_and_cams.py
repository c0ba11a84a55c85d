"""The table explainer × architecture: every supported pair is run, every other is refused with a reason."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import architectures
import numpy as np
import pytest
import small_models
import torch
from architectures import BUILDERS, DYNAMIC, READS_TEXT, model, samples, targets

from karat.kernel.constraints import parameter_types
from karat.kernel.errors import CapabilityMissing, KaratError
from karat.kernel.registry import build, registered
from karat.probe import Session

CLASSES = registered("explainer")
NAMES = [name for name in CLASSES if name.startswith(("gradient/", "cam/"))]
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
# What has a layer reads the image's last by default, where there are no words.
WORDS = {
    name for name in NAMES if "words" in CLASSES[name].card.gives and "layer" not in parameter_types(CLASSES[name])
}
SINGLE_PASS = [name for name in NAMES if CLASSES[name].card.passes == "1" and (name, "vit") not in REFUSED]
PAIRS = [(name, key) for name in NAMES for key in BUILDERS if (name, key) not in REFUSED]
# Differences over small numbers: in float32 other kernels for another batch size show in the fifth digit.
QUOTIENTS = {"cam/ablationcam", "cam/gradcam_pp", "cam/xgradcam"}


@cache
def in_double(key: str) -> Any:
    wide = copy.deepcopy(model(key))
    wide.module.double()
    return wide


def explainer_of(name: str, key: str) -> Any:
    return build("explainer", name, {**PARAMETERS.get(name, {}), **OF_A_PAIR.get((name, key), {})})


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
    explainer, session = explainer_of(name, key), Session(built, samples(key, n), targets(key, n))
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
    explainer = explainer_of(name, key)
    if missing := explainer.card.needs - model(key).capabilities:  # what planning looks at
        error: KaratError = CapabilityMissing(name, missing, key, model(key).capabilities)
        assert re.search(REFUSED[name, key], str(error))
        return
    before = state(model(key).module)
    with pytest.raises(KaratError, match=REFUSED[name, key]):
        explainer(architectures.session(key))
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
    of_a_layer = [name for name in SINGLE_PASS if "layer" in parameter_types(CLASSES[name])]
    for key, names in layers.items():
        for layer, name in product(names, of_a_layer):
            for i, attribution in enumerate(build("explainer", name, {"layer": layer})(architectures.session(key))):
                assert (attribution.words is not None) == ("words" in CLASSES[name].card.gives), (key, name)
                assert attribution.words is None or len(attribution.words) == len(samples(key)[i].words)


def test_the_table_in_the_docs_is_this_one() -> None:
    """A row names explainers or a whole family (`cam/*`); every explainer is in one row."""
    text = (Path(__file__).parents[3] / "docs/concepts/explainers-inside.md").read_text(encoding="utf-8")
    rows = [(re.findall(r"`([a-z_]+/[a-z_*]+)`", names), cells) for names, *cells in _rows(text)]
    documented = {name: cells for patterns, cells in rows for name in NAMES if _matches(name, patterns)}
    assert set(documented) == set(NAMES)
    assert sum(_matches(name, patterns) for patterns, _ in rows for name in NAMES) == len(NAMES)
    for name, cells in documented.items():
        for key, cell in zip(BUILDERS, cells, strict=True):
            expected = "–" if (name, key) in REFUSED else "map, words" if name in WORDS and key in READS_TEXT else "map"
            assert cell == expected, (name, key)


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in text.splitlines() if line[:1] == "|"]


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


@pytest.mark.parametrize("key", ["resnet", "vit", "swin", "gridnet"])
@pytest.mark.parametrize("backwards", [False, True])
def test_all_single_pass_explainers_share_one_forward_and_backward(
    key: str, backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    explainers = [build("explainer", name, {}) for name in SINGLE_PASS]
    session = architectures.session(key)
    session.expect(explainers)
    with counted(model(key).module, monkeypatch) as count:
        for explainer in explainers[:: -1 if backwards else 1]:
            explainer(session)
    assert count == {"forward": 1, "backward": 1}
    assert (session.cost.traces, session.cost.backwards) == (1, 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["resnet", "llava"])
def test_nothing_is_left_behind_when_it_raises(name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if (name, key) in REFUSED:
        pytest.skip("refused")
    built = model(key)
    built.answer(samples(key, 1))
    session, explainer = architectures.session(key), explainer_of(name, key)
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
        explainer = explainer_of(name, key)
        halves, fulls = (
            explainer(Session(narrow, samples(key, 1), targets(key, 1))),
            explainer(architectures.session(key).only(0)),
        )
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
    built = small_models.features()
    session = Session(built, small_models.samples(2), ["1", "1"])
    with torch.no_grad():
        built.module.head.weight.fill_(1.0)  # type: ignore[union-attr]
        built.module.maps.weight.fill_(1.0)  # type: ignore[union-attr]
    dark = [replace(sample, image=np.zeros_like(sample.image)) for sample in session.samples]
    for name in ("cam/gradcam", "cam/xgradcam", "cam/layercam"):
        attributions = build("explainer", name, {})(Session(built, dark, ["1", "1"]))
        assert [a.problem("visual") for a in attributions] == ["map: all zero"] * 2, name
    for name in ("cam/eigencam", "cam/eigengradcam"):  # a flat map has no component
        attributions = build("explainer", name, {})(Session(built, dark, ["1", "1"]))
        assert [a.problem("visual") for a in attributions] == ["map: all zero"] * 2, name
    broken = architectures.session("vit")
    broken.inputs.pixels[1] = float("nan")
    for name in SINGLE_PASS:
        attributions = build("explainer", name, {})(broken)
        reasons = [a.problem("visual") for a in attributions]
        assert "NaN" in (reasons[1] or ""), name
        assert reasons[0] is None, name
