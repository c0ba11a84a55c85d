"""The probe's figures: ratios within one run, results checked equal first.

    python benchmarks/bench_probe.py [--traces 1000]

Models: a timm ViT-tiny (224 px, 12 layers) and a random LLaVA of about a million parameters (96 px, 36 patches).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import timm
import torch
from side_by_side import compared, in_turns, median, size

from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.torch_model import TorchModel
from karat.models.vlm import vlm
from karat.probe import Session, trace
from karat.probe.inputs import take
from tests.models.tiny_llava import make_module, make_processor
from tests.support.probe_worlds import fsyn_coalitions

QUESTION = "how many red circles are left of blue squares?"


def samples(side: int, n: int, text: str | None) -> list[Sample]:
    rng = np.random.default_rng(0)
    return [Sample(f"s{i}", rng.integers(0, 256, (side, side, 3), dtype=np.uint8), text) for i in range(n)]


def resident() -> float:
    """Resident memory in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def throughput(model: TorchModel, samples: list[Sample], targets: list[str], visual: Any, m: int, batch: int) -> None:
    """Coalitions through the evaluator against the same rows, ready made, through the model in batches."""
    session = Session(model, samples, targets, batch_size=batch)
    games = [session.game(i, visual=visual) for i in range(len(samples))]
    masks = [np.random.default_rng(i).random((m, game.n)) < 0.5 for i, game in enumerate(games)]
    masks = [np.unique(keep, axis=0) for keep in masks]
    rows = []
    for game, keep, target in zip(games, masks, targets, strict=True):
        mixed = session.masked_inputs(game)
        texts = mixed.texts(keep[:, game.n_visual :])
        whole = replace(texts, pixels=mixed.pixels(keep[:, : game.n_visual]).contiguous())
        starts = range(0, len(keep) - batch + 1, batch)
        rows += [(take(whole, torch.arange(at, at + batch)), [target] * batch) for at in starts]

    def raw() -> np.ndarray:
        with torch.no_grad():
            return np.concatenate([model.log_probability(*row).exp().numpy() for row in rows])

    def ours() -> np.ndarray:
        fresh = Session(model, samples, targets, batch_size=batch)
        coalitions = [(fresh.game(i, visual=visual), keep) for i, keep in enumerate(masks)]
        return np.concatenate(fresh.evaluate(coalitions))

    assert all(len(keep) % batch == 0 for keep in masks), "whole batches, so that both sides do the same rows"
    np.testing.assert_allclose(ours(), raw(), rtol=1e-3, atol=1e-6)
    count, plain = sum(map(len, masks)), len(rows) * batch
    taken = in_turns(ours, raw)
    each = [[seconds / rows for seconds in turns] for turns, rows in zip(taken, (count, plain), strict=True)]
    compared(f"coalitions, {model.name}", "raw forwards", *each, "values within 1e-3", "≥ 0.9")
    mine, alone = map(median, each)
    print(f"  {model.name}: raw {1 / alone:.0f}/s, evaluator {1 / mine:.0f}/s: {alone / mine:.1%} (aim 90 %)")


def text_only(model: Any, samples: list[Sample]) -> None:
    """512 texts under one image: with the image looked at once, and with it looked at every time."""
    session = Session(model, samples, ["yes"] * len(samples))
    game = session.game(0)
    keep = np.ones((512, game.n), dtype=bool)
    keep[:, game.n_visual :] = np.unpackbits(np.arange(512, dtype=">u2").view(np.uint8).reshape(-1, 2), axis=1)[:, 6:]
    keep = np.unique(keep, axis=0)

    def ours() -> np.ndarray:
        return Session(model, samples, ["yes"] * len(samples)).game(0).value(keep)

    def looking_again() -> np.ndarray:
        mixed = session.masked_inputs(game)
        out = []
        with torch.no_grad():
            for at in range(0, len(keep), 64):
                text = mixed.texts(keep[at : at + 64, game.n_visual :])
                out.append(model.log_probability(text, ["yes"] * len(keep[at : at + 64])).exp().numpy())
        return np.concatenate(out)

    np.testing.assert_allclose(ours(), looking_again(), rtol=1e-3, atol=1e-7)
    inputs = model.encode(samples[:1] * 64)

    def tower() -> object:
        with torch.no_grad():
            return model.reuse_image(inputs)

    def whole() -> object:
        with torch.no_grad():
            return model.log_probability(inputs, ["yes"] * 64)

    vision, forward, reused, again = in_turns(tower, whole, ours, looking_again)
    share, gain = median(vision) / median(forward), median(again) / median(reused)
    print(f"  {model.name}: vision tower {share:.0%} of a forward; {gain:.2f}x (aim 1.5x)")
    what, peer = f"text-only coalitions, {model.name}", "looking at the image every time"
    compared(what, peer, reused, again, "values within 1e-3", "≥ 1.5")


