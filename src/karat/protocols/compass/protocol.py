"""Scores of one explanation of a spatial answer: where does its evidence point, and does it matter from where?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.finding import Finding
from karat.kernel.row import Outcomes
from karat.metrics.compass import DirectionError, Origin, compass_problem
from karat.probe.session import Session
from karat.protocols.compass.reading import SECTORS, Floats, Scene, scenes

if TYPE_CHECKING:
    from karat.kernel.claim import Comparison
    from karat.kernel.roles import Results

_DAE = replace(
    DirectionError.card,
    name="compass/direction_error",
    ceiling="control/geometry: at most half a sector; 11.25 on average over all directions",
    draws=(("shares", "compass"),),
)
_SCORES = (
    _DAE,
    Card("edge_accuracy", "whether the evidence points within 45 degrees of the truth (EA)", "metric",
         direction="higher", range=(0.0, 1.0), floor="a random direction: .25", ceiling="control/geometry: 1",
         citation="creg2026 Eq. 6"),
    replace(_DAE, draws=(), name="mean_direction_error",
            summary="degrees off, read by the circular mean instead of the peak", citation="creg2026 Eq. 13"),
    replace(_DAE, draws=(), name="excess_error",
            summary="degrees off, evidence above each sector's share of the picture only", floor="control/uniform: 90",
            citation="ours", departures="a flat map points to where most of the picture is; here it points nowhere"),
    Card("null_advantage", "degrees that a map points better at its own question than at those of other pictures",
         "metric", direction="higher", range=(-180.0, 180.0), floor="a map that does not know its picture: 0",
         citation="ours", departures="the null of creg2026 is a direction drawn at random, 90 degrees"),
    Card("permutation_advantage", "degrees that a map points better than its own cells in random places", "metric",
         direction="higher", range=(-180.0, 180.0), floor="independent noise: 0", citation="ours"),
    Card("accuracy", "whether the likeliest of the four options is right", "metric", direction="higher",
         range=(0.0, 1.0), floor="guessing: .25", citation="creg2026 B.3"),
    Card("centre_advantage", "degrees that the true reference is better than a random centre", "metric",
         direction="higher", range=(-180.0, 180.0), floor="any map that has nothing to do with the reference: 0",
         citation="creg2026 E.2", departures="from a new centre the truth is the direction to the target"),
    Card("turn_penalty", "degrees lost when the map is turned by a quarter", "metric", direction="higher",
         range=(-180.0, 180.0), floor="control/uniform: 0", citation="creg2026 table 7"),
)  # fmt: skip


@dataclass(frozen=True)
class Compass:
    """Reads maps as compasses around the reference (role `anchor`) of each question (datasets `spatial/...`).

    The answer explained is the likeliest of a sample's four `choices`, or the one its meta names as `explain`. Maps
    finer than `cells` a side are averaged first. `origin` says what lies at 0 degrees, the centre of sector 0 or its
    edge; the reading with the other one is kept beside it.
    """

    cells: Annotated[int, Ge(1)] = 48
    origin: Origin = "centre"
    passes: ClassVar[int] = 0
    #: Scored in every run, named by its spec or not: what a number is read against.
    #: Noise is as fine as the model's own maps.
    controls: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "control/geometry": {}, "control/box_only": {}, "control/random": {"cells": None}, "control/uniform": {},
    }  # fmt: skip
    card: ClassVar[Card] = Card(
        "compass", "does the evidence point from the reference object to the target?", "protocol",
        needs=frozenset({"text"}), citation="creg2026", paper="002", version=2,
    )  # fmt: skip

    @property
    def scores(self) -> tuple[Card, ...]:
        return _SCORES

    def targets(self, session: Session) -> list[str]:
        """The likeliest option of each sample, by the probability of saying it (creg2026 section 3.1.1)."""
        model, samples = session.model, session.samples
        rows = max((len(sample.choices) for sample in samples), default=0)
        if rows == 0:
            return model.answer(samples)
        listed = [sample.choices or ("",) * rows for sample in samples]
        table = np.stack([model.score(samples, [options[k] for options in listed]) for k in range(rows)])
        likeliest = [options[k] for options, k in zip(listed, table.argmax(axis=0).tolist(), strict=True)]
        return [str(sample.meta.get("explain", answer)) for sample, answer in zip(samples, likeliest, strict=True)]

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        from karat.protocols.compass import nulls
        from karat.protocols.compass.variations import CENTRES, VARIATIONS, alternative_readings, other_centres

        groups, absent = scenes(session.samples, attributions, self.cells, self.origin)
        n = len(attributions)
        failures: dict[int, str] = {}
        for scene in groups:
            reasons = compass_problem(scene.maps, scene.reference, scene.target)
            failures |= {i: reason for i, reason in zip(scene.places, reasons, strict=True) if reason}

        def gather(read: Callable[[Scene], Floats], width: int) -> Floats:
            table = np.full((n, width), np.nan)
            for scene in groups:
                table[scene.places] = read(scene).reshape(len(scene.places), width)
            table[list(failures)] = np.nan
            return table

        def outcomes(values: Floats, why: str = "points nowhere", **details: Floats) -> Outcomes:
            """What has no direction although its compass is fine (a balanced mean, a lone random centre) says so."""
            told = {**absent, **failures}
            undecided = {i: why for i in np.flatnonzero(~np.isfinite(values)).tolist() if i not in told}
            return Outcomes(values, failures, {**absent, **undecided}, details)

        shares = gather(lambda scene: scene.compass(), SECTORS)
        readings = gather(lambda scene: alternative_readings(session, scene), len(VARIATIONS))
        by = {how.name: readings[:, k] for k, how in enumerate(VARIATIONS)}
        error = by["none"]
        over = gather(lambda scene: scene.error_of(scene.excess(), origin="centre"), 1)[:, 0]
        unrelated = gather(lambda scene: nulls.unrelated_error(session, scene), 1)[:, 0]
        permuted = gather(lambda scene: nulls.permuted_error(session, scene), 1)[:, 0]
        centres = gather(lambda scene: other_centres(session, scene), len(CENTRES))
        around = gather(lambda scene: replace(scene, reference=scene.target, target=scene.reference).compass(), SECTORS)
        right = np.where(np.isfinite(error), (error <= 45.0 + 1e-9).astype(np.float64), np.nan)
        return {
            "compass/direction_error": outcomes(error, shares=shares),
            "edge_accuracy": outcomes(right),
            "mean_direction_error": outcomes(by["circular mean"]),
            "excess_error": outcomes(over),
            "null_advantage": outcomes(unrelated - error, "its shard has no other picture with both objects"),
            "permutation_advantage": outcomes(permuted - error),
            "accuracy": _accuracy(session),
            "centre_advantage": outcomes(
                centres[:, CENTRES.index("random")] - error, centres=centres, around_target=around
            ),
            "turn_penalty": outcomes(by["rotation 90"] - error, readings=readings),
        }

    def findings(self, run: Results) -> list[Finding]:
        from karat.protocols.compass.findings import findings

        return findings(run)

    def paper(self, run: Results) -> Comparison:
        from karat.protocols.compass.claims import compare

        return compare(run)


def _accuracy(session: Session) -> Outcomes:
    """1 where the option explained is the right one; a probe explains whatever it was told to."""
    values = np.full(len(session.samples), np.nan)
    absent = {}
    for i, (sample, answer) in enumerate(zip(session.samples, session.answers, strict=True)):
        if sample.answer is None or "explain" in sample.meta:
            absent[i] = "the sample says which answer to explain, or has none that is right"
        else:
            values[i] = float(answer == sample.answer)
    return Outcomes(values, {}, absent)
