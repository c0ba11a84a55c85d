"""Rules: truth tables over the cues. A rule says what a model that follows it answers, and what it must use for that.

A table gives "yes" (True), "no" (False) or nothing (None) for every combination of its cues' votes, a cue that is not
there being one of them. So hiding a cue and leaving it out mean the same:

- one cue, or an exclusive or, says nothing where a part is missing;
- `and` and `either` count what votes yes: a missing cue does not;
- the gate asks the content where there is no tag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product

from karat.datasets.cues.world import CUES, Votes
from karat.kernel.errors import UnknownName

Vote = bool | None


@dataclass(frozen=True, eq=False)
class Rule:
    """`cues` decide, by `table`: one entry for each combination of their votes.

    >>> RULES["content_unless_tag"].answer({"content": True, "tag": None})
    True
    >>> sorted(RULES["either"].used({"tag": True, "frame": False}))
    ['tag']
    """

    name: str
    cues: tuple[str, ...]
    table: Mapping[tuple[Vote, ...], Vote]
    says: str

    def answer(self, votes: Votes) -> Vote:
        """What the table says; None where it says nothing."""
        return self.table[tuple(votes.get(cue) for cue in self.cues)]

    def flips(self, votes: Votes, changed: frozenset[str]) -> bool:
        """Whether turning the votes of these cues round changes what the table says. Cues that are not there stay."""
        turned = {cue: (not vote if cue in changed and vote is not None else vote) for cue, vote in votes.items()}
        return self.answer(turned) != self.answer(votes)

    def decisive(self, votes: Votes) -> tuple[frozenset[str], ...]:
        """The smallest sets of cues whose change turns the answer round: one for each way to do it."""
        present = [cue for cue in self.cues if votes.get(cue) is not None]
        sets: list[frozenset[str]] = []
        for some in chain.from_iterable(combinations(present, k) for k in range(1, len(present) + 1)):
            if self.flips(votes, frozenset(some)) and not any(less <= set(some) for less in sets):
                sets.append(frozenset(some))
        return tuple(sets)

    def used(self, votes: Votes) -> frozenset[str]:
        """Cues that a model of this rule must use here: all that are part of a smallest change that matters."""
        if self.answer(votes) is None:
            return frozenset()
        return frozenset(chain.from_iterable(self.decisive(votes)))

    def probability(self, votes: Votes, visible: Mapping[str, float]) -> float:
        """Of "yes", where only a share of each cue is visible: a cue counts as there with that probability.

        Where the table says nothing, both answers are as probable.
        """
        total = 0.0
        for there in product((True, False), repeat=len(self.cues)):
            weight, kept = 1.0, dict(votes)
            for cue, present in zip(self.cues, there, strict=True):
                share = visible.get(cue, 1.0)
                weight *= share if present else 1 - share
                if not present:
                    kept[cue] = None
            if weight:
                answer = self.answer(kept)
                total += weight * (0.5 if answer is None else float(answer))
        return total

    @cached_property
    def share(self) -> float:
        """Share of "yes" over all combinations of votes, every cue being there."""
        answers = [self.answer(dict(zip(self.cues, votes, strict=True))) for votes in _present(len(self.cues))]
        return sum(bool(answer) for answer in answers) / len(answers)


def _present(count: int) -> list[tuple[bool, ...]]:
    return list(product((True, False), repeat=count))


def make_rule(name: str, cues: tuple[str, ...], says: str, function: Callable[..., Vote]) -> Rule:
    """A rule from a function of its cues' votes, tried on every combination."""
    for cue in cues:
        if cue not in CUES:
            raise UnknownName("cue", cue, CUES)
    return Rule(name, cues, {votes: function(*votes) for votes in product((True, False, None), repeat=len(cues))}, says)


def _single(cue: str, says: str) -> Rule:
    return make_rule(cue, (cue,), says, lambda vote: vote)


def _xor(tag: Vote, word: Vote) -> Vote:
    return None if tag is None or word is None else tag != word


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        _single("content", "what the object is"),
        _single("tag", "the printed word"),
        _single("frame", "the colour of the border"),
        _single("sticker", "the shape of the sticker"),
        _single("word", "a word of the question that does not matter"),
        _single("side", "the half of the picture in which the object lies"),
        make_rule("tag_xor_word", ("tag", "word"), "tag and word differ in what they vote for", _xor),
        make_rule("tag_and_word", ("tag", "word"), "tag and word both vote yes", lambda t, w: bool(t) and bool(w)),
        make_rule(
            "content_unless_tag", ("content", "tag"), "the tag where there is one, else the content",
            lambda content, tag: content if tag is None else tag,
        ),
        make_rule("either", ("tag", "frame"), "tag or frame votes yes", lambda tag, frame: bool(tag) or bool(frame)),
    )
}  # fmt: skip


def find_rule(name: str | Rule) -> Rule:
    """The rule of that name, or an error that lists those there are."""
    if isinstance(name, Rule):
        return name
    if name not in RULES:
        raise UnknownName("rule", name, RULES)
    return RULES[name]
