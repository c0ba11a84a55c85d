"""`compare`: what the paper claims (gridvqax2026 sections 4 and 5), one claim after the other, beside a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd

from karat.kernel.claim import Agreement, Claim, Comparison
from karat.kernel.finding import Finding
from karat.kernel.typing import Scalar
from karat.protocols.common.controls import UNIFORM
from karat.protocols.common.judge import CANNOT_TELL, above, below, within
from karat.protocols.common.published import Published, load
from karat.protocols.common.words import interval
from karat.protocols.grid.absence import broken_states, in_state, states
from karat.protocols.grid.analysis import (
    CROSS,
    NOTHING,
    PURE,
    SPUR,
    Scenario,
    difference,
    dime_gain,
    effect,
    families,
    mean_of_few,
    mean_with_interval,
    once,
    own_data_change,
    scenario,
    share,
    tidy,
    unproven,
)
from karat.protocols.grid.blocks import block_scores, depths, shape
from karat.protocols.grid.paper_tables import METHODS, accuracy_tables, explainer_of, score_tables
from karat.protocols.grid.verdict import Verdict, verdicts
from karat.statistics import Estimate, page

PREFERRED = ("gridnet", "gridvlm", "gridprog")  # nearest to the paper's MDETR first
SAME = 0.05  # two means closer than this are "the same" to a paper that calls 44.0 and 41.8 identical


def compare(scores: pd.DataFrame) -> Comparison:
    """Judged on one family of twins: gridnet where the run has it, else gridvlm, else gridprog, else the first.

    What the other families say to the same claims is a table of its own. Where a run crosses absence, every claim is
    judged in every absent state that breaks none of the family's models, and one whose verdict flips between them
    depends on absence.
    """
    rows, published = tidy(scores), load("grid")
    architecture = dict(zip(rows["family"], rows["architecture"], strict=True))
    present = sorted(families(rows), key=lambda family: (_preference(architecture[family]), family))
    accuracies = tuple(accuracy_tables(rows, published))
    if not present:
        nothing = Claim(
            "all claims", "sections 4 and 5", "", "", CANNOT_TELL,
            "the run has no pair of twins: a claim needs a model that reasons and its twin that matches words",
        )  # fmt: skip
        return Comparison((nothing,), accuracies)
    judged = {family: _claims(rows[rows["family"] == family], family, published) for family in present}
    others = (_families(judged),) if len(present) > 1 else ()
    return Comparison(judged[present[0]], (*others, *accuracies, *score_tables(rows, present[0], published)))


def _preference(architecture: str) -> int:
    return PREFERRED.index(architecture) if architecture in PREFERRED else len(PREFERRED)


def _claims(rows: pd.DataFrame, family: str, published: Published) -> tuple[Claim, ...]:
    broken = unproven(rows).get(family, "")
    broken_in = broken_states(rows)
    absences = [state for state in states(rows) if state not in broken_in]
    if broken_in and states(rows) and not absences:
        broken = broken or f"every absent state of the run breaks a model of {family}"
    if not absences:
        return _in_one_state(rows, family, published, broken)
    by_state = {state: _in_one_state(in_state(rows, state), family, published, broken) for state in absences}
    return tuple(over_states(dict(zip(by_state, same, strict=True))) for same in zip(*by_state.values(), strict=True))


def _in_one_state(rows: pd.DataFrame, family: str, published: Published, broken: str) -> tuple[Claim, ...]:
    judge = Judge(rows, family, published, broken)
    return (*_models(judge), *_diagnosis(judge, verdicts(rows)), *_volume(judge), *_depth(judge))


def over_states(claims: dict[str, Claim]) -> Claim:
    """One claim in several absent states. It depends on absence if some state agrees and another disagrees."""
    first = next(iter(claims.values()))
    if len({(claim.verdict, claim.ours) for claim in claims.values()}) == 1:
        return first  # nothing in it was hidden
    given = {claim.verdict for claim in claims.values()}
    verdict: Agreement = CANNOT_TELL
    if {"agree", "disagree"} <= given:
        verdict = "depends on absence"
    elif len(given) == 1:
        verdict = first.verdict
    ours = "; ".join(f"{state}: {claim.ours or 'nothing'} ({claim.verdict})" for state, claim in claims.items())
    return replace(first, ours=ours, verdict=verdict)


def _families(judged: dict[str, tuple[Claim, ...]]) -> Finding:
    """One row per claim, and what each family says to it."""
    rows: list[tuple[Scalar, ...]] = []
    for same_claim in zip(*judged.values(), strict=True):
        cells = ((claim.verdict, claim.ours) for claim in same_claim)
        rows.append((same_claim[0].text, *(value for pair in cells for value in pair)))
    agreed = {family: sum(claim.verdict == "agree" for claim in claims) for family, claims in judged.items()}
    return Finding(
        "The same claims on every family of twins",
        f"The claims above are judged on {next(iter(judged))}.",
        tuple(f"{family} agrees with {n} of {len(rows)} claims." for family, n in agreed.items()),
        ("claim", *(f"{family}{part}" for family in judged for part in ("", ": ours"))),
        tuple(rows),
    )


@dataclass(frozen=True, eq=False)
class Judge:
    """One family of twins beside the paper."""

    rows: pd.DataFrame  # of this family only
    family: str
    published: Published
    broken: str = ""  # why these twins are not what their names say, if so

    def fact(self, name: str) -> tuple[float, str]:
        """A number of the paper's prose and where it stands."""
        fact = self.published.facts[name]
        return float(fact["value"]), str(fact["where"])

    def printed(self, table: str, method: str, *densities: float) -> float:
        """The mean of a method's buckets in a table of the paper, of both densities if none is named."""
        columns = [self.published.tables[table].column(f"{method} d{each:g}") for each in densities or (0.3, 0.7)]
        return float(np.mean(np.array(columns, dtype=np.float64))) / 100

    def claim(
        self, text: str, where: str, published: str, estimate: Estimate, verdict: Agreement, because: str = "",
        of_models: bool = False,
    ) -> Claim:  # fmt: skip
        """A claim about explanations needs twins that hold; one about the models themselves (`of_models`) does not."""
        if self.broken and not of_models:
            return Claim(text, where, published, "", CANNOT_TELL, f"the twins do not hold: {self.broken}")
        if not np.isfinite(estimate.value):
            return Claim(text, where, published, "", CANNOT_TELL, "the run has no rows for it")
        return Claim(text, where, published, f"{interval(estimate)}, {self.family}, n = {estimate.n}", verdict, because)

    def within(self, which: Scenario) -> pd.DataFrame:
        return scenario(self.rows, self.family, which)

    def answers(self, which: Scenario) -> pd.DataFrame:
        """One row per sample, with `right`."""
        answered = once(self.within(which), ["sample"])
        return answered.assign(right=answered["answer"] == answered["expected"])

    def mean(self, which: Scenario, method: str, metric: str) -> Estimate:
        mine = self.within(which)
        chosen = mine[(mine["explainer"] == explainer_of(mine, method)) & (mine["metric"] == metric)]
        return mean_with_interval(chosen["value"], f"{which.name} {method} {metric}")

    def change(self, method: str, metric: str) -> Estimate:
        """Spur twin on spur less pure twin on pure."""
        return own_data_change(self.rows, self.family, explainer_of(self.rows, method), metric)

    def paired(self, which: Scenario, first: str, second: str, metric: str) -> Estimate:
        """One explainer less another on the same samples."""
        mine = self.within(which)
        mine = mine[(mine["metric"] == metric) & mine["explainer"].isin([first, second])]
        both = mine.pivot_table(index="sample", columns="explainer", values="value")
        if first not in both or second not in both:
            return NOTHING
        return mean_with_interval((both[first] - both[second]).to_numpy(), f"{first} {second} {metric}")

    @cached_property
    def _blocks(self) -> pd.DataFrame:
        # no claim is about PID, whose exact scores take longest
        return block_scores(self.rows[self.rows["method"] != "modality/pid"])

    def blocks(self, which: Scenario, method: str) -> pd.DataFrame:
        """Block scores of a global method, with the exact ones; of its plainest setting, where a run has several."""
        mine = self._blocks[(self._blocks["twin"] == which.twin) & (self._blocks["mode"] == which.mode)]
        mine = mine[mine["method"] == method]
        return mine[mine["explainer"] == min(mine["explainer"], key=len, default="")]


