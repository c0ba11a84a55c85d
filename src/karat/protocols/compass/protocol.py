"""Scores of one explanation of a spatial answer: where does its evidence point, and does it matter from where?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.finding import Finding
from karat.kernel.row import Outcomes
from karat.metrics.compass import DirectionError, compass_problem
from karat.probe.session import Session
from karat.protocols.compass.reading import SECTORS, Floats, Scene, scenes

if TYPE_CHECKING:
    from karat.kernel.claim import Comparison
    from karat.results.run import Run

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
            citation="ours",
            departures="a flat map points to where most of the picture is; here it points nowhere"),
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
    finer than `cells` a side are averaged first.
    """

    cells: Annotated[int, Ge(1)] = 48
    passes: ClassVar[int] = 0
    #: Scored in every run, named by its spec or not: what a number is read against.
    controls: ClassVar[tuple[str, ...]] = (
        "control/geometry", "control/box_only", "control/random", "control/uniform",
    )  # fmt: skip
    card: ClassVar[Card] = Card(
        "compass", "does the evidence point from the reference object to the target?", "protocol",
        needs=frozenset({"text"}), citation="creg2026", paper="002",
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
        said = [options[k] for options, k in zip(listed, table.argmax(axis=0).tolist(), strict=True)]
        return [str(sample.meta.get("explain", answer)) for sample, answer in zip(samples, said, strict=True)]

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        from karat.protocols.compass.centres import CENTRES, other_centres
        from karat.protocols.compass.robustness import READINGS, alternative_readings  # SciPy's filters

        found, absent = scenes(session.samples, attributions, self.cells)
        n = len(attributions)
        failures: dict[int, str] = {}
        for scene in found:
            reasons = compass_problem(scene.maps, scene.reference, scene.target)
            failures |= {i: reason for i, reason in zip(scene.places, reasons, strict=True) if reason}

        def gather(read: Callable[[Scene], Floats], width: int) -> Floats:
            table = np.full((n, width), np.nan)
            for scene in found:
                table[scene.places] = read(scene).reshape(len(scene.places), width)
            table[list(failures)] = np.nan
            return table

        def outcomes(values: Floats, **details: Floats) -> Outcomes:
            """What has no direction although its compass is fine (a balanced mean, a lone random centre) says so."""
            said = {**absent, **failures}
            undecided = {i: "points nowhere" for i in np.flatnonzero(~np.isfinite(values)).tolist() if i not in said}
            return Outcomes(values, failures, {**absent, **undecided}, details)

        shares = gather(lambda scene: scene.compass(), SECTORS)
        error = gather(lambda scene: scene.errors(), 1)[:, 0]
        mean = gather(lambda scene: scene.error_of(scene.compass(), "mean"), 1)[:, 0]
        over = gather(lambda scene: scene.error_of(scene.excess()), 1)[:, 0]
        centres = gather(lambda scene: other_centres(session, scene), len(CENTRES))
        around = gather(lambda scene: replace(scene, reference=scene.target, target=scene.reference).compass(), SECTORS)
        readings = gather(lambda scene: alternative_readings(session, scene), len(READINGS))
        right = np.where(np.isfinite(error), (error <= 45.0 + 1e-9).astype(np.float64), np.nan)
        return {
            "compass/direction_error": outcomes(error, shares=shares),
            "edge_accuracy": outcomes(right),
            "mean_direction_error": outcomes(mean),
            "excess_error": outcomes(over),
            "accuracy": _accuracy(session),
            "centre_advantage": outcomes(centres[:, 0] - error, centres=centres, around_target=around),
            "turn_penalty": outcomes(readings[:, READINGS.index("rotation 90")] - error, readings=readings),
        }

    def findings(self, run: Run) -> list[Finding]:
        from karat.protocols.compass.findings import findings

        return findings(run)

    def paper(self, run: Run) -> Comparison:
        from karat.protocols.compass.paper import compare

        return compare(run)


def _accuracy(session: Session) -> Outcomes:
    """1 where the option explained is the right one; a probe explains whatever it was told to."""
    values = np.full(len(session.samples), np.nan)
    absent = {}
    for i, (sample, said) in enumerate(zip(session.samples, session.answers, strict=True)):
        if sample.answer is None or "explain" in sample.meta:
            absent[i] = "the sample says which answer to explain, or has none that is right"
        else:
            values[i] = float(said == sample.answer)
    return Outcomes(values, {}, absent)
