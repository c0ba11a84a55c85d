"""The claims of fsyn2026, each judged by an interval of a run: agree, disagree, or cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from karat.kernel.claim import Agreement, Claim
from karat.kernel.typing import Scalar
from karat.protocols.common.published import Published
from karat.protocols.synergy.calibration import calibration, calibration_seconds, rho_interval
from karat.protocols.synergy.frames import REFERENCE, Scored, number, spread
from karat.protocols.synergy.instability import agreement
from karat.protocols.synergy.redundancy import redundancy
from karat.statistics import Estimate, MixedModel, bootstrap_mean, kendall, paired_difference

if TYPE_CHECKING:
    from karat.results.run import Run

CLASSICAL = ("cam/gradcam", "gradient/input_x_gradient", "gradient/integrated_gradients")
ATTENTION = ("attention/rollout", "attention/grad_rollout", "relevance/attnlrp")
NATIVE = ("vlm/llava_cam", "vlm/tam")
_ABSENT = "the run has no such explainers"


def claims(scored: Scored, run: Run, published: Published) -> list[Claim]:
    """All claims in the order of the paper. Names of the run's explainers may carry parameters."""
    own, fit = named(scored), scored.effects
    return [
        _instability(scored, published),
        *_below_random(scored),
        _random_is_even(scored, published),
        *_paradox(scored, run),
        *_calibrated(scored, run, published),
        _contrast(fit, own, "Attention-based explainers beat VLM-native ones", ATTENTION, NATIVE, published),
        _contrast(fit, own, "Attention-based explainers beat classical ones", ATTENTION, CLASSICAL, published),
        *_over_random(fit, own, published),
        _best(fit, own),
        _order(fit, own, published),
    ]


def named(scored: Scored) -> dict[str, str]:
    """The paper's name → the explainer of the run that goes by it; its GradCAM is LLaVA-CAM without noise (A.2)."""
    unsmoothed = [name for name in scored.methods if base(name) == "vlm/llava_cam" and "copies=0" in name]
    own = {base(name): name for name in reversed(scored.methods) if name not in unsmoothed}
    return {"cam/gradcam": unsmoothed[0], **own} if unsmoothed else own


def base(explainer: str) -> str:
    """The registered name of an explainer, without its parameters.

    >>> base("cam/gradcam(layer=decoder.last)")
    'cam/gradcam'
    """
    return explainer.partition("(")[0]


def judged(low: float, high: float, *, above: float | None = None, below: float | None = None) -> Agreement:
    """Whether an interval lies on the claimed side of a bound, on the other, or on both."""
    if np.isnan(low) or np.isnan(high):
        return "cannot tell"
    if above is not None:
        return "agree" if low > above else "disagree" if high < above else "cannot tell"
    assert below is not None
    return "agree" if high < below else "disagree" if low > below else "cannot tell"


def _instability(scored: Scored, published: Published) -> Claim:
    text = "Rankings by image and by text do not agree: their tau is indistinguishable from noise"
    said = f"tau {published.facts['tau_global']['value']}, p {published.facts['p_global']['value']}"
    found = agreement(scored, "srg_visual", "srg_text", None)
    if found is None:
        return Claim(text, "section 4.2, Fig. 2", said, "-", "cannot tell", "no instance is scored by every explainer")
    ours = f"tau {found.value:.2f} ({found.low:.2f} to {found.high:.2f}), p {found.p:.2f}, {found.n} blocks"
    if found.low > 0 and found.p < 0.05:
        return Claim(
            text, "section 4.2, Fig. 2", said, ours, "disagree", "tau is above zero over instances and explainers"
        )
    if found.high < 0.5:
        return Claim(text, "section 4.2, Fig. 2", said, ours, "agree", "a tau of 0.5 or more is outside the interval")
    because = f"with {len(scored.methods)} explainers the interval allows both noise and agreement"
    return Claim(text, "section 4.2, Fig. 2", said, ours, "cannot tell", because)


def _below_random(scored: Scored) -> list[Claim]:
    """Under a unimodal metric some explainers fall below noise: is any, with its whole interval?"""
    claims = []
    for metric, modality in (("srg_visual", "image"), ("srg_text", "text")):
        table = scored.wide(metric)
        gaps = {
            str(name): paired_difference(
                table[name], table[scored.reference], rng=scored.rng(f"{metric}{name}"),
                clusters=table.index.get_level_values("instance"), method="percentile",
            )
            for name in table.columns
            if name != scored.reference
        }  # fmt: skip
        lowest = min(gaps.items(), key=lambda item: item[1].value, default=None)
        text = f"Under the {modality} metric some explainers score below random attribution"
        if lowest is None:
            continue
        name, gap = lowest
        verdict = judged(gap.low, gap.high, below=0.0)
        said = f"{name}: {spread(gap.value, gap.low, gap.high)} against {scored.reference}"
        claims.append(Claim(text, "appendix C.1, Fig. 9", "some do", said, verdict, "the lowest explainer is shown"))
    return claims


