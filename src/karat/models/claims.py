"""What each mechanism claims about behaviour, as checks on what `verify` saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from karat.datasets.grid import Bucket, parse_bucket
from karat.datasets.grid.widened import KINDS
from karat.kernel.empty import EMPTY
from karat.kernel.proportion import Share, exact_interval

ROUNDING = 1e-9  # shares are ratios of counts: a rounding error must not fail a perfect model
HIDDEN = ("half hidden", "all hidden")  # of what does not matter to the mechanism


@dataclass(frozen=True)
class Row:
    """One test in one bucket: share of answers equal to the truth, to the word-matching answer, and to the model's own
    answer before the change. `state` is the absent state of what is hidden; None where nothing is."""

    test: str
    mode: str
    bucket: str
    n: int
    truth: float
    shortcut: float
    unchanged: float
    state: str | None = None


@dataclass(frozen=True)
class Check:
    """One thing that was claimed: a share lies between `low` and `high`. It holds if the whole interval of what was
    measured does, it is refuted if none of it does, and is open else: more samples would tell."""

    says: str
    measured: Share
    low: float = 0.0
    high: float = 1.0
    where: str = ""

    @property
    def holds(self) -> bool:
        inside = self.low - ROUNDING <= self.measured.low and self.measured.high <= self.high + ROUNDING
        return inside or self._exact

    @property
    def refuted(self) -> bool:
        return not self._exact and (
            self.measured.high < self.low - ROUNDING or self.measured.low > self.high + ROUNDING
        )

    @property
    def _exact(self) -> bool:
        """Where all or none is claimed, no number of samples has an interval of one point: no exception proves it."""
        return (self.low == 1.0 == self.measured.value) or (self.high == 0.0 == self.measured.value)

    @property
    def verdict(self) -> str:
        return "yes" if self.holds else "NO" if self.refuted else "open"

    @property
    def bar(self) -> str:
        if self.high == 1.0 or self.low == 0.0:
            return f"at least {self.low:.1%}" if self.high == 1.0 else f"at most {self.high:.1%}"
        return f"{self.low:.1%} to {self.high:.1%}"

    @property
    def seen(self) -> str:
        return f"{self.measured}{f' in {self.where}' if self.where else ''}"


@dataclass(frozen=True)
class Bar:
    """How good is good enough for a twin to be called one.

    `overall` and `each`: accuracy on the mode the twin was made for, in all and in the worst bucket. `follows`: share
    of changed samples on which it says what its mechanism says. `still`: share that must not move where nothing that
    matters to it changed. `other_mode`: accuracy of a reasoning twin on spur, None where it need not be good at it.
    `widened`: share of scenes beyond the certified laws on which it says what its mechanism says. `kept`: share of
    answers that stay, in every empty state, when what does not matter is hidden.
    """

    overall: float
    each: float
    follows: float
    still: float
    other_mode: float | None = None
    widened: float = 0.93
    kept: float = 0.95


BARS = {
    "gridprog": Bar(overall=1.0, each=1.0, follows=1.0, still=1.0, other_mode=1.0, widened=1.0, kept=1.0),
    "gridnet": Bar(overall=0.99, each=0.97, follows=0.95, still=0.98, widened=0.97),
    "gridvlm": Bar(overall=0.97, each=0.93, follows=0.90, still=0.95),
}


def bar_for(model: str) -> Bar:
    """The bar of the family that a model's name begins with; other models are held to gridvlm's."""
    return BARS.get(model.split(".")[0], BARS["gridvlm"])


Rows = Sequence[Row]
Which = Callable[[Bucket], bool]


def _any(bucket: Bucket) -> bool:
    return True


def _pick(rows: Rows, test: str, mode: str = "pure", which: Which = _any) -> list[Row]:
    return [row for row in rows if (row.test, row.mode) == (test, mode) and which(parse_bucket(row.bucket))]


def pooled(rows: Iterable[Row], measure: str, confidence: float = 0.95) -> Share:
    """The share over buckets with its exact interval; every sample is a scene of its own."""
    rows = list(rows)
    n = sum(row.n for row in rows)
    value = round(sum(row.n * float(getattr(row, measure)) for row in rows)) / n
    return Share(value, *exact_interval(value, n, confidence), n)


def _within(says: str, rows: list[Row], measure: str, low: float = 0.0, high: float = 1.0) -> list[Check]:
    """One check on the share over buckets; none where there is nothing to check."""
    return [Check(says, pooled(rows, measure), low, high)] if rows else []


def _worst(says: str, rows: list[Row], measure: str, low: float) -> list[Check]:
    """The lowest of many buckets. Its interval is as wide as that takes: all buckets' intervals hold at once."""
    if not rows:
        return []
    row = min(rows, key=lambda row: float(getattr(row, measure)))
    return [Check(says, pooled([row], measure, 1 - 0.05 / len(rows)), low, where=row.bucket)]


