"""What can only be said of a whole bucket: rates of the heuristics, balance, and one-sided rules."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from karat.datasets.grid import executor
from karat.datasets.grid.bucket import Bucket
from karat.datasets.grid.executor import Places
from karat.datasets.grid.rules import strength

Value = str | int | float | None


def summary(
    bucket: Bucket, preset: str, mode: str, columns: dict[str, Places], image: list[str], text: list[str]
) -> dict[str, Value]:
    answers = columns["answer"]
    names, numbers = np.unique(answers, return_counts=True)
    top = int(numbers.argmax())
    row: dict[str, Value] = {
        "bucket": bucket.name, "preset": preset, "mode": mode, "n": len(answers),
        "top answer": executor.WORDS.get(int(names[top]), str(names[top])), "prior": float(numbers[top] / len(answers)),
    }  # fmt: skip
    for name in ("bag_of_words", "drop_anchor_1", "drop_anchor_2", "drop_anchor_3", "drop_anchor_4", "majority"):
        row[name] = float((columns[name] == answers).mean()) if name in columns else None
    for kind, rules in (("image only", image), ("text only", text)):
        scores = {rule: strength(columns[rule], answers) for rule in rules}
        best = max(scores, key=lambda rule: scores[rule])
        row[kind], row[f"{kind}: rule"] = scores[best], best
    return row


def bucket_failures(bucket: Bucket, mode: str, row: dict[str, Value], answers: Places) -> Iterable[tuple[str, str]]:
    """What `certified` promises of a bucket. Small audits get the allowance that their size calls for."""
    n = len(answers)
    grain = 4 / n  # answers are dealt in eights, so an incomplete block is off by at most four
    noise = 3 * float(np.sqrt(0.25 / n))
    if bucket.task in ("exist", "compare"):
        yes = float((answers == executor.YES).mean())
        if abs(yes - 0.5) > max(0.01, grain):
            yield "yes and no are balanced", f"{yes:.3f} yes"
        if mode == "pure" and bucket.relational:
            for name in ("bag_of_words", *(f"drop_anchor_{k + 1}" for k in range(bucket.n_anchors))):
                rate = row[name]
                assert isinstance(rate, float)
                if abs(rate - 0.5) > max(0.02, grain):
                    yield f"in pure {name} is at chance", f"{rate:.3f}"
    if bucket.task == "direction":
        for side in (executor.LEFT, executor.RIGHT, executor.ABOVE, executor.BELOW):
            share = float((answers == side).mean())
            if abs(share - 0.25) > max(0.01, grain):
                yield "directions are balanced", f"{executor.WORDS[side]} {share:.3f}"
        rate = row["bag_of_words"]
        if mode == "pure" and isinstance(rate, float) and abs(rate - 0.25) > 0.02 + noise:
            yield "in pure the target's position says nothing", f"{rate:.3f}"
    majority = row["majority"]
    if isinstance(majority, float) and majority > 0.5 + noise:
        yield "the visual majority is right at most half of the time", f"{majority:.3f}"
    prior = row["prior"]
    assert isinstance(prior, float)
    for kind in ("image only", "text only"):
        rate = row[kind]
        # The rule was tested on half of the samples; below some hundreds nothing can be said.
        if mode == "pure" and n >= 400 and isinstance(rate, float) and rate > prior + 0.05 + 2 * noise:
            yield f"no {kind} rule beats chance by 5 %", f"{row[kind + ': rule']}: {rate:.3f} against {prior:.3f}"
