"""The ResNet of He et al. 2016, section 4.2, for images of 32 pixels: what timm and torchvision do not have.

Keys of the weights are those of the well-known CIFAR-10 checkpoints (`conv1`, `layer1.0.conv1`, ..., `linear`), so that
ResNet-20 and ResNet-56 load as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut without weights: every other pixel, padded with empty channels (option A)."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.act1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.act2 = nn.ReLU()
        self.stride = stride
        self.more = outside - inside

    def forward(self, x: Tensor) -> Tensor:
        passed = x[:, :, :: self.stride, :: self.stride]
        if self.more:
            passed = F.pad(passed, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        summed: Tensor = self.act2(self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x))))) + passed)
        return summed


class SmallResNet(nn.Module):
    """`blocks` a stage, each stage after the first at half the side; logits (n, classes) from pixels (n, 3, H, W).

    >>> import torch
    >>> SmallResNet((1, 1), (8, 16), classes=3)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 3])
    """

    def __init__(self, blocks: Sequence[int], widths: Sequence[int], classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.act1 = nn.ReLU()
        self.stages = [f"layer{s}" for s in range(1, len(blocks) + 1)]
        inside = widths[0]
        for name, count, width in zip(self.stages, blocks, widths, strict=True):
            first = Block(inside, width, stride=1 if name == "layer1" else 2)
            self.add_module(name, nn.Sequential(first, *(Block(width, width, 1) for _ in range(count - 1))))
            inside = width
        self.linear = nn.Linear(inside, classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(part.weight)

    def forward(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.act1(self.bn1(self.conv1(pixels)))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


def resnet20(classes: int = 10) -> SmallResNet:
    return SmallResNet((3, 3, 3), (16, 32, 64), classes)


def resnet_small(classes: int = 10) -> SmallResNet:
    """Four stages of one block: every place of the last map sees the whole of a 32-pixel image, and so where it is."""
    return SmallResNet((1, 1, 1, 1), (16, 32, 64, 96), classes)
