"""Linear mixed model with crossed random intercepts (fsyn2026 Eq. 13): an explainer's effect, freed of its context.

fit = mixed_model(frame, "score", "explainer", random=("instance", "model", "dataset"), reference="control/random")
fit.coefficients        # coef, se, z, p, low, high: every explainer against the reference
fit.marginal_means()    # mean, se, low, high: every explainer by itself
fit.variances           # how much of the scatter is instance, model, dataset, residual
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import norm

from karat.kernel.errors import BadInput
from karat.statistics.criterion import Criterion
from karat.statistics.design import Design, Floats, Term, build_design, code_levels
from karat.statistics.multiple import adjust
from karat.statistics.search import Optimum, minimise

_DEAR = 150  # columns left after elimination; beyond this one start is followed instead of three
_FEW_LEVELS = 5


@dataclass(frozen=True)
class MixedModel:
    """A fitted model. Frames are indexed by level; intervals and p-values are Wald's, with the normal distribution."""

    response: str
    reml: bool
    confidence: float
    criterion: float  # -2 log-likelihood at the optimum, restricted where `reml`
    coefficients: pd.DataFrame  # index (Intercept), then levels or covariates: coef, se, z, p, low, high
    covariance: pd.DataFrame  # of the coefficients
    variances: pd.DataFrame  # index random column, then Residual: variance, sd, share, levels, boundary
    random_effects: Mapping[str, pd.Series[float]]  # predicted intercept of every level of every random column
    n: int
    n_dropped: int  # rows with a missing value in a used column
    converged: bool
    singular: bool  # some variance is zero: its factor adds nothing the residual does not explain
    warnings: tuple[str, ...]
    evaluations: int  # of the deviance
    terms: tuple[Term, ...]

    @property
    def log_likelihood(self) -> float:
        return -self.criterion / 2

    @property
    def aic(self) -> float:
        """Akaike's criterion; compare REML fits only where the fixed effects are the same."""
        return self.criterion + 2 * (len(self.coefficients) + len(self.variances.dropna(subset="variance")))

    def marginal_means(self, column: str | None = None) -> pd.DataFrame:
        """Estimated marginal means of a fixed column (the first, if not named): mean, se, low, high per level.

        Other categorical columns count their levels equally, covariates sit at their mean.
        """
        term, design = self._marginal_design(column)
        mean = design @ self.coefficients["coef"].to_numpy()
        se = np.sqrt(np.einsum("ij,jk,ik->i", design, self.covariance.to_numpy(), design))
        wide = float(ndtri((1 + self.confidence) / 2)) * se
        index = pd.Index(term.levels, name=term.column)
        return pd.DataFrame({"mean": mean, "se": se, "low": mean - wide, "high": mean + wide}, index=index)

    def pairwise(self, column: str | None = None) -> pd.DataFrame:
        """Differences of marginal means, first minus second: coef, se, z, p, and p after Holm over all pairs."""
        term, design = self._marginal_design(column)
        first, second = np.triu_indices(len(term.levels), 1)
        contrast = design[first] - design[second]
        coef = contrast @ self.coefficients["coef"].to_numpy()
        se = np.sqrt(np.einsum("ij,jk,ik->i", contrast, self.covariance.to_numpy(), contrast))
        p = 2 * norm.sf(np.abs(coef / se))
        names = [(term.levels[i], term.levels[j]) for i, j in zip(first, second, strict=True)]
        index = pd.MultiIndex.from_tuples(names, names=["first", "second"])
        columns = {"coef": coef, "se": se, "z": coef / se, "p": p, "p_holm": adjust(p, "holm")}
        return pd.DataFrame(columns, index=index)

    def _marginal_design(self, column: str | None) -> tuple[Term, Floats]:
        named = [t for t in self.terms if t.levels and column in (None, t.column)]
        if not named:
            known = ", ".join(repr(t.column) for t in self.terms if t.levels) or "none"
            raise BadInput(f"marginal means need a categorical fixed column; got {column!r}, the model has {known}.")
        chosen = named[0]
        design = np.zeros((len(chosen.levels), len(self.coefficients)))
        design[:, 0] = 1
        for term in self.terms:
            share = 1 / len(term.levels) if term.levels else term.mean
            design[:, list(term.positions)] = share
        design[:, list(chosen.positions)] = np.eye(len(chosen.levels))[:, 1:]
        return chosen, design