def between(blocks: pd.DataFrame, column: str, first: int, second: int, value: str) -> Estimate:
    """Mean of blocks where `column` is `first` less mean where it is `second`."""
    return difference(blocks[blocks[column] == first][value], blocks[blocks[column] == second][value])


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
        right = share(rows["right"])
        side = "above" if decide is above else "below"
        because = f"agreed if {side} {bound:g}"
        yield judge.claim(text, where, f"{value:.2f}", right, decide(right, bound), because, of_models=True)


def _diagnosis(judge: Judge, table: Sequence[Verdict]) -> Iterator[Claim]:
    """RQ1."""
    printed = judge.printed
    value, where = judge.fact("multiviz_rma")
    change = judge.change("MultiViz", "mass")
    margin = f"the same: the interval of the difference lies within ±{SAME:g}"
    yield judge.claim("MultiViz is blind: the same RMA for both twins, each on its own data", where,
                      f"both {value:.2f} (tables 5 and 7: {printed('Table 5', 'MultiViz'):.3f} and "
                      f"{printed('Table 7', 'MultiViz'):.3f})", change, within(change, SAME), margin)  # fmt: skip
    pure, spur = judge.fact("multishap_rma_pure")[0], judge.fact("multishap_rma_spur")[0]
    change = judge.change("MultiSHAP", "mass")
    yield judge.claim("MultiSHAP gives the spur twin a higher RMA than the pure twin", where,
                      f"{spur:.3f} against {pure:.3f} (the tables have about that at d0.3; "
                      f"{printed('Table 7', 'MultiSHAP'):.3f} and {printed('Table 5', 'MultiSHAP'):.3f} in all)",
                      change, above(change), "held against anchors and targets for both, as in the paper")  # fmt: skip
    change = judge.change("DIME", "mass")
    yield judge.claim("DIME gives the spur twin about the RMA it gives the pure twin", "section 5.2; tables 5, 7",
                      f"{printed('Table 7', 'DIME'):.3f} against {printed('Table 5', 'DIME'):.3f}", change,
                      within(change, SAME), margin)  # fmt: skip
    for method in METHODS:
        name = explainer_of(judge.rows, method)
        verdict = next((one for one in table if one.explainer == name), None)
        blind: Agreement = CANNOT_TELL
        if verdict is not None and verdict.shows:
            blind = "disagree"
        elif verdict is not None and max(verdict.high, verdict.high_tied) < 0.7:
            blind = "agree"
        yield judge.claim(f"{method} cannot tell the twins apart", where, "fails",
                          NOTHING if verdict is None else verdict.estimate, blind,
                          "directed verdict: it can if above 0.5; it hardly does if below 0.7")  # fmt: skip
    value, where = judge.fact("emap_spur")
    blocks = judge.blocks(SPUR, "modality/emap")
    interaction = mean_of_few(blocks["score"])
    word_matcher = blocks["exact"].mean()
    yield judge.claim("EMAP sees most of the spur twin's answers as interaction", where, f"about {value:.2f}",
                      interaction, above(interaction, 0.5),
                      f"no hallucination: an exact word-matcher has {word_matcher:.2f}, for what to count is in the "
                      "question and how many there are in the image")  # fmt: skip


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
                      f"corrected for the area of the mask: {interval(corrected)}")  # fmt: skip
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
    leak = judge.paired(PURE, multishap, UNIFORM, "distractor_mass")
    yield judge.claim("MultiSHAP leaks onto adversarial distractors of the pure twin", where, "leaks", leak,
                      above(leak), "its share on them less that of a uniform map")  # fmt: skip
    for method in METHODS:
        name = explainer_of(pure, method)
        plain, corrected = (effect(pure, name, m, "form", 0, 1) for m in ("mass", "corrected_mass"))
        yield judge.claim(f"{method}'s RMA is lower on existence questions than on counting", "table 5", "lower",
                          plain, above(plain),
                          f"corrected for the area of the mask: {interval(corrected)}")  # fmt: skip
    orders = (("mass", "RMA", "table 5", ("MultiSHAP", "MultiViz", "DIME")),
              ("iou", "IoU", "table 6", ("MultiSHAP", "DIME", "MultiViz")))  # fmt: skip
    for metric, title, table, order in orders:
        for better, worse in pairwise(order):
            gap = judge.paired(PURE, explainer_of(pure, better), explainer_of(pure, worse), metric)
            yield judge.claim(f"{better} has a higher {title} than {worse}", table, "higher", gap, above(gap))
    counting, existence = judge.fact("intershap_counting")[0], judge.fact("intershap_existence")[0]
    blocks = judge.blocks(PURE, "modality/intershap")
    blocks = blocks[(blocks["qtype"] == "M") & (blocks["depth"] == 1)]
    change, exact = (between(blocks, "form", 0, 1, value) for value in ("score", "exact"))
    yield judge.claim("InterSHAP is higher on counting than on existence questions", "section 5.2, RQ2",
                      f"{counting:.3f} against {existence:.3f}", change, above(change),
                      f"mixed, depth 1; a perfect reasoner has {interval(exact)}")  # fmt: skip


