"""The layer that CAMs read by default, family by family, beside the layer that its authors or other CAM tools read.

The tensors are compared, not the names: `layer4` and `layer4.1` hand on the same map.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from karat.models.cam_layer import LEAST, CamLayer, cam_layer
from karat.models.classifier import classifier

GRAD_CAM = "pytorch-grad-cam, README"
KERAS = "keras.io, Grad-CAM: the last activation of the family"
SEMSCORE = "semscore2025, released code"
NAMED = "the last activation before pooling, by the architecture's definition"
SIDE = 96
LARGER = {"inception_v3": 128, "inception_resnet_v2": 128}  # smaller, their last map is a single cell
FAMILIES = {  # family: (timm model, reference layer, who reads it)
    "ResNet": ("resnet18", "layer4.1", GRAD_CAM),
    "ResNeXt": ("resnext26ts", "final_conv", NAMED),
    "SE-ResNet": ("legacy_seresnet18", "layer4.1", GRAD_CAM),
    "ResNet v2": ("resnetv2_50", "norm", f"{KERAS} (post_relu)"),
    "Res2Net": ("res2net50_26w_4s", "layer4.2", GRAD_CAM),
    "ResNeSt": ("resnest14d", "layer4.0", GRAD_CAM),
    "RegNet": ("regnetx_002", "s4", f"{KERAS} (the last ReLU)"),
    "VGG": ("vgg11_bn", "features.28", GRAD_CAM),
    "DenseNet": ("densenet121", "features.norm5", f"{KERAS} (relu)"),
    "Inception v3": ("inception_v3", "Mixed_7c", f"{KERAS} (mixed10)"),
    "Inception-ResNet": ("inception_resnet_v2", "conv2d_7b", f"{KERAS} (conv_7b_ac)"),
    "Xception": ("legacy_xception", "act4", f"{KERAS} (block14_sepconv2_act)"),
    "MobileNet v2": ("mobilenetv2_100", "bn2", f"{KERAS} (out_relu)"),
    "MobileNet v3": ("mobilenetv3_small_100", "blocks.5.0", f"{KERAS} (the last hard swish before pooling)"),
    "MobileNet v4": ("mobilenetv4_conv_small", "blocks.4.0", NAMED),
    "MNASNet": ("mnasnet_100", "bn2", GRAD_CAM),
    "EfficientNet": ("efficientnet_b0", "bn2", f"{KERAS} (top_activation)"),
    "EfficientNet-Lite": ("tf_efficientnet_lite0", "bn2", f"{KERAS} (top_activation)"),
    "EfficientNet v2": ("tf_efficientnetv2_b0", "bn2", f"{KERAS} (top_activation)"),
    "MixNet": ("mixnet_s", "bn2", NAMED),
    "GhostNet": ("ghostnet_100", "blocks.9", NAMED),
    "TinyNet": ("tinynet_e", "bn2", NAMED),
    "RepVGG": ("repvgg_a0", "stages.3", NAMED),
    "DLA": ("dla34", "level5", NAMED),
    "VoVNet": ("ese_vovnet19b_dw", "stages.3", NAMED),
    "CSPNet": ("cspresnet50", "stages.3", NAMED),
    "NF-ResNet": ("nf_resnet26", "final_act", NAMED),
    "MobileViT": ("mobilevit_xxs", "final_conv", NAMED),
}
TOKENS = {  # transformers have no activated map: the norm that their users read
    "ViT": ("vit_tiny_patch16_224", "blocks.11.norm1", GRAD_CAM),
    "DeiT": ("deit_tiny_patch16_224", "blocks.11.norm1", SEMSCORE),
    "ConViT": ("convit_tiny", "blocks.11.norm1", SEMSCORE),
    "Swin": ("swin_tiny_patch4_window7_224", "layers.3.blocks.1.norm2", SEMSCORE),
    "Hiera": ("hiera_tiny_224", "blocks.11.norm2", SEMSCORE),
    "PVT v2": ("pvt_v2_b0", "stages.3.blocks.1.norm2", SEMSCORE),
}
SIGNED = {"ConvNeXt": ("convnext_atto", "stages.3"), "PoolFormer": ("poolformer_s12", "stages.3")}


TABLE = Path(__file__).parents[2] / "docs" / "recorded" / "layers.csv"


def table() -> list[list[str]]:
    """What the docs show: family, model, layer, whether an activation made it, who reads it."""
    rows = [[family, *FAMILIES[family][:2], "yes", FAMILIES[family][2]] for family in FAMILIES]
    rows += [[family, *TOKENS[family][:2], "no: a norm", TOKENS[family][2]] for family in TOKENS]
    return rows + [[family, *SIGNED[family], "no: signed", "the last map"] for family in SIGNED]


def test_the_docs_show_the_tested_table() -> None:
    with TABLE.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1:] == table()
    assert len(table()) >= 25


def built(name: str) -> nn.Module:
    torch.manual_seed(0)
    narrow = {"mlp_ratio": 0.02} if name.startswith("vgg") else {}  # its large linear layers play no part here
    module: nn.Module = timm.create_model(name, num_classes=7, **narrow)
    return module.eval()


def outputs(module: nn.Module, names: set[str], side: int = SIDE) -> dict[str, Tensor]:
    """What some parts hand on in one forward, copied before anything changes it in place."""
    made: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        return lambda part, given, output: made.__setitem__(name, output.clone())

    handles = [module.get_submodule(name).register_forward_hook(keep(name)) for name in names]
    with torch.no_grad():
        module(torch.rand(1, 3, side, side))
    for handle in handles:
        handle.remove()
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_is_the_activated_map_that_others_read(family: str) -> None:
    name, reference, _ = FAMILIES[family]
    module, side = built(name), LARGER.get(name, SIDE)
    chosen = cam_layer(module, (side, side))
    assert chosen is not None
    assert chosen.activated
    made = outputs(module, {chosen.name, reference}, side)
    torch.testing.assert_close(made[chosen.name], made[reference])
    assert float(made[chosen.name].min()) >= LEAST


@pytest.mark.parametrize("family", TOKENS)
def test_transformers_keep_the_norm_that_their_users_read(family: str) -> None:
    name, reference, _ = TOKENS[family]
    chosen = cam_layer(built(name), (224, 224))
    assert chosen is not None
    assert chosen.name == reference
    assert not chosen.activated
    assert chosen.negative == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("family", SIGNED)
def test_a_network_without_an_activated_map_says_that_its_layer_is_signed(family: str) -> None:
    name, reference = SIGNED[family]
    module = built(name)
    chosen = cam_layer(module, (SIDE, SIDE))
    assert chosen is not None
    made = outputs(module, {chosen.name, reference})
    torch.testing.assert_close(made[chosen.name], made[reference])
    assert not chosen.activated
    assert chosen.negative > 0.3


def test_a_linear_bottleneck_is_not_the_default() -> None:
    """timm calls `blocks.6` the last stage of EfficientNet: half of it is negative, and it is not the last map."""
    module = built("tf_efficientnet_lite0")
    stage = outputs(module, {"blocks.6"})["blocks.6"]
    assert float((stage < 0).float().mean()) > 0.3
    chosen = cam_layer(module, (SIDE, SIDE))
    assert chosen == CamLayer("bn2", activated=True, negative=0.0)


def test_a_fully_convolutional_classifier_is_read_before_its_class_maps() -> None:
    torch.manual_seed(0)
    module = torchvision.models.squeezenet1_1(weights=None, num_classes=7).eval()
    chosen = cam_layer(module, (SIDE, SIDE))
    assert chosen is not None
    assert chosen.name in ("features", "classifier.0")  # the latter is the dropout of the former
    assert chosen.activated


class Picky(nn.Module):
    """Takes no plain image."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 4, 3)

    def forward(self, pixels: Tensor, question: Tensor) -> Tensor:
        return pixels


def test_a_module_that_cannot_be_run_is_read_by_its_names() -> None:
    chosen = cam_layer(Picky())
    assert chosen is not None
    assert chosen.name == "features"
    assert chosen.negative != chosen.negative  # nobody has measured it


def modes(module: nn.Module) -> Iterator[bool]:
    return (part.training for part in module.modules())


def test_looking_changes_nothing() -> None:
    module = built("resnet18")
    module.train()
    module.layer4.eval()  # type: ignore[operator]
    before, weights = list(modes(module)), {k: v.clone() for k, v in module.state_dict().items()}
    cam_layer(module, (SIDE, SIDE))
    assert list(modes(module)) == before
    assert all(torch.equal(v, weights[k]) for k, v in module.state_dict().items())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def test_a_classifier_reads_it_unless_told_otherwise() -> None:
    module = built("tf_efficientnet_lite0")
    assert classifier(module).layers["vision.last"] == "bn2"
    assert classifier(module, layer="blocks.6").layers["vision.last"] == "blocks.6"
