"""Scores of one explanation against the pixels that decided, known by Shapley value (pixelrules2024, algorithm 1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Le, MinLen

from karat.datasets.shortcut.sample import ShortcutSample, shortcut_samples
from karat.explainers.control_planted import PlantedShapley, PlantedSingleDeletion, patch_shapley
from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.card import Card
from karat.kernel.finding import Finding
from karat.kernel.row import Detail, Outcomes
from karat.kernel.typing import Map, Maps, Mask
from karat.metrics.ranking import KS, WEIGHTS, Hit, WeightedIoU, weighted_iou
from karat.models.pixelnet.dominance import Answers, answers
from karat.probe.session import Session
from karat.probe.trials import Effort, PooledEstimate
from karat.protocols.common.column import Column
from karat.protocols.common.localize import score_maps
from karat.protocols.pixel.scores import curves, incremental_deletion, single_deletion

if TYPE_CHECKING:
    from karat.kernel.claim import Comparison
    from karat.results.run import Run

NOT_DOMINANT = "the shortcut does not decide this image (pixelrules2024 Eq. 1)"
NO_MAP = "the method defines no map"
TRUTH, SINGLE = PlantedShapley.card.name, PlantedSingleDeletion.card.name
ZOOM = 3  # pixels around the patch that a close-up shows

_DOMINANT = Card(
    "dominant", "whether the shortcut decides this image: it gains more than T by it, and without it another wins",
    "metric", range=(0.0, 1.0), citation="pixelrules2024 Eq. 1",
)  # fmt: skip
_HIT = dataclasses.replace(Hit.card, name="hit", summary="whether the most important pixel lies in the patch (HA)")
_WIOU = dataclasses.replace(WeightedIoU.card, name="weighted_iou", summary="overlap of its top pixels with the truth's")
_CEILING = Card(
    "ceiling", "WIoU of a truth of several times the effort: what a perfect explainer would score", "metric",
    range=(0.0, 1.0), citation="after pixelrules2024 Eq. 3", departures="not in the paper: its truth is noisy too",
)  # fmt: skip
_DELETION = Card(
    "deletion", "accuracy while its first D pixels are put back to clean, one by one; area under the curve", "metric",
    direction="lower", range=(0.0, 1.0), floor="no pixel of the patch among the first D: 1",
    ceiling="control/planted_shapley is the reference, not always the best", citation="pixelrules2024 section 4.3",
)  # fmt: skip
_ADDITION = Card(
    "addition", "accuracy while its first D pixels are put into the clean image, one by one; area under the curve",
    "metric", direction="higher", range=(0.0, 1.0), floor="no pixel of the patch among the first D: 0",
    ceiling="control/planted_shapley is the reference, not always the best", citation="pixelrules2024 section 4.3",
)  # fmt: skip
_IDS = Card(
    "ids", "mean probability while pixels go grey, the least important first (incremental deletion)", "metric",
    direction="higher", range=(0.0, 1.0), citation="Samek et al. 2016; Hesse et al. 2024",
)  # fmt: skip
_SDS = Card(
    "sds", "rank correlation with the fall of the logit when one cell of a 4×4 grid goes grey (single deletion)",
    "metric", direction="higher", range=(-1.0, 1.0), citation="Selvaraju et al. 2017; Hesse et al. 2024",
    departures="on a model that was trained with such cells it is IDSDS",
)  # fmt: skip


@dataclass(frozen=True)
class Pixel:
    """Scores maps on samples of dataset `shortcut`, where the shortcut decides: `threshold` is T of Eq. 1.

    `effort` says how the truth is found; `control/planted_shapley` is that very truth. It is an estimate: a second one
    of `ceiling` times the effort, with draws of its own, says what WIoU a perfect explainer would have (0 leaves this
    out; it costs that many times the passes of the truth). `top` most important pixels decide HA. `related` adds IDS
    and SDS, the protocols of table 5, on the same images.
    """

    threshold: Annotated[float, Ge(0), Le(1)] = 0.9
    effort: Effort = field(default_factory=Effort)
    ceiling: Annotated[int, Ge(0)] = 4
    top: Annotated[int, Ge(1)] = 1
    ks: Annotated[tuple[Annotated[int, Ge(1)], ...], MinLen(1)] = KS
    weights: Annotated[tuple[Annotated[float, Ge(0)], ...], MinLen(1)] = WEIGHTS
    related: bool = True
    card: ClassVar[Card] = Card(
        "pixel", "does it rank the very pixels that decided, against Shapley ground truth?", "protocol", version=3,
        citation="pixelrules2024", paper="004",
    )  # fmt: skip

    @property
    def controls(self) -> Mapping[str, Mapping[str, Any]]:
        """The truth itself, at the effort it is found with, and the baseline that takes pixels for independent."""
        return {TRUTH: {"effort": dataclasses.asdict(self.effort)}, SINGLE: {}}

    @property
    def scores(self) -> tuple[Card, ...]:
        own = (_WIOU, *((_CEILING,) if self.ceiling else ()), _HIT, _DELETION, _ADDITION, _DOMINANT)
        return (*own, _IDS, _SDS) if self.related else own

    def findings(self, run: Run) -> list[Finding]:
        """The paper's tables and figures, from this run."""
        from karat.protocols.pixel.findings import findings

        return findings(run)

    def paper(self, run: Run) -> Comparison:
        """The paper's claims beside this run."""
        from karat.protocols.pixel.claims import compare

        return compare(run)

    def score(self, session: Session, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        samples = shortcut_samples(session.samples)
        given = session.memo("pixel/answers", lambda: answers(session.model, samples))
        decided = given.dominant(self.threshold)
        n = len(attributions)
        absent = {i: NOT_DOMINANT for i in np.flatnonzero(~decided).tolist()}
        absent |= {i: NO_MAP for i, each in enumerate(attributions) if each.visual is None and i not in absent}
        chosen = [i for i in range(n) if i not in absent]
        maps = [_on_pixels(attributions[i], samples[i].size) for i in chosen]
        broken = {k: f"map: {problem}" for k, each in enumerate(maps) if (problem := _problem(each))}
        failures = {chosen[k]: reason for k, reason in broken.items()}
        good = [k for k in range(len(chosen)) if k not in broken]
        chosen, maps = [chosen[k] for k in good], [maps[k] for k in good]

        facts = {
            name: np.asarray(getattr(given, name), dtype=np.float64)
            for name in ("clean", "perturbed", "clean_right", "perturbed_right")
        }
        parts = self._parts(session, samples, given, chosen, maps) if chosen else {}
        columns = {"dominant": Outcomes(decided.astype(np.float64), details=facts)}
        for card in self.scores:
            if card.name != "dominant":
                column = Column(n)
                for i, reason in absent.items():
                    column.leave_out(i, reason)
                for i, reason in failures.items():
                    column.fail(i, reason)
                if card.name in parts:
                    column.fill(chosen, parts[card.name])
                columns[card.name] = column.outcomes()
        return {card.name: columns[card.name] for card in self.scores}

    def _parts(
        self,
        session: Session,
        samples: Sequence[ShortcutSample],
        given: Answers,
        chosen: list[int],
        maps: list[Map],
    ) -> dict[str, Outcomes]:
        """Outcomes of the images that the shortcut decides, with what they were computed from."""
        truths = patch_shapley(session, chosen, self.effort)
        gains = given.perturbed - given.clean
        stacked: Maps = np.stack(maps)
        masks = np.stack([samples[i].patch for i in chosen])
        phi = np.stack([samples[i].patch_map(truths[i].values) for i in chosen])
        about = [_about(truths[i], float(gains[i]), self.ks, self.weights) for i in chosen]
        zoomed = [_zoomed(each, mask) for each, mask in zip(stacked, masks, strict=True)]
        overlap = score_maps(WeightedIoU(self.ks, self.weights), stacked, phi)  # type: ignore[arg-type]  # truth is scores, not a mask
        parts = {
            "weighted_iou": dataclasses.replace(overlap, details=_stacked(about)),
            "hit": dataclasses.replace(score_maps(Hit(self.top), stacked, masks), details=_stacked(zoomed)),
        }
        if self.ceiling:
            finer = patch_shapley(session, chosen, self.effort.times(self.ceiling), draw="planted again")
            exact = np.stack([samples[i].patch_map(finer[i].values) for i in chosen])
            parts["ceiling"] = score_maps(WeightedIoU(self.ks, self.weights), exact, phi)  # type: ignore[arg-type]  # as above
        deleted, added = curves(session, chosen, stacked)
        for name, curve in (("deletion", deleted), ("addition", added)):
            area = np.trapezoid(curve, axis=1) / (curve.shape[1] - 1)
            parts[name] = Outcomes(area, details={"accuracy": np.asarray(curve, dtype=np.float64)})
        if self.related:
            parts["ids"] = incremental_deletion(session, chosen, stacked)
            parts["sds"] = single_deletion(session, chosen, stacked)
        return parts


def _stacked(rows: Sequence[Mapping[str, Any]]) -> dict[str, Detail]:
    """Details of several images, one below the other."""
    return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}


