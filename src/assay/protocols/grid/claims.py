"""`compare`: what the paper claims (gridvqax2026 sections 4 and 5), one claim after the other, beside a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from assay.kernel.claim import Agreement, Claim, Comparison
from assay.protocols.grid.beside import METHODS, beside_tables, explainer_of
from assay.protocols.grid.frames import CROSS, PURE, SPUR, Scenario, families, mean_with_interval, scenario, show, tidy
from assay.protocols.grid.rq1 import own_data_change
from assay.protocols.grid.rq2 import dime_gain, effect
from assay.protocols.grid.rq3 import block_scores, depths, shape
from assay.protocols.grid.verdict import verdict
from assay.protocols.published import Published, load
from assay.statistics import Estimate, page

PREFERRED = ("gridnet", "gridvlm", "gridprog")  # nearest to the paper's MDETR first
SAME = 0.05  # two means closer than this are "the same" to a paper that calls 44.0 and 41.8 identical


def compare(scores: pd.DataFrame) -> Comparison:
    """Judged on one family of twins: gridnet where the run has it, else gridvlm, else gridprog, else the first."""
    rows = tidy(scores)
    there = families(rows)
    if not there:
        nothing = Claim("all claims", "sections 4 and 5", "", "", "cannot tell",
                        "the run has no pair of twins: a claim needs <family>.pure and <family>.spur")  # fmt: skip
        return Comparison((nothing,))
    family = next((name for name in PREFERRED if name in there), there[0])
    published = load("grid")
    judge = _Judge(rows[rows["family"] == family], family, published)
    told = verdict(scores[scores["model"].isin(judge.rows["model"].unique())])
    claims = (*judge.models(), *judge.diagnosis(told), *judge.volume(), *judge.depth())
    return Comparison(claims, tuple(beside_tables(judge.rows, family, published)))


def above(found: Estimate, bound: float = 0.0) -> Agreement:
    """Whether a value is shown to lie above a bound."""
    return "agree" if found.low > bound else "disagree" if found.high < bound else "cannot tell"


def below(found: Estimate, bound: float = 0.0) -> Agreement:
    return "agree" if found.high < bound else "disagree" if found.low > bound else "cannot tell"


def same(found: Estimate, margin: float = SAME) -> Agreement:
    """Whether a difference is shown to be no larger than a margin, or to be larger."""
    if -margin < found.low and found.high < margin:
        return "agree"
    return "disagree" if found.low > margin or found.high < -margin else "cannot tell"


def share(right: pd.Series[bool]) -> Estimate:
    """A proportion with Wilson's interval, which stays one where all are right."""
    n, k = len(right), int(right.sum())
    if not n:
        return Estimate(np.nan, np.nan, np.nan, np.nan, 0, 0)
    low, high = stats.binomtest(k, n).proportion_ci(method="wilson")
    return Estimate(k / n, np.nan, float(low), float(high), n, 0)


