"""The instrument on maps whose direction is known: relational patterns (creg2026 E.5) and injected signals (E.4).

Scenes are random: two centres at least a fifth of the side apart, the reference in the middle half so that every
direction has room, the target with a box of a tenth to three tenths of the side. Widths are natural ones: a Gaussian
that fills its box (two standard deviations to the border), a wedge as wide as a sector, both with a peak of 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from karat.metrics.compass import compass, direction_error
from karat.protocols.compass.analysis import stream
from karat.protocols.compass.reading import Floats
from karat.statistics import bootstrap_mean

CELLS = 24
NOISE = "noise, the reference in the middle"
ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class Scenes:
    """n random pairs: points (n, 2) and the target's box sides (n, 2), in cells of a CELLS × CELLS map."""

    reference: Floats
    target: Floats
    box: Floats

    @property
    def width(self) -> Floats:
        return np.asarray(self.box.mean(axis=1) / 4)

    def gaussian(self, at: Floats) -> Floats:
        """(n, CELLS, CELLS) a bump at each point."""
        x, y = _offsets(at)
        return np.asarray(np.exp(-(x**2 + y**2) / (2 * self.width[:, None, None] ** 2)))

    def inside_box(self) -> Floats:
        x, y = _offsets(self.target)
        half = self.box[:, :, None, None] / 2
        return ((np.abs(x) <= half[:, 0]) & (np.abs(y) <= half[:, 1])).astype(np.float64)

    def wedge(self, degrees: Floats, sectors: int = 8) -> Floats:
        """1 wherever the direction from the reference is within half a sector of the given one (n,)."""
        x, y = _offsets(self.reference)
        off = np.degrees(np.arctan2(-y, x)) - degrees[:, None, None]
        return (np.abs((off + 180) % 360 - 180) <= 180 / sectors).astype(np.float64)


def _offsets(at: Floats) -> tuple[Floats, Floats]:
    y, x = np.indices((CELLS, CELLS)) + 0.5
    return x - at[:, 0, None, None], y - at[:, 1, None, None]


def draw_scenes(n: int, rng: np.random.Generator) -> Scenes:
    """n scenes; draws that put the objects too close together are drawn again."""
    box = rng.uniform(0.1, 0.3, (n, 2))
    reference, target = np.empty((n, 2)), np.empty((n, 2))
    left = np.arange(n)
    while len(left):
        reference[left] = rng.uniform(0.25, 0.75, (len(left), 2))
        target[left] = box[left] / 2 + rng.random((len(left), 2)) * (1 - box[left])
        left = left[np.hypot(*(target - reference)[left].T) < 0.2]
    return Scenes(reference * CELLS, target * CELLS, box * CELLS)


def relational_maps(scenes: Scenes) -> dict[str, Floats]:
    """The four patterns of creg2026 table 6."""
    a, b = scenes.reference, scenes.target
    return {
        "Gaussian peak at B": scenes.gaussian(b),
        "equal Gaussian peaks at A and B": scenes.gaussian(a) + scenes.gaussian(b),
        "five Gaussian peaks from A to B": sum(
            (scenes.gaussian(a + (b - a) * t) for t in np.linspace(0, 1, 5)), np.zeros((len(a), CELLS, CELLS))
        ),
        "uniform inside the box of B": scenes.inside_box(),
    }


def relational_table(n: int = 500, seed: int = 0) -> pd.DataFrame:
    """DAE and EA of each pattern on n random scenes, with intervals; and of noise, where the layout favours no side."""
    rng = np.random.default_rng(seed)
    scenes = draw_scenes(n, rng)
    patterns = {name: (scenes.reference, maps) for name, maps in relational_maps(scenes).items()}
    patterns[NOISE] = np.full((n, 2), CELLS / 2), rng.random((n, CELLS, CELLS))
    rows = []
    for name, (reference, maps) in patterns.items():
        shares = compass(maps, reference, scenes.target)
        errors = direction_error(shares, reference, scenes.target)
        mean = bootstrap_mean(errors, rng=stream("relational", name))
        rows.append((name, mean.value, mean.low, mean.high, float(np.nanmean(errors <= 45)), mean.n))
    return pd.DataFrame(rows, columns=["map", "dae", "low", "high", "ea", "n"])


def injection_table(n: int = 500, seed: int = 0) -> pd.DataFrame:
    """A wedge 90 degrees off, mixed with a bump on the target: r = alpha * wedge + (1 - alpha) * bump (Eq. 14)."""
    scenes = draw_scenes(n, np.random.default_rng(seed))
    step = scenes.target - scenes.reference
    true = np.degrees(np.arctan2(-step[:, 1], step[:, 0]))
    injected = np.radians(true + 90)
    aside = scenes.reference + np.stack([np.cos(injected), -np.sin(injected)], axis=1)
    bump, wedge = scenes.gaussian(scenes.target), scenes.wedge(true + 90)
    rows = []
    for alpha in ALPHAS:
        shares = compass(alpha * wedge + (1 - alpha) * bump, scenes.reference, scenes.target)
        position = direction_error(shares, scenes.reference, scenes.target)
        direction = direction_error(shares, scenes.reference, aside)
        follows = direction < position
        rows.append((alpha, position.mean(), direction.mean(), 1 - follows.mean(), follows.mean()))
    names = ["alpha", "dae to position", "dae to direction", "follows position", "follows direction"]
    return pd.DataFrame(rows, columns=names)


def crossover(table: pd.DataFrame) -> float:
    """The alpha from which on the peak follows the injected direction in more than half of the scenes."""
    share, alpha = table["follows direction"].to_numpy(), table["alpha"].to_numpy()
    k = int(np.argmax(share >= 0.5))
    if k == 0:
        return float(alpha[0])
    return float(np.interp(0.5, share[k - 1 : k + 1], alpha[k - 1 : k + 1]))
