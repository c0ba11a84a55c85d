"""Detectors: answers with boxes, targets by overlap, gradients that reach the backbone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import karat
from karat.kernel.errors import BadInput, UnknownName
from karat.kernel.sample import Sample
from karat.models.detections import NOTHING, Detection, box_of, detect, iou, label_of
from karat.models.detector import detector
from karat.models.detector_recipe import DetectorRecipe
from karat.models.preprocessing import Preprocessing
from karat.models.torch_model import TorchModel
from karat.probe.trace import trace

LABELS = ("background", "cat", "dog")


class Planted(nn.Module):
    """As torchvision's: the cat is on the left with the mean of the left half as score, the dog on the right."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.ModuleDict({"features": nn.Sequential(nn.Conv2d(3, 1, 1, bias=False))})
        nn.init.constant_(self.backbone["features"][0].weight, 1 / 3)  # type: ignore[index, arg-type]

    def forward(self, images: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        found = []
        for seen in self.backbone["features"](torch.stack(images))[:, 0]:
            half = seen.shape[1] // 2
            scores = torch.stack([seen[:, :half].mean(), seen[:, half:].mean()])
            boxes = torch.tensor([[0.0, 0, half, seen.shape[0]], [half, 0, seen.shape[1], seen.shape[0]]])
            keep = scores > 0.01
            found.append({"boxes": boxes[keep], "labels": torch.tensor([1, 2])[keep], "scores": scores[keep]})
        return found


def sample(left: int, right: int) -> Sample:
    image = np.zeros((16, 32, 3), dtype=np.uint8)
    image[:, :16], image[:, 16:] = left, right
    return Sample(f"{left}-{right}", image)


@pytest.fixture
def model() -> Any:
    return detector(Planted(), Preprocessing((16, 16), (0, 0, 0), (1, 1, 1)), LABELS, name="planted")


def test_answers_are_detections_best_first(model: Any) -> None:
    samples = [sample(204, 51), sample(0, 0)]
    ranking = model.ranking(samples, 3)
    assert [answer for answer, _ in ranking[0]] == ["cat @ 0,0,500,1000", "dog @ 500,0,1000,1000"]
    np.testing.assert_allclose([score for _, score in ranking[0]], [0.8, 0.2], atol=0.05)
    assert ranking[1] == []
    assert model.answer(samples) == ["cat @ 0,0,500,1000", NOTHING]
    np.testing.assert_allclose(model.score(samples, ["cat @ 0,0,500,1000", NOTHING]), [0.8, 0], atol=0.05)
    assert isinstance(model, TorchModel)


def test_a_target_is_the_same_class_at_the_same_place(model: Any) -> None:
    one = [sample(204, 102)]
    at_home, elsewhere = "cat @ 0,0,480,1000", "cat @ 500,0,1000,1000"
    assert model.score(one, [at_home])[0] == pytest.approx(model.score(one, ["cat"])[0])
    assert model.score(one, [elsewhere])[0] == 0  # a cat, but not there
    inputs = model.encode(one)
    assert (
        float(model.readout(inputs, [elsewhere]).detach()) > 0.5
    )  # the paper's target takes the best overlap, however small
    with pytest.raises(UnknownName, match="bird"):
        model.score(one, ["bird"])
    with pytest.raises(BadInput, match="left,top,right,bottom"):
        model.score(one, ["cat @ here"])


def test_gradients_reach_the_backbone_at_the_place_of_the_box(model: Any) -> None:
    samples = [sample(204, 102), sample(0, 0)]
    assert model.layers == {"vision.last": "backbone.features.0"}
    with trace(model, samples, ["cat @ 0,0,500,1000", NOTHING], ["vision.last"]) as seen:
        slopes = seen.gradients["vision.last"]
    assert (slopes[0, 0, :, :8] > 0).all()
    assert (slopes[0, 0, :, 8:] == 0).all()
    assert (slopes[1] == 0).all()  # nothing was found: a zero with a gradient, not an error


def test_overlap_by_hand() -> None:
    boxes = torch.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 6]])
    torch.testing.assert_close(iou(boxes, torch.tensor([0.0, 0, 2, 2])), torch.tensor([1, 1 / 7, 0]))
    found = Detection("dog", 0.5, (0.1234, 0.0, 0.5, 1.0))
    assert found.answer == "dog @ 123,0,500,1000"
    assert box_of(found.answer) == (0.123, 0.0, 0.5, 1.0)
    assert label_of(found.answer) == "dog"