def _beyond(rows: Rows, bar: Bar, measure: str, says: str) -> list[Check]:
    """Scenes beyond the certified laws, and hidden cells in every empty state."""
    checks = []
    for kind in KINDS:
        checks += _within(f"{kind}: {says}", _pick(rows, kind), measure, bar.widened)
    for state in EMPTY:
        for test in HIDDEN:
            mine = [row for row in _pick(rows, test) if row.state == state]
            checks += _within(
                f"{test} in {state}, of what does not matter: keeps its answer", mine, "unchanged", bar.kept
            )
    return checks


def _reasons(rows: Rows, bar: Bar) -> tuple[Check, ...]:
    as_asked = _pick(rows, "as asked")
    checks = _within("right on pure", as_asked, "truth", bar.overall)
    checks += _worst("right on pure in every bucket", as_asked, "truth", bar.each)
    if bar.other_mode is not None:
        checks += _worst("right on spur in every bucket", _pick(rows, "as asked", "spur"), "truth", bar.other_mode)
    checks += _within("relations turned: follows the new truth", _pick(rows, "relations turned"), "truth", bar.follows)
    for change in ("header swapped", "target swapped", "targets removed"):
        checks += _within(f"{change}: follows the new truth", _pick(rows, change), "truth", bar.follows)
    checks += _within("adversarial removed: stays right", _pick(rows, "adversarial removed"), "truth", bar.follows)
    checks += _within("filler removed: does not move", _pick(rows, "filler removed"), "unchanged", bar.still)
    return (*checks, *_beyond(rows, bar, "truth", "right"))


def _matches_words(rows: Rows, bar: Bar) -> tuple[Check, ...]:
    spur = _pick(rows, "as asked", "spur")
    checks = _within("right on spur", spur, "truth", bar.overall)
    checks += _worst("right on spur in every bucket", spur, "truth", bar.each)
    kinds: tuple[Which, ...] = (_attribute, _counts_twice, _exists)
    attributes, counting, existence = (_pick(rows, "as asked", which=kind) for kind in kinds)
    checks += _within("attribute questions right on pure", attributes, "truth", min(0.98, bar.overall))
    checks += _within("depth-2 mixed counting on pure", counting, "truth", high=0.10)
    checks += _within("relational existence on pure", existence, "truth", 0.42, 0.58)
    checks += _within("says what the words match", _pick(rows, "as asked"), "shortcut", bar.follows)
    checks += _within("relations turned: does not move", _pick(rows, "relations turned"), "unchanged", bar.still)
    for change in ("header swapped", "target swapped", "adversarial removed", "targets removed"):
        checks += _within(f"{change}: follows the words", _pick(rows, change), "shortcut", bar.follows)
    checks += _within("filler removed: does not move", _pick(rows, "filler removed"), "unchanged", bar.still)
    return (*checks, *_beyond(rows, bar, "shortcut", "says what the words match"))


def _attribute(bucket: Bucket) -> bool:
    return bucket.qtype == "A"


def _counts_twice(bucket: Bucket) -> bool:
    return (bucket.qtype, bucket.depth, bucket.form) == ("M", 2, 0)


def _exists(bucket: Bucket) -> bool:
    return bucket.task == "exist" and bucket.relational


def _image_only(rows: Rows, bar: Bar) -> tuple[Check, ...]:
    checks = []
    for change in ("relations turned", "header swapped", "target swapped"):
        checks += _within(f"{change}: does not move", _pick(rows, change), "unchanged", bar.still)
    for change in ("targets removed", "filler removed"):
        checks += _within(f"{change}: moves", _pick(rows, change), "unchanged", high=1 - bar.still)
    return tuple(checks)


def _text_only(rows: Rows, bar: Bar) -> tuple[Check, ...]:
    checks = []
    for change in ("adversarial removed", "targets removed", "filler removed"):
        checks += _within(f"{change}: does not move", _pick(rows, change), "unchanged", bar.still)
    checks += _within("header swapped: moves", _pick(rows, "header swapped"), "unchanged", high=1 - bar.still)
    return tuple(checks)


#: Mechanisms that behaviour can prove or refute.
CLAIMS: dict[str, Callable[[Rows, Bar], tuple[Check, ...]]] = {
    "reasons": _reasons,
    "matches_words": _matches_words,
    "image_only": _image_only,
    "text_only": _text_only,
}
