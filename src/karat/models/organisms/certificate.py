"""The certificate of one sample: which changes of its cues changed the answer of this model, here.

[certificate] = certify(model, [sample])
certificate.flipped[frozenset({"tag"})], certificate.reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from karat.datasets.cues.rules import Rule, find_rule
from karat.datasets.cues.sample import CueSample
from karat.datasets.cues.world import CUES, IMAGE_CUES
from karat.kernel.answers import Reading, read_answer
from karat.kernel.errors import BadInput
from karat.kernel.roles import Model

Cues = frozenset[str]


@dataclass(frozen=True)
class Certificate:
    """`answer` is what the model said, `expected` what its rule says here (None: nothing). `flipped` says, for every
    cue and every pair of the rule's cues that are there, whether turning them round changed the answer."""

    rule: str
    answer: str
    expected: str | None
    flipped: Mapping[Cues, bool]
    reason: str  # why the sample says nothing about the rule; empty where the model followed its table in all of this

    @property
    def follows(self) -> bool:
        return not self.reason


def certify(model: Model, samples: Sequence[CueSample], rule: str | Rule | None = None) -> list[Certificate]:
    """One certificate a sample. `rule` is what the model is said to follow (default: its `mechanism`).

    Costs an answer for the sample and one for every change: about eight a sample.
    """
    table = rule_of(model, rule)
    jobs = [changes(sample, table, model) for sample in samples]
    trials = [sample for sample, some in zip(samples, jobs, strict=True) for sample in (sample, *_turned(sample, some))]
    answers = iter(ask(model, trials))
    made = []
    for sample, some in zip(samples, jobs, strict=True):
        answer = next(answers)
        flipped = {cues: next(answers) != answer for cues in some}
        made.append(
            Certificate(table.name, answer, sample.expected(table), flipped, _reason(sample, table, answer, flipped))
        )
    return made


def rule_of(model: Model, rule: str | Rule | None) -> Rule:
    named = rule if rule is not None else model.mechanism
    if named is None:
        raise BadInput(f"{model.name} does not say which rule it follows; give `rule`.")
    return find_rule(named)


def reads_text(model: Model) -> bool:
    return "text" in model.capabilities


def ask(model: Model, samples: Sequence[CueSample], at_once: int = 64) -> list[str]:
    """What the model answers, read as "yes" or "no"; what is neither stays as it was said."""
    texts: list[str] = []
    for start in range(0, len(samples), at_once):
        texts += model.answer(samples[start : start + at_once])
    readings = [(text, read_answer(text, sample.choices)) for text, sample in zip(texts, samples, strict=True)]
    return [reading.answer if isinstance(reading, Reading) else text for text, reading in readings]


def changes(sample: CueSample, rule: Rule, model: Model) -> list[Cues]:
    """Every cue that is there and that the model can see, then every pair of the rule's."""
    visible = CUES if reads_text(model) else IMAGE_CUES
    present = [cue for cue in visible if sample.votes[cue] is not None]
    pairs = combinations([cue for cue in rule.cues if cue in present], 2)
    return [*(frozenset({cue}) for cue in present), *map(frozenset, pairs)]


def _turned(sample: CueSample, some: Sequence[Cues]) -> list[CueSample]:
    return [sample.turned(*sorted(cues)) for cues in some]


def _reason(sample: CueSample, rule: Rule, answer: str, flipped: Mapping[Cues, bool]) -> str:
    expected = sample.expected(rule)
    if expected is None:
        return f"the rule {rule.name} says nothing here"
    if answer != expected:
        return f"answers {answer!r} where its rule {rule.name} says {expected!r}"
    for cues, moved in flipped.items():
        if moved != rule.flips(sample.votes, cues):
            does = "changed" if moved else "kept"
            return f"{does} its answer when {' and '.join(sorted(cues))} turned round, against its rule {rule.name}"
    return ""
