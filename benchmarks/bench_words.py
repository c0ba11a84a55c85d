"""Every word of an answer: ten words against one forward and ten backwards, against one word, and word by word.

    python benchmarks/bench_words.py [gridvlm] [llava]

On gridvlm, and on a LLaVA of 100 million random parameters built from its config. CPU time of one thread, results
compared first. Aims: at most 1.15 × (F + 10 B) for gradients and relevance, F and B being one bare forward and one bare
backward of the same scores; at most 1.2 × one word for explainers that ask.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from side_by_side import compared, in_turns, median, size

from karat.datasets.grid import generate
from karat.explainers.relevance_rules import Propagation
from karat.kernel.registry import build
from karat.kernel.sample import Sample
from karat.kernel.target import Target, split_spoken
from karat.models import load_model
from karat.models.vlm import vlm
from karat.probe.hooks import evaluating, frozen
from karat.probe.inputs import take
from karat.probe.session import Session

LOOKING = {"gradient/gradient": False, "relevance/attnlrp": True}
ASKING: dict[str, dict[str, Any]] = {
    "perturbation/leave_one_out": {"visual": (6, 6)},
    "perturbation/occlusion": {"cells": 7},
}


def models(name: str) -> tuple[Any, Sample, list[Target]]:
    """A model, an image with a question, and ten words that it is made to say."""
    [sample] = generate("D2_M_F0_d0.3", 1, seed=3)
    if name == "gridvlm":
        text = "How many red circles are left of blue square 2"
        loaded = load_model("gridvlm.pure")
    else:
        from tests.models.tiny_llava import make_module, make_processor

        side = size(224, 96)
        processor = make_processor(side=side)
        module = make_module(processor, side=side, vision=size((12, 384), (2, 32)), decoder=size((12, 896), (2, 32)))
        print(f"LLaVA of {sum(p.numel() for p in module.parameters()) / 1e6:.0f} million parameters")
        loaded = vlm(module, processor, "llava")
        sample = Sample("s", sample.image, "how many red circles are there ?")
        text = "twenty one red circles are left of blue squares yes"
    words = [Target(text, span) for span in split_spoken(text)]
    assert len(words) == 10, words
    return loaded, sample, words


def at_once(model: Any, sample: Sample, words: list[Target], name: str, **parameters: Any) -> list[Any]:
    session = Session(model, [sample] * len(words), words)
    made = list(build("explainer", name, parameters)(session))
    session.close()
    return made


def one_by_one(model: Any, sample: Sample, words: list[Target], name: str, **parameters: Any) -> list[Any]:
    return [at_once(model, sample, [word], name, **parameters)[0] for word in words]


def bare(model: Any, sample: Sample, words: list[Target], relevance: bool) -> list[Callable[[], None]]:
    """One forward of all words' scores from pixels, and one backward; under the rules of relevance if asked."""
    inputs = take(model.encode([sample]), torch.zeros(1, dtype=torch.long))
    held: list[Any] = []

    def forward() -> None:
        rules = Propagation(model.module, 1, False, None, model.vision) if relevance else nullcontext()
        with evaluating(model.module), frozen(model.module), rules:
            pixels = inputs.pixels.clone().requires_grad_()
            held[:] = [pixels, model.span_scores(replace(inputs, pixels=pixels), words, False)[0]]

    def backward() -> None:
        torch.autograd.grad(held[1][-1], held[0], retain_graph=True)

    return [forward, backward]


def furthest(ours: list[Any], loop: list[Any]) -> float:
    """How far maps differ at most, as a share of the largest value."""
    pairs = zip(ours, loop, strict=True)
    return max(float(np.abs(a.visual - b.visual).max() / max(np.abs(b.visual).max(), 1e-12)) for a, b in pairs)


def looking(name: str, model: Any, sample: Sample, words: list[Target], explainer: str, relevance: bool) -> None:
    worst = furthest(at_once(model, sample, words, explainer), one_by_one(model, sample, words, explainer))
    forward, backward = bare(model, sample, words, relevance)
    forward()
    taken = in_turns(
        lambda: at_once(model, sample, words, explainer), lambda: one_by_one(model, sample, words, explainer),
        forward, backward, rounds=5, warm=True,
    )  # fmt: skip
    ten, naive, f, b = (median(each) for each in taken)
    print(f"{name}, {explainer}: ten words {ten:.3f} s, F {f:.3f}, B {b:.3f}, {ten / (f + 10 * b):.2f} × (F + 10 B); "
          f"word by word {naive:.3f} s, {naive / ten:.1f} ×; maps differ by {worst:.0e}", flush=True)  # fmt: skip
    bound = [one + 10 * ten for one, ten in zip(taken[2], taken[3], strict=True)]
    what, agree = f"{explainer}, ten words, {name}", f"maps within {worst:.0e}"
    compared(what, "one bare forward, ten backwards", taken[0], bound, agree, "≥ 0.87")
    compared(what, "word by word", taken[0], taken[1], agree)


def asking(name: str, model: Any, sample: Sample, words: list[Target], explainer: str, p: dict[str, Any]) -> None:
    worst = furthest(at_once(model, sample, words, explainer, **p), one_by_one(model, sample, words, explainer, **p))
    taken = in_turns(
        lambda: at_once(model, sample, words, explainer, **p),
        lambda: at_once(model, sample, words[-1:], explainer, **p),
        lambda: one_by_one(model, sample, words, explainer, **p),
        rounds=3, warm=True,
    )  # fmt: skip
    ten, one, naive = (median(each) for each in taken)
    print(f"{name}, {explainer}: ten words {ten:.3f} s, one word {one:.3f} s, {ten / one:.2f} ×; "
          f"word by word {naive:.3f} s, {naive / ten:.1f} ×; maps differ by {worst:.0e}", flush=True)  # fmt: skip
    what, agree = f"{explainer}, ten words, {name}", f"maps within {worst:.0e}"
    compared(what, "one word", taken[0], taken[1], agree, "≥ 0.83")
    compared(what, "word by word", taken[0], taken[2], agree)


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names:
        model, sample, words = models(name)
        for explainer, relevance in LOOKING.items():
            looking(name, model, sample, words, explainer, relevance)
        for explainer, parameters in ASKING.items():
            asking(name, model, sample, words, explainer, parameters)


if __name__ == "__main__":
    main(sys.argv[1:] or ["gridvlm", "llava"])
