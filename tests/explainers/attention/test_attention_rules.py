"""Every attention explainer against its rule on whole matrices: class tokens or none, padding, shared key heads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from karat.explainers.attention import Daam, Gar, Generic, GradRollout, Raw, Rollout
from karat.explainers.attention.bimodal import Bimodal
from karat.kernel.errors import BadInput
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.models.vlm import vlm
from karat.probe import Session, trace
from tests.models.tiny_llava import IMAGE_FIRST, TEXT_FIRST, make_module, make_processor
from tests.twins import attention_rules as rules

TEXTS = ("how many red circles are left of blue squares ?", "are there any green squares ?", "how many ?")
ANSWERS = ("yes", "twenty one", "no")


def _vit(**options: Any) -> Any:
    torch.manual_seed(0)
    name = options.pop("name", "vit_tiny_patch16_224")
    module = timm.create_model(name, num_classes=5, img_size=(48, 64), patch_size=16, embed_dim=24, **options)
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.4)  # sharp attention, so that rules differ
    return classifier(module.double(), Preprocessing((48, 64)))


def _llava(order: str, layers: int, key_value_heads: int) -> Any:
    processor = make_processor(order)
    module = make_module(processor, decoder=(layers, 32), key_value_heads=key_value_heads)
    return vlm(module.double(), processor, name="tiny")


BUILD: dict[str, Callable[[], Any]] = {
    "class_token": lambda: _vit(depth=2, num_heads=2),
    "no_class_token": lambda: _vit(depth=3, num_heads=3, class_token=False, global_pool="avg"),
    "registers": lambda: _vit(name="vit_small_patch14_reg4_dinov2", depth=2, num_heads=2),
    "grouped_queries": lambda: _llava(IMAGE_FIRST, 3, 2),
    "one_key_head_text_first": lambda: _llava(TEXT_FIRST, 2, 1),
}


@cache
def model(key: str) -> Any:
    return BUILD[key]()


def samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (96, 96, 3), dtype=np.uint8), text) for i, text in enumerate(TEXTS)]


def targets(key: str) -> list[str]:
    return list(ANSWERS) if model(key).capabilities >= {"text"} else ["1", "3", "0"]


@cache
def matrices(key: str, i: int) -> tuple[list[Any], list[Any], list[Any], list[Any], list[int]]:
    """Attention, its gradients, values, output gradients of sample i asked alone (unpadded), and the answer's rows."""
    adapter, target = model(key), targets(key)[i]
    everything = {"attention", "attention_gradients", "heads", "head_gradients"}
    with trace(adapter, samples()[i : i + 1], [target], want=everything) as seen:
        attention = [maps[0].numpy() for maps in seen.attention.values()]
        gradients = [maps[0].numpy() for maps in seen.attention_gradients.values()]
        values = [part.values[0].numpy() for part in seen.heads.values()]
        slopes = [part.output_gradient[0].numpy() for part in seen.heads.values()]
        layout = seen.layout
    assert layout is not None
    if layout.readout is None:
        return attention, gradients, values, slopes, list(layout.visual or ())
    count = len(adapter.target_tokens(target).numbers) if "text" in adapter.capabilities else 1
    return attention, gradients, values, slopes, list(range(layout.readout, layout.readout + count))


def guard(key: str, i: int) -> int | None:
    return model(key).layout(model(key).encode(samples()[i : i + 1])).readout


def thinned(key: str, i: int, fused: list[Any], ratio: float, every_pair: bool, guarded: bool) -> list[Any]:
    attention = matrices(key, i)[0]
    seen = [
        np.ones(f.shape, dtype=bool) if every_pair else (a > 0).any(0) for f, a in zip(fused, attention, strict=True)
    ]
    at = guard(key, i) if guarded else None
    return [rules.thin(f, pairs, ratio, at) for f, pairs in zip(fused, seen, strict=True)]


def raw(key: str, i: int) -> Any:
    attention, *_, rows = matrices(key, i)
    return rules.fuse_heads(attention[-1], "max")[rows].mean(0)


