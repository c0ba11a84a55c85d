"""F_syn beside the exact macro-game index it stands in for, in one run: same samples, same explanations, same answers.

    python benchmarks/bench_synergy.py [--samples 3] [--repeats 3]

Times are CPU seconds of this process, one thread, taken in turns with a fresh session each, so that nothing is
remembered from one to the next; the median is shown. The paper reports a ratio of 24 (281 s to 11 s).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from side_by_side import compared, size, skipped

from karat.kernel.errors import BadInput
from karat.kernel.registry import build
from karat.kernel.sample import Sample
from karat.metrics.synergy import macro_interaction, synergy
from karat.models import load_model
from karat.probe import interaction_index, macro_players
from karat.probe.session import Session
from karat.protocols.synergy import Synergy
from karat.protocols.synergy.explanation import MODALITIES, Explanation, ranking

PAPER = 24
PROTOCOL = Synergy()


def explanations(session: Session, explainer: str) -> list[Explanation]:
    """Orders of one explainer, found beforehand: only asking is timed."""
    built = []
    for i, attribution in enumerate(build("explainer", explainer, {})(session)):
        game = PROTOCOL._game(session, i)
        built.append(Explanation(game, {m: ranking(session, i, game, attribution, m) for m in MODALITIES}))
    return built


def by_synergy(session: Session, explained: Sequence[Explanation]) -> list[float]:
    shape = (PROTOCOL.steps, PROTOCOL.rounding, PROTOCOL.quadrature)
    return [estimate.value for estimate, _ in session.ask([q for one in explained for q in one.synergy(*shape)])]


def by_exact(session: Session, explained: Sequence[Explanation]) -> list[float]:
    questions = [q for i, one in enumerate(explained) for q in one.exact(PROTOCOL.steps, 6, session.rng(i, "bench"))]
    return [estimate.value for estimate, _ in session.ask(questions)]


def check(session: Session, explained: Sequence[Explanation]) -> None:
    """Both against slower ways to the same numbers: the metric on one game, and one step by the general index."""
    one = explained[0]
    assert one.orders is not None
    assert abs(by_synergy(session, explained[:1])[0] - synergy(one.game, *one.orders).value) < 1e-6
    values = macro_interaction(one.game, *one.orders, session.rng(0, "bench"))
    assert abs(by_exact(session, explained[:1])[0] - values.mean()) < 1e-6
    image, text = one.orders
    front = image[: round(0.5 * len(image))].tolist(), (text[: int(0.5 * len(text) + 0.5)] + one.game.n_visual).tolist()
    macro = macro_players(one.game, *front, np.random.default_rng(0), 6)
    general = float(interaction_index(macro, 0, 1))
    assert abs(general - float(interaction_index(macro, 0, 1, method="exact"))) < 1e-9


def seconds(
    fresh: Callable[[], Session], explainer: str, ask: Callable[[Session, Sequence[Explanation]], object]
) -> tuple[float, int]:
    session = fresh()
    explained = explanations(session, explainer)
    made = session.cost.passes.made
    start = time.process_time()
    ask(session, explained)
    return time.process_time() - start, session.cost.passes.made - made


def compare(name: str, samples: Sequence[Sample], explainer: str, repeats: int, **parameters: object) -> None:
    model = load_model(name, **parameters)

    def fresh() -> Session:
        return Session(model, samples)

    session = fresh()
    check(session, explanations(session, explainer))
    cheap, dear = [], []
    for _ in range(repeats):
        cheap.append(seconds(fresh, explainer, by_synergy))
        dear.append(seconds(fresh, explainer, by_exact))
    fast, slow = (float(np.median([spent for spent, _ in times])) for times in (cheap, dear))
    passes = cheap[0][1] / len(samples), dear[0][1] / len(samples)
    print(f"{name}, {explainer}, {len(samples)} samples, K = {PROTOCOL.steps}")
    print(f"  F_syn:  {fast / len(samples):.4f} s and {passes[0]:.0f} passes an explanation")
    print(f"  exact:  {slow / len(samples):.4f} s and {passes[1]:.0f} passes an explanation")
    print(f"  ratio:  {slow / fast:.1f}x in time, {passes[1] / passes[0]:.1f}x in passes (the paper: {PAPER}x)")
    agree = "both equal to slower ways"
    costs = [[spent for spent, _ in times] for times in (cheap, dear)]
    compared(f"F_syn, {name}", "the exact macro-game index", *costs, agree, f"paper: {PAPER}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=size(3, 1))
    parser.add_argument("--repeats", type=int, default=size(3, 1))
    options = parser.parse_args()
    torch.set_num_threads(1)
    from karat.datasets.grid import generate

    samples = generate("D2_M_F0_d0.7", options.samples, seed=0, cell=16)
    compare("gridprog.pure", samples, "attention/rollout", options.repeats, cell=16)
    try:
        compare("gridvlm.pure", samples, "attention/rollout", options.repeats)
    except BadInput as error:
        skipped("F_syn, gridvlm.pure", "the exact macro-game index", str(error))


if __name__ == "__main__":
    main()
