"""Attention and relevance explainers: time and memory as ratios to one plain forward and backward, in one run.

    python benchmarks/bench_attention.py [--memory-only | --time-only]

Models: timm's ViT-small (224 px, batch 4) and an untrained gridvlm (a LLaVA of about a million parameters, batch 16);
for memory a decoder of the same kind on a context of 2,000 tokens. Five explainers: rollout, grad_rollout, gar,
generic, attnlrp. The plain pass is the model's own with fused attention, down to pixels and words; "frozen" leaves out
the gradients of the parameters, which no explainer needs. All but attnlrp are checked against whole matrices first.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import timm
import torch
from side_by_side import compared, in_turns, median, resident, size

from karat.explainers.attention import Gar, Generic, GradRollout, Rollout
from karat.explainers.relevance import AttnLrp
from karat.kernel.sample import Sample
from karat.models.classifier import classifier
from karat.models.vlm import vlm
from karat.probe import Session, trace
from tests.models.tiny_llava import make_module, make_processor
from tests.twins import attention_rules as rules

FIVE: tuple[Any, ...] = (Rollout(), GradRollout(), Gar(), Generic(), AttnLrp())
QUESTION = "how many red circles are left of blue squares ?"


def vit() -> tuple[Any, list[Sample], list[str]]:
    torch.manual_seed(0)
    model = classifier(timm.create_model("vit_small_patch16_224", num_classes=10))
    rng = np.random.default_rng(0)
    samples = [Sample(f"s{i}", rng.integers(0, 256, (224, 224, 3), dtype=np.uint8)) for i in range(4)]
    return model, samples, ["1", "2", "3", "4"]


def tiny_vlm() -> tuple[Any, list[Sample], list[str]]:
    from karat.models.gridvlm.build import make_model
    from karat.models.gridvlm.build import make_processor as grid_processor

    torch.manual_seed(0)
    model = vlm(make_model().eval(), grid_processor(), name="gridvlm")
    rng = np.random.default_rng(0)
    texts = [QUESTION.replace("?", "and above green square ?" if i % 2 else "?") for i in range(16)]
    samples = [Sample(f"s{i}", rng.integers(0, 256, (384, 384, 3), dtype=np.uint8), t) for i, t in enumerate(texts)]
    return model, samples, ["3"] * 16


def long_vlm(side: int) -> tuple[Any, list[Sample], list[str]]:
    """A LLaVA whose image alone is (side / 4)² tokens."""
    processor = make_processor(side=side, patch=4)
    module = make_module(processor, side=side, patch=4, vision=(2, 96), decoder=(5, 128), key_value_heads=4)
    rng = np.random.default_rng(0)
    samples = [Sample("long", rng.integers(0, 256, (side, side, 3), dtype=np.uint8), QUESTION)]
    return vlm(module, processor, name="long"), samples, ["3"]


def plain(session: Session, frozen: bool) -> None:
    """The model's own forward and backward of the same scores."""
    model = session.torch_model
    for parameter in model.module.parameters():
        parameter.requires_grad_(not frozen)
        parameter.grad = None
    inputs = session.inputs
    pixels = inputs.pixels.detach().clone().requires_grad_()
    model.readout(replace(inputs, pixels=pixels), session.targets).sum().backward()
    for parameter in model.module.parameters():
        parameter.requires_grad_(True)
        parameter.grad = None


def fresh(model: Any, samples: list[Sample], targets: list[str], inputs: Any) -> Session:
    """A session that knows nothing but its encoded inputs, which both sides have for nothing."""
    session = Session(model, samples, targets)
    session.__dict__["inputs"] = inputs
    return session


def explain(session: Session, chosen: tuple[Any, ...] = FIVE) -> list[Any]:
    session.expect(chosen)
    attributions = [explainer(session) for explainer in chosen]
    session.close()
    return attributions


