"""Chefer's rule for two streams against its twin on whole matrices."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.explainers.attention_bimodal import Bimodal
from tests.twins import attention_rules as rules

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