def mixed_model(
    frame: pd.DataFrame,
    response: str,
    fixed: str | Sequence[str],
    random: str | Sequence[str] = (),
    reml: bool = True,
    *,
    reference: str | None = None,
    confidence: float = 0.95,
) -> MixedModel:
    """Fit response ~ fixed + one random intercept per level of each random column (fsyn2026 Eq. 13).

    A fixed column of numbers is a slope; any other is coded against its first category: pandas' own order if the
    column is categorical, else the sorted order, or `reference` for the first fixed column. With one fixed column
    the coefficients carry the names of the levels, with several `column=level`. Rows with a missing value in a used
    column are dropped and counted. A random column that the data cannot estimate (one level, one row per level, the
    same split as another) is left out, with a warning and a missing variance.

    Args:
        frame: one row per score.
        response: the column of scores.
        fixed: the column, or columns, whose effects are wanted.
        random: columns with one random intercept per level.
        reml: restricted maximum likelihood, or (False) maximum likelihood.
        reference: the level of the first fixed column that the others are compared with.
        confidence: of the interval.

    Returns:
        A `MixedModel`; its `coefficients` have coef, se, z, p, low, high by level.

    Example:
        >>> scores = {"score": [1.0, 2.0, 1.2, 2.1, 0.9, 2.2], "explainer": list("ababab"), "image": list("xxyyzz")}
        >>> frame = pd.DataFrame(scores)
        >>> mixed_model(frame, "score", "explainer", "image").coefficients["coef"].round(3).to_dict()
        {'(Intercept)': 1.033, 'b': 1.067}
    """
    if not 0 < confidence < 1:
        raise BadInput(f"mixed_model: confidence must lie between 0 and 1, got {confidence}.")
    fixed = (fixed,) if isinstance(fixed, str) else tuple(fixed)
    random = (random,) if isinstance(random, str) else tuple(random)
    design = build_design(frame, response, fixed, random, reference)
    groupings = design.groupings
    criterion = Criterion(design.y, design.x, design.names, groupings, reml)
    smaller = sorted(len(g.levels) for g in groupings)[:-1]
    best = minimise(
        criterion.value, criterion.value_and_gradient, len(groupings), starts=3 if sum(smaller) <= _DEAR else 1
    )
    solution = criterion.solve(best.tau)
    variances = _variances(design, best.tau * solution.sigma2, solution.sigma2)
    coefficients = _coefficients(design.names, solution.effects, solution.covariance, confidence)
    effects = {
        g.column: pd.Series(b, index=pd.Index(g.levels, name=g.column), name=response)
        for g, b in zip(groupings, solution.random, strict=True)
    }
    return MixedModel(
        response=response,
        reml=reml,
        confidence=confidence,
        criterion=solution.value,
        coefficients=coefficients,
        covariance=pd.DataFrame(solution.covariance, index=list(design.names), columns=list(design.names)),
        variances=variances,
        random_effects=effects,
        n=len(design.y),
        n_dropped=design.n_dropped,
        converged=best.converged,
        singular=bool((best.tau == 0).any()),
        warnings=_warnings(design, best),
        evaluations=best.evaluations,
        terms=design.terms,
    )