@pytest.mark.parametrize("kind", ["yolos", "conditional"])
def test_queries_of_transformers_with_and_without_a_class_for_nothing(kind: str) -> None:
    """YOLOS has a class for "nothing" (softmax), Conditional DETR has none (sigmoid)."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    names = {0: "cat", 1: "dog"}
    if kind == "yolos":
        config = transformers.YolosConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=[32, 32],
            patch_size=8, num_detection_tokens=5, id2label=names, label2id={v: k for k, v in names.items()},
        )  # fmt: skip
        module = transformers.YolosForObjectDetection(config)
    else:
        backbone = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], out_features=["stage2"], layer_type="basic"
        )
        config = transformers.ConditionalDetrConfig(
            use_timm_backbone=False, backbone_config=backbone, backbone=None, use_pretrained_backbone=False, d_model=16,
            encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=5, id2label=names,
            label2id={v: k for k, v in names.items()},
        )  # fmt: skip
        module = transformers.ConditionalDetrForObjectDetection(config)
    model = detector(module, Preprocessing((32, 32)))
    assert model.labels == ("cat", "dog")
    pixels = model.encode([sample(200, 10)]).pixels
    [found] = detect(module, pixels)
    output = module(pixel_values=pixels)
    expected = output.logits.softmax(-1)[..., :-1] if kind == "yolos" else output.logits.sigmoid()
    assert output.logits.shape[-1] == (3 if kind == "yolos" else 2)
    torch.testing.assert_close(found.scores, expected[0].max(-1).values)
    centre = (found.boxes[:, :2] + found.boxes[:, 2:]) / 2
    torch.testing.assert_close(centre, output.pred_boxes[0, :, :2])  # none lies over the border here
    best = model.answer([sample(200, 10)])[0]
    assert model.score([sample(200, 10)], [best])[0] == pytest.approx(float(found.scores.detach().max()), rel=1e-4)


def queries(kind: str) -> Any:
    """A tiny detector of transformers with queries, by its real class, weights at random."""
    import transformers

    names = {0: "cat", 1: "dog"}
    stages = ["stage2", "stage3", "stage4"] if kind in ("rt_detr", "deformable") else ["stage4"]
    backbone = {"embedding_size": 8, "hidden_sizes": [8, 8, 8, 16], "depths": [1] * 4, "layer_type": "basic"}
    shared = {"id2label": names, "label2id": {name: k for k, name in names.items()}, "num_queries": 5, "d_model": 32}
    torch.manual_seed(0)
    if kind == "rt_detr":
        config = transformers.RTDetrConfig(
            backbone_config=transformers.RTDetrResNetConfig(**backbone, out_features=stages), encoder_hidden_dim=32,
            encoder_in_channels=[8, 8, 16], encoder_ffn_dim=16, encoder_attention_heads=2, decoder_layers=1,
            decoder_in_channels=[32] * 3, decoder_ffn_dim=16, decoder_attention_heads=2, num_denoising=0, **shared,
        )  # fmt: skip
        return transformers.RTDetrForObjectDetection(config)
    shared |= {
        "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "use_pretrained_backbone": False,
    }  # fmt: skip
    if kind == "detr of timm":  # as facebook/detr-resnet-50 is stored
        return transformers.DetrForObjectDetection(
            transformers.DetrConfig(use_timm_backbone=True, backbone="resnet10t", **shared)
        )
    config_class, module_class = {
        "detr": (transformers.DetrConfig, transformers.DetrForObjectDetection),
        "deformable": (transformers.DeformableDetrConfig, transformers.DeformableDetrForObjectDetection),
        "conditional": (transformers.ConditionalDetrConfig, transformers.ConditionalDetrForObjectDetection),
    }[kind]
    own = transformers.ResNetConfig(**backbone, out_features=stages)
    return module_class(config_class(use_timm_backbone=False, backbone=None, backbone_config=own, **shared))


@pytest.mark.parametrize("kind", ["detr", "detr of timm", "deformable", "conditional", "rt_detr"])
def test_the_detr_family_has_a_layer_for_cams(kind: str) -> None:
    pytest.importorskip("transformers")
    model = detector(queries(kind), Preprocessing((128, 128)))
    rng = np.random.default_rng(0)
    shown = Sample("noise", rng.integers(0, 256, (128, 128, 3), dtype=np.uint8))
    assert model.layers["vision.last"].endswith("layer4" if kind == "detr of timm" else "stages.3")
    best = model.ranking([shown], 5)[0]
    assert len(best) == 5
    assert {label_of(answer) for answer, _ in best} <= {"cat", "dog"}
    attribution = karat.explain(model, shown, explainer="cam/gradcam")
    assert attribution.visual is not None
    assert attribution.visual.shape == (4, 4)
    assert np.isfinite(attribution.visual).all()


@pytest.mark.parametrize(
    ("name", "side", "grid"),
    [
        ("fcos_resnet50_fpn", 64, (2, 2)), ("retinanet_resnet50_fpn", 64, (2, 2)),
        ("fasterrcnn_resnet50_fpn", 64, (2, 2)), ("ssd300_vgg16", 300, (38, 38)),
        ("ssdlite320_mobilenet_v3_large", 320, (10, 10)),
    ],
)  # fmt: skip
def test_every_detector_of_the_paper_explains_what_it_found(name: str, side: int, grid: tuple[int, int]) -> None:
    """At random, with every detection let through: scores have gradients at the backbone's last stage."""
    model = DetectorRecipe(f"torchvision:{name}", size=64).load()
    module: Any = model.module
    module.transform.min_size = (side,)  # 800 px would take seconds
    for part in (module, getattr(module, "roi_heads", None)):
        if hasattr(part, "score_thresh"):
            part.score_thresh = 0.0
    rng = np.random.default_rng(0)
    shown = Sample("noise", rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    best = model.answer([shown])[0]
    assert label_of(best) in model.labels
    with trace(model, [shown], [best], ["vision.last"]) as seen:
        assert seen.gradients["vision.last"].shape[-2:] == grid
        # SSDLite finds small things on a map before its last stage: those have no gradient there
        assert float(seen.gradients["vision.last"].abs().max()) > 0 or name.startswith("ssdlite")


def test_recipe_of_a_real_architecture() -> None:
    """SSDLite at random: its own labels, the right layer, a CAM over it."""
    recipe = DetectorRecipe("torchvision:ssdlite320_mobilenet_v3_large", layer="backbone.features.1")
    model = recipe.load()
    assert model.capabilities == recipe.capabilities
    assert model.labels[1] == "person"
    described = "the whole image at 224×224, by itself resized to 320×320, mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5"
    assert recipe.sees() == described
    assert "to 800×800, mean 0.485, 0.456, 0.406" in DetectorRecipe().sees()  # none of the two is the other's
    shown = sample(200, 10)
    attribution = karat.explain(model, shown, explainer="cam/eigencam")
    assert attribution.visual is not None
    assert attribution.visual.shape == (10, 10)
    with pytest.raises(UnknownName, match="fcos_resnet50_fpn"):
        DetectorRecipe("torchvision:fcos").load()
    with pytest.raises(BadInput, match="torchvision:NAME or transformers:ID"):
        DetectorRecipe("fcos").load()


def test_a_module_that_is_no_detector_is_told() -> None:
    model = detector(nn.Conv2d(3, 2, 1), labels=LABELS)
    with pytest.raises((BadInput, TypeError)):
        model.answer([sample(1, 2)])
