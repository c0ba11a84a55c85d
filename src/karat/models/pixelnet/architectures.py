"""Classifiers of pixelrules2024 by name: timm's own definitions at any image size, and small ones for two CPU cores.

| name         | what                                                                | paper                 |
|--------------|---------------------------------------------------------------------|-----------------------|
| vgg16        | VGG-16 with batch norm, pooled to the image's size                  | VGG-16                |
| resnet18/50  | 3×3 stem without pooling up to 64 px, timm's own stem above         | ResNet-18, ResNet-50  |
| vit          | 8 × 8 patches on small images, 7 blocks of 256; ViT-B/16 at 224 px  | ViT-C, ViT-B          |
| swin         | windows of 4 on small images; Swin-B at 224 px                      | SwinT-C, SwinT-B      |
| *-small      | the same idea with a few hundred thousand weights                   | -                     |

The paper's customised ViT-C and SwinT-C are described in a supplement that is not public; these are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from karat.kernel.errors import BadInput, ExtraMissing, UnknownName

if TYPE_CHECKING:
    from torch import nn

SMALL_IMAGE = 64  # up to here a stem that halves the image twice would leave too little of it


def _vgg(side: int, classes: int, small: bool) -> Any:
    from timm.layers.classifier import ClassifierHead
    from timm.models.vgg import VGG, ConvMlp
    from torch import nn

    narrow: list[int | str] = [16, 16, "M", 32, 32, "M", 64, 64, "M", 96, 96]
    full: list[int | str] = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]
    cfg = narrow if small else full
    module: Any = VGG(cfg, num_classes=classes, norm_layer=nn.BatchNorm2d)
    left = side // 2 ** cfg.count("M")
    if small or left < 7:  # timm's head reads 7×7 cells; on small images it reads all there are
        hidden = 128 if small else 512
        module.pre_logits = ConvMlp(module.num_features, hidden, max(1, min(7, left)))
        module.head = ClassifierHead(hidden, classes)
    return module


def _resnet(side: int, classes: int, depth: int) -> Any:
    from timm.models.resnet import BasicBlock, Bottleneck, ResNet
    from torch import nn

    block: Any = Bottleneck if depth == 50 else BasicBlock
    module: Any = ResNet(block, (3, 4, 6, 3) if depth == 50 else (2, 2, 2, 2), num_classes=classes)
    if side <= SMALL_IMAGE:  # He et al. 2016 section 4.2: on CIFAR the stem keeps the size
        module.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        module.maxpool = nn.Identity()
        nn.init.kaiming_normal_(module.conv1.weight, mode="fan_out", nonlinearity="relu")
    return module


def _small_resnet(classes: int, depth: int) -> Any:
    from karat.models.pixelnet.small_resnet import resnet20, resnet_small

    return resnet20(classes) if depth == 20 else resnet_small(classes)


def _vit(side: int, classes: int, small: bool) -> Any:
    from timm.models.vision_transformer import VisionTransformer

    patch = 4 if side <= SMALL_IMAGE else 16
    shape: dict[str, Any]
    if small:
        shape = {"embed_dim": 64, "depth": 4, "num_heads": 4, "mlp_ratio": 2.0}
    elif side <= SMALL_IMAGE:
        shape = {"embed_dim": 256, "depth": 7, "num_heads": 8, "mlp_ratio": 2.0}
    else:
        shape = {"embed_dim": 768, "depth": 12, "num_heads": 12}
    return VisionTransformer(img_size=side, patch_size=patch, num_classes=classes, **shape)


def _swin(side: int, classes: int, small: bool) -> Any:
    from timm.models.swin_transformer import SwinTransformer

    if side > SMALL_IMAGE and not small:
        return SwinTransformer(
            img_size=side, num_classes=classes, embed_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32)
        )
    patch = 2 if side <= SMALL_IMAGE else 4
    shape: dict[str, Any] = (
        {"embed_dim": 32, "depths": (2, 2), "num_heads": (2, 4)}
        if small
        else {"embed_dim": 96, "depths": (2, 4, 2), "num_heads": (3, 6, 12)}
    )
    return SwinTransformer(img_size=side, patch_size=patch, window_size=4, num_classes=classes, **shape)


_BUILDERS: dict[str, Callable[[int, int], Any]] = {
    "vgg16": lambda side, classes: _vgg(side, classes, small=False),
    "vgg-small": lambda side, classes: _vgg(side, classes, small=True),
    "resnet18": lambda side, classes: _resnet(side, classes, 18),
    "resnet50": lambda side, classes: _resnet(side, classes, 50),
    "resnet20": lambda side, classes: _small_resnet(classes, 20),
    "resnet-small": lambda side, classes: _small_resnet(classes, 10),
    "vit": lambda side, classes: _vit(side, classes, small=False),
    "vit-small": lambda side, classes: _vit(side, classes, small=True),
    "swin": lambda side, classes: _swin(side, classes, small=False),
    "swin-small": lambda side, classes: _swin(side, classes, small=True),
}
ARCHITECTURES = tuple(_BUILDERS)
Network = Literal["VGG", "ResNet", "ViT", "SwinT"]
NETWORKS: dict[str, Network] = {  # the paper's kind of each
    "vgg16": "VGG", "vgg-small": "VGG", "resnet18": "ResNet", "resnet50": "ResNet", "resnet20": "ResNet",
    "resnet-small": "ResNet", "vit": "ViT", "vit-small": "ViT", "swin": "SwinT", "swin-small": "SwinT",
}  # fmt: skip


def is_transformer(architecture: str) -> bool:
    return NETWORKS[architecture] in ("ViT", "SwinT")


def build_network(architecture: str, side: int, classes: int) -> nn.Module:
    """An untrained network from pixels (n, 3, side, side) to logits (n, classes); seed torch before."""
    if architecture not in _BUILDERS:
        raise UnknownName("architecture", architecture, _BUILDERS)
    if side < 8 or classes < 2:
        raise BadInput(f"images need 8 pixels a side and two classes at least; got {side} and {classes}.")
    try:
        module: nn.Module = _BUILDERS[architecture](side, classes)
    except ImportError as error:
        raise ExtraMissing(f"the network {architecture}", error.name or "timm", "vision") from None
    return module
