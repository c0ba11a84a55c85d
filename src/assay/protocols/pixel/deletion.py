"""Protocol `deletion`: IDS, SDS and FunnyBirds' single deletion on any model and images (pixelrules2024 table 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assay.kernel.attribution import Attribution, resize_maps
from assay.kernel.card import Card
from assay.kernel.row import Outcomes
from assay.kernel.typing import Maps
from assay.probe.session import Session
from assay.protocols.pixel.related import incremental_deletion, part_deletion, single_deletion

Score = Callable[[Session, Sequence[int], Maps], Outcomes]
_IDS = Card(
    "ids", "mean probability while pixels go grey, the least important first", "metric", direction="higher",
    range=(0.0, 1.0), citation="Samek et al. 2016; Hesse et al. 2024",
)  # fmt: skip
_SDS = Card(
    "sds", "rank correlation with the fall of the logit when one cell of a 4×4 grid goes grey", "metric",
    direction="higher", range=(-1.0, 1.0), citation="Selvaraju et al. 2017; Hesse et al. 2024",
    departures="on a model that was trained with such cells (`assay train pixel cnn_deleted`) it is IDSDS",
)  # fmt: skip
_SD = Card(
    "sd", "rank correlation with the fall of the logit when one object is taken out, from 0 to 1", "metric",
    direction="higher", range=(0.0, 1.0), citation="Hesse et al. 2023, FunnyBirds",
    departures="objects of the grid world are the parts, an empty cell is what their removal leaves; no dilation",
)  # fmt: skip


@dataclass(frozen=True)
class Deletion:
    """Takes pixels, cells and objects out and asks whether the map saw it coming. Works on every model that scores."""

    card: ClassVar[Card] = Card(
        "deletion", "does it foresee what deleting pixels, cells and objects does to the answer? Any images",
        "protocol", citation="Hesse et al. 2024; pixelrules2024 table 5",
    )  # fmt: skip

    @property
    def scores(self) -> tuple[Card, ...]:
        return (_IDS, _SDS, _SD)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        drawn = [i for i, each in enumerate(attributions) if each.visual is not None]
        with_parts = [i for i in drawn if any(region.boxes for region in session.samples[i].regions)]
        return {
            "ids": _over(session, attributions, drawn, incremental_deletion),
            "sds": _over(session, attributions, drawn, single_deletion),
            "sd": _over(session, attributions, with_parts, part_deletion),
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
