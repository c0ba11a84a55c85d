"""`check_maps`: whether to believe a map, by what needs no ground truth.

Five questions are put to each map of the answer:
- order: does hiding places in the map's order change the answer sooner, and showing them restore it sooner, than random
  orders do (insertion minus deletion, SRG), and than maps of the image alone do (edges, a blob in the middle)?
- singly: does the map rank places as hiding them one at a time does?
- together: do its first places and its first words matter together more than random ones do (F_syn)?
- shuffled: does the explainer give another map once the model's weights are shuffled (Adebayo et al. 2018)?
- agreement: how alike are the maps of the other explainers?

The verdict rests on order, singly and shuffled. How far rank correlations must go was chosen on other samples than
those on which its error rates were measured (`docs/recorded/check_rates.py`, `recorded/check/rates.json`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from scipy.stats import spearmanr

from karat.drawing.heat import stretched
from karat.kernel.attribution import Attribution, resize_maps
from karat.kernel.identity import generator
from karat.kernel.registry import build, find
from karat.kernel.roles import Model
from karat.kernel.typing import Map, Mask, Values
from karat.metrics.localization import corrected_mass
from karat.metrics.perturbation import curve_question, order_of
from karat.metrics.synergy import synergy_question
from karat.probe.coalitions import ModelGame
from karat.probe.evaluator import ask
from karat.probe.session import Session

Verdict = Literal["believe", "doubt", "cannot tell"]
ORDERS = 39  # random orders: the map is beyond all of them by chance once in forty
STEPS = 9
BLIND = ("control/edges", "control/center")  # maps that never met the model
CHECK_PASSES = 2 * (ORDERS + len(BLIND)) * STEPS
AGREES = 0.3  # least rank correlation of a map that is believed with the effects of hiding places one at a time
ALIKE = 0.8  # of a map and its like after the shuffle: a rank correlation that no map of another model should reach


@dataclass(frozen=True)
class Check:
    """What was found about one map; None where a question could not be put.

    `order` and `together` are shares of random orders that do worse (0 to 1); `blind` is the map of the image alone
    whose order does as well; `singly`, `shuffled` and `agreement` are rank correlations; `mass` is the share of the map
    on the mask beyond what its area earns (0 chance, 1 all of it).
    """

    explainer: str
    order: float | None
    together: float | None = None
    shuffled: float | None = None
    agreement: float | None = None
    mass: float | None = None
    blind: str | None = None
    singly: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Doubt a map that random orders match, or that ignores the weights; believe one that beats them all, and maps
        of the image alone, and ranks places as hiding them does."""
        if self.order is None or (self.shuffled is not None and self.shuffled > ALIKE) or self.order < 0.75:
            return "doubt"
        agrees = self.singly is not None and self.singly > AGREES
        return "believe" if self.order >= 1 and self.blind is None and agrees else "cannot tell"

    def sentence(self) -> str:
        """One sentence, the reasons, and how often such a sentence is wrong on twins."""
        parts = []
        if self.order is None:
            parts.append("its map has no order")
        else:
            parts.append(f"its order beats {self.order:.0%} of {ORDERS} random ones")
        if self.blind is not None:
            parts.append(f"{self.blind}, which never met the model, does as well")
        if self.singly is not None:
            parts.append(f"it ranks places as hiding them one at a time does at ρ {self.singly:.2f}")
        if self.together is not None:
            parts.append(f"its first places and words matter together more than {self.together:.0%} of random ones")
        if self.shuffled is not None:
            same = "stays the same" if self.shuffled > ALIKE else "changes"
            parts.append(f"the map {same} when the weights are shuffled (ρ {self.shuffled:.2f})")
        if self.agreement is not None:
            parts.append(f"it agrees with the others at ρ {self.agreement:.2f}")
        if self.mass is not None:
            parts.append(f"{self.mass:.0%} of the way from chance to the mask")
        head = {"believe": "Believe it", "doubt": "Do not believe it", "cannot tell": "Cannot tell"}[self.verdict]
        return f"{self.explainer}: {head}: {'; '.join(parts)}.{error_rates(self.verdict, asks(self.explainer))}"


def check_maps(
    session: Session,
    maps: Mapping[str, Attribution],
    shuffled: Mapping[str, Attribution] | None = None,
    mask: Mask | None = None,
) -> list[Check]:
    """Each map of a session's first sample and target, put to the test.

    Args:
        session: Over the sample and what was explained of it.
        maps: By explainer.
        shuffled: What the same explainers say of the model with shuffled weights, where that could be had.
        mask: (H, W) where the evidence should lie, if anybody knows.
    """
    game = session.game(0, visual=_players(session), value="log_odds")
    rng = generator(session.seed, session.samples[0].id, "check")
    random_visual = [rng.permutation(game.n_visual) for _ in range(ORDERS)]
    random_text = [rng.permutation(game.n_text) for _ in range(ORDERS)]
    chance = _gains(session, game, random_visual)
    effects = _effects(session, game)
    blind = {name: build("explainer", name, {})(session)[0].visual for name in BLIND}
    ranked = [order_of(_by_player(map_, game), rng) for map_ in blind.values() if map_ is not None]
    outdone = dict(zip(BLIND, _gains(session, game, ranked), strict=True))
    speaks = game.n_text > 1
    checks = []
    for name, one in maps.items():
        order = together = singly = rival = None
        if one.visual is not None and one.problem("visual") is None and np.ptp(one.visual) > 0:
            scores = _by_player(one.visual, game)
            visual = order_of(scores, rng)
            [gain] = _gains(session, game, [visual])
            order, singly = _beaten(gain, chance), _rank_correlation(scores, effects)
            rival = next((name for name, other in outdone.items() if other >= gain), None)
            if speaks and one.words is not None and one.problem("words") is None:
                pairs = [(visual, order_of(one.words, rng)), *zip(random_visual, random_text, strict=True)]
                mine, *others = session.ask([(game, synergy_question(game, v, t, STEPS)) for v, t in pairs])
                together = _beaten(mine.value, np.array([other.value for other in others]))
        other = None if shuffled is None else shuffled.get(name)
        checks.append(
            Check(
                name, order, together,
                None if other is None else alike(one.visual, other.visual),
                _agreement(name, maps),
                None if mask is None or one.visual is None else _mass(one.visual, mask),
                rival, singly,
            )
        )  # fmt: skip
    return checks


