"""How a claim is judged: by intervals that decide, or not at all. The one judge of all protocols.

A claim about one number is judged by the interval of its estimate. A claim about many (every model, every rival) is a
family of tests: it holds where all of them hold, it is refuted where one is refuted, and each of them is judged at a
level that is corrected for their number (Holm), so that a family has the error rate of one test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from karat.kernel.claim import Agreement
from karat.statistics import Estimate, adjust, samples_to_separate

CANNOT_TELL: Agreement = "cannot tell"


def above(estimate: Estimate, bound: float = 0.0) -> Agreement:
    """Whether a value is shown to lie above a bound.

    >>> above(Estimate(0.3, 0.1, 0.1, 0.5, 20, 0)), above(Estimate(0.3, 0.1, 0.1, 0.5, 20, 0), bound=0.4)
    ('agree', 'cannot tell')
    """
    return _sided(estimate.low, estimate.high, bound)


def below(estimate: Estimate, bound: float = 0.0) -> Agreement:
    """Whether a value is shown to lie below a bound."""
    return _sided(-estimate.high, -estimate.low, -bound)


def within(estimate: Estimate, margin: float, centre: float = 0.0) -> Agreement:
    """Whether a value is shown to lie no further than a margin from a centre, or to lie further.

    >>> within(Estimate(0.01, 0.01, -0.01, 0.03, 20, 0), 0.05), within(Estimate(0.2, 0.01, 0.18, 0.22, 20, 0), 0.05)
    ('agree', 'disagree')
    """
    low, high = estimate.low - centre, estimate.high - centre
    if not (np.isfinite(low) and np.isfinite(high)):
        return CANNOT_TELL
    if -margin < low and high < margin:
        return "agree"
    return "disagree" if low > margin or high < -margin else CANNOT_TELL


def _sided(low: float, high: float, bound: float) -> Agreement:
    if not (np.isfinite(low) and np.isfinite(high)):
        return CANNOT_TELL
    return "agree" if low > bound else "disagree" if high < bound else CANNOT_TELL


@dataclass(frozen=True)
class Family:
    """The verdict on a claim about many, and how many of its tests came out which way."""

    verdict: Agreement
    for_it: int
    against: int
    open: int

    @property
    def counts(self) -> str:
        """
        >>> Family("cannot tell", 3, 0, 2).counts
        '3 for, 0 against, 2 open of 5'
        """
        return (
            f"{self.for_it} for, {self.against} against, {self.open} open of {self.for_it + self.against + self.open}"
        )


def one_sided(estimate: Estimate, bound: float = 0.0) -> tuple[float, float]:
    """p-values of "the value is not above the bound" and of "it is not below it", by Student's t of its standard error.

    Unlike those of resampling they have no smallest value, so that a large family can be corrected for its size. An
    estimate without spread is on one side for certain, or on neither.

    >>> above, below = one_sided(Estimate(3.0, 1.0, 1.0, 5.0, 20, 0))
    >>> round(above, 4), round(below, 4)
    (0.0037, 0.9963)
    >>> one_sided(Estimate(0.0, 0.0, 0.0, 0.0, 20, 0)), one_sided(Estimate(2.0, 0.0, 2.0, 2.0, 20, 0))
    ((1.0, 1.0), (0.0, 1.0))
    """
    distance = estimate.value - bound
    if not np.isfinite(distance) or not np.isfinite(estimate.se) or estimate.n < 2:
        return np.nan, np.nan
    if estimate.se == 0:
        return float(distance <= 0), float(distance >= 0)
    above = float(stdtr(estimate.n - 1, -distance / estimate.se))
    return above, 1.0 - above


def samples_wanted(estimate: Estimate, bound: float = 0.0) -> int | None:
    """How many samples would tell a value like this one from a bound (80 % power at the 5 % level), more than there
    are; None where no number would, or nothing is known of the spread.

    >>> samples_wanted(Estimate(0.1, 0.1, -0.1, 0.3, 20, 0)), samples_wanted(Estimate(0.0, 0.1, -0.2, 0.2, 20, 0))
    (159, None)
    """
    if not (np.isfinite(estimate.value) and np.isfinite(estimate.se)) or estimate.n < 2:
        return None
    wanted = samples_to_separate(estimate.value - bound, estimate.se * estimate.n**0.5)
    return None if wanted is None else max(wanted, estimate.n + 1)


def all_hold(p_for: Sequence[float], p_against: Sequence[float], level: float = 0.05) -> Family:
    """Whether every member of a family is as claimed.

    `p_for` are one-sided p-values of "not as claimed" (small: it is as claimed), `p_against` of the other side. Agree
    needs every member for it, by itself at the level: a conjunction needs no correction. Disagree needs one member
    against it after Holm's correction, since one of many is against by chance.

    >>> all_hold([0.001, 0.01], [0.999, 0.99]).verdict, all_hold([0.001, 0.4], [0.999, 0.6]).verdict
    ('agree', 'cannot tell')
    """
    one, other = np.asarray(p_for, dtype=np.float64), np.asarray(p_against, dtype=np.float64)
    known = np.isfinite(one) & np.isfinite(other)
    if not known.any():
        return Family(CANNOT_TELL, 0, 0, len(one))
    against = np.zeros(len(one), dtype=np.bool_)
    against[known] = np.asarray(adjust(other[known], "holm")) < level
    holds = known & (one < level) & ~against
    verdict: Agreement = "disagree" if against.any() else "agree" if holds.all() else CANNOT_TELL
    return Family(verdict, int(holds.sum()), int(against.sum()), int((~holds & ~against).sum()))


def majority(agree: int, disagree: int, of: int) -> Agreement:
    """A claim about most of several: told by more than half of them."""
    return "agree" if 2 * agree > of else "disagree" if 2 * disagree > of else CANNOT_TELL


def any_holds(p_for: Sequence[float], level: float = 0.05) -> Family:
    """Whether at least one member of a family is as claimed: one that is so after Holm's correction.

    A family in which none is cannot refute the claim: absence of evidence in every member is no evidence of absence.
    """
    values = np.asarray(p_for, dtype=np.float64)
    known = np.isfinite(values)
    holds = np.zeros(len(values), dtype=np.bool_)
    if known.any():
        holds[known] = np.asarray(adjust(values[known], "holm")) < level
    return Family("agree" if holds.any() else CANNOT_TELL, int(holds.sum()), 0, int((~holds).sum()))