@dataclass(frozen=True, eq=False)
class _Judge:
    rows: pd.DataFrame  # of one family
    family: str
    published: Published

    def _fact(self, name: str) -> tuple[float, str]:
        fact = self.published.facts[name]
        return float(fact["value"]), str(fact["where"])

    def _claim(
        self, text: str, where: str, published: str, found: Estimate, verdict: Agreement, because: str = ""
    ) -> Claim:
        if not np.isfinite(found.value):
            return Claim(text, where, published, "", "cannot tell", "the run has no rows for it")
        return Claim(text, where, published, f"{show(found)}, {self.family}, n = {found.n}", verdict, because)

    def _answers(self, which: Scenario) -> pd.DataFrame:
        once = scenario(self.rows, self.family, which).drop_duplicates("sample")
        return once.assign(right=once["answer"] == once["expected"])

    def _values(self, which: Scenario, method: str, metric: str) -> pd.Series[float]:
        mine = scenario(self.rows, self.family, which)
        chosen = mine[(mine["explainer"] == explainer_of(mine, method)) & (mine["metric"] == metric)]
        return chosen["value"]

    def _mean(self, which: Scenario, method: str, metric: str) -> Estimate:
        values = self._values(which, method, metric)
        return mean_with_interval(values, f"{which.name} {method} {metric}")

    def models(self) -> Iterator[Claim]:
        """Section 4.2: the shortcut is there."""
        own, cross = self._answers(SPUR), self._answers(CROSS)
        value, where = self._fact("spur_on_spur")
        found = share(own["right"])
        yield self._claim("the spur twin is right on its own data", where, f"{value:.3f}", found, above(found, 0.97),
                          "agreement is an interval above 0.97")  # fmt: skip
        value, where = self._fact("spur_on_pure")
        found = share(cross["right"])
        yield self._claim("on pure samples the spur twin is right no more than about half the time", where,
                          f"{value:.2f}", found, below(found, 0.6), "agreement is an interval below 0.6")  # fmt: skip
        for depth in (2, 3):
            value, where = self._fact(f"spur_mixed_depth{depth}")
            mixed = cross[(cross["qtype"] == "M") & (cross["form"] == 0) & (cross["depth"] == depth)]
            found = share(mixed["right"])
            yield self._claim(f"the spur twin fails at counting mixed depth-{depth} targets", f"{where}; table 3",
                              f"{value:.2f} at d0.3", found, below(found, 0.3),
                              "both densities; agreement is an interval below 0.3")  # fmt: skip
        value, where = self._fact("spur_attribute")
        found = share(cross[cross["qtype"] == "A"]["right"])
        yield self._claim("attribute questions stay right for the spur twin on pure samples", where, f"{value:.2f}",
                          found, above(found, 0.95), "agreement is an interval above 0.95")  # fmt: skip

    def diagnosis(self, told: pd.DataFrame) -> Iterator[Claim]:
        """RQ1."""
        multiviz, where = self._fact("multiviz_rma")
        change = self._change("MultiViz", "mass")
        yield self._claim("MultiViz is blind: the same RMA for both twins, each on its own data", where,
                          f"both {multiviz:.2f} (tables 5 and 7: 0.440 and 0.418)", change, same(change),
                          f"same: the interval of the difference lies within ±{SAME:g}")  # fmt: skip
        pure, _ = self._fact("multishap_rma_pure")
        spur, where = self._fact("multishap_rma_spur")
        change = self._change("MultiSHAP", "mass")
        yield self._claim("MultiSHAP gives the spur twin a higher RMA than the pure twin", where,
                          f"{spur:.3f} against {pure:.3f} (the tables give these at d0.3 only)", change, above(change),
                          "the truth held against is anchors and targets for both, as in the paper")  # fmt: skip
        change = self._change("DIME", "mass")
        yield self._claim("DIME gives the spur twin about the RMA it gives the pure twin", "section 5.2; tables 5, 7",
                          "0.279 against 0.272", change, same(change), f"within ±{SAME:g}")  # fmt: skip
        for method, base in METHODS.items():
            row = told[told["explainer"].map(lambda name, base=base: name.split("(")[0] == base)]
            text = f"{method} cannot tell the twins apart"
            if row.empty:
                yield Claim(text, "section 5.2, RQ1", "fails", "", "cannot tell", "the run has no verdict on it")
                continue
            best = row.iloc[0]
            found = Estimate(best["auc"], np.nan, best["low"], best["high"], int(best["samples"]), 0)
            blind: Agreement = "disagree" if found.low > 0.5 else "agree" if found.high < 0.7 else "cannot tell"
            yield self._claim(text, "section 5.2, RQ1", "fails", found, blind,
                              "AUC of the verdict: above 0.5 it can, below 0.7 for sure it hardly does")  # fmt: skip
        value, where = self._fact("emap_spur")
        part = self._blocks[(self._blocks["twin"] == "spur") & (self._blocks["mode"] == "spur")]
        part = part[part["explainer"].map(lambda name: name.split("(")[0] == "modality/emap")]
        found = mean_with_interval(part["score"], "emap spur")
        exact = part["exact"].astype(float).mean()
        yield self._claim("EMAP sees most of the spur twin's answers as interaction", where, f"about {value:.2f}", found,
                          above(found, 0.5), f"it is no hallucination: an exact word-matcher has {exact:.2f}, since "
                          "which object to count is in the question and how many there are in the image")  # fmt: skip

    def _change(self, method: str, metric: str) -> Estimate:
        name = explainer_of(self.rows, method)
        return own_data_change(self.rows, self.family, name, metric)

    def volume(self) -> Iterator[Claim]:
        """RQ2, on the pure twin and pure samples."""
        pure = scenario(self.rows, self.family, PURE)
        where = "section 5.2, RQ2; tables 5, 6"
        dime = explainer_of(pure, "DIME")
        plain, corrected = (effect(pure, dime, m, "density", 0.7, 0.3) for m in ("mass", "corrected_mass"))
        yield self._claim("DIME's RMA is higher in dense grids", where, "0.254 → 0.305", plain, above(plain),
                          f"corrected for the area of the mask: {show(corrected)}")  # fmt: skip
        overlap = effect(pure, dime, "iou", "density", 0.7, 0.3)
        yield self._claim("...with no gain in IoU", where, "0.206 → 0.210", overlap, same(overlap),
                          f"within ±{SAME:g}")  # fmt: skip
        gain = next(iter(dime_gain(pure, "mass").values()), _NOTHING)
        verdict: Agreement = "agree" if gain.high < SAME else "disagree" if gain.low > SAME else "cannot tell"
        yield self._claim("DIME's interaction map gains nothing over its unimodal one", where, "no gain", gain, verdict,
                          f"RMA of MI less RMA of UC; a gain is one above {SAME:g}")  # fmt: skip
        for method, bound, judge in (("MultiSHAP", 0.5, above), ("MultiViz", 0.1, below)):
            found = self._mean(PURE, method, "iou")
            says = "is precise" if judge is above else "collapses"
            yield self._claim(f"{method} {says}: IoU {'above' if judge is above else 'below'} {bound:g}", where,
                              "0.505" if judge is above else "0.048", found, judge(found, bound))  # fmt: skip
        name = explainer_of(pure, "MultiSHAP")
        leak = self._paired(pure, name, "control/uniform", "distractor_mass")
        yield self._claim("MultiSHAP leaks onto adversarial distractors of the pure twin", where, "leaks", leak,
                          above(leak), "its share on them less that of a uniform map")  # fmt: skip
        for method in METHODS:
            name = explainer_of(pure, method)
            plain, corrected = (effect(pure, name, m, "form", 0, 1) for m in ("mass", "corrected_mass"))
            yield self._claim(f"{method}'s RMA is lower on existence questions than on counting", "table 5",
                              "all three", plain, above(plain),
                              f"corrected for the area of the mask: {show(corrected)}")  # fmt: skip
        for metric, order in (("mass", ("MultiSHAP", "MultiViz", "DIME")), ("iou", ("MultiSHAP", "DIME", "MultiViz"))):
            for better, worse in zip(order, order[1:], strict=False):
                gap = self._paired(pure, explainer_of(pure, better), explainer_of(pure, worse), metric)
                yield self._claim(f"{better} has a higher {'RMA' if metric == 'mass' else 'IoU'} than {worse}",
                                  "table 5" if metric == "mass" else "table 6", "higher", gap, above(gap))  # fmt: skip
        counting, _ = self._fact("intershap_counting")
        existence, where = self._fact("intershap_existence")
        blocks = self._global("modality/intershap", "M", 1)
        found = self._between(blocks, "form", 0, 1, "score")
        exact = self._between(blocks, "form", 0, 1, "exact")
        yield self._claim("InterSHAP is higher on counting than on existence questions", where,
                          f"{counting:.3f} against {existence:.3f}", found, above(found),
                          f"mixed, depth 1; a model without faults: {exact.value:.3f}")  # fmt: skip

    def _paired(self, rows: pd.DataFrame, first: str, second: str, metric: str) -> Estimate:
        mine = rows[(rows["metric"] == metric) & rows["explainer"].isin([first, second])]
        both = mine.pivot_table(index="sample", columns="explainer", values="value")
        if first not in both or second not in both:
            return _NOTHING
        return mean_with_interval((both[first] - both[second]).to_numpy(), f"{first} {second} {metric}")

    @cached_property
    def _blocks(self) -> pd.DataFrame:
        return block_scores(self.rows)

    def _global(self, base: str, qtype: str, depth: int | None = None) -> pd.DataFrame:
        blocks = self._blocks
        mine = blocks[(blocks["twin"] == "pure") & (blocks["mode"] == "pure") & (blocks["qtype"] == qtype)]
        mine = mine[mine["explainer"].map(lambda name: name.split("(")[0] == base)]
        return mine if depth is None else mine[mine["depth"] == depth]

    def _between(self, blocks: pd.DataFrame, column: str, first: int, second: int, value: str) -> Estimate:
        from assay.protocols.grid.frames import difference

        values = blocks[value].astype(float)
        return difference(values[blocks[column] == first], values[blocks[column] == second], value)

    def depth(self) -> Iterator[Claim]:
        """RQ3."""
        for method in ("emap", "intershap"):
            first, where = self._fact(f"{method}_mixed_depth1")
            last, _ = self._fact(f"{method}_mixed_depth3")
            blocks = self._global(f"modality/{method}", "M")
            blocks = blocks[blocks["form"] == 0]
            found = self._between(blocks, "depth", 3, 1, "score")
            exact = self._between(blocks, "depth", 3, 1, "exact")
            shapes = [shape(one.trend) for one in depths(blocks, (0,))]
            yield self._claim(f"{method.upper() if method == 'emap' else 'InterSHAP'} falls with depth on mixed counting "
                              "questions of the pure twin", where, f"{first:.3f} → {last:.3f}", found, below(found),
                              f"depth 3 less depth 1; trend: {', '.join(shapes) or 'none'}; a model without faults "
                              f"changes by {exact.value:.3f}")  # fmt: skip
        blocks = self._global("modality/intershap", "M")
        text = "true synergy rises with depth (the additive-fallacy check)"
        where = "section 5.1"
        table = blocks.pivot_table(index=["form", "density", "block"], columns="depth", values="dividend")
        if table.shape[1] < 2:
            yield Claim(text, where, "must rise", "", "cannot tell", "the run has no rows for it")
            return
        found = self._between(blocks, "depth", int(table.columns[-1]), int(table.columns[0]), "dividend")
        trend = page(table, "two-sided")
        yield self._claim(text, where, "must rise", found, above(found), "the exact dividend of a model without faults "
                          f"on mixed questions, deepest less shallowest; trend: {shape(trend)} (p = {trend.p:.2g}). It "
                          "is set by the spread of answers, not by depth")  # fmt: skip


_NOTHING = Estimate(np.nan, np.nan, np.nan, np.nan, 0, 0)
