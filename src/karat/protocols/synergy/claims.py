"""fsyn2026 beside a run: its claims, each judged by intervals, its tables with both numbers in them, and what follows
from its own tables.

Claims that rest on effects and ranks are judged twice, with failed explanations left out and with each counted as noise
(see `analysis`): where the verdicts differ, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.finding import Finding
from karat.protocols.common.controls import NOISE
from karat.protocols.common.judge import CANNOT_TELL, above, all_hold, any_holds, within
from karat.protocols.common.published import Published, load
from karat.protocols.common.words import interval, rounded
from karat.protocols.synergy.analysis import (
    Redundant,
    Scored,
    agreement,
    difference,
    effect,
    effects_of,
    redundancy,
)
from karat.protocols.synergy.cost import Calibration, calibration_seconds, calibrations
from karat.protocols.synergy.printed import arithmetic, tables
from karat.statistics import Estimate, bootstrap_mean, kendall, paired_difference

if TYPE_CHECKING:
    from karat.results.run import Run

CLASSICAL = ("cam/gradcam", "gradient/input_x_gradient", "gradient/integrated_gradients")
ATTENTION = ("attention/rollout", "attention/grad_rollout", "relevance/attnlrp")
NATIVE = ("vlm/llava_cam", "vlm/tam")
FAR = 0.3  # an SRG this far from zero counts as far
_ABSENT = "the run has no such explainers"


def compare(run: Run, redundant: Redundant = "apart", margin: float = 0.05) -> Comparison:
    """Claims and tables; nothing where there are no two explainers to compare."""
    scored = Scored.of(run, redundant, margin)
    if len(scored.methods) < 2:
        return Comparison(())
    published, own = load("synergy"), named(scored, run)
    beside = (_left_out(scored), *tables(scored, run, own, published), arithmetic(published))
    return Comparison(tuple(claims(scored, run, own, published)), beside)


def _left_out(scored: Scored) -> Finding:
    """Redundant instances and failed explanations of every model: what effects and ranks do not rest on."""
    rows = scored.frame[scored.frame["explainer"].isin(scored.methods) & (scored.frame["metric"] == "f_syn")]
    failed = rows[rows["status"] == "failure"]["model"].value_counts()
    apart = rows[rows["apart"]].drop_duplicates(["model", "instance"])["model"].value_counts()
    return Finding(
        "Who is left out of effects and ranks",
        f"An instance is redundant where image and text together bring at least {scored.margin:g} less than each "
        f"alone; such ones are {'set apart' if scored.redundant == 'apart' else 'kept'}. Failed explanations are left "
        "out, and counted as noise beside.",
        (),
        ("model", "instances", "redundant", "set apart", "explanations", "failed"),
        tuple(
            (one.model, one.mean.n, one.redundant, int(apart.get(one.model, 0)),
             int((rows["model"] == one.model).sum()), int(failed.get(one.model, 0)))
            for one in redundancy(scored)
        ),
    )  # fmt: skip


def named(scored: Scored, run: Run) -> dict[str, str]:
    """The paper's name → the explainer of the run that goes by it; its GradCAM is LLaVA-CAM without noise (A.2)."""
    facts = run.parts["explainer"]
    own: dict[str, str] = {}
    for label in scored.methods:
        name = str(facts[label]["name"])
        unsmoothed = name == "vlm/llava_cam" and facts[label].get("copies") == 0
        if unsmoothed:
            own["cam/gradcam"] = label
        else:
            own.setdefault(name, label)
    return own


def claims(scored: Scored, run: Run, own: dict[str, str], published: Published) -> list[Claim]:
    """All claims in the order of the paper."""
    ways = (scored, scored.with_failures_as_noise())
    ranks = [[_instability(one, published), *_below_random(one)] for one in ways]
    effects = [
        [
            _contrast(one, own, "Attention-based explainers beat VLM-native ones", ATTENTION, NATIVE, published),
            _contrast(one, own, "Attention-based explainers beat classical ones", ATTENTION, CLASSICAL, published),
            *_over_random(one, own, published),
            _best(one, own),
            _order(one, own, published),
        ]
        for one in ways
    ]
    return [
        *(both_ways(*pair) for pair in zip(*ranks, strict=True)),
        _random_is_even(scored, published),
        *_paradox(scored),
        *_calibrated(scored, run, published),
        *(both_ways(*pair) for pair in zip(*effects, strict=True)),
    ]