def rollout(fusion: str, ratio: float = 0.0, released: bool = False) -> Callable[[str, int], Any]:
    def twin(key: str, i: int) -> Any:
        attention, *_, rows = matrices(key, i)
        fused = thinned(key, i, [rules.fuse_heads(a, fusion) for a in attention], ratio, released, guarded=True)
        return (rules.released_rollout if released else rules.rollout)(fused)[rows].mean(0)

    return twin


def chefer(key: str, i: int) -> Any:
    attention, gradients, *_, rows = matrices(key, i)
    return rules.chefer(attention, gradients)[rows].mean(0)


def last_layer_only(key: str, i: int) -> Any:
    attention, gradients, *_, rows = matrices(key, i)
    return rules.chefer(attention[-1:], gradients[-1:])[rows].mean(0)


def normalised(key: str, i: int) -> Any:
    attention, gradients, *_, rows = matrices(key, i)
    fused = [np.maximum(a * g, 0).mean(0) for a, g in zip(attention, gradients, strict=True)]
    return rules.rollout(fused)[rows].mean(0)


def gar(released: bool) -> Callable[[str, int], Any]:
    def twin(key: str, i: int) -> Any:
        attention, gradients, *_, rows = matrices(key, i)
        fused = rules.gradient_fused(attention, gradients[::-1] if released else gradients)
        fused = thinned(key, i, fused, 0.5, released, guarded=not released)
        return (rules.released_rollout if released else rules.rollout)(fused)[rows].mean(0)

    return twin


def daam(key: str, i: int) -> Any:
    attention, _, values, slopes, rows = matrices(key, i)
    return np.mean([rules.daam(attention, values, slopes, row) for row in rows], axis=0)


TWINS: dict[str, tuple[Any, Callable[[str, int], Any]]] = {
    "raw": (Raw(fusion="max"), raw),
    "rollout": (Rollout(), rollout("mean")),
    "rollout max": (Rollout("max"), rollout("max")),
    "rollout min": (Rollout("min"), rollout("min")),
    "rollout discard": (Rollout("max", 0.5), rollout("max", 0.5)),
    "rollout released": (Rollout("max", 0.5, "released"), rollout("max", 0.5, True)),
    "grad_rollout": (GradRollout(), chefer),
    "grad_rollout normalised": (GradRollout(normalise=True), normalised),
    "generic": (Generic(), chefer),
    "generic last": (Generic(start_layer=-1), last_layer_only),
    "gar": (Gar(0.5), gar(False)),
    "gar released": (Gar(0.5, "released"), gar(True)),
    "daam": (Daam(), daam),
}


@pytest.mark.parametrize("key", BUILD)
def test_explainers_equal_their_twins(key: str) -> None:
    """The whole batch, padded, from one trace; the twins see one sample at a time, unpadded, and whole matrices."""
    adapter = model(key)
    session = Session(adapter, samples(), targets(key))
    session.expect([explainer for explainer, _ in TWINS.values()])
    pads = session.inputs.token_keep is not None and not bool(session.inputs.token_keep.all())
    assert pads == (adapter.capabilities >= {"text"})
    for name, (explainer, twin) in TWINS.items():
        if pads and "released" in name:
            continue  # it counts every pair of positions, padding too: see below
        for i, found in enumerate(explainer(session)):
            layout = adapter.layout(adapter.encode(samples()[i : i + 1]))
            expected = twin(key, i)
            assert found.visual is not None
            np.testing.assert_allclose(found.visual.ravel(), expected[list(layout.visual)], rtol=1e-5, atol=1e-9)
            assert found.problem("visual") is None, name
            if layout.text is None:
                assert found.words is None
                continue
            spans = adapter.encode(samples()[i : i + 1]).words[0]
            words = [expected[[layout.text[t] for t in range(*span)]].sum() for span in spans]
            np.testing.assert_allclose(found.words, words, rtol=1e-5, atol=1e-9)
    assert (session.cost.traces, session.cost.backwards) == (1, 1)


