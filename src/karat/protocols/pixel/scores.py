"""Scores that take pixels, cells or parts out or put them back, as functions of maps and a session: the curves of
pixelrules2024 section 4.3, and the protocols that it compares itself with (table 5).

| score | what is deleted                              | compared with               | after                         |
|-------|----------------------------------------------|-----------------------------|-------------------------------|
| IDS   | pixels, the least important first            | probability that is left    | Samek et al. 2016             |
| SDS   | one cell of a 4×4 grid                       | attribution in that cell    | Selvaraju et al. 2017         |
| IDSDS | the same, on a model trained with such cells | attribution in that cell    | Hesse et al. 2024             |
| SD    | one rendered part                            | attribution on that part    | FunnyBirds, Hesse et al. 2023 |

Deleted pixels are zero after normalisation: the grey that the model's inputs are centred on. Single deletion compares
with the fall of the target's logit, as published; a model whose other logits move along (one that counts, say) is
better asked for log odds. Falls that differ by less than a hundred-thousandth of the largest are ties: that much is
noise of the arithmetic, and most parts of a scene have no effect at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.datasets.shortcut.sample import shortcut_samples
from karat.kernel.row import Outcomes
from karat.kernel.sample import Sample
from karat.kernel.typing import Image, Keep, Map, Maps, Mask, Values
from karat.metrics.perturbation import order_of
from karat.models.preprocessing import Preprocessing
from karat.probe.absence import Absence
from karat.probe.coalitions import Kind
from karat.probe.players import grid_labels
from karat.probe.session import Session

Curves = npt.NDArray[np.float64]  # (n, D + 1), 1 where the model still gives the class after k pixels
CELLS = 4  # a side
STEPS = 32
NOISE = 1e-5
_BATCH = 256
CONSTANT = "the map or the model is the same for all parts: ranks have no correlation"


def curves(session: Session, places: Sequence[int], maps: Maps) -> tuple[Curves, Curves]:
    """(deletion, addition) of the samples at `places`, whose maps (n, H, W) are given.

    A deleted pixel is the clean one, an added one the perturbed one. Pixels outside the patch are the same in both
    images, so only those of the patch among the first D do anything. Ties are broken at random, by sample.
    """
    samples = shortcut_samples(session.samples)
    requests = []
    for i, each in zip(places, maps, strict=True):
        first = first_in_patch(each, samples[i].patch, session.rng(i, "pixel/ties"))
        requests += [(i, ~first), (i, first)]
    right = still_right(session, requests)
    return np.array(right[0::2], dtype=np.float64), np.array(right[1::2], dtype=np.float64)


def first_in_patch(values: Map, mask: Mask, rng: np.random.Generator) -> Keep:
    """(D + 1, D): row k marks the pixels of the patch that are among the first k pixels of the map."""
    size = int(mask.sum())
    rank: npt.NDArray[Any] = np.empty(values.size, dtype=np.intp)
    rank[order_of(values, rng)] = np.arange(values.size)
    inside = rank[np.flatnonzero(mask)]
    return np.asarray(inside[None, :] < np.arange(size + 1)[:, None])


def still_right(session: Session, requests: Sequence[tuple[int, Keep]]) -> list[npt.NDArray[np.bool_]]:
    """For coalitions (m, D) of each sample's patch: does the model still give its class? Each is asked for once."""
    samples = shortcut_samples(session.samples)
    right: dict[tuple[int, bytes], bool] = session.memo("pixel/still_right", dict)
    keys = [[(i, row.tobytes()) for row in keep] for i, keep in requests]
    rows = (zip(part, keep, strict=True) for part, (_, keep) in zip(keys, requests, strict=True))
    missing = {key: row for part in rows for key, row in part if key not in right}
    for start in range(0, len(missing), _BATCH):
        part = list(missing)[start : start + _BATCH]
        altered = [samples[key[0]].with_patch(missing[key]) for key in part]
        answers = session.model.answer(altered)
        right.update((key, answer == sample.answer) for key, answer, sample in zip(part, answers, altered, strict=True))
    return [np.array([right[key] for key in part], dtype=np.bool_) for part in keys]


def incremental_deletion(session: Session, places: Sequence[int], maps: Maps, steps: int = STEPS) -> Outcomes:
    """IDS: the mean probability of the target at `steps` shares of pixels deleted, 0 included and 1 not."""
    requests = []
    for i, map_ in zip(places, maps, strict=True):
        game = session.game(i, visual="pixels", text=None, absence=_normalised_grey(session, i))
        last_first = order_of(-map_, session.rng(i, "deletion/ties"))  # the least important first
        rank: npt.NDArray[Any] = np.empty(map_.size, dtype=np.intp)
        rank[last_first] = np.arange(map_.size)
        gone = np.floor(np.arange(steps) / steps * map_.size)
        requests.append((game, np.asarray(rank[None, :] >= gone[:, None])))
    return Outcomes(np.array([values.mean() for values in session.evaluate(requests)]))


