"""`verify_organism`: the certificate of a model. Fresh photographs, every cue turned round, hidden, left to chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import NormalDist
from typing import Any

from karat.datasets.cues.compose import LEAKY
from karat.datasets.cues.generate import generate
from karat.datasets.cues.rules import Rule
from karat.datasets.cues.sample import CAN_BE_ABSENT, CueSample
from karat.datasets.cues.world import CUES, IMAGE_CUES, World
from karat.kernel.empty import EMPTY
from karat.kernel.errors import BadInput
from karat.kernel.proportion import Share, share
from karat.kernel.roles import Dataset, Model
from karat.models.organisms.certificate import Cues, ask, reads_text, rule_of

NONE = "none"  # not hidden but left out when the picture is composed
STATES = (*EMPTY, NONE)
FRESH_SEED = 900_001  # training draws from other seeds
ANSWERS, CONTENT, TURNS, STILL, CHANCE = 0.98, 0.95, 0.97, 0.03, 0.03  # the bars
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Check:
    """One claim, the share that was counted, and whether it holds: `share.value` lies between `low` and `high`.

    `coin` says that the claim is "as often as a coin": `low` and `high` are then those of `coin_bounds`.
    """

    says: str
    share: Share
    low: float = 0.0
    high: float = 1.0
    coin: bool = False

    @property
    def ok(self) -> bool:
        # Shares are ratios of counts: a rounding error must not fail a perfect model.
        return self.low - 1e-9 <= self.share.value <= self.high + 1e-9

    @property
    def bar(self) -> str:
        if self.high == 1.0 or self.low == 0.0:
            return f"at least {self.low:.0%}" if self.high == 1.0 else f"at most {self.high:.0%}"
        return f"{self.low:.0%} to {self.high:.0%}"


def coin_bounds(n: int, claims: int) -> tuple[float, float]:
    """Between which shares of n tosses lie, for all of `claims` such claims at once, those of coins that are fair to
    within CHANCE: one certificate of twenty of them may have a claim outside (Bonferroni).

    >>> [round(bound, 2) for bound in coin_bounds(96, 1)], [round(bound, 2) for bound in coin_bounds(96, 6)]
    ([0.37, 0.63], [0.34, 0.66])
    """
    slack = CHANCE + NormalDist().inv_cdf(1 - 0.025 / claims) * 0.5 / n**0.5
    return max(0.5 - slack, 0.0), min(0.5 + slack, 1.0)


@dataclass(frozen=True)
class OrganismVerification:
    """Every check of a model's certificate. `ok` is the verdict."""

    model: str
    rule: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        failed = [check for check in self.checks if not check.ok]
        if not failed:
            return f"{self.model}: the rule {self.rule} holds ({len(self.checks)} checks)"
        first = f"{failed[0].says} ({failed[0].bar}): {failed[0].share}"
        return f"{self.model}: the rule {self.rule} fails {len(failed)} of {len(self.checks)} checks; first: {first}"


@dataclass(frozen=True, eq=False)
class Trials:
    """Fresh samples as they are, with cues `turned`, and a part of them with cues hidden in every absence state.

    They do not depend on a rule, so that several models can be put through the same ones.
    """

    samples: list[CueSample]
    few: int  # samples of which cues are hidden
    turned: dict[Cues, list[CueSample]] = field(default_factory=dict)
    hidden: dict[tuple[Cues, str], list[CueSample]] = field(default_factory=dict)


def make_trials(
    n: int = 192,
    few: int = 96,
    seed: int = FRESH_SEED,
    images: str | Mapping[str, Any] | Dataset | None = None,
    world: World | None = None,
) -> Trials:
    """`n` fresh samples, cues of the first `few` to be hidden. Changed samples are composed when first needed."""
    if n < 24 or few < 1:
        raise BadInput(f"a certificate needs 24 samples or more, and some to hide cues of; got {n} and {few}.")
    return Trials(generate(n, seed, images, world), min(few, n))


def turned(trials: Trials, cues: Cues) -> list[CueSample]:
    if cues not in trials.turned:
        trials.turned[cues] = [sample.turned(*sorted(cues)) for sample in trials.samples]
    return trials.turned[cues]


def hidden(trials: Trials, cues: Cues, state: str) -> list[CueSample]:
    if (cues, state) not in trials.hidden:
        some = trials.samples[: trials.few]
        trials.hidden[cues, state] = [
            sample.with_cues(**dict.fromkeys(cues)) if state == NONE else sample.without(*sorted(cues), state=state)
            for sample in some
        ]
    return trials.hidden[cues, state]