@pytest.mark.parametrize("key", ["grouped_queries", "one_key_head_text_first"])
@pytest.mark.parametrize("name", ["rollout released", "gar released"])
def test_released_variants_on_a_decoder(key: str, name: str) -> None:
    explainer, twin = TWINS[name]
    for i, sample in enumerate(samples()):
        [found] = explainer(Session(model(key), [sample], [targets(key)[i]]))
        layout = model(key).layout(model(key).encode([sample]))
        np.testing.assert_allclose(found.visual.ravel(), twin(key, i)[list(layout.visual)], rtol=1e-5, atol=1e-9)


def test_released_gar_is_not_gar() -> None:
    session = Session(model("class_token"), samples(), targets("class_token"))
    ours, theirs = Gar()(session)[0].visual, Gar(variant="released")(session)[0].visual
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] < 0.99


def test_rows_of_a_rollout_sum_to_one() -> None:
    """Patches and class token share one whole; without a class token the patches have it all."""
    session = Session(model("no_class_token"), samples(), targets("no_class_token"))
    for explainer in (Rollout(), Rollout("max"), Rollout("mean", 0.5), GradRollout(normalise=True)):
        assert [a.visual.sum() for a in explainer(session)] == pytest.approx([1.0] * 3)


def test_daam_squashed_keeps_the_order() -> None:
    session = Session(model("class_token"), samples(), targets("class_token"))
    plain, squashed = Daam()(session)[0].visual.ravel(), Daam(squash=True)(session)[0].visual.ravel()
    assert (squashed.min(), squashed.max()) == (0.0, 1.0)
    assert (np.argsort(plain[plain > 0]) == np.argsort(squashed[plain > 0])).all()
    rounded = Daam(variant="released")(session)[0].visual.ravel()
    assert set(rounded) <= set(range(256))
    assert rounded.max() == 255


def test_runs_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long context is worked through a few rows at a time."""
    whole = [e(Session(model("grouped_queries"), samples(), list(ANSWERS))) for e, _ in TWINS.values()]
    monkeypatch.setattr("karat.probe.heads._AT_ONCE", 3 * 4 * 50 * 7)  # seven rows of about fifty
    parts = [e(Session(model("grouped_queries"), samples(), list(ANSWERS))) for e, _ in TWINS.values()]
    for one, other in zip(whole, parts, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.visual, b.visual, rtol=1e-9, atol=1e-12)


def test_bad_parameters_say_what_is_right() -> None:
    with pytest.raises(BadInput, match="discard_ratio is a share"):
        Rollout(discard_ratio=1.0)
    session = Session(model("class_token"), samples(), targets("class_token"))
    with pytest.raises(BadInput, match="has 2 layers; got 5"):
        Raw(layer=5)(session)
    with pytest.raises(BadInput, match="has 2 layers; got -3"):
        Generic(start_layer=-3)(session)


STEPS = st.lists(st.tuples(st.sampled_from(["self", "cross"]), st.sampled_from(["image", "text"])), max_size=7)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=st.integers(0, 999))
def test_bimodal_rule_equals_its_twin(steps: list[tuple[str, str]], sizes: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = dict(zip(("image", "text"), sizes, strict=True))
    ours, given_steps = Bimodal.start(*sizes, dtype=torch.float64), []
    for what, stream in steps:
        other = stream if what == "self" else {"image": "text", "text": "image"}[stream]
        fused = rng.random((count[stream], count[other])) * (rng.random((count[stream], count[other])) < 0.7)
        given_steps.append((what, stream, fused))
        tensor = torch.from_numpy(fused)
        ours = ours.attends(stream, tensor) if what == "self" else ours.crosses(stream, tensor)
    for name, expected in rules.bimodal(given_steps, *sizes).items():
        np.testing.assert_allclose(getattr(ours, name).numpy(), expected, rtol=1e-9, atol=1e-12)
