"""Every attention explainer against its rule on whole matrices: class tokens or none, padding, shared key heads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sequence_models import BUILD, model, samples, targets

from karat.explainers.attention import Daam, Gar, Generic, GradRollout, Raw, Rollout
from karat.kernel.errors import BadInput
from karat.probe import Session, trace
from tests.twins import attention_rules as rules


@cache
def matrices(key: str, i: int) -> tuple[list[Any], list[Any], list[Any], list[Any], list[int]]:
    """Attention, its gradients, values, output gradients of sample i asked alone (unpadded), and the answer's rows."""
    adapter, target = model(key), targets(key)[i]
    everything = {"attention", "attention_gradients", "heads", "head_gradients"}
    with trace(adapter, samples()[i : i + 1], [target], want=everything) as recorded:
        attention = [maps[0].numpy() for maps in recorded.attention.values()]
        gradients = [maps[0].numpy() for maps in recorded.attention_gradients.values()]
        values = [part.values[0].numpy() for part in recorded.heads.values()]
        slopes = [part.output_gradient[0].numpy() for part in recorded.heads.values()]
        layout = recorded.layout
    assert layout is not None
    if layout.readout is None:
        return attention, gradients, values, slopes, list(layout.visual or ())
    count = len(adapter.target_tokens(target).numbers) if "text" in adapter.capabilities else 1
    return attention, gradients, values, slopes, list(range(layout.readout, layout.readout + count))


def guard(key: str, i: int) -> int | None:
    return model(key).layout(model(key).encode(samples()[i : i + 1])).readout


def thinned(key: str, i: int, fused: list[Any], ratio: float, every_pair: bool, guarded: bool) -> list[Any]:
    attention = matrices(key, i)[0]
    pairs = [
        np.ones(f.shape, dtype=bool) if every_pair else (a > 0).any(0) for f, a in zip(fused, attention, strict=True)
    ]
    at = guard(key, i) if guarded else None
    return [rules.thin(f, allowed, ratio, at) for f, allowed in zip(fused, pairs, strict=True)]


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
        for i, attribution in enumerate(explainer(session)):
            layout = adapter.layout(adapter.encode(samples()[i : i + 1]))
            expected = twin(key, i)
            assert attribution.visual is not None
            np.testing.assert_allclose(attribution.visual.ravel(), expected[list(layout.visual)], rtol=1e-5, atol=1e-9)
            assert attribution.problem("visual") is None, name
            if layout.text is None:
                assert attribution.words is None
                continue
            spans = adapter.encode(samples()[i : i + 1]).words[0]
            words = [expected[[layout.text[t] for t in range(*span)]].sum() for span in spans]
            np.testing.assert_allclose(attribution.words, words, rtol=1e-5, atol=1e-9)
    assert (session.cost.traces, session.cost.backwards) == (1, 1)


@pytest.mark.parametrize("key", ["grouped_queries", "one_key_head_text_first"])
@pytest.mark.parametrize("name", ["rollout released", "gar released"])
def test_released_variants_on_a_decoder(key: str, name: str) -> None:
    explainer, twin = TWINS[name]
    for i, sample in enumerate(samples()):
        [attribution] = explainer(Session(model(key), [sample], [targets(key)[i]]))
        layout = model(key).layout(model(key).encode([sample]))
        np.testing.assert_allclose(attribution.visual.ravel(), twin(key, i)[list(layout.visual)], rtol=1e-5, atol=1e-9)


def test_released_gar_is_not_gar() -> None:
    session = Session(model("class_token"), samples(), targets("class_token"))
    ours, theirs = Gar()(session)[0].visual, Gar(variant="released")(session)[0].visual
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] < 0.99


def test_daam_squashed_keeps_the_order() -> None:
    session = Session(model("class_token"), samples(), targets("class_token"))
    plain, squashed = Daam()(session)[0].visual.ravel(), Daam(squash=True)(session)[0].visual.ravel()
    assert (squashed.min(), squashed.max()) == (0.0, 1.0)
    assert (np.argsort(plain[plain > 0]) == np.argsort(squashed[plain > 0])).all()
    rounded = Daam(variant="released")(session)[0].visual.ravel()
    assert set(rounded) <= set(range(256))
    assert rounded.max() == 255


def test_a_layer_that_the_model_does_not_have_is_refused() -> None:
    session = Session(model("class_token"), samples(), targets("class_token"))
    with pytest.raises(BadInput, match="has 2 layers; got 5"):
        Raw(layer=5)(session)
    with pytest.raises(BadInput, match="has 2 layers; got -3"):
        Generic(start_layer=-3)(session)
