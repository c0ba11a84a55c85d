"""Protocol `grid`: scores of one explanation on the certified grid, and what a whole run of them shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from karat.kernel.attribution import Attribution, Part
from karat.kernel.card import Card
from karat.kernel.finding import Finding
from karat.kernel.row import Outcomes
from karat.probe.session import Session
from karat.protocols.common.localize import Pairs, pair
from karat.protocols.grid.readings import BLOCK_INTERACTION, INTERACTION, READINGS, Truths, scalars, strays

if TYPE_CHECKING:
    from karat.kernel.claim import Comparison
    from karat.results.run import Run


@dataclass(frozen=True)
class Grid:
    """Scores maps and word scores on samples of `karat.datasets.grid`: against the paper's truth, the model's own, and
    the shortcut. A model's own truth counts only where the model answered as its mechanism does.
    """

    card: ClassVar[Card] = Card(
        "grid", "can the explainer tell a model that reasons from a twin that takes a shortcut?", "protocol",
        version=2, needs=frozenset({"text"}), citation="gridvqax2026", paper="000",
    )  # fmt: skip

    @property
    def scores(self) -> tuple[Card, ...]:
        return (*(reading.card for reading in READINGS), INTERACTION, BLOCK_INTERACTION)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        mechanism = session.model.mechanism
        strayed = strays(session.samples, session.answers, mechanism)
        paired: dict[tuple[Part, Truths], Pairs] = {}
        for reading in READINGS:
            key = reading.part, reading.truth
            if key in paired:
                continue
            truths = [reading.truth(sample, mechanism) for sample in session.samples]
            reasons = strayed if reading.own else {}
            for i in reasons:
                truths[i] = None
            pairs = paired[key] = pair(attributions, reading.part, truths.__getitem__)
            defined = [i for i in reasons if getattr(attributions[i], reading.part) is not None]
            pairs.absent.update({i: reasons[i] for i in defined})
        read = {reading.card.name: paired[reading.part, reading.truth].score(reading.metric) for reading in READINGS}
        return {**read, **scalars(session.samples, attributions)}

    def findings(self, run: Run) -> list[Finding]:
        """The verdict, the twins' proof, and the paper's three questions, as far as the run can answer them."""
        from karat.protocols.grid.findings import findings  # pandas and SciPy: `karat ls` need not wait for them

        return findings(run.scores())

    def paper(self, run: Run) -> Comparison:
        """The paper's claims, one by one, beside what the run shows."""
        from karat.protocols.grid.claims import compare

        return compare(run.scores())