def _random_is_even(scored: Scored, published: Published) -> Claim:
    """Insertion and deletion of a random order mirror each other, so its SRG is zero on average, for any model."""
    printed = dict(zip(published.tables["Table 3"].columns, _row(published, "Table 3", REFERENCE), strict=True))
    value = printed["LLaVA-1.5 text SRG"]
    text = "Random attribution can have a text SRG far from zero"
    said = f"{value} (LLaVA-1.5, RePOPE)"
    rows = scored.all_rows("srg_text")
    own = rows[rows["explainer"] == REFERENCE]
    if own["value"].notna().sum() < 2:
        return Claim(text, "Table 3", said, "-", "cannot tell", "the run has no random attribution")
    found = bootstrap_mean(own["value"], rng=scored.rng("random"), clusters=own["instance"])
    away = min(abs(found.low), abs(found.high)) if found.low * found.high > 0 else 0.0
    verdict: Agreement = (
        "disagree" if max(abs(found.low), abs(found.high)) < 0.3 else "agree" if away > 0.3 else "cannot tell"
    )
    because = "by symmetry the expected SRG of a random order is 0 for every model and question; 0.3 counts as far"
    return Claim(text, "Table 3", said, spread(found.value, found.low, found.high), verdict, because)


def _paradox(scored: Scored, run: Run) -> list[Claim]:
    """On a redundant model deletion cannot see the oracle; and what does F_syn make of it?"""
    claims = []
    finding = redundancy(scored, run)
    for row in finding.rows if finding else ():
        cells = dict(zip(finding.columns, row, strict=True)) if finding else {}
        high, low, oracle = (cells.get(name) for name in ("high", "oracle low", "oracle high"))
        if not isinstance(high, float) or high >= 0 or not isinstance(low, float) or not isinstance(oracle, float):
            continue
        claims.append(
            Claim(
                f"F_syn rewards finding what matters where modalities are redundant ({cells['model']})",
                "section 3.3", "high if and only if the features are synergistic",
                f"oracle minus random {spread(number(cells['oracle over noise']), low, oracle)}",
                judged(low, oracle, above=0.0),
                "redundant features have a negative dividend, so finding them lowers F_syn",
            )
        )  # fmt: skip
    return claims


def _calibrated(scored: Scored, run: Run, published: Published) -> list[Claim]:
    finding = calibration(scored, run)
    rho, speed = published.facts["rho"]["value"], published.facts["speedup"]["value"]
    texts = ("F_syn ranks explanations as the exact interaction index does", "F_syn is faster than the exact index")
    if finding is None:
        because = "the run was not calibrated: set protocol: {name: synergy, calibrate: 1.0}"
        return [
            Claim(texts[0], "section 4.3", f"rho {rho}", "-", "cannot tell", because),
            Claim(texts[1], "section 4.3, Fig. 4", f"{speed} times", "-", "cannot tell", because),
        ]
    value, low, high = rho_interval(finding)
    cells = dict(zip(finding.columns, finding.rows[0], strict=True))
    seconds = calibration_seconds(run)
    ratio = seconds[1] / seconds[0] if seconds else number(cells["fewer passes"]) or np.nan
    unit = "in seconds of this run" if seconds else "in passes; the times of the run are not here"
    verdict: Agreement = "disagree" if high < rho else "agree" if low >= rho - 0.02 else "cannot tell"
    because = f"agree from {rho - 0.02:.2f} on: the paper prints two digits"
    return [
        Claim(texts[0], "section 4.3", f"rho {rho}", f"rho {spread(value, low, high)}", verdict, because),
        Claim(
            texts[1], "section 4.3, Fig. 4", f"{speed} times", f"{ratio:.1f} times",
            "cannot tell" if np.isnan(ratio) else "agree" if ratio >= speed else "disagree", unit,
        ),
    ]  # fmt: skip


