"""The three tasks end to end: classification, detection and matching with class prompts, on tiny models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from semantic_worlds import Scenes
from tiny_vlms import make_clip
from torch import nn

from karat.explainers.attention import Daam, Gar, Rollout
from karat.explainers.cam import EigenCam, GradCam
from karat.models import classifier, clip, detector
from karat.models.preprocessing import Preprocessing
from karat.probe.session import Session
from karat.protocols.semantic import Semantic

LABELS = ("cat", "dog", "lion")


def scored(protocol: Semantic, model: Any, explainer: Any, scenes: Scenes) -> Any:
    samples = scenes.load(0, len(scenes))
    session = Session(model, samples, protocol.targets)
    return session, protocol.score(session, explainer(session))


def test_classification_explains_every_class_that_is_there() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)
    )
    model = classifier(module, Preprocessing((16, 32)), LABELS, layer="1")
    session, found = scored(Semantic(threshold=0.0), model, EigenCam(), Scenes(2, predictions=2))
    assert session.targets[:3] == ("cat", "dog", "cat")
    probabilities = dict(model.ranking(session.samples[:1], 3)[0])
    np.testing.assert_allclose(found["confidence"].values[:2], [probabilities["cat"], probabilities["dog"]], rtol=1e-5)
    assert np.isfinite(found["sss"].values[:3]).all()


@pytest.mark.parametrize("explainer", [Daam(), Gar(), Rollout()], ids=lambda one: one.card.name)
@pytest.mark.parametrize("library", ["timm", "torchvision", "transformers"])
def test_attention_maps_of_vits(library: str, explainer: Any) -> None:
    """The paper's table 4: patches of 8 px over the image, class by class where the method knows classes."""
    model = classifier(tiny_vit(library), Preprocessing((32, 32)), LABELS)
    session, found = scored(Semantic(threshold=0.0), model, explainer, Scenes(2, predictions=2))
    maps = [attribution.visual for attribution in explainer(session)]
    assert all(map_ is not None and map_.shape == (4, 4) for map_ in maps)
    assert np.isfinite(found["sss"].values[:3]).all()
    same = np.allclose(maps[0], maps[1])  # cat and dog of one image
    assert same == (explainer.card.name == "attention/rollout")


def tiny_vit(library: str) -> nn.Module:
    torch.manual_seed(0)
    if library == "timm":
        import timm

        sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 3}
        module: nn.Module = timm.create_model("vit_tiny_patch16_224", **sizes)
        return module
    if library == "torchvision":
        from torchvision.models import VisionTransformer

        vit = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=3)
        nn.init.normal_(vit.heads[0].weight)  # zero by default: no class would differ from another
        return vit
    import transformers

    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8,
        num_labels=3, attn_implementation="eager",
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


@pytest.mark.parametrize("kind", ["clip", "siglip", "open_clip"])
def test_matching_ranks_the_labels_of_the_image(kind: str) -> None:
    model = clip(*make_clip(kind), labels=LABELS)
    session, found = scored(Semantic(threshold=0.0, target="present"), model, GradCam(), Scenes(1, predictions=2))
    confidence = found["confidence"].values
    np.testing.assert_allclose(confidence.sum(), 1, rtol=1e-6)  # a softmax over the image's own labels
    assert confidence[0] >= confidence[1]
    logits = model.logits(model.encode(session.samples[:1]), list(session.targets))[0].detach()
    np.testing.assert_allclose(confidence, logits.softmax(-1).numpy(), rtol=1e-4)
    assert set(session.targets) == {"cat", "dog"}


class TwoBoxes(nn.Module):
    """A cat on the left that it is sure of, and a dog elsewhere that it hardly is."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.ModuleDict({"features": nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU())})

    def forward(self, images: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        seen = self.backbone["features"](torch.stack(images)).mean((1, 2, 3)) * 0
        box = torch.tensor([[0.0, 0.0, 12.0, 16.0], [20.0, 0.0, 32.0, 16.0]])
        scores = torch.tensor([0.9, 0.02])
        return [{"boxes": box, "labels": torch.tensor([0, 1]), "scores": scores + zero} for zero in seen]


def test_detection_keeps_what_is_sure_enough() -> None:
    model = detector(TwoBoxes(), Preprocessing((16, 32), (0, 0, 0), (1, 1, 1)), LABELS)
    session, found = scored(Semantic(threshold=0.0, target="predicted"), model, EigenCam(), Scenes(1, predictions=3))
    assert session.targets[0] == "cat @ 0,0,375,1000"
    assert found["confidence"].values[0] == pytest.approx(0.9)
    assert found["correct"].values[0] == 1
    assert "0.02 is not above 0.04" in found["sss"].not_applicable[1]
    assert "only 2 to choose from" in found["sss"].not_applicable[2]
    assert np.isfinite(found["sss"].values[0])
