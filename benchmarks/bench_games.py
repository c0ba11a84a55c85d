"""Games against captum and shapiq, ratios in one run, results checked first.

    python benchmarks/bench_games.py

A small CNN (32 px, trained for some seconds on drawn shapes) with 5 x 5 patches as players, black as the absent state,
the probability of the true class as the value. Times are CPU times of this process, one thread.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial

import captum.attr
import numpy as np
import shapiq
import torch
from side_by_side import compared, in_turns, median, size
from torch import Tensor, nn

from karat.probe import Evaluator, Game, ask, interaction_index, interaction_matrix, shapley
from karat.probe.exact import coalitions

PLAYERS = 25
TUNED_ON = 5  # the features of `regression` were chosen while looking at the first five images: these are left out
PLAIN = size(200, 40)  # permutations that captum draws for the variance of plain sampling


def drawn_shapes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images (count, 3, 32, 32) of one large shape among small ones, and the kind (0-3) of the large one."""
    rng = np.random.default_rng(seed)
    images = rng.normal(0, 0.15, (count, 3, 32, 32)).astype(np.float32)
    kinds = rng.integers(0, 4, count)
    y, x = np.mgrid[:32, :32]
    for image, kind in zip(images, kinds, strict=True):
        for large in (False, False, True):
            which, radius = (kind, rng.integers(5, 8)) if large else (rng.integers(0, 4), 3)
            cx, cy = rng.integers(7, 25, 2)
            dx, dy = np.abs(x - cx), np.abs(y - cy)
            masks = (
                dx**2 + dy**2 <= radius**2,
                np.maximum(dx, dy) < radius,
                dx + dy <= radius,
                (np.minimum(dx, dy) <= 1) & (np.maximum(dx, dy) <= radius),
            )
            image[:, masks[which]] = rng.uniform(0.3, 1, (3, 1))
    return torch.from_numpy(images), torch.from_numpy(kinds)


