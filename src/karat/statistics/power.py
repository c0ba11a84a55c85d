"""How many samples does it take to tell two explainers apart? Paired t-test, exact noncentral t."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq

from karat.kernel.errors import BadInput
from karat.statistics.estimate import columns_without_missing


def paired_power(difference: float, sd: float, n: int, *, alpha: float = 0.05, comparisons: int = 1) -> float:
    """Chance that a two-sided paired t-test at alpha / comparisons finds a true mean difference with n pairs.

    Args:
        difference: the true mean difference.
        sd: of the paired differences, not of the scores.
        n: pairs.
        alpha: level of the test, before it is divided by `comparisons`.
        comparisons: tests of one family.

    Returns:
        A chance.

    Example:
        >>> round(paired_power(0.5, 1.0, 34), 2)
        0.81
    """
    _check(sd, alpha, comparisons)
    if n < 2:
        return 0.0
    if sd == 0:
        return 1.0 if difference != 0 else alpha / comparisons
    shift = abs(difference) / sd * np.sqrt(n)
    cut = stats.t.isf(alpha / comparisons / 2, n - 1)
    if shift > cut + 40:  # noncentral t underflows far out, where the answer is one
        return 1.0
    return float(np.clip(stats.nct.sf(cut, n - 1, shift) + np.nan_to_num(stats.nct.cdf(-cut, n - 1, shift)), 0, 1))


def samples_to_separate(
    difference: float, sd: float, *, alpha: float = 0.05, power: float = 0.8, comparisons: int = 1
) -> int | None:
    """Fewest pairs with at least this power.

    Args:
        difference, sd, alpha, comparisons: as in `paired_power`.
        power: the chance that is wanted.

    Returns:
        A number of pairs, or None where no number will do (no difference, or beyond ten million).

    Example:
        >>> samples_to_separate(0.5, 1.0), samples_to_separate(0.0, 1.0)
        (34, None)
    """
    _check(sd, alpha, comparisons)
    if not 0 < power < 1:
        raise BadInput(f"power must lie between 0 and 1, got {power}.")
    if difference == 0:
        return None
    low, high = 1, 2
    while paired_power(difference, sd, high, alpha=alpha, comparisons=comparisons) < power:
        low, high = high, high * 2
        if high > 10_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = paired_power(difference, sd, middle, alpha=alpha, comparisons=comparisons) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def detectable_difference(n: int, sd: float, *, alpha: float = 0.05, power: float = 0.8, comparisons: int = 1) -> float:
    """Smallest true mean difference that n pairs find with this power.

    Args:
        n, sd, alpha, comparisons: as in `paired_power`.
        power: the chance that is wanted.

    Returns:
        A difference.

    Example:
        >>> round(detectable_difference(34, 1.0), 2)
        0.5
    """
    _check(sd, alpha, comparisons)
    if n < 2 or not 0 < power < 1:
        raise BadInput(f"detectable_difference: needs n >= 2 and 0 < power < 1, got n={n}, power={power}.")
    if sd == 0:
        return 0.0

    def short(effect: float) -> float:
        return paired_power(effect, 1.0, n, alpha=alpha, comparisons=comparisons) - power

    top = 1.0
    while short(top) < 0:
        top *= 2
    return float(brentq(short, 0.0, top, xtol=1e-12)) * sd if short(0.0) < 0 else 0.0


@dataclass(frozen=True)
class Separation:
    """What a pilot says: the difference seen, how many pairs would settle one of that size, what n pairs can see."""

    difference: float
    sd: float
    n: int
    n_dropped: int
    needed: int | None
    detectable: float


def separation(
    first: npt.ArrayLike, second: npt.ArrayLike, *, alpha: float = 0.05, power: float = 0.8, comparisons: int = 1
) -> Separation:
    """Plan from paired scores (n,); pairs that miss one are left out. The pilot's own difference is a guess: a small
    pilot that happened to see a large one promises too much.

    Args:
        first: (n,) numbers; NaN is missing.
        second: (n,), the other score of each pair.
        alpha, power, comparisons: as in `samples_to_separate`.

    Returns:
        A `Separation`.

    Example:
        >>> separation([0.9, 0.8, 0.7, 0.9], [0.5, 0.6, 0.6, 0.4]).needed
        6
    """
    (a, b), keep = columns_without_missing(first, second, name="separation")
    n = len(a)
    if n < 2:
        raise BadInput(f"separation: needs at least two complete pairs, got {n}.")
    gap = a - b
    difference, sd = float(gap.mean()), float(gap.std(ddof=1))
    needed = samples_to_separate(difference, sd, alpha=alpha, power=power, comparisons=comparisons)
    visible = detectable_difference(n, sd, alpha=alpha, power=power, comparisons=comparisons)
    return Separation(difference, sd, n, len(keep) - n, needed, visible)


def _check(sd: float, alpha: float, comparisons: int) -> None:
    if not sd >= 0 or not 0 < alpha < 1 or comparisons < 1:
        raise BadInput(f"power: needs sd >= 0, 0 < alpha < 1, comparisons >= 1; got {sd}, {alpha}, {comparisons}.")