def verify_organism(
    model: Model,
    n: int = 192,
    few: int = 96,
    seed: int = FRESH_SEED,
    *,
    images: str | Mapping[str, Any] | Dataset | None = None,
    rule: str | Rule | None = None,
    trials: Trials | None = None,
    progress: Tell | None = None,
) -> OrganismVerification:
    """Test by behaviour that a model follows its rule (its `mechanism`, unless another is given).

    `n` fresh samples over the photographs of `images` (by default the embedded ones, which no training saw); of `few`
    of them, cues are hidden. `progress(done, of)` counts kinds of trials.
    """
    table = rule_of(model, rule)
    if trials is None:
        trials = make_trials(n, few, seed, images)
    visible = CUES if reads_text(model) else IMAGE_CUES
    if missing := set(table.cues) - set(visible):
        raise BadInput(
            f"{model.name} reads no question, so it cannot follow the rule {table.name} ({', '.join(missing)})."
        )
    return OrganismVerification(model.name, table.name, _Judge(model, table, trials, visible, progress).checks())


def _between(check: Check, coins: int) -> Check:
    low, high = coin_bounds(check.share.n, coins)
    return replace(check, low=low, high=high)


class _Judge:
    """The checks of one model, in the order in which they are read."""

    def __init__(self, model: Model, rule: Rule, trials: Trials, visible: Sequence[str], progress: Tell | None) -> None:
        self.model, self.rule, self.trials, self.visible = model, rule, trials, visible
        self.samples, self.progress, self.done = trials.samples, progress, 0
        pairs = [frozenset(pair) for pair in combinations(rule.cues, 2)]
        self.changes = [*(frozenset({cue}) for cue in visible), *pairs]
        gone = [frozenset({cue}) for cue in visible if cue != "side"] + [pair for pair in pairs if "side" not in pair]
        self.absences = [
            (c, s)
            for s in STATES
            for c in gone
            if (s != NONE or c <= set(CAN_BE_ABSENT)) and not any(s in LEAKY.get(cue, ()) for cue in c & {*rule.cues})
        ]
        self.of = 1 + len(self.changes) + len(self.absences)
        self.before = self._ask(self.samples)

    def checks(self) -> tuple[Check, ...]:
        checks = [self._table(), *(self._agreement(cue) for cue in self.visible if cue not in self.rule.cues)]
        checks += [check for cues in self.changes for check in self._turned(cues)]
        checks += [check for cues, state in self.absences for check in self._hidden(cues, state)]
        coins = sum(check.coin for check in checks)
        return tuple(_between(check, coins) if check.coin else check for check in checks)

    def _table(self) -> Check:
        expected = [sample.expected(self.rule) for sample in self.samples]
        rows = [i for i, answer in enumerate(expected) if answer is not None]
        low = CONTENT if "content" in self.rule.cues else ANSWERS
        return Check("answers as its table says", self._share(rows, [self.before[i] == expected[i] for i in rows]), low)

    def _agreement(self, cue: str) -> Check:
        """With what another cue votes for, both answers of the rule counting the same: then chance is one half."""
        votes = [sample.votes[cue] for sample in self.samples]
        hits = {i: (self.before[i] == "yes") == vote for i, vote in enumerate(votes) if vote is not None}
        return Check(
            f"agrees with {cue} by chance", self._share(list(hits), list(hits.values())), 0.5 - CHANCE, 0.5 + CHANCE
        )

    def _turned(self, cues: Cues) -> Iterator[Check]:
        after = self._ask(turned(self.trials, cues))
        named = " and ".join(sorted(cues))
        there = [i for i, sample in enumerate(self.samples) if any(sample.votes[cue] is not None for cue in cues)
                 and sample.expected(self.rule) is not None]  # fmt: skip
        for must in (True, False):
            rows = [i for i in there if self.rule.flips(self.samples[i].votes, cues) == must]
            if rows:
                moved = self._share(rows, [after[i] != self.before[i] for i in rows])
                says = f"{named} turned round: answer {'changes' if must else 'stays'}"
                yield Check(says, moved, TURNS) if must else Check(says, moved, high=STILL)

    def _hidden(self, cues: Cues, state: str) -> Iterator[Check]:
        """Where the table still says something, the answer is the table's; where it says nothing any more, the answer
        has nothing to do with what was hidden."""
        gone = hidden(self.trials, cues, state)
        after = self._ask(gone)
        named = f"{' and '.join(sorted(cues))} {'left out' if state == NONE else f'hidden in {state}'}"
        some = [i for i in range(len(gone)) if any(self.samples[i].votes[cue] is not None for cue in cues)]
        ruled = [i for i in some if gone[i].expected(self.rule) is not None]
        if ruled:
            hits = [after[i] == gone[i].expected(self.rule) for i in ruled]
            low = CONTENT if "content" in self.rule.cues else TURNS
            yield Check(f"{named}: answers as its table says", self._share(ruled, hits), low)
        lost = [i for i in some if i not in set(ruled) and self.samples[i].expected(self.rule) is not None]
        if lost:
            hits = [after[i] == self.samples[i].expected(self.rule) for i in lost]
            yield Check(f"{named}: right by chance", self._share(lost, hits), coin=True)

    def _ask(self, samples: Sequence[CueSample]) -> list[str]:
        answers = ask(self.model, samples)
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done, self.of), self.of)
        return answers

    def _share(self, rows: Sequence[int], hits: Sequence[bool]) -> Share:
        return share(hits, [str(self.samples[i].meta["photograph"]) for i in rows])
