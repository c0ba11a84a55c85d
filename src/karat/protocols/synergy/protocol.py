"""F_syn of every explanation, and the unimodal curves that it is to replace (fsyn2026 Eq. 1, 5-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Le

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import KaratError
from karat.kernel.row import Outcomes
from karat.metrics.perturbation import Quadrature, Rounding
from karat.models.torch_model import TorchModel
from karat.probe.absence import Absence, TextAbsence, VisualAbsence
from karat.probe.coalitions import ModelGame
from karat.probe.session import Session
from karat.protocols.common.column import Column
from karat.protocols.synergy.asking import MODALITIES, Explanation, Scores
from karat.protocols.synergy.cards import CITATION, DELETION, F_SYN, INSERTION, SII, SRG
from karat.protocols.synergy.orders import question_words, ranking

if TYPE_CHECKING:
    from karat.kernel.claim import Comparison
    from karat.kernel.finding import Finding
    from karat.results.run import Run


KEPT = ("f_syn", "srg_visual", "srg_text", "sii")  # scores whose curves are kept; those of srg are insertion, deletion


@dataclass(frozen=True)
class Synergy:
    """Perturbs both modalities in the order of the explanation, `steps` shares of the features from none to all.

    `visual` are the players of the image (see `karat.probe.players`), by default the model's own patches; text players
    are the words of the question. `absence` and `text_absence` say what an absent feature is (see `Absence`); with the
    defaults this is fsyn2026 A.3: blur of radius 30, pad tokens, the probability of the model's own choice.

    `calibrate` is the share of samples, drawn by their id, on which the exact interaction index of fsyn2026 appendix D
    is computed as well, with `background` macro players: about forty times the passes of F_syn.
    """

    steps: Annotated[int, Ge(1)] = 11
    visual: str | tuple[Annotated[int, Ge(1)], Annotated[int, Ge(1)]] = "patches"
    absence: VisualAbsence = "blur"
    radius: Annotated[float, Gt(0)] = 30.0
    text_absence: TextAbsence = "auto"
    rounding: Rounding = "nearest"
    quadrature: Quadrature = "mean"
    calibrate: Annotated[float, Ge(0), Le(1)] = 0.0
    background: Annotated[int, Ge(1)] = 6
    card: ClassVar[Card] = Card(
        "synergy", "do the features an explainer ranks first matter together, across image and text?", "protocol",
        version=2, needs=frozenset({"text"}), citation=CITATION, paper="001",
    )  # fmt: skip

    @property
    def label(self) -> str:
        """Runs of one protocol go by one name; what they were run with is in their spec."""
        return self.card.name

    @property
    def scores(self) -> tuple[Card, ...]:
        return (F_SYN, *SRG, *INSERTION, *DELETION, *((SII,) if self.calibrate > 0 else ()))

    @property
    def passes(self) -> float:
        """Distinct coalitions of one explanation at most: 6 K - 8 for F_syn and K - 2 for each insertion curve. Deletion
        shares those of F_syn, except where a step is half a feature: with an odd number of features, K odd."""
        inner = max(self.steps - 2, 0)
        halves = (self.steps - 1) // 2 * (self.steps % 2) if self.rounding == "nearest" else inner
        exact = inner * 2 ** (2 + self.background)
        return max(8 * self.steps - 12, 4) + 2 * halves + self.calibrate * exact

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        """Everything about the whole batch is asked at once, so that the model gets full batches."""
        asked: dict[int, Explanation] = {}
        failed: dict[int, str] = {}
        for i, attribution in enumerate(attributions):
            try:
                game = self._game(session, i)
            except KaratError as error:
                failed[i] = str(error)
                continue
            asked[i] = Explanation(game, {m: ranking(session, i, game, attribution, m) for m in MODALITIES})
        found = self._read(session, asked)
        return {card.name: self._column(card.name, len(attributions), asked, found, failed) for card in self.scores}

    def findings(self, run: Run) -> list[Finding]:
        from karat.protocols.synergy.findings import findings  # pandas and SciPy: `karat ls` need not wait for them

        return findings(run)

    def paper(self, run: Run) -> Comparison:
        from karat.protocols.synergy.paper import compare

        return compare(run)

    def _game(self, session: Session, i: int) -> ModelGame:
        if unread := session.unread(i):
            raise KaratError(unread)
        absence = Absence(visual=self.absence, text=self.text_absence, radius=self.radius)
        sample = session.samples[i]
        game = session.game(i, visual=self.visual, text=question_words(sample) or None, absence=absence)
        if not isinstance(session.model, TorchModel):
            game.setting.visual.labels_of(*sample.size)  # an image too small for its players: said before any pass
        return game

    def _read(self, session: Session, asked: Mapping[int, Explanation]) -> dict[int, Scores]:
        shape = (self.steps, self.rounding, self.quadrature)
        with session.cost.clock("f_syn"):
            answers = iter(session.ask([q for one in asked.values() for q in one.synergy(*shape)]))
        read = {i: one.read_synergy(answers) for i, one in asked.items()}
        answers = iter(session.ask([q for one in asked.values() for q in one.curves(*shape)]))
        found = {i: read[i][0] | one.read_curves(answers) for i, one in asked.items()}
        drawn = {i: one for i, one in asked.items() if self._calibrated(session, i)}
        with session.cost.clock("sii"):
            exact = [
                q
                for i, one in drawn.items()
                for q in one.exact(self.steps, self.background, session.rng(i, "synergy/background"))
            ]
            answers = iter(session.ask(exact))
        for i, one in drawn.items():
            found[i] |= one.read_exact(answers, read[i][1])
        return found

    def _calibrated(self, session: Session, i: int) -> bool:
        return bool(session.rng(i, "synergy/calibrated").random() < self.calibrate)

    def _column(
        self,
        metric: str,
        n: int,
        asked: Mapping[int, Explanation],
        found: Mapping[int, Scores],
        failed: Mapping[int, str],
    ) -> Outcomes:
        """One metric over the batch. An answer that is not a number is the model's failure, not a score."""
        column = Column(n)
        for i, reason in failed.items():
            column.fail(i, reason)
        for i, one in asked.items():
            if metric in found[i]:
                value, curves = found[i][metric]
                answers = np.concatenate([np.ravel(values) for values in curves.values()])
                if bad := int((~np.isfinite(answers)).sum()):
                    column.fail(i, f"model: {bad} of the {answers.size} answers behind {metric} are NaN or infinite")
                else:
                    column.score(i, value, curves if metric in KEPT else {})
            elif lacking := one.lacking(metric):
                reason = "; ".join(ranking.problem for ranking in lacking)
                if any(ranking.defined for ranking in lacking):
                    column.fail(i, reason)
                else:
                    column.leave_out(i, reason)
            else:
                column.leave_out(i, "not among the samples drawn for calibration")
        return column.outcomes()
