"""Protocol `lineup`: an explanation of a model whose rule is known accuses a cue; is it one that the rule uses?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karat.datasets.cues.rules import RULES, find_rule
from karat.datasets.cues.sample import CueSample
from karat.kernel.attribution import Attribution, Part
from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.finding import Finding
from karat.kernel.row import Outcomes
from karat.metrics.localization import CorrectedMass
from karat.models.organisms.certificate import Certificate, certify
from karat.probe.session import Session
from karat.protocols.common.column import Column
from karat.protocols.common.localize import pair
from karat.protocols.lineup.pointing import POINTED, matched, permuted

if TYPE_CHECKING:
    from karat.kernel.roles import Results

_POINTING = Card(
    "pointing", "the accused cue is one that this model's rule uses here (percentiles among permutations)", "metric",
    direction="higher", range=(0.0, 1.0), floor="control/random, measured", ceiling="control/oracle", citation="ours",
)  # fmt: skip
SCORES = (
    replace(
        CorrectedMass.card, name="own_mass", summary="mass on what this model's rule uses here, corrected for area"
    ),
    replace(CorrectedMass.card, name="own_words", summary="mass on the words that this model's rule uses, corrected"),
    _POINTING,
    replace(
        _POINTING,
        name="pointing_matched",
        summary="the same, percentiles among the explainer's own maps of other samples",
    ),
    replace(
        _POINTING,
        name="parts_named",
        summary="share of the cues that the rule uses among as many that are accused first",
    ),
    *(
        Card(f"accuses_{cue}", f"the accused is {cue}, whatever the rule", "metric", range=(0.0, 1.0), citation="ours")
        for cue in POINTED
    ),
)


@dataclass(frozen=True)
class Lineup:
    """Scores explanations of organisms (`karat train organism`, photovlm, photocnn) on dataset `cues`.

    A sample counts for a model's rule only where the model followed it *here*: turning any cue round changed the answer
    exactly where the rule says so (`karat.models.organisms.certificate`). What is accused is told of every model, also
    of one with two rules (a dose).
    """

    card: ClassVar[Card] = Card(
        "lineup", "which rule did the model follow? Ask the explanation, among rules that are known", "protocol",
        needs=frozenset({"scores"}), citation="ours",
    )  # fmt: skip

    @property
    def scores(self) -> tuple[Card, ...]:
        return SCORES

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        samples = cue_samples(session)
        percentiles = np.stack(
            [
                permuted(s, a, session.rng(i, "lineup/permuted"))
                for i, (s, a) in enumerate(zip(samples, attributions, strict=True))
            ]
        )
        streams = [session.rng(i, "lineup/matched") for i in range(len(samples))]
        readings = {"pointing": percentiles, "pointing_matched": matched(samples, attributions, streams)}
        unknown = unfollowed(session)
        columns: dict[str, Outcomes] = {}
        for name, part in (("own_mass", "visual"), ("own_words", "words")):
            columns[name] = self._own(session, attributions, part, unknown)  # type: ignore[arg-type]  # literals
        for name, table in readings.items():
            columns[name] = _judged(session, table, unknown, parts=False)
        columns["parts_named"] = _judged(session, percentiles, unknown, parts=True)
        accused = [int(np.nanargmax(row)) if np.isfinite(row).any() else None for row in percentiles]
        for k, cue in enumerate(POINTED):
            column = Column(len(samples))
            for i, who in enumerate(accused):
                if who is None:
                    column.leave_out(i, "the explanation has no mass on a map or on words")
                else:
                    column.score(i, float(who == k))
            columns[f"accuses_{cue}"] = column.outcomes()
        return columns

    def _own(
        self, session: Session, attributions: Sequence[Attribution], part: Part, unknown: Mapping[int, str]
    ) -> Outcomes:
        def truth(i: int) -> np.ndarray | None:
            known = None if i in unknown else session.samples[i].truth(str(session.model.mechanism))
            if known is None:
                return None
            mask = known.visual if part == "visual" else known.words
            return None if mask is None else np.asarray(mask, dtype=np.bool_)

        pairs = pair(attributions, part, truth)
        pairs.absent.update({i: reason for i, reason in unknown.items() if getattr(attributions[i], part) is not None})
        return pairs.score(CorrectedMass())

    def findings(self, run: Results) -> list[Finding]:
        """Who is accused, how often rightly, and how well explanations tell the rules apart."""
        from karat.protocols.lineup.findings import findings  # pandas and SciPy: `karat ls` need not wait for them

        return findings(run)


def cue_samples(session: Session) -> list[CueSample]:
    for sample in session.samples:
        if not isinstance(sample, CueSample):
            raise BadInput(f"lineup asks about samples of dataset `cues`; {sample.id} is none.")
    return [sample for sample in session.samples if isinstance(sample, CueSample)]


def unfollowed(session: Session) -> dict[int, str]:
    """Samples that say nothing about the model's rule, and why. Asked for once a session."""
    if session.model.mechanism not in RULES:
        return dict.fromkeys(range(len(session.samples)), "the model follows no single known rule")
    certificates: list[Certificate] = session.memo(
        "lineup/certificates", lambda: certify(session.model, cue_samples(session))
    )
    return {i: certificate.reason for i, certificate in enumerate(certificates) if certificate.reason}


def _judged(session: Session, percentiles: np.ndarray, unknown: Mapping[int, str], parts: bool) -> Outcomes:
    """Whether the cue with the largest percentile is one that the rule uses; with `parts`, the share of those that it
    uses among as many with the largest ones."""
    column = Column(len(percentiles))
    for i, (sample, row) in enumerate(zip(cue_samples(session), percentiles, strict=True)):
        if i in unknown:
            column.leave_out(i, unknown[i])
            continue
        used = [k for k, cue in enumerate(POINTED) if cue in find_rule(str(session.model.mechanism)).used(sample.votes)]
        readable = [k for k in used if np.isfinite(row[k])]
        if not used:
            column.leave_out(i, "what the rule uses is not carried by a place of its own")
        elif not readable or (parts and len(used) < 2):
            column.leave_out(
                i,
                "the rule uses one cue here"
                if parts and len(used) < 2
                else "the method says nothing of what the rule uses",
            )
        else:
            first = np.argsort(-np.nan_to_num(row, nan=-1.0), kind="stable")[: len(used) if parts else 1]
            value = len(set(first.tolist()) & set(used)) / len(first)
            column.score(i, value, {"percentile": row})
    return column.outcomes()
