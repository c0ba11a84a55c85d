"""How a claim is judged: by an interval that decides, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from karat.kernel.claim import Agreement, Claim
from karat.protocols.common.published import Published
from karat.protocols.grid.beside import explainer_of
from karat.protocols.grid.frames import Scenario, difference, mean_with_interval, of_method, once, scenario, show
from karat.protocols.grid.rq1 import own_data_change
from karat.protocols.grid.rq3 import block_scores
from karat.statistics import Estimate

SAME = 0.05  # two means closer than this are "the same" to a paper that calls 44.0 and 41.8 identical
NOTHING = Estimate(np.nan, np.nan, np.nan, np.nan, 0, 0)


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
    """A proportion with Wilson's interval, which does not shrink to nothing where all are right."""
    n, k = len(right), int(right.sum())
    if not n:
        return NOTHING
    low, high = stats.binomtest(k, n).proportion_ci(method="wilson")
    return Estimate(k / n, np.nan, float(low), float(high), n, 0)


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
        self, text: str, where: str, published: str, found: Estimate, verdict: Agreement, because: str = "",
        of_models: bool = False,
    ) -> Claim:  # fmt: skip
        """A claim about explanations needs twins that hold; one about the models themselves (`of_models`) does not."""
        if self.broken and not of_models:
            return Claim(text, where, published, "", "cannot tell", f"the twins do not hold: {self.broken}")
        if not np.isfinite(found.value):
            return Claim(text, where, published, "", "cannot tell", "the run has no rows for it")
        return Claim(text, where, published, f"{show(found)}, {self.family}, n = {found.n}", verdict, because)

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
        return block_scores(self.rows[self.rows["explainer"].map(lambda name: not name.startswith("modality/pid"))])

    def blocks(self, which: Scenario, base: str) -> pd.DataFrame:
        """Block scores of a global method, with the exact ones; of its plainest setting, where a run has several."""
        mine = self._blocks[(self._blocks["twin"] == which.twin) & (self._blocks["mode"] == which.mode)]
        found = of_method(mine, base)
        found = found[found["explainer"] == min(found["explainer"], key=len, default="")]
        return found.assign(exact=found["exact"].astype(float))


def between(blocks: pd.DataFrame, column: str, first: int, second: int, value: str) -> Estimate:
    """Mean of blocks where `column` is `first` less mean where it is `second`."""
    return difference(blocks[blocks[column] == first][value], blocks[blocks[column] == second][value])