@dataclass(frozen=True)
class GroupedFits:
    """One fit per group; a group that cannot be fitted keeps its reason and does not stop its neighbours."""

    fits: Mapping[str, MixedModel]
    failures: Mapping[str, str]

    @property
    def coefficients(self) -> pd.DataFrame:
        """All coefficients under a two-level index (group, level)."""
        return pd.concat({name: fit.coefficients for name, fit in self.fits.items()})


def mixed_model_by(
    frame: pd.DataFrame,
    by: str,
    response: str,
    fixed: str | Sequence[str],
    random: str | Sequence[str] = (),
    reml: bool = True,
    *,
    reference: str | None = None,
    confidence: float = 0.95,
) -> GroupedFits:
    """A separate fit for each level of `by`, which leaves the random columns (fsyn2026 B.2: one model per dataset).

    Args:
        frame, response, fixed, random, reml, reference, confidence: as in `mixed_model`.
        by: the column that splits the frame.

    Returns:
        `GroupedFits`: fits and failures by level.

    Example:
        >>> scores = {"score": [1.0, 2.0, 1.2, 2.1] * 2, "explainer": list("abababab"), "data": list("xxxxyyyy")}
        >>> frame = pd.DataFrame(scores)
        >>> sorted(mixed_model_by(frame, "data", "score", "explainer").fits)
        ['x', 'y']
    """
    if by not in frame.columns:
        raise BadInput(f"mixed_model_by: no column {by!r}; the frame has {', '.join(map(repr, frame.columns))}.")
    random = tuple(name for name in ((random,) if isinstance(random, str) else random) if name != by)
    known = frame[frame[by].notna()]
    if known.empty:
        raise BadInput(f"mixed_model_by: column {by!r} holds no value.")
    codes, levels = code_levels(known[by])
    fits, failures = {}, {}
    for k, level in enumerate(levels):
        try:
            fits[level] = mixed_model(
                known[codes == k], response, fixed, random, reml, reference=reference, confidence=confidence
            )
        except BadInput as error:
            failures[level] = str(error)
    return GroupedFits(fits, failures)


def _coefficients(names: Sequence[str], effects: Floats, covariance: Floats, confidence: float) -> pd.DataFrame:
    se = np.sqrt(np.diag(covariance))
    z = effects / se
    wide = float(ndtri((1 + confidence) / 2)) * se
    columns = {"coef": effects, "se": se, "z": z, "p": 2 * norm.sf(np.abs(z)), "low": effects - wide,
               "high": effects + wide}  # fmt: skip
    return pd.DataFrame(columns, index=list(names))


def _variances(design: Design, variances: Floats, residual: float) -> pd.DataFrame:
    names = [*(g.column for g in design.groupings), *(column for column, _ in design.omitted), "Residual"]
    left_out = np.full(len(design.omitted), np.nan)
    variance = np.concatenate([variances, left_out, [residual]])
    levels = [*(len(g.levels) for g in design.groupings), *(0 for _ in design.omitted), len(design.y)]
    columns = {"variance": variance, "sd": np.sqrt(variance), "share": variance / np.nansum(variance),
               "levels": levels, "boundary": variance == 0}  # fmt: skip
    return pd.DataFrame(columns, index=pd.Index(names, name="column"))


def _warnings(design: Design, best: Optimum) -> tuple[str, ...]:
    warnings = [f"random column {column!r} {reason}; it is left out." for column, reason in design.omitted]
    if design.n_dropped:
        warnings.append(f"{design.n_dropped} rows with a missing value are left out.")
    for grouping, tau in zip(design.groupings, best.tau, strict=True):
        if tau == 0:
            warnings.append(f"singular fit: the variance of {grouping.column!r} is estimated as zero.")
        elif len(grouping.levels) < _FEW_LEVELS:
            warnings.append(f"{grouping.column!r} has {len(grouping.levels)} levels: its variance is a rough guess.")
    if not best.converged:
        warnings.append(
            f"not converged: the deviance may still fall by {best.decrement:.2g}; the residual may be zero."
        )
    return tuple(warnings)
