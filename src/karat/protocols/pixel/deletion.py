"""Protocol `deletion`: IDS, SDS and FunnyBirds' single deletion on any model and images (pixelrules2024 table 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.card import Card
from karat.kernel.finding import Finding
from karat.kernel.row import Outcomes
from karat.kernel.typing import Maps
from karat.probe.session import Session
from karat.protocols.pixel.scores import incremental_deletion, part_deletion, single_deletion

if TYPE_CHECKING:
    from karat.results.run import Run

Score = Callable[[Session, Sequence[int], Maps], Outcomes]
_IDS = Card(
    "ids", "mean probability while pixels go grey, the least important first", "metric", direction="higher",
    range=(0.0, 1.0), citation="Samek et al. 2016; Hesse et al. 2024",
)  # fmt: skip
_SDS = Card(
    "sds", "rank correlation with the fall of the logit when one cell of a 4×4 grid goes grey", "metric",
    direction="higher", range=(-1.0, 1.0), citation="Selvaraju et al. 2017; Hesse et al. 2024",
    departures="on a model that was trained with such cells (`karat train pixel cnn_deleted`) it is IDSDS",
)  # fmt: skip
_SD = Card(
    "sd", "rank correlation with the fall of the logit when one object is taken out, from 0 to 1", "metric",
    direction="higher", range=(0.0, 1.0), citation="Hesse et al. 2023, FunnyBirds",
    departures="objects of the grid world are the parts, an empty cell is what their removal leaves; no dilation",
)  # fmt: skip
ABOUT = (
    "SD takes one object out at a time and asks whether the map knew how much that costs, as FunnyBirds does with the "
    "parts of a bird; SDS does the same with cells of a 4×4 grid (IDSDS on a model trained with such cells), and IDS "
    "deletes pixels, the least important first."
)


@dataclass(frozen=True)
class Deletion:
    """Takes pixels, cells and objects out and asks whether the map saw it coming. Works on every model that scores.

    `value` is what falls when a cell or an object goes: the target's logit, as published, its log odds or probability.
    """

    card: ClassVar[Card] = Card(
        "deletion", "does it foresee what deleting pixels, cells and objects does to the answer? Any images",
        "protocol", citation="Hesse et al. 2024; pixelrules2024 table 5",
    )  # fmt: skip

    value: Literal["logit", "log_odds", "probability"] = "logit"

    @property
    def scores(self) -> tuple[Card, ...]:
        return (_IDS, _SDS, _SD)

    def findings(self, run: Run) -> list[Finding]:
        """Places of the explainers under each of the scores, and Kendall's tau between the scores."""
        from karat.protocols.pixel.analysis import Scored
        from karat.protocols.pixel.findings import rankings

        scored = Scored(run)
        return [] if scored.rows.empty else rankings(scored, scored.models, ("sd", "ids", "sds"), ABOUT)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        drawn = [i for i, each in enumerate(attributions) if each.visual is not None]
        with_parts = [i for i in drawn if any(region.boxes for region in session.samples[i].regions)]
        return {
            "ids": _over(session, attributions, drawn, incremental_deletion),
            "sds": _over(session, attributions, drawn, partial(single_deletion, value=self.value)),
            "sd": _over(session, attributions, with_parts, partial(part_deletion, value=self.value)),
        }


def _over(session: Session, attributions: Sequence[Attribution], places: list[int], score: Score) -> Outcomes:
    """Scores of the samples at `places`; images of one size go together."""
    n = len(attributions)
    values = np.full(n, np.nan)
    failures: dict[int, str] = {}
    why = "the method defines no map, or the sample no objects"
    absent = {i: why for i in range(n) if i not in places}
    sizes: dict[tuple[int, int], list[int]] = {}
    for i in places:
        sizes.setdefault(session.samples[i].size, []).append(i)
    for size, members in sizes.items():
        maps = []
        for i in members:
            visual = attributions[i].visual
            assert visual is not None
            maps.append(resize_maps(np.asarray(visual, dtype=np.float64)[None], *size)[0])
        whole = [k for k, each in enumerate(maps) if np.isfinite(each).all()]
        failures |= {members[k]: "map: values are NaN or infinite" for k in range(len(maps)) if k not in whole}
        if whole:
            kept = [members[k] for k in whole]
            part = score(session, kept, np.stack([maps[k] for k in whole]))
            values[kept] = part.values
            absent |= {kept[k]: reason for k, reason in part.not_applicable.items()}
    return Outcomes(values, failures, absent)