def trained_cnn(steps: int) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 4)),
    )
    images, kinds = drawn_shapes(4000, seed=1)
    optimiser = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(steps):
        rows = torch.randint(0, len(images), (64,))
        loss = nn.functional.cross_entropy(net(images[rows]), kinds[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return nn.Sequential(net, nn.Softmax(dim=1)).eval()


@dataclass(frozen=True)
class Case:
    model: nn.Module
    image: Tensor  # (3, 32, 32)
    kind: int
    patches: Tensor  # (32, 32) player of each pixel

    def value(self, visual_keep: np.ndarray, _text_keep: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            keep = torch.from_numpy(np.ascontiguousarray(visual_keep)).float()
            mask = keep[:, self.patches.flatten()].reshape(-1, 1, 32, 32)
            return self.model(self.image * mask)[:, self.kind].double().numpy()

    @property
    def game(self) -> Game:
        return Game(self.value, PLAYERS)

    def captum(self, n_samples: int) -> np.ndarray:
        """Shapley values (25,) by captum as it is called by default."""
        with torch.inference_mode():
            sampler = captum.attr.ShapleyValueSampling(self.model)
            result = sampler.attribute(
                self.image[None], target=self.kind, feature_mask=self.patches[None, None], n_samples=n_samples
            )
        first = torch.tensor([int((self.patches.flatten() == player).nonzero()[0]) for player in range(PLAYERS)])
        return result[0, 0].flatten()[first].double().numpy()


def equal_error(case: Case, budgets: list[int], seeds: int) -> None:
    """Passes at equal standard error: ours against plain permutation sampling, one captum permutation at a time."""
    torch.manual_seed(1)
    plain = np.stack([case.captum(n_samples=1) for _ in range(PLAIN)])
    plain_error = plain.std(axis=0, ddof=1) / np.sqrt(PLAIN)
    for budget in budgets:
        for method in ("permutation", "stratified", "kernelshap", "regression"):
            runs = [shapley(case.game, budget, method, rng=seed) for seed in range(seeds)]
            values = np.stack([run.values for run in runs])
            variance = values.var(axis=0, ddof=1)
            claimed = np.mean([run.standard_error**2 for run in runs], axis=0)
            needed = PLAYERS * plain.var(axis=0, ddof=1).mean() / variance.mean()  # passes of plain sampling
            z = (values.mean(axis=0) - plain.mean(axis=0)) / np.hypot(plain_error, np.sqrt(variance / seeds))
            ratio = runs[0].passes / needed
            print(
                f"  {method:12s} {runs[0].passes:5d} passes  rms error {np.sqrt(variance.mean()):.5f} "
                f"(claimed {np.sqrt(claimed.mean()):.5f})  plain needs {needed:7.0f}, ratio {ratio:.3f}"
                f"  against captum: z rms {np.sqrt((z**2).mean()):.2f}, largest {np.abs(z).max():.1f}"
            )


def against_captum_by_default(case: Case) -> None:
    samples = 25  # captum's default
    passes = samples * PLAYERS
    torch.manual_seed(2)
    others = np.stack([case.captum(samples) for _ in range(8)])
    spread = others.std(axis=0, ddof=1)
    batches = [coalitions(PLAYERS, 64 * k, 64 * k + 64) for k in range(passes // 64)]
    budgets = (passes, passes // 3)
    agree = {}
    for budget in budgets:
        own = np.stack([shapley(case.game, budget, rng=seed).values for seed in range(8)])
        z = (own.mean(axis=0) - others.mean(axis=0)) / np.sqrt((own.var(axis=0, ddof=1) + spread**2) / 8)
        far = float(np.sqrt((z**2).mean()))
        assert far < 2, f"departs from captum by {far:.1f} standard errors"
        agree[budget] = f"means of 8 runs differ by {far:.1f} standard errors"
    captums, forwards, *mine = in_turns(
        lambda: case.captum(samples),
        lambda: [case.game.value(batch) for batch in batches],
        *(partial(shapley, case.game, budget) for budget in budgets),
    )
    theirs, raw = median(captums), median(forwards) * passes / (64 * len(batches))
    print(
        f"  captum by default: {passes} passes, {theirs:.3f} s ({theirs / raw:.1f}x the raw batched forward), "
        f"rms error {np.sqrt((spread**2).mean()):.4f}"
    )
    for budget, taken in zip(budgets, mine, strict=True):
        ours = median(taken)
        spread = np.stack([shapley(case.game, budget, rng=seed).values for seed in range(8)]).std(axis=0, ddof=1)
        error = np.sqrt((spread**2).mean())
        print(f"  ours: {budget} passes, {ours:.3f} s, {theirs / ours:.1f}x faster, rms error {error:.4f}")
        compared(f"Shapley values, 25 players, {budget} passes", "captum by default", taken, captums, agree[budget])


def evaluator_throughput(case: Case) -> None:
    keep = np.random.default_rng(0).random((4096, PLAYERS)) < 0.5
    keep = np.unique(keep, axis=0)
    rounds = []
    for _ in range(7):
        evaluator = Evaluator.of(case.game, batch_size=64)
        start = time.process_time()
        raw = np.concatenate([case.game.value(keep[k : k + 64]) for k in range(0, len(keep), 64)])
        middle = time.process_time()
        [values] = evaluator.run([(0, ask(keep))])
        rounds.append((middle - start, time.process_time() - middle))
        np.testing.assert_allclose(values, raw, atol=1e-5)
    direct, through = np.median(rounds, axis=0)
    plain, with_evaluator = zip(*rounds, strict=True)
    compared("coalitions through the evaluator", "raw forwards", with_evaluator, plain, "values within 1e-5", "≥ 0.9")
    print(
        f"  raw {len(keep) / direct:.0f}/s, through the evaluator {len(keep) / through:.0f}/s: {direct / through:.1%}"
    )
    free = Game(lambda visual, text: visual[:, 0], PLAYERS)
    [taken] = in_turns(lambda: Evaluator.of(free, batch_size=64).run([(0, ask(keep))]))
    overhead = median(taken) / len(keep)
    print(f"  overhead {overhead * 1e6:.2f} us per coalition ({direct / len(keep) * 1e6:.0f} us per forward)")


def against_shapiq() -> None:
    """All Shapley values and all pairs, which is what shapiq computes; then what one pair alone costs us."""
    table = np.random.default_rng(0).normal(size=2**8)
    powers = 1 << np.arange(8)
    game = Game(lambda visual, text: table[np.concatenate([visual, text], axis=1) @ powers], 1, 7)
    upper = np.triu_indices(8, 1)

    def theirs() -> np.ndarray:
        computer = shapiq.ExactComputer(lambda keep: table[np.atleast_2d(keep) @ powers], 8)
        interactions = computer("SII", 2)
        return np.concatenate([interactions.get_n_order_values(1), interactions.get_n_order_values(2)[upper]])

    def all_pairs() -> np.ndarray:
        return np.concatenate([shapley(game).values, interaction_matrix(game, range(8), range(8)).values[upper]])

    def one_pair() -> float:
        return float(interaction_index(game, 0, 1))

    difference = float(np.abs(theirs() - all_pairs()).max())
    assert difference < 1e-10, difference
    single = float(abs(theirs()[8] - one_pair()))
    assert single < 1e-10, single
    others, mine, mine_single = in_turns(theirs, all_pairs, one_pair, rounds=15)
    for what, taken, apart in (
        ("exact Shapley values and all pairwise interactions, 8 players", mine, difference),
        ("exact interaction of one pair, 8 players (shapiq computes all pairs)", mine_single, single),
    ):
        slow, fast = median(others), median(taken)
        print(f"  {what}: equal to {apart:.1e}; shapiq {slow * 1e3:.2f} ms, ours {fast * 1e3:.2f} ms: "
              f"{slow / fast:.0f}x faster")  # fmt: skip
        compared(what, "shapiq", taken, others, f"equal to {apart:.0e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=size(3, 1))
    parser.add_argument("--seeds", type=int, default=size(30, 4))
    parser.add_argument("--budgets", type=int, nargs="+", default=size([402, 802], [402]))
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = trained_cnn(steps=size(500, 150))
    images, kinds = drawn_shapes(400, seed=2)
    with torch.inference_mode():
        right = model(images).argmax(dim=1) == kinds
    print(f"CNN: accuracy {right.float().mean():.2f}")
    side = torch.arange(32) * 5 // 32
    patches = side[:, None] * 5 + side
    chosen = right.nonzero().flatten()[TUNED_ON : TUNED_ON + options.images].tolist()
    cases = [Case(model, images[k], int(kinds[k]), patches) for k in chosen]
    print("Exact interaction index of an 8-player game, without the model's time")
    against_shapiq()
    print("Evaluator")
    evaluator_throughput(cases[0])
    print("Shapley values of 25 players, time")
    against_captum_by_default(cases[0])
    for number, case in enumerate(cases):
        print(f"Shapley values of 25 players, passes at equal standard error, image {TUNED_ON + number}")
        equal_error(case, options.budgets, options.seeds)


if __name__ == "__main__":
    main()
