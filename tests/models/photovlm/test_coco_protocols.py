"""Protocols that ask about photographs run on `photovlm.coco`: compass on pairs of COCO, synergy on RePOPE.

The model here has learnt nothing but to say "yes": what is tested is that it can be asked and answer as they do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from karat.engine.run import run
from karat.kernel.spec import Spec
from karat.models.organisms.adapters import trained
from karat.models.organisms.files import Origin, save_organism
from karat.models.photovlm.files import load_photovlm
from karat.models.photovlm.vocabulary import COCO, presence_question, vocabulary
from karat.results.run import load_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An organism's file, eight noise pictures with a cat and a dog side by side or one above the other, and questions
    of RePOPE about them."""
    root = tmp_path_factory.mktemp("coco")
    module: Any = load_photovlm(0).module
    module.requires_grad_(True)
    names, head, words = vocabulary(), module.lm_head.weight, module.model.language_model.embed_tokens.weight
    with torch.no_grad():  # a state resembles the word it stands on: after ":" comes "yes", after "yes" the end
        head.mul_(0.02)
        for word, following in ((":", "yes"), ("yes", "</s>")):
            head[names.index(following)] += 0.1 * words[names.index(word)]
    save_organism(root / "organism.safetensors", trained(module), Origin("photovlm", "coco", "scratch"))
    cat, dog, near, far = COCO.index("cat"), COCO.index("dog"), [6, 14, 16, 16], [40, 14, 16, 16]
    high, low = [24, 4, 16, 16], [24, 26, 16, 16]
    places = [(near, far), (far, near), (high, low), (low, high)] * 2
    images, questions = {}, []
    for i, (first, second) in enumerate(places):
        name = f"{i:012d}"
        images[name] = {"size": [64, 48], "boxes": [[cat, *first], [dog, *second]]}
        pixels = np.random.default_rng(i).integers(0, 256, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"{name}.jpg")
        for noun, label in (("cat", "yes"), ("zebra", "no")):
            questions.append(
                {"question_id": len(questions), "image": f"{name}.jpg", "text": presence_question(noun), "label": label}
            )
    (root / "boxes.json").write_text(json.dumps({"categories": list(COCO), "images": images}))
    (root / "coco_repope_random.json").write_text("\n".join(map(json.dumps, questions)))
    return root


PAIRS = {"name": "spatial/coco_pairs", "instances": "boxes.json", "images": "", "n": 4}
REPOPE = {"name": "repope", "source": "", "images": "", "splits": ["random"]}


@pytest.mark.parametrize(
    ("protocol", "dataset", "metric", "answers"),
    [
        ("compass", PAIRS, "compass/direction_error", {"1", "2", "3", "4"}),
        ({"name": "synergy", "steps": 3}, REPOPE, "f_syn", {"yes", "no"}),
    ],
)
def test_a_protocol_runs_on_it(
    folder: Path, tmp_path: Path, protocol: object, dataset: dict[str, object], metric: str, answers: set[str]
) -> None:
    paths = {key: str(folder / str(dataset[key])) for key in ("instances", "images", "source") if key in dataset}
    spec = {
        "karat": 1, "name": "smoke", "protocol": protocol, "limit": 4,
        "models": [{"name": "photovlm.coco", "weights": str(folder / "organism.safetensors")}],
        "datasets": [dataset | paths], "explainers": ["gradient/input_x_gradient", "control/random"],
    }  # fmt: skip
    run(Spec.parse(spec), tmp_path, workers=0)
    scores = load_run(tmp_path).scores()
    own = scores[(scores["metric"] == metric) & (scores["explainer"] == "gradient/input_x_gradient")]
    assert len(own) == 4
    assert own["value"].notna().all(), own["reason"].tolist()
    assert set(own["expected"]) == answers
    assert answers <= set(vocabulary())