def _depth(judge: Judge) -> Iterator[Claim]:
    """RQ3, on mixed questions of the pure twin."""
    for name, title in (("emap", "EMAP"), ("intershap", "InterSHAP")):
        first, where = judge.fact(f"{name}_mixed_depth1")
        last, _ = judge.fact(f"{name}_mixed_depth3")
        blocks = judge.blocks(PURE, f"modality/{name}")
        blocks = blocks[(blocks["qtype"] == "M") & (blocks["form"] == 0)]
        change, exact = (between(blocks, "depth", 3, 1, value) for value in ("score", "exact"))
        trend = ", ".join(shape(one.trend) for one in depths(blocks, (0,))) or "none"
        yield judge.claim(f"{title} falls with depth on mixed counting questions of the pure twin", where,
                          f"{first:.3f} → {last:.3f}", change, below(change),
                          f"depth 3 less depth 1; trend: {trend}; a perfect reasoner changes by "
                          f"{interval(exact)}")  # fmt: skip
    blocks = judge.blocks(PURE, "modality/intershap")
    blocks = blocks[blocks["qtype"] == "M"]
    table = blocks.pivot_table(index=["form", "density", "block"], columns="depth", values="dividend")
    change, because = NOTHING, ""
    if table.shape[1] > 1:
        change = between(blocks, "depth", int(table.columns[-1]), int(table.columns[0]), "dividend")
        trend_of = page(table, "two-sided")
        because = (
            f"exact dividend of a perfect reasoner, deepest less shallowest; trend: {shape(trend_of)} "
            f"(p = {trend_of.p:.2g}). The spread of answers sets it, not depth as such"
        )
    yield judge.claim("true synergy rises with depth (what the additive-fallacy check assumes)", "section 5.1",
                      "must rise", change, above(change), because)  # fmt: skip