def both_ways(left_out: Claim, as_noise: Claim) -> Claim:
    """One claim judged with failures left out and with failures as noise; it stands where both verdicts are one."""
    if left_out.ours == as_noise.ours:
        return left_out
    ours = f"{left_out.ours}; failures as noise: {as_noise.ours}"
    if left_out.verdict == as_noise.verdict:
        return replace(left_out, ours=ours)
    reason = "it hangs on what failed explanations count as"
    because = f"{left_out.because}; {reason}" if left_out.because else reason
    return replace(left_out, ours=ours, verdict=CANNOT_TELL, because=because)


def _instability(scored: Scored, published: Published) -> Claim:
    text = "Rankings by image and by text do not agree: their tau is indistinguishable from noise"
    printed = f"tau {published.facts['tau_global']['value']}, p {published.facts['p_global']['value']}"
    where = "section 4.2, Fig. 2"
    tau, scores = (agreement(scored, "srg_visual", "srg_text", None, by) for by in ("ranks", "scores"))
    if tau is None or scores is None:
        return Claim(text, where, printed, "-", CANNOT_TELL, "no instance is scored by every explainer")
    ours = (
        f"tau {interval(tau, 2)}, p {rounded(tau.p, 2)}, {tau.n} blocks; by mean scores {rounded(scores.value, 2)}, "
        f"p {rounded(scores.p, 2)}"
    )
    if tau.low > 0 and tau.p < 0.05:
        return Claim(text, where, printed, ours, "disagree", "tau is above zero over instances and explainers")
    if tau.high < 0.5:
        return Claim(text, where, printed, ours, "agree", "a tau of 0.5 or more is outside the interval")
    because = f"with {len(scored.methods)} explainers the interval allows both noise and agreement"
    return Claim(text, where, printed, ours, CANNOT_TELL, because)


def _below_random(scored: Scored) -> list[Claim]:
    """Under a unimodal metric some explainers fall below noise: is one, corrected for their number? Or is none?"""
    claims = []
    for metric, modality in (("srg_visual", "image"), ("srg_text", "text")):
        table = scored.wide(metric)
        gaps = {
            str(name): paired_difference(
                table[name], table[scored.reference], rng=scored.rng(f"{metric}{name}"),
                clusters=scored.clusters_of(table), method="percentile",
            )
            for name in table.columns
            if name != scored.reference
        }  # fmt: skip
        if not gaps:
            continue
        name, lowest = min(gaps.items(), key=lambda item: item[1].value)
        p_above, p_below = ([_p_above(sign * gap.value, gap.se) for gap in gaps.values()] for sign in (1, -1))
        below, none = any_holds(p_below), all_hold(p_above, p_below)
        refuted: Agreement = "disagree" if none.verdict == "agree" else CANNOT_TELL
        verdict = below.verdict if below.verdict == "agree" else refuted
        claims.append(
            Claim(
                f"Under the {modality} metric some explainers score below random attribution", "appendix C.1, Fig. 9",
                "some do", f"{below.for_it} of {len(gaps)}; the lowest, {name}: {interval(lowest)}", verdict,
                "below: one is, after Holm's correction; not: all are shown to lie above",
            )
        )  # fmt: skip
    return claims


def _p_above(value: float, se: float) -> float:
    """One-sided p of "not above zero"."""
    return float("nan") if not se > 0 else float(ndtr(-value / se))


