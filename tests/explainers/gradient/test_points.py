"""Gradients at altered inputs: batches of bounded size, whose size changes nothing."""

from __future__ import annotations

import architectures
import numpy as np
import pytest

from karat.kernel.registry import build

COUNTS = {
    "gradient/integrated_gradients": "steps",
    "gradient/smoothgrad": "samples",
    "gradient/gradient_shap": "samples",
}


@pytest.mark.parametrize("name", COUNTS)
def test_no_batch_is_larger_than_asked_for(name: str) -> None:
    sizes: list[int] = []
    explainer, session = build("explainer", name, {COUNTS[name]: 10, "batch_size": 4}), architectures.session("vit")
    module = session.torch_model.module
    handle = module.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    try:
        attributions = explainer(session)
    finally:
        handle.remove()
    assert max(sizes) == 4
    assert sum(sizes) == sum(attribution.passes for attribution in attributions) == 30


@pytest.mark.parametrize("name", COUNTS)
def test_results_do_not_depend_on_the_batch_size(name: str) -> None:
    explainers = [build("explainer", name, {COUNTS[name]: 4, "batch_size": size}) for size in (3, 32)]
    one, other = (explainer(architectures.session("gridnet")) for explainer in explainers)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.visual, b.visual, atol=1e-5 * float(np.abs(b.visual).max()))
