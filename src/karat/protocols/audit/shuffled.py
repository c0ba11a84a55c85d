"""Does a metric notice that the weights were shuffled? The oracle then speaks of a model that is no longer there."""

from __future__ import annotations

from collections.abc import Sequence

from karat.kernel.finding import Finding
from karat.protocols.audit.ladder import RANDOM, Trial
from karat.protocols.audit.trust import FOOLED, sign
from karat.protocols.common.controls import ORACLE


def noticed(trials: Sequence[Trial]) -> list[Finding]:
    """One finding if the run has a model both whole and shuffled, else none."""
    whole = {(trial.metric, trial.model): trial for trial in trials}
    rows, sentences = [], []
    for model in sorted({trial.model for trial in trials if trial.whole is not None}):
        metrics: dict[bool, list[str]] = {True: [], False: []}
        for trial in trials:
            before = whole.get((trial.metric, trial.whole or ""))
            if trial.model != model or before is None or sign(before, ORACLE, RANDOM) != 1:
                continue  # what does not work on the whole model cannot lose its way
            notices = sign(trial, ORACLE, RANDOM) != 1
            metrics[notices].append(trial.metric)
            rows.append((trial.metric, model, before.effect, trial.effect, "yes" if notices else "no"))
        if metrics[True]:
            sentences.append(
                f"{model}: noticed by {', '.join(metrics[True])}, to which the truth of before is noise now."
            )
        if metrics[False]:
            sentences.append(f"{model}: not noticed by {', '.join(metrics[False])}, which prefer the truth of before.")
    if not rows:
        return []
    return [
        Finding(
            title="Does it notice that the weights were shuffled?",
            about="How far the truth about the whole model stands above noise, in standard deviations, on that model "
            "and on the same with shuffled weights, of which it is no longer true. A metric that still prefers it has "
            "not looked at the model; or too little was shuffled for the answers to change.",
            sentences=tuple(sentences), columns=("metric", "shuffled", "whole", "after", "notices"), rows=tuple(rows),
            section=FOOLED,
        )
    ]  # fmt: skip