def _random_is_even(scored: Scored, published: Published) -> Claim:
    """Insertion and deletion of a random order mirror each other, so its SRG is zero on average, for any model."""
    table = published.tables["Table 3"]
    printed = dict(zip(table.column("explainer"), table.column("LLaVA-1.5 text SRG"), strict=True))[NOISE]
    text, where, stated = (
        "Random attribution can have a text SRG far from zero",
        "Table 3",
        f"{printed} (LLaVA-1.5, RePOPE)",
    )
    rows = scored.all_rows("srg_text")
    own = rows[rows["explainer.name"] == NOISE]
    if own["value"].notna().sum() < 2:
        return Claim(text, where, stated, "-", CANNOT_TELL, "the run has no random attribution")
    mean = bootstrap_mean(own["value"], rng=scored.rng("random"), clusters=own["cluster"])
    near = within(mean, FAR)
    verdict: Agreement = "disagree" if near == "agree" else "agree" if near == "disagree" else CANNOT_TELL
    because = f"by symmetry the expected SRG of a random order is 0 for every model and question; {FAR} counts as far"
    return Claim(text, where, stated, interval(mean), verdict, because)


def _paradox(scored: Scored) -> list[Claim]:
    """On redundant instances deletion cannot see the oracle; and what does F_syn make of it?"""
    return [
        Claim(
            f"F_syn rewards finding what matters where modalities are redundant ({one.model})", "section 3.3",
            "high if and only if the features are synergistic",
            f"oracle minus random {interval(one.oracle)} on {one.redundant} instances", above(one.oracle),
            "redundant features have a negative dividend, so finding them lowers F_syn",
        )
        for one in redundancy(scored)
        if one.oracle is not None
    ]  # fmt: skip


def _calibrated(scored: Scored, run: Run, published: Published) -> list[Claim]:
    rho, speed = published.facts["rho"]["value"], published.facts["speedup"]["value"]
    texts = (
        "F_syn ranks explanations as the exact interaction index does",
        f"F_syn is at least {speed} times faster than the exact index",
    )
    rows = calibrations(scored, run, parts=False)
    if not rows:
        because = "the run was not calibrated: set protocol: {name: synergy, calibrate: 1.0}"
        return [
            Claim(texts[0], "section 4.3", f"rho {rho}", "-", CANNOT_TELL, because),
            Claim(texts[1], "section 4.3, Fig. 4", f"{speed} times", "-", CANNOT_TELL, because),
        ]
    seconds = calibration_seconds(run)
    ratio = seconds[1] / seconds[0] if seconds else rows[0].exact_passes / rows[0].f_syn_passes
    unit = "in seconds of this run" if seconds else "in passes; the times of the run are not here"
    faster: Agreement = CANNOT_TELL if np.isnan(ratio) else "agree" if ratio >= speed else "disagree"
    claims = [_rho(texts[0], rho, rows[0])]
    if (other := _recorded_calibration(run)) is not None:
        claims.append(_rho(f"{texts[0]} (recorded run of synergy-calibration)", rho, other))
    return [*claims, Claim(texts[1], "section 4.3, Fig. 4", f"{speed} times", f"{ratio:.1f} times", faster, unit)]


def _rho(text: str, printed: float, row: Calibration) -> Claim:
    """The paper prints two digits: from its rho minus 0.02 on it is the same."""
    verdict: Agreement = (
        CANNOT_TELL
        if not np.isfinite(row.rho.low)
        else "disagree" if row.rho.high < printed else "agree" if row.rho.low >= printed - 0.02 else CANNOT_TELL
    )  # fmt: skip
    because = f"agree from {printed - 0.02:.2f} on: the paper prints two digits"
    ours = f"rho {interval(row.rho)} over {row.n} explanations"
    return Claim(text, "section 4.3", f"rho {printed}", ours, verdict, because)


def _recorded_calibration(run: Run) -> Calibration | None:
    """The calibration that is recorded with Karat, where it is not this very run."""
    from karat.protocols.paper import RECORDED
    from karat.results.run import load_run

    path = RECORDED / "calibration"
    if not path.is_dir() or str(path) == str(run.path):
        return None
    recorded = load_run(path)
    return next(iter(calibrations(Scored.of(recorded), recorded, parts=False)), None)


