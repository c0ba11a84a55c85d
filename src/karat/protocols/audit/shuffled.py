"""Does a metric notice that the weights were shuffled? The oracle then speaks of a model that is no longer there."""

from __future__ import annotations

from collections.abc import Sequence

from karat.kernel.finding import Finding
from karat.models.randomised import intact
from karat.protocols.audit.ladder import ORACLE, RANDOM, Trial
from karat.protocols.audit.trust import FOOLED, sign


def noticed(found: Sequence[Trial]) -> list[Finding]:
    """One finding if the run has a model both whole and shuffled, else none."""
    whole = {(trial.metric, trial.model): trial for trial in found}
    rows, sentences = [], []
    for model in sorted({trial.model for trial in found if intact(trial.model)}):
        seen: dict[bool, list[str]] = {True: [], False: []}
        for trial in found:
            before = whole.get((trial.metric, intact(trial.model) or ""))
            if trial.model != model or before is None or sign(before, ORACLE, RANDOM) != 1:
                continue  # what does not work on the whole model cannot lose its way
            notices = sign(trial, ORACLE, RANDOM) != 1
            seen[notices].append(trial.metric)
            rows.append((trial.metric, model, before.effect, trial.effect, "yes" if notices else "no"))
        if seen[True]:
            sentences.append(f"{model}: noticed by {', '.join(seen[True])}, to which the truth of before is noise now.")
        if seen[False]:
            sentences.append(f"{model}: not noticed by {', '.join(seen[False])}, which prefer the truth of before.")
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
