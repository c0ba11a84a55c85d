"""The fourteen explainers of pixelrules2024 on the shipped CNN and ViT, through the protocol."""

import numpy as np
import pytest

from karat.datasets.shortcut import ShortcutDataset
from karat.kernel.errors import KaratError
from karat.kernel.registry import build
from karat.models import load_model
from karat.models.pixelnet.dominance import answers
from karat.probe.session import Session
from karat.probe.trials import Effort
from karat.protocols.pixel import Pixel
from karat.protocols.pixel.analysis import ORDER, SINGLE, TRUTH

QUICK = {
    "gradient/gradient": {"channels": "max"},
    "gradient/guided_backprop": {"require_relu": False},
    "gradient/integrated_gradients": {"steps": 4},
    "gradient/gradient_shap": {"samples": 2},
    "perturbation/occlusion": {"cells": 8},
    "perturbation/lime": {"budget": 64},
    "shapley/kernel_shap": {"visual": (4, 4), "budget": 100},
    "perturbation/rise": {"masks": 32, "cells": 8},
    "perturbation/extremal": {"cells": 8, "steps": 4},
}
FOURTEEN = [name for name in ORDER if name not in (TRUTH, SINGLE)]
NOWHERE = {("cnn", "attention/rollout"), ("vit", "gradient/deconvnet")}  # as the paper leaves them empty


@pytest.fixture(scope="module")
def sessions():
    found = {}
    for variant in ("cnn", "vit"):
        session = Session(load_model(f"pixelnet.{variant}"), ShortcutDataset(n=12).load(0, 12))
        found[variant] = session.only(int(np.flatnonzero(answers(session.model, session.samples).dominant())[0]))
    return found


def test_there_are_fourteen():
    assert len(FOURTEEN) == 14


@pytest.mark.parametrize("variant", ["cnn", "vit"])
def test_each_explains_and_is_scored(sessions, variant):
    session = sessions[variant]
    protocol = Pixel(effort=Effort(budget=160, trials=2, error=0.2), related=False, ceiling=0)
    scored = {}
    for name in FOURTEEN:
        explainer = build("explainer", name, QUICK.get(name, {}))
        if (variant, name) in NOWHERE:
            with pytest.raises(KaratError):
                explainer(session)
            continue
        maps = explainer(session)
        assert np.isfinite(maps[0].visual).all()
        assert np.ptp(maps[0].visual) > 0, f"{name}: the map is flat"
        found = protocol.score(session, maps)
        scored[name] = (found["hit"].values[0], found["weighted_iou"].values[0])
    assert len(scored) == 13
    assert np.isfinite(list(scored.values())).all()
    assert len(set(scored.values())) > 3  # they do not all say the same
