"""Explainers that ask: throughput against raw forwards and captum, MultiSHAP against a pairwise loop, errors.

    python benchmarks/bench_asking.py [throughput] [pairs] [error]

Ratios within one run, CPU time of one thread, results checked first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import captum.attr
import numpy as np
import shapiq
import torch
from PIL import Image
from side_by_side import compared, in_turns, median, size
from torch import Tensor, nn
from torchvision.models import resnet18

from karat.datasets.grid.generate import generate
from karat.explainers.interaction import MultiShap
from karat.explainers.perturbation import Lime, Occlusion, Rise
from karat.explainers.shapley import KernelShap
from karat.kernel.sample import Sample
from karat.models import load_model
from karat.models.classifier import classifier
from karat.models.preprocessing import Preprocessing
from karat.probe import Absence, Game, Session, shapley
from karat.probe.estimators import kernelshap, permutation, regression
from karat.probe.evaluator import Evaluator
from karat.probe.exact import coalitions, shapley_interactions, shapley_values

BATCH = 64


def small_cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 10)),
    )


def pictures(side: int, count: int, text: str | None = None) -> list[Sample]:
    """Smooth random pictures: superpixels need something to hold on to."""
    rng = np.random.default_rng(0)
    coarse = torch.from_numpy(rng.random((count, 3, 8, 8))).float()
    smooth = nn.functional.interpolate(coarse, size=(side, side), mode="bicubic").clamp(0, 1)
    images = (smooth.permute(0, 2, 3, 1).numpy() * 255).astype(np.uint8)
    return [Sample(f"p{i}", image, text) for i, image in enumerate(images)]


def throughput(name: str, module: nn.Module, side: int, passes: int, count: int, repeats: int) -> None:
    """Everything an explainer does, encoding and superpixels included, against its forwards alone."""
    model = classifier(module.eval(), Preprocessing((side, side)), labels=[str(k) for k in range(10)], name=name)
    assert model.layers  # found by a forward of its own, once a model
    samples = pictures(side, count)
    targets = ["3"] * count
    explainers: list[Any] = [
        Occlusion(),
        Rise(masks=passes, word_masks=0),
        Lime(budget=passes),
        KernelShap(visual=(5, 5), budget=passes, absence="black"),
    ]
    batches: list[Tensor] = []

    def raw() -> None:
        with torch.no_grad():
            for rows in batches:
                module(rows).log_softmax(1)

    for explainer in explainers:
        made = Session(model, samples, targets, batch_size=BATCH)
        batches.clear()
        hook = module.register_forward_pre_hook(lambda _, inputs: batches.append(inputs[0].contiguous().clone()))
        explainer(made)
        hook.remove()
        rows = made.cost.passes.made
        assert sum(map(len, batches)) == rows

        def ours(explainer: Any = explainer) -> None:
            explainer(Session(model, samples, targets, batch_size=BATCH))

        mine, alone = in_turns(ours, raw, rounds=repeats)
        ratio = median(mine) / median(alone)
        print(f"  {name} {explainer.card.name}: {rows} passes, {ratio:.3f}x raw (aim 1.10)", flush=True)
        compared(f"{explainer.card.name}, {name}", "raw forwards", mine, alone, "same rows put to the model", "≥ 0.91")
    if side == 32:
        _captum(module, model.encode(samples[:1]).pixels, passes, repeats)


def _captum(module: nn.Module, pixels: Tensor, passes: int, repeats: int) -> None:
    """captum as called by default, one image, against as many forwards in batches of 64."""
    labels = torch.arange(25).reshape(5, 5).repeat_interleave(7, 0).repeat_interleave(7, 1)[:32, :32]
    shap, lime, occlusion = captum.attr.KernelShap(module), captum.attr.Lime(module), captum.attr.Occlusion(module)
    options = {"target": 3, "feature_mask": labels[None, None].expand(1, 3, 32, 32), "n_samples": passes}
    runs = {
        "occlusion": lambda: occlusion.attribute(pixels, (3, 6, 6), strides=(3, 2, 2), target=3),
        "lime": lambda: lime.attribute(pixels, **options),
        "kernel_shap": lambda: shap.attribute(pixels, **options),
    }
    for name, run in runs.items():
        batches: list[Tensor] = []
        hook = module.register_forward_pre_hook(lambda _, inputs, batches=batches: batches.append(inputs[0].clone()))
        with torch.no_grad():
            run()
        hook.remove()
        rows = torch.cat(batches)

        def raw(rows: Tensor = rows) -> None:
            for part in rows.split(BATCH):
                module(part).log_softmax(1)

        with torch.no_grad():
            theirs, alone = in_turns(run, raw, rounds=repeats)
        ratio = median(theirs) / median(alone)
        print(f"  captum {name} by default: {len(rows)} passes, {ratio:.2f}x raw", flush=True)


def pairwise_loop(session: Session, pairs: list[tuple[int, int]], samples: int, absence: Absence) -> np.ndarray:
    """MultiSHAP as a loop over pairs and samples, four single forwards each: a baseline of the published structure.

    For each pair: contexts of random size without the pair, v(S+p+t) - v(S+p) - v(S+t) + v(S). (pairs, samples).
    """
    game = session.game(0, absence=absence, value="logit")
    model = session.torch_model
    rng = np.random.default_rng(0)
    setting = game.setting

    def value(keep: np.ndarray) -> float:
        [altered] = setting.altered(keep[None, : game.n_visual], keep[None, game.n_visual :])
        with torch.no_grad():
            return float(model.readout(model.encode([altered]), [setting.target])[0])

    indices = np.empty((len(pairs), samples))
    for row, (patch, word) in enumerate(pairs):
        others = [k for k in range(game.n) if k not in (patch, game.n_visual + word)]
        for k in range(samples):
            context = np.zeros(game.n, dtype=bool)
            context[rng.choice(others, rng.integers(0, len(others) + 1), replace=False)] = True
            both, with_patch, with_word = context.copy(), context.copy(), context.copy()
            both[[patch, game.n_visual + word]] = True
            with_patch[patch] = True
            with_word[game.n_visual + word] = True
            indices[row, k] = value(both) - value(with_patch) - value(with_word) + value(context)
    return indices


def pairs() -> None:
    model = load_model("gridvlm.pure")
    sample = next(s for s in generate("D1_M_F1_d0.3", 20, seed=0) if len(s.words) == 12)
    # at the size the model sees, so that both sides see the same pixels
    sample = replace(sample, image=np.array(Image.fromarray(sample.image).resize((96, 96), Image.Resampling.BILINEAR)))
    absence = Absence("grey", "delete")
    explainer = MultiShap(budget=2000)

    def fresh() -> Session:
        return Session(model, [sample], batch_size=BATCH)

    session = fresh()
    [attribution] = explainer(session)
    game = session.game(0, absence=absence, value="logit")
    print(f"  gridvlm: {game.n_visual} patches x {game.n_text} words, {session.cost.passes.made} coalitions")
    rng = np.random.default_rng(1)
    keep = rng.random((4, game.n)) < 0.5
    altered = [game.setting.altered(row[None, : game.n_visual], row[None, game.n_visual :]) for row in keep]
    with torch.no_grad():
        by_one = [float(model.readout(model.encode(x), session.targets)[0]) for x in altered]
    np.testing.assert_allclose(game.value(keep), by_one, rtol=1e-3, atol=1e-3)
    some = [(int(rng.integers(game.n_visual)), int(rng.integers(game.n_text))) for _ in range(25)]
    took, loop = in_turns(lambda: explainer(fresh()), lambda: pairwise_loop(fresh(), some, 1, absence), rounds=2)
    mine, per_pass = median(took), median(loop) / (4 * len(some))
    print(f"  {mine:.2f} s for all pairs; the loop {1000 * per_pass:.1f} ms a coalition")
    whole = [seconds / (4 * len(some)) * float(attribution.passes) for seconds in loop]
    agree = f"values of {len(keep)} coalitions within 1e-3, indices not compared"
    compared("MultiSHAP, coalition for coalition", "a loop over pairs", took, whole, agree)
    print(f"  coalition for coalition: {per_pass * attribution.passes / mine:.1f}x")
    contexts = int(attribution.passes) // ((1 + game.n_visual) * (1 + game.n_text))
    same = game.n_visual * game.n_text * 4 * contexts
    print(
        f"  the same {contexts} contexts for every pair, {same:,} in the loop: {per_pass * same / mine:.0f}x (aim 10x)"
    )
    published = game.n_visual * game.n_text * 4 * 128
    print(
        f"  at the published 128 samples a pair, {published:,} coalitions: {per_pass * published / mine:.0f}x by rate"
    )


def errors() -> None:
    """Mean squared error at equal budget on games with known values: a squashed sum with pairs, eight draws of it."""
    n, seeds = 12, size(10, 1)
    powers, keep = 1 << np.arange(n), coalitions(n)
    tables = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        strong = rng.normal(size=n) * np.where(np.arange(n) < 4, 2.0, 0.3)
        score = keep @ strong - 1 + 1.5 * keep[:, 0] * keep[:, n - 1] - 2 * keep[:, 2] * keep[:, n - 2]
        tables.append(1 / (1 + np.exp(-score)))

    def mean_error(
        estimate: Callable[[np.ndarray, int], np.ndarray], truth: Callable[[np.ndarray], np.ndarray]
    ) -> float:
        return float(
            np.mean([((estimate(table, seed) - truth(table)) ** 2).mean() for table in tables for seed in range(seeds)])
        )

    def theirs(kind: Any, budget: int) -> Callable[[np.ndarray, int], np.ndarray]:
        def run(table: np.ndarray, seed: int) -> np.ndarray:
            result = kind(n, random_state=seed).approximate(
                budget, lambda rows: table[np.atleast_2d(rows).astype(bool) @ powers]
            )
            return np.array([result[(i,)] for i in range(n)])

        return run

    def ours(method: Any, budget: int) -> Callable[[np.ndarray, int], np.ndarray]:
        def run(table: np.ndarray, seed: int) -> np.ndarray:
            game = Game(lambda visual, text: table[visual @ powers], n)
            [estimate] = Evaluator.of(game, budget=budget).run([(0, method(n, budget, np.random.default_rng(seed)))])
            return estimate.values

        return run

    print("  Shapley values, mean squared error over that of shapiq's permutation sampling")
    for budget in (150, 400, 1000):
        base = mean_error(theirs(shapiq.PermutationSamplingSV, budget), shapley_values)
        row = {
            f"ours/{m.__name__}": mean_error(ours(m, budget), shapley_values)
            for m in (permutation, kernelshap, regression)
        }
        for kind in (shapiq.KernelSHAP, shapiq.SVARM, shapiq.UnbiasedKernelSHAP, shapiq.StratifiedSamplingSV):
            row[f"shapiq/{kind.__name__}"] = mean_error(theirs(kind, budget), shapley_values)
        print(f"  budget {budget}: " + ", ".join(f"{name} {value / base:.3f}" for name, value in row.items()))
    assert np.allclose(shapley(Game(lambda v, t: tables[0][v @ powers], n)).values, shapley_values(tables[0]))

    print("  pair interactions (8 x 4), mean squared error over that of shapiq's permutation sampling")
    from karat.explainers.interaction.estimators import pair_regression

    def pair_truth(table: np.ndarray) -> np.ndarray:
        return shapley_interactions(table)[:8, 8:]

    def our_pairs(budget: int) -> Callable[[np.ndarray, int], np.ndarray]:
        def run(table: np.ndarray, seed: int) -> np.ndarray:
            game = Game(lambda visual, text: table[np.concatenate([visual, text], 1) @ powers], 8, 4)
            question = pair_regression(8, 4, budget, np.random.default_rng(seed))
            return Evaluator.of(game, budget=budget).run([(0, question)])[0].values

        return run

    def their_pairs(kind: Any, budget: int) -> Callable[[np.ndarray, int], np.ndarray]:
        def run(table: np.ndarray, seed: int) -> np.ndarray:
            result = kind(n, max_order=2, index="SII", random_state=seed).approximate(
                budget, lambda rows: table[np.atleast_2d(rows).astype(bool) @ powers]
            )
            return np.array([[result[(i, j)] for j in range(8, n)] for i in range(8)])

        return run

    for budget in (400, 1000, 2000):
        base = mean_error(their_pairs(shapiq.PermutationSamplingSII, budget), pair_truth)
        row = {"ours/pair_regression": mean_error(our_pairs(budget), pair_truth)}
        for kind in (shapiq.KernelSHAPIQ, shapiq.SVARMIQ, shapiq.SHAPIQ):
            row[f"shapiq/{kind.__name__}"] = mean_error(their_pairs(kind, budget), pair_truth)
        print(f"  budget {budget}: " + ", ".join(f"{name} {value / base:.4f}" for name, value in row.items()))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    chosen = sys.argv[1:] or ["throughput", "pairs", "error"]
    if "throughput" in chosen:
        print("throughput by default settings, batches of 64")
        throughput("CNN 32 px", small_cnn(), 32, size(512, 160), size(16, 2), 5)  # as many samples as a job has
        throughput("ResNet-18 224 px", resnet18(num_classes=10), 224, 160, 1, size(2, 1))
    if "pairs" in chosen:
        print("MultiSHAP against a loop over pairs")
        pairs()
    if "error" in chosen:
        print("errors at equal budget")
        errors()


if __name__ == "__main__":
    main()
