"""What the explainers that ask have in common: who plays, what absence is, and how scores of players become maps.

No torch here, and no behaviour in a base class: `Asking` holds parameters, the rest are functions of a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from karat.explainers.placing import over_image
from karat.kernel.attribution import Attribution
from karat.kernel.target import TargetLike
from karat.kernel.typing import Map, Space, Values
from karat.models.torch_model import Frame
from karat.probe.absence import Absence
from karat.probe.coalitions import Kind, ModelGame
from karat.probe.evaluator import Question
from karat.probe.players import VisualSpec
from karat.probe.session import Session

T = TypeVar("T")
Features = Literal["jointly", "apart", "image", "text"]
Floats = npt.NDArray[np.floating[Any]]
ValueKind = Literal["auto", "probability", "logit", "log_odds"]

WHOLE: Frame = (0.0, 0.0, 1.0, 1.0)
CELLS = 7  # rows and columns of players on a model that has no patches of its own


@dataclass(frozen=True)
class Asking:
    """Parameters of every explainer over coalitions.

    `visual`: players of the image, as `Session.game` takes them; "auto" are the model's own patches, or 7 × 7 cells
    where it has none. `text`: "words" or "phrases". `absence`, `text_absence`: see `Absence`. `value`: what the model
    is asked for; "auto" is the logit of a model that has logits, the probability of one that has not.
    """

    visual: str | tuple[int, int] = "auto"
    text: Literal["words", "phrases"] = "words"
    absence: str = "blur"
    text_absence: str = "auto"
    value: ValueKind = "probability"


def games(session: Session, asking: Asking) -> list[ModelGame]:
    """One game per sample, all on the same terms: explainers on equal terms share their answers."""
    return [game_of(session, i, asking) for i in range(len(session.samples))]


def game_of(
    session: Session,
    i: int,
    asking: Asking,
    visual: VisualSpec = None,
    absence: Absence | None = None,
    target: TargetLike | None = None,
    question: int | None = None,
) -> ModelGame:
    """The game of one sample; `visual` and `absence` take the place of what `asking` says."""
    return session.game(
        i,
        visual=players(session, i, asking.visual) if visual is None else visual,
        text=asking.text,
        absence=absence or Absence(visual=asking.absence, text=asking.text_absence),
        value=kind(session, asking.value),
        target=target,
        question=question,
    )


def players(session: Session, i: int, visual: str | tuple[int, int]) -> str | tuple[int, int]:
    if visual != "auto":
        return visual
    if session.layout is not None and session.layout.grid is not None:
        return "patches"
    height, width = session.samples[i].size
    return min(CELLS, height), min(CELLS, width)


def kind(session: Session, value: ValueKind) -> Kind:
    if value != "auto":
        return value
    return "probability" if session.inside is None else "logit"


def among(members: Sequence[int], n: int, question: Question[T]) -> Question[T]:
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


def parts(game: ModelGame, features: Features) -> list[range]:
    """The sets of players that are explained together, those without players left out."""
    image, text = range(game.n_visual), range(game.n_visual, game.n)
    chosen = {"jointly": [range(game.n)], "apart": [image, text], "image": [image], "text": [text]}[features]
    return [part for part in chosen if len(part)]


def frame_of(session: Session, i: int) -> Frame:
    """The part of image i that the model sees: all of it for a plain function, or where nobody knows."""
    frames = None if session.inside is None else session.inputs.frames
    return frames[i] if frames else WHOLE


def on_image(session: Session, i: int, game: ModelGame, scores: Floats) -> tuple[Floats, Space]:
    """Scores of the visual players (n_visual, ...) as a map (h, w, ...) over the whole image, and what its cells are.

    A regular grid stays as small as it is; other players give each of their pixels their score.
    """
    seen = game.setting.visual
    if seen.grid is None:
        assert seen.labels is not None
        nobody = np.zeros((1, *scores.shape[1:]), dtype=scores.dtype)
        return np.concatenate([scores, nobody])[seen.labels], "superpixel"
    shown = scores.reshape(*seen.grid, *scores.shape[1:])
    frame = frame_of(session, i)
    if frame == WHOLE:
        return shown, "patch"
    flat = shown.reshape(*seen.grid, -1)
    placed = [over_image(flat[..., k], frame, session.samples[i].size) for k in range(flat.shape[-1])]
    return np.stack(placed, axis=-1).reshape(*session.samples[i].size, *scores.shape[1:]), "pixel"


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
    spoken = game.n_text > 0 and not np.isnan(scores[t]).all()
    word_scores = on_words(game, scores[t], words) if spoken else None
    word_error = on_words(game, error[t], words) if spoken and error is not None else None
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