def single_deletion(
    session: Session, places: Sequence[int], maps: Maps, cells: int = CELLS, value: Kind = "logit"
) -> Outcomes:
    """SDS: Spearman's correlation between what a cell holds of the map and how far the target's logit falls with it."""
    drops = cell_drops(session, places, cells, value)
    held = []
    for map_ in maps:
        labels = grid_labels(map_.shape[0], map_.shape[1], cells, cells)
        held.append(np.bincount(labels.ravel(), map_.ravel(), minlength=cells * cells))
    return _correlated(held, drops)


def part_deletion(session: Session, places: Sequence[int], maps: Maps, value: Kind = "logit") -> Outcomes:
    """SD of FunnyBirds, (rho + 1) / 2: objects are the parts, and an empty cell is what deletion leaves."""
    held, drops, absent = [], [], {}
    requests = []
    for k, (i, map_) in enumerate(zip(places, maps, strict=True)):
        labels, count = parts(session.samples[i])
        if count < 2:
            absent[k] = "fewer than two objects: nothing to rank"
        game = session.game(
            i, visual=labels, text=None, absence=Absence(visual="white"), value=_offered(session, value)
        )
        keep = np.concatenate([np.ones((1, count), dtype=np.bool_), ~np.eye(count, dtype=bool)])
        requests.append((game, keep))
        inside = labels >= 0
        held.append(np.bincount(labels[inside], map_[inside], minlength=count))
    drops = [values[0] - values[1:] for values in session.evaluate(requests)]
    result = _correlated(held, drops)
    return Outcomes((result.values + 1) / 2, not_applicable={**result.not_applicable, **absent})


def cell_drops(session: Session, places: Sequence[int], cells: int = CELLS, value: Kind = "logit") -> list[Values]:
    """How far the target's logit falls when a cell goes, for each cell; asked for once a session."""
    kind, requests = _offered(session, value), []
    for i in places:
        game = session.game(i, visual=(cells, cells), text=None, absence=_normalised_grey(session, i), value=kind)
        requests.append((game, np.concatenate([np.ones((1, game.n), dtype=np.bool_), ~np.eye(game.n, dtype=bool)])))
    return [values[0] - values[1:] for values in session.evaluate(requests)]


def parts(sample: Sample) -> tuple[npt.NDArray[np.int64], int]:
    """(H, W) labels of the objects of a sample, -1 elsewhere, and how many there are."""
    labels = np.full(sample.size, -1, dtype=np.int64)
    boxes = list(dict.fromkeys(box for region in sample.regions for box in region.boxes))
    for number, (x, y, w, h) in enumerate(boxes):
        labels[y : y + h, x : x + w] = number
    return labels, len(boxes)


def _offered(session: Session, value: Kind) -> Kind:
    """Models that give probabilities only have no logits: log odds then, which order the same for two classes."""
    return "log_odds" if value == "logit" and "gradients" not in session.model.capabilities else value


def _normalised_grey(session: Session, i: int) -> Absence:
    return Absence(visual="given", image=neutral(session, session.samples[i]))


def neutral(session: Session, sample: Sample) -> Image:
    """The image that is zero after the model's normalisation; plain grey for models that do not say."""
    transform = getattr(session.model, "transform", None)
    mean = transform.mean if isinstance(transform, Preprocessing) else (0.5, 0.5, 0.5)
    return np.broadcast_to(np.rint(np.array(mean) * 255).astype(np.uint8), sample.image.shape).copy()


def _correlated(held: Sequence[npt.NDArray[Any]], drops: Sequence[Values]) -> Outcomes:
    values = np.array([_spearman(a, _without_noise(b)) for a, b in zip(held, drops, strict=True)])
    silent = {k: CONSTANT for k in np.flatnonzero(~np.isfinite(values)).tolist()}
    return Outcomes(values, not_applicable=silent)


def _without_noise(drops: Values) -> Values:
    """In units of `NOISE` times the largest, rounded."""
    unit = NOISE * np.abs(drops).max(initial=0.0)
    return np.rint(drops / unit) if unit > 0 else drops


def _spearman(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Of few values, ties sharing ranks; NaN where one side is constant."""
    from scipy.stats import rankdata  # half a second that `karat ls` need not pay

    x, y = rankdata(a), rankdata(b)
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x**2).sum() * (y**2).sum())
    return float((x * y).sum() / scale) if scale > 0 else float("nan")