def _effects(fit: MixedModel, names: Sequence[str]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Effects of some explainers, the reference being zero, and their covariance."""
    known = list(fit.coefficients.index)
    pick = np.zeros((len(names), len(known)))
    for row, name in enumerate(names):
        if name in known:
            pick[row, known.index(name)] = 1.0
    return pick @ fit.coefficients["coef"].to_numpy(), pick @ fit.covariance.to_numpy() @ pick.T


def difference(fit: MixedModel, first: Sequence[str], second: Sequence[str]) -> Estimate:
    """Mean effect of some explainers minus that of others, with Wald's interval."""
    effects, covariance = _effects(fit, [*first, *second])
    weights = np.array([1 / len(first)] * len(first) + [-1 / len(second)] * len(second))
    value, se = float(weights @ effects), float(np.sqrt(weights @ covariance @ weights))
    return Estimate(value, se, value - 1.96 * se, value + 1.96 * se, fit.n, fit.n_dropped)


def _contrast(
    fit: MixedModel,
    own: dict[str, str],
    text: str,
    better: Sequence[str],
    worse: Sequence[str],
    published: Published,
) -> Claim:
    printed = dict(
        zip(published.tables["Table 1"].column("explainer"), published.tables["Table 1"].column("effect"), strict=True)
    )
    said = np.mean([float(printed[n] or 0) for n in better]) - np.mean([float(printed[n] or 0) for n in worse])
    first, second = ([own[name] for name in group if name in own] for group in (better, worse))
    where, shown = "section 4.4, Table 1", f"mean effects {said:+.3f} apart"
    if not first or not second:
        return Claim(text, where, shown, "-", "cannot tell", _ABSENT)
    found = difference(fit, first, second)
    because = f"{', '.join(map(base, first))} against {', '.join(map(base, second))}"
    return Claim(
        text,
        where,
        shown,
        spread(found.value, found.low, found.high),
        judged(found.low, found.high, above=0.0),
        because,
    )


def _over_random(fit: MixedModel, own: dict[str, str], published: Published) -> list[Claim]:
    claims = []
    for name, effect in zip(
        published.tables["Table 1"].column("explainer"), published.tables["Table 1"].column("effect"), strict=True
    ):
        if name == REFERENCE:
            continue
        text, where, said = f"{name} finds more synergy than random attribution", "Table 1, Fig. 6", f"effect {effect}"
        if own.get(str(name)) not in fit.coefficients.index:
            claims.append(
                Claim(text, where, said, "-", "cannot tell", "the run has no such explainer, or no words from it")
            )
            continue
        value, low, high = (float(fit.coefficients[key].to_dict()[own[str(name)]]) for key in ("coef", "low", "high"))
        claims.append(Claim(text, where, said, spread(value, low, high), judged(low, high, above=0.0)))
    return claims


def _best(fit: MixedModel, own: dict[str, str]) -> Claim:
    text, where, said = "AttnLRP has the largest effect", "Table 1", "0.029, Rollout next with 0.028"
    rivals = [name for name in own.values() if base(name) not in ("relevance/attnlrp", REFERENCE)]
    if "relevance/attnlrp" not in own or not rivals:
        return Claim(text, where, said, "-", "cannot tell", _ABSENT)
    strongest = max(rivals, key=lambda name: _effects(fit, [name])[0][0])
    found = difference(fit, [own["relevance/attnlrp"]], [strongest])
    because = f"against the best of the others, {strongest}"
    return Claim(
        text, where, said, spread(found.value, found.low, found.high), judged(found.low, found.high, above=0.0), because
    )


def _order(fit: MixedModel, own: dict[str, str], published: Published) -> Claim:
    """Do both runs order the explainers alike?"""
    table = published.tables["Table 1"]
    printed = {str(n): float(e or 0) for n, e in zip(table.column("explainer"), table.column("effect"), strict=True)}
    shared = [name for name in printed if name in own]
    text, where = "The order of the explainers by their effect", "Table 1"
    ours, covariance = _effects(fit, [own[name] for name in shared])
    if len(shared) < 4:
        return Claim(text, where, "-", "-", "cannot tell", f"only {len(shared)} explainers are in both")
    drawn = np.random.default_rng(0).multivariate_normal(ours, covariance, size=500)
    taus = [kendall(row, [printed[name] for name in shared]).value for row in drawn]
    low, high = np.nanquantile(taus, [0.025, 0.975])
    tau = kendall(ours, [printed[name] for name in shared]).value
    verdict: Agreement = "agree" if low > 0.3 else "disagree" if high < 0.3 else "cannot tell"
    return Claim(
        text, where, "as in Table 1", f"tau {tau:.2f} ({low:.2f} to {high:.2f}) with ours", verdict,
        "agree where tau is above 0.3 with its whole interval; other models and data",
    )  # fmt: skip


def _row(published: Published, table: str, explainer: str) -> tuple[Scalar, ...]:
    return next(row for row in published.tables[table].rows if row[0] == explainer)
