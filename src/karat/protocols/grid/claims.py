"""`compare`: what the paper claims (gridvqax2026 sections 4 and 5), one claim after the other, beside a run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd

from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.published import Published, load
from karat.protocols.grid.beside import METHODS, accuracy_tables, explainer_of, score_tables
from karat.protocols.grid.frames import CROSS, PURE, SPUR, families, mean_of_few, show, tidy
from karat.protocols.grid.judging import NOTHING, SAME, Judge, above, below, between, same, share
from karat.protocols.grid.rq2 import dime_gain, effect
from karat.protocols.grid.rq3 import depths, shape
from karat.protocols.grid.twins import unproven
from karat.protocols.grid.verdict import verdict
from karat.statistics import Estimate, page

PREFERRED = ("gridnet", "gridvlm", "gridprog")  # nearest to the paper's MDETR first


def compare(scores: pd.DataFrame) -> Comparison:
    """Judged on one family of twins: gridnet where the run has it, else gridvlm, else gridprog, else the first.

    What the other families say to the same claims is a table of its own.
    """
    rows, published = tidy(scores), load("grid")
    there = sorted(families(rows), key=_preference)
    accuracies = tuple(accuracy_tables(rows, published))
    if not there:
        nothing = Claim(
            "all claims", "sections 4 and 5", "", "", "cannot tell",
            "the run has no pair of twins: a claim needs <family>.pure and <family>.spur",
        )  # fmt: skip
        return Comparison((nothing,), accuracies)
    told = {family: _claims(scores, rows, family, published) for family in there}
    others = (_families(told),) if len(there) > 1 else ()
    return Comparison(told[there[0]], (*others, *accuracies, *score_tables(rows, there[0], published)))


def _preference(family: str) -> int:
    """gridprog is one in any world: `gridprog (6×6 of 16 px)`."""
    base = family.split(" ")[0]
    return PREFERRED.index(base) if base in PREFERRED else len(PREFERRED)


def _claims(scores: pd.DataFrame, rows: pd.DataFrame, family: str, published: Published) -> tuple[Claim, ...]:
    mine = rows[rows["family"] == family]
    judge = Judge(mine, family, published, "; ".join(unproven(mine).values()))
    told = verdict(scores[scores["model"].isin(mine["model"].unique())])
    return (*_models(judge), *_diagnosis(judge, told), *_volume(judge), *_depth(judge))


def _families(told: dict[str, tuple[Claim, ...]]) -> Finding:
    """One row per claim, and what each family says to it."""
    rows: list[tuple[Scalar, ...]] = []
    for same_claim in zip(*told.values(), strict=True):
        said = ((claim.verdict, claim.ours.split(", ")[0]) for claim in same_claim)
        rows.append((same_claim[0].text, *(value for pair in said for value in pair)))
    agreed = {family: sum(claim.verdict == "agree" for claim in claims) for family, claims in told.items()}
    return Finding(
        "The same claims on every family of twins",
        f"The claims above are judged on {next(iter(told))}.",
        tuple(f"{family} agrees with {n} of {len(rows)} claims." for family, n in agreed.items()),
        ("claim", *(f"{family}{part}" for family in told for part in ("", ": ours"))),
        tuple(rows),
    )


def _models(judge: Judge) -> Iterator[Claim]:
    """Section 4.2: the shortcut is there."""
    cross = judge.answers(CROSS)
    mixed = cross[(cross["qtype"] == "M") & (cross["form"] == 0)]
    checks = (
        ("the spur twin is right on its own data", "spur_on_spur", judge.answers(SPUR), above, 0.97),
        ("on pure samples the spur twin is right no more than about half the time", "spur_on_pure", cross, below, 0.6),
        ("the spur twin fails at counting mixed depth-2 targets", "spur_mixed_depth2", mixed[mixed["depth"] == 2],
         below, 0.3),
        ("the spur twin fails at counting mixed depth-3 targets", "spur_mixed_depth3", mixed[mixed["depth"] == 3],
         below, 0.3),
        ("attribute questions stay right for the spur twin on pure samples", "spur_attribute",
         cross[cross["qtype"] == "A"], above, 0.95),
    )  # fmt: skip
    for text, fact, rows, decide, bound in checks:
        value, where = judge.fact(fact)
        found = share(rows["right"])
        side = "above" if decide is above else "below"
        because = f"agreed if {side} {bound:g}"
        yield judge.claim(text, where, f"{value:.2f}", found, decide(found, bound), because, of_models=True)


def _diagnosis(judge: Judge, told: pd.DataFrame) -> Iterator[Claim]:
    """RQ1."""
    printed = judge.printed
    value, where = judge.fact("multiviz_rma")
    change = judge.change("MultiViz", "mass")
    margin = f"the same: the interval of the difference lies within ±{SAME:g}"
    yield judge.claim("MultiViz is blind: the same RMA for both twins, each on its own data", where,
                      f"both {value:.2f} (tables 5 and 7: {printed('Table 5', 'MultiViz'):.3f} and "
                      f"{printed('Table 7', 'MultiViz'):.3f})", change, same(change), margin)  # fmt: skip
    pure, spur = judge.fact("multishap_rma_pure")[0], judge.fact("multishap_rma_spur")[0]
    change = judge.change("MultiSHAP", "mass")
    yield judge.claim("MultiSHAP gives the spur twin a higher RMA than the pure twin", where,
                      f"{spur:.3f} against {pure:.3f} (the tables have about that at d0.3; "
                      f"{printed('Table 7', 'MultiSHAP'):.3f} and {printed('Table 5', 'MultiSHAP'):.3f} in all)",
                      change, above(change), "held against anchors and targets for both, as in the paper")  # fmt: skip
    change = judge.change("DIME", "mass")
    yield judge.claim("DIME gives the spur twin about the RMA it gives the pure twin", "section 5.2; tables 5, 7",
                      f"{printed('Table 7', 'DIME'):.3f} against {printed('Table 5', 'DIME'):.3f}", change,
                      same(change), margin)  # fmt: skip
    for method in METHODS:
        row = told[told["explainer"] == explainer_of(judge.rows, method)]
        best = row.iloc[0] if len(row) else None
        found = NOTHING if best is None else Estimate(
            best["auc"], np.nan, best["low"], best["high"], int(best["samples"]), 0
        )  # fmt: skip
        blind: Agreement = "disagree" if found.low > 0.5 else "agree" if found.high < 0.7 else "cannot tell"
        yield judge.claim(f"{method} cannot tell the twins apart", where, "fails", found, blind,
                          "AUC of the verdict: it can if above 0.5; it hardly does if below 0.7")  # fmt: skip
    value, where = judge.fact("emap_spur")
    blocks = judge.blocks(SPUR, "modality/emap")
    found = mean_of_few(blocks["score"])
    yield judge.claim("EMAP sees most of the spur twin's answers as interaction", where, f"about {value:.2f}", found,
                      above(found, 0.5), f"no hallucination: an exact word-matcher has {blocks['exact'].mean():.2f}, "
                      "for what to count is in the question and how many there are in the image")  # fmt: skip


def _volume(judge: Judge) -> Iterator[Claim]:
    """RQ2, on the pure twin and pure samples."""
    pure, printed = judge.within(PURE), judge.printed
    sparse, dense = (
        {metric: printed(table, "DIME", each) for metric, table in (("mass", "Table 5"), ("iou", "Table 6"))}
        for each in (0.3, 0.7)
    )
    where = "section 5.2, RQ2; tables 5, 6"
    dime, multishap = explainer_of(pure, "DIME"), explainer_of(pure, "MultiSHAP")
    plain, corrected = (effect(pure, dime, m, "density", 0.7, 0.3) for m in ("mass", "corrected_mass"))
    yield judge.claim("DIME's RMA is higher in dense grids", where,
                      f"{sparse['mass']:.3f} → {dense['mass']:.3f}", plain, above(plain),
                      f"corrected for the area of the mask: {show(corrected)}")  # fmt: skip
    overlap = effect(pure, dime, "iou", "density", 0.7, 0.3)
    yield judge.claim("DIME's IoU is no higher in dense grids", where,
                      f"{sparse['iou']:.3f} → {dense['iou']:.3f}", overlap, below(overlap, SAME),
                      f"higher is one by more than {SAME:g}")  # fmt: skip
    gain = next(iter(dime_gain(pure, "mass").values()), NOTHING)
    yield judge.claim("DIME's interaction map gains nothing over its unimodal one", where, "no gain", gain,
                      below(gain, SAME), f"RMA of MI less RMA of UC; a gain is one above {SAME:g}")  # fmt: skip
    precise, collapsed = judge.mean(PURE, "MultiSHAP", "iou"), judge.mean(PURE, "MultiViz", "iou")
    yield judge.claim("MultiSHAP is precise: IoU above 0.5", where,
                      f"{printed('Table 6', 'MultiSHAP'):.3f}", precise, above(precise, 0.5))  # fmt: skip
    yield judge.claim("MultiViz collapses: IoU below 0.1", "table 6 and its caption",
                      f"{printed('Table 6', 'MultiViz'):.3f}", collapsed, below(collapsed, 0.1),
                      "section 5.2 says below 0.05")  # fmt: skip
    leak = judge.paired(PURE, multishap, "control/uniform", "distractor_mass")
    yield judge.claim("MultiSHAP leaks onto adversarial distractors of the pure twin", where, "leaks", leak,
                      above(leak), "its share on them less that of a uniform map")  # fmt: skip
    for method in METHODS:
        name = explainer_of(pure, method)
        plain, corrected = (effect(pure, name, m, "form", 0, 1) for m in ("mass", "corrected_mass"))
        yield judge.claim(f"{method}'s RMA is lower on existence questions than on counting", "table 5", "lower",
                          plain, above(plain), f"corrected for the area of the mask: {show(corrected)}")  # fmt: skip
    orders = (("mass", "RMA", "table 5", ("MultiSHAP", "MultiViz", "DIME")),
              ("iou", "IoU", "table 6", ("MultiSHAP", "DIME", "MultiViz")))  # fmt: skip
    for metric, title, table, order in orders:
        for better, worse in pairwise(order):
            gap = judge.paired(PURE, explainer_of(pure, better), explainer_of(pure, worse), metric)
            yield judge.claim(f"{better} has a higher {title} than {worse}", table, "higher", gap, above(gap))
    counting, existence = judge.fact("intershap_counting")[0], judge.fact("intershap_existence")[0]
    blocks = judge.blocks(PURE, "modality/intershap")
    blocks = blocks[(blocks["qtype"] == "M") & (blocks["depth"] == 1)]
    found, exact = (between(blocks, "form", 0, 1, value) for value in ("score", "exact"))
    yield judge.claim("InterSHAP is higher on counting than on existence questions", "section 5.2, RQ2",
                      f"{counting:.3f} against {existence:.3f}", found, above(found),
                      f"mixed, depth 1; a perfect reasoner has {show(exact)}")  # fmt: skip


def _depth(judge: Judge) -> Iterator[Claim]:
    """RQ3, on mixed questions of the pure twin."""
    for name, title in (("emap", "EMAP"), ("intershap", "InterSHAP")):
        first, where = judge.fact(f"{name}_mixed_depth1")
        last, _ = judge.fact(f"{name}_mixed_depth3")
        blocks = judge.blocks(PURE, f"modality/{name}")
        blocks = blocks[(blocks["qtype"] == "M") & (blocks["form"] == 0)]
        found, exact = (between(blocks, "depth", 3, 1, value) for value in ("score", "exact"))
        trend = ", ".join(shape(one.trend) for one in depths(blocks, (0,))) or "none"
        yield judge.claim(f"{title} falls with depth on mixed counting questions of the pure twin", where,
                          f"{first:.3f} → {last:.3f}", found, below(found), f"depth 3 less depth 1; trend: {trend}; a "
                          f"perfect reasoner changes by {show(exact)}")  # fmt: skip
    blocks = judge.blocks(PURE, "modality/intershap")
    blocks = blocks[blocks["qtype"] == "M"]
    table = blocks.pivot_table(index=["form", "density", "block"], columns="depth", values="dividend")
    found, because = NOTHING, ""
    if table.shape[1] > 1:
        found = between(blocks, "depth", int(table.columns[-1]), int(table.columns[0]), "dividend")
        trend_of = page(table, "two-sided")
        because = (
            f"exact dividend of a perfect reasoner, deepest less shallowest; trend: {shape(trend_of)} "
            f"(p = {trend_of.p:.2g}). The spread of answers sets it, not depth as such"
        )
    yield judge.claim("true synergy rises with depth (what the additive-fallacy check assumes)", "section 5.1",
                      "must rise", found, above(found), because)  # fmt: skip
