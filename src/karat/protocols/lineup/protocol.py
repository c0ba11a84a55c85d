"""Protocol `lineup`: an explanation of a model whose rule is known accuses a cue; is it one that the rule uses?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge

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
from karat.protocols.lineup.pairs import couple_percentiles, names_couple
from karat.protocols.lineup.pointing import IMAGE, POINTED, Places, matched, permuted
from karat.protocols.synergy.protocol import F_SYN, Synergy

if TYPE_CHECKING:
    from karat.kernel.roles import Results

_POINTING = Card(
    "pointing", "the accused cue is one that this model's rule uses here (percentiles among permutations)", "metric",
    direction="higher", range=(0.0, 1.0), floor="control/random and control/smooth_noise, measured",
    ceiling="control/oracle", citation="ours",
)  # fmt: skip
SCORES = (
    _POINTING,
    replace(
        _POINTING,
        name="pointing_matched",
        summary="the same, percentiles among what this map says where the cues lie in other samples",
    ),
    replace(
        _POINTING,
        name="parts_named",
        summary="share of the cues that the rule uses among as many that are accused first",
    ),
    replace(
        _POINTING,
        name="pair_named",
        summary="of all couples of an image cue and a word, the accused one is the couple that the rule uses",
    ),
    replace(
        CorrectedMass.card, name="own_mass", summary="mass on what this model's rule uses here, corrected for area"
    ),
    replace(CorrectedMass.card, name="own_words", summary="mass on the words that this model's rule uses, corrected"),
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

    `synergy` adds F_syn of every explanation, with curves of so many steps (protocol `synergy` takes 11); 0 leaves it
    out. It costs about six forward passes a step.
    """

    synergy: Annotated[int, Ge(0)] = 0
    card: ClassVar[Card] = Card(
        "lineup", "which rule did the model follow? Ask the explanation, among rules that are known", "protocol",
        version=3, needs=frozenset({"scores"}), citation="ours",
    )  # fmt: skip

    @property
    def controls(self) -> tuple[str, ...]:
        """Chance is measured: with noise, and with noise as smooth as maps are."""
        return ("control/random", "control/smooth_noise")

    @property
    def passes(self) -> float:
        return 6.0 * self.synergy

    @property
    def scores(self) -> tuple[Card, ...]:
        return (*SCORES, F_SYN) if self.synergy else SCORES

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        samples = cue_samples(session)
        both = list(zip(samples, attributions, strict=True))
        places = session.memo("lineup/places", lambda: Places([s for s in session.peers if isinstance(s, CueSample)]))
        readings = {
            "pointing": [permuted(s, a, session.rng(i, "lineup/permuted")) for i, (s, a) in enumerate(both)],
            "pointing_matched": [
                matched(s, a, places, session.rng(i, "lineup/matched")) for i, (s, a) in enumerate(both)
            ],
        }
        unknown = unfollowed(session)
        columns: dict[str, Outcomes] = {}
        for name, part in (("own_mass", "visual"), ("own_words", "words")):
            columns[name] = self._own(session, attributions, part, unknown)  # type: ignore[arg-type]  # literals
        for name, rows in readings.items():
            columns[name] = _judged(session, rows, unknown, parts=False)
        columns["parts_named"] = _judged(session, readings["pointing"], unknown, parts=True)
        columns["pair_named"] = _couples(session, attributions, unknown)
        columns |= _accused(readings["pointing"])
        if self.synergy and "text" in session.model.capabilities:
            columns["f_syn"] = Synergy(steps=self.synergy).score(session, attributions)["f_syn"]
        elif self.synergy:
            reason = "F_syn needs a question, and the model reads none"
            columns["f_syn"] = Outcomes(np.full(len(samples), np.nan), {}, dict.fromkeys(range(len(samples)), reason))
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
            raise BadInput(
                f"lineup asks about samples of dataset `cues`; {sample.id} is none. Put your photographs under cues: "
                "{name: cues, images: FOLDER}."
            )
    return [sample for sample in session.samples if isinstance(sample, CueSample)]


def unfollowed(session: Session) -> dict[int, str]:
    """Samples that say nothing about the model's rule, and why. Asked for once a session."""
    if session.model.mechanism not in RULES:
        return dict.fromkeys(range(len(session.samples)), "the model follows no single known rule")
    certificates: list[Certificate] = session.memo(
        "lineup/certificates", lambda: certify(session.model, cue_samples(session))
    )
    return {i: certificate.reason for i, certificate in enumerate(certificates) if certificate.reason}


def _used(session: Session, sample: CueSample) -> frozenset[str]:
    return find_rule(str(session.model.mechanism)).used(sample.votes)


def _judged(session: Session, percentiles: Sequence[np.ndarray], unknown: Mapping[int, str], parts: bool) -> Outcomes:
    """Whether the cue with the largest percentile is one that the rule uses; with `parts`, the share of those that it
    uses among as many with the largest ones."""
    column = Column(len(percentiles))
    for i, (sample, row) in enumerate(zip(cue_samples(session), percentiles, strict=True)):
        if i in unknown:
            column.leave_out(i, unknown[i])
            continue
        used = np.array([cue in _used(session, sample) for cue in POINTED])
        needed = int(used.sum())
        if not needed:
            column.leave_out(i, "what the rule uses is not carried by a place of its own")
        elif not np.isfinite(row[used]).any():
            column.leave_out(i, "the method says nothing of what the rule uses")
        elif parts and needed < 2:
            column.leave_out(i, "the rule uses one cue here")
        else:
            first = np.argsort(-np.nan_to_num(row, nan=-1.0), kind="stable")[: needed if parts else 1]
            column.score(i, float(used[first].mean()), {"percentile": row, "used": used.astype(np.float64)})
    return column.outcomes()


def _couples(session: Session, attributions: Sequence[Attribution], unknown: Mapping[int, str]) -> Outcomes:
    """Where a rule uses an image cue and the word: whether the pairs of the explanation name them."""
    column = Column(len(attributions))
    for i, (sample, attribution) in enumerate(zip(cue_samples(session), attributions, strict=True)):
        used = frozenset[str]() if i in unknown else _used(session, sample)
        cues = [cue for cue in IMAGE if cue in used]
        if i in unknown:
            column.leave_out(i, unknown[i])
        elif "word" not in used or len(cues) != 1:
            column.leave_out(i, "the rule does not use an image cue and the word together here")
        elif (table := couple_percentiles(sample, attribution, session.rng(i, "lineup/pairs"))) is None:
            column.leave_out(i, "the method defines no pairs, or only zeros")
        else:
            couples = np.array(float(np.isfinite(table).sum()))
            column.score(i, names_couple(sample, table, cues[0]), {"couples": couples})
    return column.outcomes()


def _accused(percentiles: Sequence[np.ndarray]) -> dict[str, Outcomes]:
    """For every cue, whether it is the accused."""
    columns = {cue: Column(len(percentiles)) for cue in POINTED}
    for i, row in enumerate(percentiles):
        who = int(np.nanargmax(row)) if np.isfinite(row).any() else None
        for k, cue in enumerate(POINTED):
            if who is None:
                columns[cue].leave_out(i, "the explanation has no mass on a map or on words")
            else:
                columns[cue].score(i, float(who == k))
    return {f"accuses_{cue}": column.outcomes() for cue, column in columns.items()}
