"""`check_control`: what must hold for an explanation of known worth before others are read against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from karat.datasets.spatial import GridRelations
from karat.datasets.spatial.question import centre
from karat.kernel.attribution import Attribution
from karat.kernel.registry import label
from karat.kernel.sample import Sample
from karat.metrics import compass, direction_error
from karat.models import load_model
from karat.probe.session import Session
from karat.testing.law import Law, demand, tried

_Array = np.ndarray[Any, Any]
Scores = Callable[[Sequence[Sample], Sequence[_Array]], _Array]  # one value per sample, from its map
FINER = (2, 4)


def check_control(control: Any, score: Scores | None = None, within: float = 2.0) -> None:
    """Raise `Broken` (an AssertionError) that names every law the control breaks.

    Args:
        control, score, within: as in `control_laws`.

    Example:
        >>> from karat.explainers.control import Uniform
        >>> check_control(Uniform())
    """
    demand(label(control), control_laws(control, score, within))


def control_laws(control: Any, score: Scores | None = None, within: float = 2.0) -> list[Law]:
    """Every law of a control's maps.

    Args:
        control: an explainer.
        score: of maps, one value per sample; by default the direction error of the compass, which reads maps at the
            centres of their cells and so is the first to be misled by a coarse one.
        within: how much the mean score may change; of a random control, as much as chance does (three standard errors).

    Returns:
        One law: its score does not depend on how finely it is sampled. The same maps with every cell cut into 2 × 2 and
        4 × 4 are the same explanation.

    Example:
        >>> from karat.explainers.control import Uniform
        >>> [law.holds for law in control_laws(Uniform())]
        [True]
    """
    samples = GridRelations(48).load(0, 48)
    session = Session(load_model("gridprog.pure"), samples, [str(sample.answer) for sample in samples])
    measure = score or direction_errors
    return [
        tried(
            "its score does not depend on how finely it is sampled",
            lambda: _resolution(samples, control(session), measure, within),
        )
    ]


def direction_errors(samples: Sequence[Sample], maps: Sequence[_Array]) -> _Array:
    """Degrees (n,) between the evidence of each map and the target of its sample, seen from the reference."""
    errors = []
    for sample, one in zip(samples, maps, strict=True):
        pixels = np.array(sample.size[::-1]) / one.shape[::-1]
        reference, target = (np.array(centre(sample, role)) / pixels for role in ("anchor", "target"))
        aspect = float(pixels[1] / pixels[0])
        shares = compass(one[None], reference, target, aspect=aspect)
        errors.append(float(direction_error(shares, reference, target, aspect=aspect)[0]))
    return np.array(errors)


def _resolution(samples: Sequence[Sample], attributions: Sequence[Attribution], score: Scores, within: float) -> str:
    maps = [
        np.asarray(attribution.visual, dtype=np.float64)
        for attribution in attributions
        if attribution.visual is not None
    ]
    if len(maps) < len(samples):
        return f"{len(samples) - len(maps)} of {len(samples)} samples have no map"
    usual = score(samples, maps)
    for times in FINER:
        finer = score(samples, [one.repeat(times, axis=0).repeat(times, axis=1) for one in maps])
        changes = (finer - usual)[np.isfinite(finer - usual)]
        chance = 3 * float(changes.std()) / len(changes) ** 0.5
        if abs(float(changes.mean())) > max(within, chance):
            rows, columns = maps[0].shape
            return (
                f"{np.nanmean(usual):.1f} on {rows} × {columns} cells, {np.nanmean(finer):.1f} when each is cut into "
                f"{times} × {times}: give the map on the grid that explainers' maps have"
            )
    return ""
