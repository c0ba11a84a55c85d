"""F_syn of every explanation, and the unimodal curves that it is to replace (fsyn2026 Eq. 1, 5-11).

An explanation that failed (a map of zeros, NaN) has no score, and what its explainer would have scored there is not
known. So that nobody gains from failing, its rows keep in their details what noise scores on that very sample (`noise`,
the mean over `NOISE_ORDERS` random orders): the analysis counts failures both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card, Drawing
from karat.kernel.errors import KaratError
from karat.kernel.row import Outcomes
from karat.metrics.perturbation import Quadrature, Rounding
from karat.models.torch_model import TorchModel
from karat.probe.absence import Absence, TextAbsence, VisualAbsence
from karat.probe.coalitions import ModelGame
from karat.probe.session import Session
from karat.protocols.common.column import Column
from karat.protocols.synergy.explanation import (
    MODALITIES,
    SYNERGY_CURVES,
    Explanation,
    Scores,
    Unit,
    question_players,
    ranking,
)

if TYPE_CHECKING:
    import pandas as pd

    from karat.kernel.claim import Comparison
    from karat.kernel.finding import Finding
    from karat.results.run import Run

CITATION = "fsyn2026"
NOISE_ORDERS = 16
# Scores whose curves (n, K) are kept as details; those of srg are insertion and deletion. Those of `sii` have two
# counts beside, `f_syn_passes` and `sii_passes`: the distinct coalitions that F_syn and the exact index asked for.
KEPT = ("f_syn", "srg_visual", "srg_text", "sii")


def _curves(*names: str) -> tuple[tuple[str, Drawing], ...]:
    return tuple((name, "curve") for name in names)


def _unimodal(name: str, summary: str, better: Literal["higher", "lower"], low: float) -> tuple[Card, ...]:
    """The same score for the image and for the text."""
    return tuple(
        Card(
            f"{name}_{modality}", f"{summary}, {what} alone", "metric", direction=better, range=(low, 1.0),
            floor="control/random", citation=CITATION, draws=_curves("insertion", "deletion") if name == "srg" else (),
        )
        for modality, what in (("visual", "image"), ("text", "text"))
    )  # fmt: skip


F_SYN = Card(
    "f_syn", "do the first features of image and text matter together? (synergistic faithfulness)", "metric",
    direction="higher", range=(-2.0, 2.0), floor="control/random", ceiling="control/oracle", citation=CITATION,
    departures="text players are words (or tokens, `text: tokens`); the oracle is a reference here, not a maximum",
    draws=_curves(*SYNERGY_CURVES),
)  # fmt: skip
SII = Card(
    "sii", "the exact Shapley interaction of the first features of image and text, among six background players",
    "metric", direction="higher", range=(-2.0, 2.0), citation=CITATION,
)  # fmt: skip
SRG = _unimodal("srg", "insertion minus deletion", "higher", -1.0)
INSERTION = _unimodal("insertion", "the answer's probability as the first features come", "higher", 0.0)
DELETION = _unimodal("deletion", "the answer's probability as the first features go", "lower", 0.0)


@dataclass(frozen=True)
class Synergy:
    """Perturbs both modalities in the order of the explanation, `steps` shares of the features from none to all.

    `visual` are the players of the image (see `karat.probe.players`), by default the model's own patches; `text` those
    of the question: its words, all tokens of a word together, or its tokens one by one, as in the paper (a method that
    scores words only gives each token its word's score). `absence` and `text_absence` say what an absent feature is
    (see `Absence`); with the defaults this is fsyn2026 A.3: blur of radius 30, pad tokens, the probability of the
    model's own choice.

    `calibrate` is the share of samples, drawn by their id, on which the exact interaction index of fsyn2026 appendix D
    is computed as well, with `background` macro players: about forty times the passes of F_syn.

    `redundant` and `margin` decide what is concluded and no row: an instance of a model is redundant where image and
    text bring together at least `margin` less than each brings alone (see `analysis`). Set `apart`, such instances are
    left out of effects and ranks; either way they are counted and told.
    """

    steps: Annotated[int, Ge(1)] = 11
    visual: str | tuple[Annotated[int, Ge(1)], Annotated[int, Ge(1)]] = "patches"
    text: Unit = "words"
    absence: VisualAbsence = "blur"
    radius: Annotated[float, Gt(0)] = 30.0
    text_absence: TextAbsence = "auto"
    rounding: Rounding = "nearest"
    quadrature: Quadrature = "mean"
    calibrate: Annotated[float, Ge(0), Le(1)] = 0.0
    background: Annotated[int, Ge(1)] = 6
    redundant: Literal["apart", "keep"] = field(default="apart", metadata={"identity": False})
    margin: Annotated[float, Ge(0)] = field(default=0.05, metadata={"identity": False})
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
        """Distinct coalitions of one explanation at most: 6 K - 8 for F_syn, K - 2 for each insertion curve. Deletion
        shares those of F_syn, except where a step is half a feature: with an odd number of features, K odd."""
        inner = max(self.steps - 2, 0)
        halves = (self.steps - 1) // 2 * (self.steps % 2) if self.rounding == "nearest" else inner
        exact = inner * 2 ** (2 + self.background)
        return max(8 * self.steps - 12, 4) + 2 * halves + self.calibrate * exact

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        """Everything about the whole batch is asked at once, so that the model gets full batches."""
        explanations: dict[int, Explanation] = {}
        unasked: dict[int, str] = {}
        for i, attribution in enumerate(attributions):
            try:
                game = self._game(session, i)
            except KaratError as error:
                unasked[i] = str(error)
                continue
            explanations[i] = Explanation(game, {m: ranking(session, i, game, attribution, m) for m in MODALITIES})
        scores = self._scores(session, explanations)
        noise = self._noise(session, {i: one for i, one in explanations.items() if one.failed})
        columns = {card.name: Column(len(attributions)) for card in self.scores}
        for metric, column in columns.items():
            for i, reason in unasked.items():
                column.fail(i, reason)
            for i, one in explanations.items():
                _fill(column, i, metric, one, scores[i], noise.get(i, {}))
        return {metric: column.outcomes() for metric, column in columns.items()}

    def findings(self, run: Run) -> list[Finding]:
        from karat.protocols.synergy.findings import findings  # pandas and SciPy: `karat ls` need not wait for them

        return findings(run, self.redundant, self.margin)

    def paper(self, run: Run) -> Comparison:
        from karat.protocols.synergy.claims import compare

        return compare(run, self.redundant, self.margin)

    def ranked(self, run: Run) -> pd.DataFrame:
        """The rows that effects and ranks rest on, failures counted as noise: what a race is decided by."""
        from karat.protocols.synergy.analysis import Scored

        return Scored.of(run, self.redundant, self.margin).with_failures_as_noise().ranked_rows()

    def _game(self, session: Session, i: int) -> ModelGame:
        if unread := session.unread(i):
            raise KaratError(unread)
        absence = Absence(visual=self.absence, text=self.text_absence, radius=self.radius)
        sample = session.samples[i]
        game = session.game(i, visual=self.visual, text=question_players(session, i, self.text), absence=absence)
        if not isinstance(session.model, TorchModel):
            game.setting.visual.labels_of(*sample.size)  # an image too small for its players: said before any pass
        return game

    def _scores(self, session: Session, explanations: Mapping[int, Explanation]) -> dict[int, Scores]:
        shape = (self.steps, self.rounding, self.quadrature)
        with session.cost.clock("f_syn"):
            answers = iter(session.ask([q for one in explanations.values() for q in one.synergy(*shape)]))
        synergy = {i: one.read_synergy(answers) for i, one in explanations.items()}
        answers = iter(session.ask([q for one in explanations.values() for q in one.curves(*shape)]))
        scores = {i: synergy[i][0] | one.read_curves(answers) for i, one in explanations.items()}
        drawn = {i: one for i, one in explanations.items() if self._calibrated(session, i)}
        with session.cost.clock("sii"):
            exact = [
                q
                for i, one in drawn.items()
                for q in one.exact(self.steps, self.background, session.rng(i, "synergy/background"))
            ]
            answers = iter(session.ask(exact))
        for i, one in drawn.items():
            scores[i] |= one.read_exact(answers, synergy[i][1])
        return scores

    def _noise(self, session: Session, failed: Mapping[int, Explanation]) -> dict[int, dict[str, float]]:
        """Mean scores of random orders on the samples that an explanation failed on; the same for every explainer, so
        that a session asks for them once."""
        shape = (self.steps, self.rounding, self.quadrature)
        drawn = {
            i: [one.at_random(rng) for _ in range(NOISE_ORDERS)]
            for i, one in failed.items()
            for rng in [session.rng(i, "synergy/noise")]
        }
        orders = [order for own in drawn.values() for order in own]
        answers = iter(session.ask([q for one in orders for q in (*one.synergy(*shape), *one.curves(*shape))]))
        means: dict[int, dict[str, float]] = {}
        for i, own in drawn.items():
            scores = [one.read_synergy(answers)[0] | one.read_curves(answers) for one in own]
            means[i] = {metric: float(np.mean([score[metric][0] for score in scores])) for metric in scores[0]}
        return means

    def _calibrated(self, session: Session, i: int) -> bool:
        return bool(session.rng(i, "synergy/calibrated").random() < self.calibrate)


def _fill(column: Column, i: int, metric: str, one: Explanation, scores: Scores, noise: Mapping[str, float]) -> None:
    """One row. An answer that is not a number is the model's failure, not a score."""
    if metric in scores:
        value, curves = scores[metric]
        answers = np.concatenate([np.ravel(values) for values in curves.values()])
        if bad := int((~np.isfinite(answers)).sum()):
            column.fail(i, f"model: {bad} of the {answers.size} answers behind {metric} are NaN or infinite")
        else:
            column.score(i, value, curves if metric in KEPT else {})
    elif lacking := one.lacking(metric):
        reason = "; ".join(ranking.problem for ranking in lacking)
        if not all(ranking.defined for ranking in lacking):
            column.leave_out(i, reason)  # whatever else is wrong, the method has no such score
        else:
            column.fail(i, reason, {"noise": np.array(noise[metric])} if metric in KEPT and metric in noise else {})
    else:
        column.leave_out(i, "not among the samples drawn for calibration")
