"""Discovered models read every span of a text off one forward, as those written by hand do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tiny_vlms
import vlm_zoo

from karat.kernel.registry import build
from karat.kernel.target import Target, TargetLike
from karat.models.discovery.model import OneForwardVLM
from karat.models.torch_model import ReadsSpans
from karat.models.vlm import vlm
from karat.models.vlm_adapter import VLM
from karat.probe import Session

TEXT = "left of the red cup"
WORDS: list[TargetLike] = [
    *(Target.word(word, TEXT) for word in ("left", "red", "cup")),
    Target(TEXT, (12, 15), contrast="blue"),
    Target.whole(TEXT),
]


@contextmanager
def forwards(model: Any) -> Iterator[list[int]]:
    """Rows of every forward of the whole module."""
    rows: list[int] = []
    hook = model.module.register_forward_hook(
        lambda _, args, kwargs, out: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    try:
        yield rows
    finally:
        hook.remove()


@pytest.mark.parametrize("kind", ["qwen2_vl", "gemma3"])
def test_spans_of_both_kinds_of_model_are_the_same(kind: str) -> None:
    parts, sample = tiny_vlms.make(kind), tiny_vlms.samples(kind, 1)
    found, known = (vlm(*parts, family=family) for family in ("discovered", None))
    assert isinstance(found, OneForwardVLM)
    assert isinstance(known, VLM)
    for log in (False, True):
        ours, theirs = (m.span_scores(m.encode(sample), WORDS, log).detach().numpy() for m in (found, known))
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    alone = found.score(sample * len(WORDS), WORDS)
    together = found.span_scores(found.encode(sample), WORDS, True)[0].exp().tolist()
    plain = [k for k, word in enumerate(WORDS) if isinstance(word, Target) and not word.contrast]
    np.testing.assert_allclose([together[k] for k in plain], alone[plain], rtol=1e-3)


def test_one_forward_for_all_words() -> None:
    model, sample = vlm(*tiny_vlms.make("qwen2_vl"), family="discovered"), tiny_vlms.samples("qwen2_vl", 1)[0]
    words = [word for word in WORDS if isinstance(word, Target) and not word.contrast]
    model.encode([sample])  # where text goes on after images of this size is found out once
    session = Session(model, [sample] * len(words), words)
    with forwards(model) as rows:
        maps = build("explainer", "cam/gradcam", {})(session)
    assert rows == [1]
    assert (session.cost.traces, session.cost.backwards) == (1, len(words))
    alone = [build("explainer", "cam/gradcam", {})(Session(model, [sample], [word]))[0] for word in words]
    for one, other in zip(maps, alone, strict=True):
        np.testing.assert_allclose(one.visual, other.visual, rtol=1e-3, atol=1e-5)
    occlusion = build("explainer", "perturbation/occlusion", {"cells": 4, "window": 2})
    together, single = Session(model, [sample] * len(words), words), Session(model, [sample], words[:1])
    occlusion(together)
    occlusion(single)
    assert together.cost.passes.made == single.cost.passes.made


def test_a_prompt_that_sees_what_is_said_later_is_run_token_by_token() -> None:
    model = vlm(*vlm_zoo.make("paligemma"), family="discovered")
    [sample], _ = vlm_zoo.law_samples(model, 1)
    assert not isinstance(model, ReadsSpans)
    with forwards(model) as rows:
        model.score([sample], [Target.word("cup", TEXT)])
    tokens = model.target_tokens(Target.word("cup", TEXT))
    assert len(rows) == len(tokens.explained) < len(tokens.numbers)  # what is only context costs no forward