def check(model: Any, samples: list[Sample], targets: list[str]) -> dict[str, str]:
    """How the results of each were found to agree: the first sample of the batch against whole matrices, alone."""
    session = Session(model, samples, targets)
    with trace(model, samples[:1], targets[:1], want={"attention", "attention_gradients"}) as recorded:
        attention = [maps[0].double().numpy() for maps in recorded.attention.values()]
        gradients = [maps[0].double().numpy() for maps in recorded.attention_gradients.values()]
        layout = recorded.layout
    assert layout is not None
    where = list(layout.visual or ())
    fused = [
        rules.thin(matrix, (weights > 0).any(0), Gar().discard_ratio, layout.readout)
        for matrix, weights in zip(rules.gradient_fused(attention, gradients), attention, strict=True)
    ]
    chefer = rules.chefer(attention, gradients)
    twins = {
        "attention/rollout": rules.rollout([a.mean(0) for a in attention]),
        "attention/grad_rollout": chefer,
        "attention/gar": rules.rollout(fused),
        "attention/generic": chefer,
    }
    agree = {}
    for explainer, attributions in zip(FIVE, explain(session), strict=True):
        name = explainer.card.name
        agree[name] = "not compared"  # attnlrp: only its rules have a twin, not a model of this size
        if name in twins:
            expected = twins[name][layout.readout][where]
            close = 1e-4 * np.abs(expected).max()
            np.testing.assert_allclose(attributions[0].visual.ravel(), expected, rtol=1e-3, atol=close)
            agree[name] = "equal to whole matrices"
    return {**agree, "all five": f"{len(twins)} equal to whole matrices, attnlrp not compared"}


def report_time(name: str, made: tuple[Any, list[Sample], list[str]], repeats: int) -> None:
    agree = check(*made)
    inputs = Session(*made).inputs
    runs: dict[str, Callable[[], object]] = {
        "plain": lambda: plain(fresh(*made, inputs), frozen=False),
        "plain, frozen": lambda: plain(fresh(*made, inputs), frozen=True),
        "all five": lambda: explain(fresh(*made, inputs)),
    }
    for explainer in FIVE:
        runs[explainer.card.name] = lambda explainer=explainer: explain(fresh(*made, inputs), (explainer,))
    taken = dict(zip(runs, in_turns(*runs.values(), rounds=repeats), strict=True))
    whole, frozen = median(taken["plain"]), median(taken["plain, frozen"])
    print(f"{name}: plain forward and backward {whole * 1e3:.0f} ms, frozen {frozen * 1e3:.0f} ms")
    peer = "one plain forward and backward"
    for run, seconds in taken.items():
        if not run.startswith("plain"):
            print(f"  {run:24} {median(seconds) / whole:5.2f}× plain, {median(seconds) / frozen:5.2f}× frozen")
            compared(f"{run}, {name}", peer, seconds, taken["plain"], agree[run])


def peak(what: str, side: int, queue: Any) -> None:
    """Highest resident memory above what the process held before, in MB, in a process of its own."""
    torch.set_num_threads(1)
    made = long_vlm(side)
    inputs = Session(*made).inputs
    small = long_vlm(32)
    plain(Session(*small), frozen=True)  # whatever is loaded on first use
    explain(Session(*small))
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the highest so far
    before = resident("VmRSS")
    if what.startswith("plain"):
        plain(fresh(*made, inputs), frozen=what.endswith("frozen"))
    else:
        explain(fresh(*made, inputs), FIVE if what == "all five" else tuple(e for e in FIVE if e.card.name == what))
    queue.put((resident("VmHWM") - before, inputs.other["before"].shape[1]))


def report_memory(side: int) -> None:
    # Freed tensors go back to the system at once; otherwise holes in the heap are counted, by chance.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = os.environ["MALLOC_TRIM_THRESHOLD_"] = "65536"
    context = multiprocessing.get_context("spawn")
    peaks: dict[str, float] = {}
    length = 0
    for what in ("plain", "plain, frozen", "all five", *(e.card.name for e in size(FIVE, ()))):
        queue = context.Queue()
        process = context.Process(target=peak, args=(what, side, queue))
        process.start()
        peaks[what], length = queue.get()
        process.join()
    print(f"memory, context of {length} tokens before the question (five layers, four heads, width 128):")
    whole, frozen = peaks["plain"], peaks["plain, frozen"]
    for what, used in peaks.items():
        print(f"  {what:24} {used:7.1f} MB, {used / whole:4.2f}× plain, {used / frozen:4.2f}× frozen")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-only", action="store_true")
    parser.add_argument("--memory-only", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.memory_only:
        report_time("gridvlm, batch 16", tiny_vlm(), options.repeats)
        report_time("ViT-small, batch 4", vit(), options.repeats)
    if not options.time_only:
        report_memory(size(180, 60))  # 45 × 45 = 2,025 visual tokens


if __name__ == "__main__":
    main()