def _printed(published: Published) -> dict[str, float]:
    """Effects of Table 1 by explainer, the reference aside."""
    table = published.tables["Table 1"]
    pairs = zip(table.column("explainer"), table.column("effect"), strict=True)
    return {str(name): float(value) for name, value in pairs if name != NOISE and value is not None}


def _contrast(
    scored: Scored,
    own: dict[str, str],
    text: str,
    better: Sequence[str],
    worse: Sequence[str],
    published: Published,
) -> Claim:
    printed = _printed(published)
    gap = np.mean([printed[n] for n in better]) - np.mean([printed[n] for n in worse])
    first, second = ([name for name in group if name in own] for group in (better, worse))
    where, stated = "section 4.4, Table 1", f"mean effects {gap:+.3f} apart"
    if not first or not second:
        return Claim(text, where, stated, "-", CANNOT_TELL, _ABSENT)
    ours = difference(scored.effects, [own[name] for name in first], [own[name] for name in second])
    because = f"{', '.join(first)} against {', '.join(second)}"
    return Claim(text, where, stated, interval(ours), above(ours), because)


def _over_random(scored: Scored, own: dict[str, str], published: Published) -> list[Claim]:
    claims = []
    for name, printed in _printed(published).items():
        text, where, stated = (
            f"{name} finds more synergy than random attribution",
            "Table 1, Fig. 6",
            f"effect {printed}",
        )
        ours = effect(scored.effects, own[name]) if name in own else None
        if ours is None:
            because = "the run has no such explainer, or no words from it"
            claims.append(Claim(text, where, stated, "-", CANNOT_TELL, because))
        else:
            claims.append(Claim(text, where, stated, interval(ours), above(ours)))
    return claims


def _best(scored: Scored, own: dict[str, str]) -> Claim:
    """Above every other explainer, each by its own contrast; refuted where one is above it, corrected for number."""
    text, where, stated = "AttnLRP has the largest effect", "Table 1", "0.029, Rollout next with 0.028"
    best = own.get("relevance/attnlrp")
    others = [label for name, label in own.items() if name not in ("relevance/attnlrp", NOISE)]
    if best is None or not others:
        return Claim(text, where, stated, "-", CANNOT_TELL, _ABSENT)
    gaps = {label: difference(scored.effects, [best], [label]) for label in others}
    family = all_hold(
        [_p_above(gap.value, gap.se) for gap in gaps.values()], [_p_above(-gap.value, gap.se) for gap in gaps.values()]
    )
    strongest = min(gaps, key=lambda label: gaps[label].value)
    ours = f"{interval(gaps[strongest])} above the best of the others, {strongest}"
    return Claim(text, where, stated, ours, family.verdict, f"against every other: {family.counts}")


def _order(scored: Scored, own: dict[str, str], published: Published) -> Claim:
    """Do both runs order the explainers alike?"""
    printed = {NOISE: 0.0, **_printed(published)}
    shared = [name for name in printed if name in own]
    text, where = "The order of the explainers by their effect", "Table 1"
    if len(shared) < 4:
        return Claim(text, where, "-", "-", CANNOT_TELL, f"only {len(shared)} explainers are in both")
    theirs = [printed[name] for name in shared]
    effects, covariance = effects_of(scored.effects, [own[name] for name in shared])
    drawn = scored.rng("order").multivariate_normal(effects, covariance, size=500)
    taus = [kendall(row, theirs).value for row in drawn]
    low, high = np.nanquantile(taus, [0.025, 0.975])
    tau = Estimate(kendall(effects, theirs).value, float(np.nanstd(taus)), float(low), float(high), len(shared), 0)
    return Claim(
        text, where, "as in Table 1", f"tau {interval(tau, 2)} with ours", above(tau, FAR),
        f"agree where tau is above {FAR} with its whole interval; other models and data",
    )  # fmt: skip
