"""What perturbation-based explainers share: their players, their games, their budgets, and scores of players as maps.

No torch here, and no behaviour in a base class: `Coalitional` holds parameters, the rest are functions of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from karat.explainers.to_attribution import WHOLE, frame_of, over_image
from karat.kernel.attribution import Attribution
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.roles import ChecksBudget, plays
from karat.kernel.target import TargetLike
from karat.kernel.typing import Map, Space, Values
from karat.probe import exact
from karat.probe.absence import Absence, CoalitionAbsence, TextAbsence
from karat.probe.coalitions import Kind, ModelGame
from karat.probe.evaluator import Evaluator, Question
from karat.probe.games import Estimate
from karat.probe.players import VisualSpec
from karat.probe.session import Session

T = TypeVar("T")
Floats = npt.NDArray[np.floating[Any]]
Side = Annotated[int, Ge(1)]
ImagePlayers = (
    Literal["auto", "patches", "cells", "pixels", "superpixels", "objects", "objects_and_background"]
    | tuple[Side, Side]
)
TextPlayers = Literal["words", "phrases"]
Features = Literal["jointly", "apart", "image", "text"]
ValueKind = Literal["auto", "probability", "logit", "log_odds"]
Budget = Annotated[int, Ge(1)]
Estimator = Callable[[ModelGame, range, int, np.random.Generator], Question[Estimate]]  # game, players, budget, rng

CELLS = 7  # rows and columns of players on a model that has no patches of its own


@dataclass(frozen=True)
@checked
class Coalitional:
    """Parameters of every explainer over coalitions.

    `visual`: players of the image, as `Session.game` takes them; "auto" are the model's own patches, or 7 × 7 cells
    where it has none. `text`: "words" or "phrases". `absence`, `text_absence`: see `Absence`. `value`: what the model
    is asked for; "auto" is the logit of a model that has logits, the probability of one that has not.
    """

    visual: ImagePlayers = "auto"
    text: TextPlayers = "words"
    absence: CoalitionAbsence = "blur"
    text_absence: TextAbsence = "auto"
    value: ValueKind = "probability"


# ---- games


def games(session: Session, parameters: Coalitional) -> list[ModelGame]:
    """One game per sample. Explainers on equal terms share their answers; a budget too small for a game is an error."""
    return affordable(parameters, [game_of(session, i, parameters) for i in range(len(session.samples))])


def game_of(
    session: Session,
    i: int,
    parameters: Coalitional,
    visual: VisualSpec = None,
    absence: Absence | None = None,
    target: TargetLike | None = None,
    question: int | None = None,
) -> ModelGame:
    """The game of one sample; `visual` and `absence` take the place of what the parameters say."""
    return session.game(
        i,
        visual=image_players(session, i, parameters.visual) if visual is None else visual,
        text=parameters.text,
        absence=absence or Absence(visual=parameters.absence, text=parameters.text_absence),
        value=value_kind(session, parameters.value),
        target=target,
        question=question,
    )


def image_players(session: Session, i: int, visual: ImagePlayers) -> str | tuple[int, int]:
    """What "auto" stands for on this sample and model."""
    if visual != "auto":
        return visual
    if session.layout is not None and session.layout.grid is not None:
        return "patches"
    height, width = session.samples[i].size
    return min(CELLS, height), min(CELLS, width)


def value_kind(session: Session, value: ValueKind) -> Kind:
    if value != "auto":
        return value
    return "probability" if session.inside is None else "logit"


# ---- budgets


def player_count(session: Session, i: int, parameters: Coalitional) -> tuple[int, int]:
    """(visual, text) players of sample i: what `ChecksBudget.refuses` is asked with. The model does not run, if the
    session was given its targets; how absence looks does not matter to it."""
    game = game_of(session, i, parameters, absence=Absence())
    return game.n_visual, game.n_text


def affordable(explainer: object, games: list[ModelGame]) -> list[ModelGame]:
    """The games, or an error for the first that the explainer refuses."""
    if plays(explainer, ChecksBudget):
        for game in games:
            if reason := explainer.refuses(game.n_visual, game.n_text):
                raise BadInput(reason)
    return games


def too_small(name: str, budget: int, least: int, n_visual: int, n_text: int) -> str | None:
    """Why a budget is refused; None where it is enough."""
    if budget >= least:
        return None
    return f"{name}: {n_visual} visual and {n_text} text players need a budget of {least} or more; got {budget}."


def all_fit(n: int, budget: int) -> bool:
    """Whether all coalitions of n players can be asked for."""
    return n <= exact.MOST_PLAYERS and 2**n <= budget


def least_or_all(n: int, least: int) -> int:
    """The smallest budget of an explainer that is exact where all coalitions fit, and needs `least` where not."""
    return min(2**n, least) if n <= exact.MOST_PLAYERS else least


# ---- groups of players that are explained together


def player_groups(n_visual: int, n_text: int, features: Features) -> list[range]:
    """The sets of players that are explained together, those without players left out."""
    n = n_visual + n_text
    image, text = range(n_visual), range(n_visual, n)
    groups = {"jointly": [range(n)], "apart": [image, text], "image": [image], "text": [text]}[features]
    return [group for group in groups if len(group)]


def least_of_groups(n_visual: int, n_text: int, features: Features, least: Callable[[int], int]) -> int:
    """The smallest budget that, shared evenly, gives every group of n players `least(n)`."""
    groups = player_groups(n_visual, n_text, features)
    return len(groups) * max((least(len(group)) for group in groups), default=0)


def explain_groups(
    session: Session,
    games: list[ModelGame],
    features: Features,
    budget: int,
    name: str,
    estimator: Estimator,
    evaluator: Evaluator | None = None,
    signed: bool = True,
) -> list[Attribution]:
    """Scores of every group of players of every game, all asked for together.

    Args:
        budget: coalitions per sample, shared evenly by its groups.
        name: of the explainer, whose random streams are used.
        evaluator: who answers, game by game; by default the session.
        signed: whether negative scores speak against the answer.
    """
    plans, questions = [], []
    for i, game in enumerate(games):
        groups = player_groups(game.n_visual, game.n_text, features)
        for group in groups:
            rng = session.rng(i, f"{name}/{group.start}")
            question = estimator(game, group, budget // len(groups), rng)
            plans.append((i, group))
            questions.append(among_players(group, game.n, question))
    if evaluator is None:
        estimates = session.ask([(games[i], question) for (i, _), question in zip(plans, questions, strict=True)])
    else:
        estimates = evaluator.run([(i, question) for (i, _), question in zip(plans, questions, strict=True)])
    scores = [np.full(game.n, np.nan) for game in games]
    errors = [np.zeros(game.n) for game in games]
    passes = [0] * len(games)
    for (i, group), estimate in zip(plans, estimates, strict=True):
        scores[i][group], errors[i][group] = estimate.values, estimate.standard_error
        passes[i] += estimate.passes
    return [
        attribution(session, i, game, scores[i], errors[i], passes=passes[i], signed=signed)
        for i, game in enumerate(games)
    ]


def among_players(members: Sequence[int], n: int, question: Question[T]) -> Question[T]:
    """A question about some of the n players, put to the whole game: all others are kept."""
    values: Values | None = None
    while True:
        try:
            keep = question.send(values)  # type: ignore[arg-type]  # the first send of a generator is None
        except StopIteration as stop:
            result: T = stop.value
            return result
        joint = np.ones((len(keep), n), dtype=np.bool_)
        joint[:, list(members)] = keep
        values = yield joint


# ---- scores of players as attributions


def on_image(session: Session, i: int, game: ModelGame, scores: Floats) -> tuple[Floats, Space]:
    """Scores of the visual players (n_visual, ...) as a map (h, w, ...) over the whole image, and what its cells are.

    A regular grid stays as small as it is; other players give each of their pixels their score.
    """
    players = game.setting.visual
    if players.grid is None:
        assert players.labels is not None
        nobody = np.zeros((1, *scores.shape[1:]), dtype=scores.dtype)
        return np.concatenate([scores, nobody])[players.labels], "superpixel"
    cells = scores.reshape(*players.grid, *scores.shape[1:])
    frame = frame_of(session, i)
    if frame == WHOLE:
        return cells, "patch"
    flat, size = cells.reshape(*players.grid, -1), session.samples[i].size
    maps = [over_image(flat[..., k], frame, size) for k in range(flat.shape[-1])]
    return np.stack(maps, axis=-1).reshape(*size, *scores.shape[1:]), "pixel"


def on_words(game: ModelGame, scores: Floats, words: int) -> Floats:
    """Scores of the text players (n_text,) as one per word; words of one player share its score evenly."""
    spread = np.zeros(words, dtype=scores.dtype)
    for group, score in zip(game.setting.text.groups, scores, strict=True):
        for word in group:
            spread[word] += score / len(group)
    return spread


def attribution(
    session: Session,
    i: int,
    game: ModelGame,
    scores: Values,
    error: Values | None = None,
    *,
    passes: float,
    signed: bool = True,
    scalar: float | None = None,
) -> Attribution:
    """Scores (n,) of all players, NaN for those that were not explained, as an attribution of sample i."""
    words = len(session.samples[i].words)
    visual: Map | None = None
    visual_error: Map | None = None
    space: Space = "patch"
    v, t = slice(0, game.n_visual), slice(game.n_visual, game.n)
    if game.n_visual and not np.isnan(scores[v]).all():
        visual, space = on_image(session, i, game, scores[v])
        visual_error = None if error is None else on_image(session, i, game, error[v])[0]
    has_words = game.n_text > 0 and not np.isnan(scores[t]).all()
    word_scores = on_words(game, scores[t], words) if has_words else None
    word_error = on_words(game, error[t], words) if has_words and error is not None else None
    return Attribution(
        visual,
        word_scores,
        scalar=scalar,
        space=space,
        signed=signed,
        passes=passes,
        standard_error=visual_error if visual is not None else word_error,
        words_error=word_error if visual is not None else None,
    )