def shuffled_maps(shuffled: Model, session: Session, names: Sequence[str]) -> dict[str, Attribution]:
    """The same explainers on the model with shuffled weights (`load_model("randomised", of=...)`)."""
    other = Session(shuffled, session.samples[:1], session.targets[:1], seed=session.seed)
    made = {name: build("explainer", name, {})(other)[0] for name in names}
    other.close()
    return made


def alike(one: Map | None, other: Map | None) -> float | None:
    """The rank correlation of two maps, cell by cell; None where one of them says nothing."""
    if one is None or other is None:
        return None
    rows, columns = (min(a, b) for a, b in zip(one.shape, other.shape, strict=True))
    # finer cells are averaged
    first, second = (stretched(each, rows, columns).ravel().astype(np.float64) for each in (one, other))
    return _rank_correlation(first, second)


@cache
def rates() -> dict[str, Any]:
    """What was measured on twins: how often each verdict is given to a model's own map, its twin's, noise, edges."""
    record: dict[str, Any] = json.loads(files("karat").joinpath("recorded", "check", "rates.json").read_text("utf-8"))
    return record


def asks(explainer: str) -> bool:
    """Whether an explainer only asks, as the check does: it has an easier time of it than one that looks inside."""
    return not find("explainer", explainer).card.needs - {"scores"}


def error_rates(verdict: Verdict, asking: bool) -> str:
    """How far a verdict can be relied on, in words: for explainers that ask, or for those that look inside."""
    if verdict == "cannot tell":
        return ""
    word = {"believe": "believed", "doubt": "doubted"}[verdict]
    table = rates()["rates"]["asks" if asking else "looks inside"]
    listed = ", ".join(f"{kind} {table[kind][verdict]:.0%}" for kind in table)
    hardly = table["own map"]["believe"] <= 2 * table["twin's map"]["believe"]
    limit = " It hardly tells a model's map from one of a model that looks at the same things." if hardly else ""
    return f" (On twins, {word}: {listed}.{limit})"


def _players(session: Session) -> str | tuple[int, int]:
    grid = session.layout.grid if session.layout is not None else None
    if grid is not None and grid[0] * grid[1] <= 100:
        return "patches"
    height, width = session.samples[0].size
    return min(8, height), min(8, width)


def _effects(session: Session, game: ModelGame) -> Values:
    """By how much the value falls if each place alone is hidden."""
    keep = np.ones((game.n_visual + 1, game.n), dtype=bool)
    keep[1:, : game.n_visual] &= ~np.eye(game.n_visual, dtype=bool)
    [values] = session.ask([(game, ask(keep))])
    return values[0] - values[1:]


def _rank_correlation(one: Values, other: Values) -> float | None:
    """None where one of them says nothing."""
    return None if np.ptp(one) == 0 or np.ptp(other) == 0 else float(spearmanr(one, other).statistic)


def _gains(session: Session, game: ModelGame, orders: Sequence[np.ndarray[Any, np.dtype[np.intp]]]) -> Values:
    """Insertion minus deletion of each order, all asked for together."""
    questions = [(game, curve_question(game, order, adding, STEPS)) for order in orders for adding in (True, False)]
    curves = session.ask(questions)
    return np.array([curves[2 * k].value - curves[2 * k + 1].value for k in range(len(orders))])


def _by_player(map_: Map, game: ModelGame) -> Values:
    """The mean of a map over each visual player."""
    height, width = game.setting.sample.size
    [pixels] = resize_maps(np.asarray(map_, dtype=np.float64)[None], height, width)
    labels = game.setting.visual.labels_of(height, width).ravel()
    inside = labels >= 0
    total = np.bincount(labels[inside], pixels.ravel()[inside], minlength=game.n_visual)
    return total / np.maximum(np.bincount(labels[inside], minlength=game.n_visual), 1)


def _beaten(value: float, chance: Values) -> float:
    """The share of random orders that do worse; equal ones count half."""
    return float(((chance < value).sum() + 0.5 * (chance == value).sum()) / len(chance))


def _agreement(name: str, maps: Mapping[str, Attribution]) -> float | None:
    mine = maps[name].visual
    found = [alike(mine, one.visual) for other, one in maps.items() if other != name]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def _mass(map_: Map, mask: Mask) -> float:
    [resized] = resize_maps(np.asarray(map_, dtype=np.float64)[None], *mask.shape)
    return float(corrected_mass(np.maximum(resized, 0)[None], mask[None])[0])