def _on_pixels(attribution: Attribution, size: tuple[int, int]) -> Map:
    assert attribution.visual is not None
    return resize_maps(np.asarray(attribution.visual, dtype=np.float64)[None], *size)[0]


def _problem(map_: Map) -> str | None:
    bad = int((~np.isfinite(map_)).sum())
    return f"{bad} of {map_.size} values are NaN or infinite" if bad else None


def _about(truth: PooledEstimate, gain: float, ks: tuple[int, ...], weights: tuple[float, ...]) -> dict[str, Any]:
    """What is known of the truth of one image. `shapley` and `standard_error` have a value for each pixel of the patch;
    `gap` is what efficiency is missed by; `repeat` the weighted IoU of one trial with the mean of the others: the most
    that an explanation as good as one trial can score."""
    return {
        "shapley": truth.values,
        "standard_error": truth.standard_error,
        "error": truth.error,
        "spread": truth.spread,
        "trials": len(truth.trials),
        "passes": truth.passes,
        "gap": float(truth.values.sum()) - gain,
        "repeat": _repeat(truth, ks, weights),
    }


def _repeat(truth: PooledEstimate, ks: tuple[int, ...], weights: tuple[float, ...]) -> float:
    count, size = truth.trials.shape
    if count < 2:
        return 1.0
    share = truth.weights[:, None]
    rest = (truth.values - share * truth.trials) / (1 - share)
    used = [(k, w) for k, w in zip(ks, weights, strict=True) if k < size]
    if not used:
        return 1.0
    inside, shares = zip(*used, strict=True)
    return float(np.mean(weighted_iou(truth.trials[:, None, :], rest[:, None, :], inside, shares)))


def close_up(map_: Map, mask: Mask) -> Map:
    """The part of a map around the patch, scaled to at most 1 in magnitude over the whole image."""
    top, left, height, width = _window(mask)
    peak = np.abs(map_).max()
    return np.asarray(map_[top : top + height, left : left + width] / (peak if peak else 1.0))


def _window(mask: Mask) -> tuple[int, int, int, int]:
    """(top, left, height, width) of the close-up: the patch with `ZOOM` pixels around it, moved inside the image."""
    starts, sizes = [], []
    for along, whole in zip((mask.any(1), mask.any(0)), mask.shape, strict=True):
        patch = np.flatnonzero(along)
        size = min(len(patch) + 2 * ZOOM, whole)
        starts.append(int(np.clip(patch[0] - ZOOM, 0, whole - size)))
        sizes.append(size)
    return starts[0], starts[1], sizes[0], sizes[1]


def _zoomed(map_: Map, mask: Mask) -> dict[str, Any]:
    """The close-up (h, w), and top, left and side of the patch in it."""
    top, left, _, _ = _window(mask)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return {"close_up": close_up(map_, mask), "patch": [rows[0] - top, columns[0] - left, len(rows)]}
