"""Small samples, models and games that tests of the probe share."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache

import numpy as np
import torch
from torch import nn

from karat.kernel.sample import Phrase, Region, Sample
from karat.models.classifier import Classifier, classifier
from karat.models.preprocessing import Preprocessing
from karat.probe.exact import coalitions
from karat.probe.games import Game

TEXTS = ["how many red circles are left of blue squares?", "are there any green squares, red circles?"]


def samples(side: int = 24, texts: bool = False) -> list[Sample]:
    """Two samples with two regions each, with or without a question."""
    rng = np.random.default_rng(0)
    return [
        Sample(
            f"s{i}",
            rng.integers(0, 256, (6, 6, 3), dtype=np.uint8).repeat(side // 6, 0).repeat(side // 6, 1),
            text=TEXTS[i] if texts else None,
            regions=(Region("a", "target", ((2, 2, 8, 8),)), Region("b", "anchor", ((6, 6, 8, 8),))),
            phrases=(Phrase((0, 8), "header"),) if texts else (),
        )
        for i in range(2)
    ]


def fsyn_coalitions(visual: np.ndarray, text: np.ndarray, steps: int = 11) -> np.ndarray:
    """fsyn2026: the joint masks of one trajectory, as they come: 2 ends, and 6 for each of the steps."""
    rows = [np.ones(len(visual) + len(text), bool), np.zeros(len(visual) + len(text), bool)]
    for step in range(steps):
        tops = []
        for order in (visual, text):
            top = np.zeros(len(order), bool)
            top[order[: int(step / (steps - 1) * len(order) + 0.5)]] = True
            tops.append(top)
        (v, t), every, none = tops, np.ones, np.zeros
        full, empty = (every(len(v), bool), every(len(t), bool)), (none(len(v), bool), none(len(t), bool))
        pairs = [(~v, ~t), (~v, full[1]), (full[0], ~t), (v, t), (v, empty[1]), (empty[0], t)]
        rows += [np.concatenate(pair) for pair in pairs]
    return np.array(rows)


@cache
def saturated(n: int) -> np.ndarray:
    """A few strong players behind a squashing function, as a classifier has them; interactions of every order."""
    rng = np.random.default_rng(5)
    w = rng.normal(size=n) * np.where(np.arange(n) < 4, 2.0, 0.3)
    keep = coalitions(n)
    return np.asarray(1 / (1 + np.exp(1 - keep @ w - 1.5 * keep[:, 0] * keep[:, 1] + 2 * keep[:, 2] * keep[:, 5])))


@cache
def noise(n: int) -> np.ndarray:
    """No structure whatever: the worst that can come."""
    return np.random.default_rng(6).normal(size=2**n)


def game_of(values: np.ndarray, n_visual: int | None = None) -> Game:
    """The game of a table of 2^n values."""
    n = len(values).bit_length() - 1
    n_visual = n if n_visual is None else n_visual
    powers = 1 << np.arange(n)
    return Game(lambda v, t: values[np.concatenate([v, t], axis=1) @ powers], n_visual, n - n_visual)


def small_cnn(inplace: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        OrderedDict(
            stem=nn.Conv2d(3, 4, 3, padding=1),
            norm=nn.BatchNorm2d(4),
            relu=nn.ReLU(inplace=inplace),
            body=nn.Conv2d(4, 6, 3, stride=2, padding=1),
            act=nn.ReLU(inplace=inplace),
            drop=nn.Dropout(0.5),
            pool=nn.AdaptiveAvgPool2d(1),
            flat=nn.Flatten(),
            head=nn.Linear(6, 5),
        )
    )


def hooks_on(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())


def cnn_classifier() -> Classifier:
    """A convolutional network on 24 × 24 pixels with four classes."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 25, 4)
    )
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return classifier(module, Preprocessing((24, 24)))


def random_masks(game: Game, m: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((m, game.n)) < 0.5