def trajectory(model: Any, samples: list[Sample]) -> None:
    """Passes of F_syn with 11 steps, for three explainers on one sample."""
    session = Session(model, samples, ["yes"] * len(samples))
    game = session.game(0)
    made = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = fsyn_coalitions(rng.permutation(game.n_visual), rng.permutation(game.n_text))
        game.value(rows)
        made.append(session.cost.passes.made)
    more = f"{made[1] - made[0]} and {made[2] - made[1]}"
    print(f"  first explainer {made[0]} (aim 58), then {more} (aim 54); naively {len(rows)}")


def leak(count: int) -> None:
    module = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=4, num_classes=10)
    pixels = torch.rand(8, 3, 64, 64)
    want = {"activations", "gradients", "attention", "attention_gradients"}
    at = {}
    for k in range(count + 1):
        if k in (min(50, count // 4), count // 2, count):
            at[k] = resident()
        with trace(module, pixels, list(range(8)), layers=["blocks.3.norm1", "pixels"], want=want):
            pass
    print("  " + ", ".join(f"after {k}: {mb:.1f} MB" for k, mb in at.items()))


def stopping_early() -> None:
    """A trace at the last layer against a plain forward and full backward."""
    module = timm.create_model("resnet18", num_classes=10).eval()
    pixels = torch.rand(8, 3, 224, 224)

    def ours() -> None:
        with trace(module, pixels, [0] * 8, layers=["layer4"]):
            pass

    def forward() -> None:
        with torch.no_grad():
            module(pixels)

    def full() -> None:
        x = pixels.clone().requires_grad_()
        torch.autograd.grad(module(x)[:, 0].sum(), x)

    traced, plain, whole = map(median, in_turns(ours, forward, full, rounds=3))
    print(f"  ResNet-18, layer4: trace {traced / plain:.2f}x a forward; forward and full backward {whole / plain:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--traces", type=int, default=size(1000, 40))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    vit = classifier(timm.create_model("vit_tiny_patch16_224", num_classes=10), name="ViT-tiny")
    processor = make_processor()
    small = vlm(make_module(processor, vision=(2, 96), decoder=(4, 128), key_value_heads=4), processor, name="LLaVA-1M")
    heavy = vlm(
        make_module(processor, vision=(12, 128), decoder=(3, 96), key_value_heads=4), processor, name="LLaVA, big tower"
    )
    print(f"parameters: LLaVA-1M {sum(p.numel() for p in small.module.parameters()) / 1e6:.2f}M")
    print("evaluator throughput, encoding and absent states included")
    throughput(vit, samples(224, 2, None), ["1"] * 2, "patches", 64, 32)
    throughput(small, samples(96, 4, QUESTION), ["yes"] * 4, "patches", 256, 64)
    print("passes of an F_syn trajectory, K = 11")
    trajectory(small, samples(96, 1, QUESTION))
    print("text-only coalitions, image looked at once against every time")
    text_only(small, samples(96, 1, QUESTION))
    text_only(heavy, samples(96, 1, QUESTION))
    print("a backward that stops where it may")
    stopping_early()
    print("resident memory over traces")
    leak(options.traces)


if __name__ == "__main__":
    main()
