"""`explain_answer`: what a model says about an image, word by word, and the maps of several explainers for each word.

All words share one forward (`Session.one_forward`); explainers share one trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np

from karat.engine.explain import (
    about,
    check_capabilities,
    explainers_for,
    gives_pairs,
    pairs_for,
    word_of,
    words_of,
)
from karat.engine.explain_check import CHECK_PASSES, check_maps, shuffled_maps
from karat.engine.explain_input import check_text, pixels_of, samples_of
from karat.engine.recommended import WHY, place_of
from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput
from karat.kernel.explanation import Explanation, Method, Spoken
from karat.kernel.registry import build
from karat.kernel.roles import CountsPasses, Model, plays
from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike, plain
from karat.kernel.typing import Mask
from karat.models import load_model
from karat.models.torch_model import AnswersByToken, ReadsSpans, TorchModel
from karat.probe.session import Session

Show = Literal["all", "words", "cells", "pairs"]
Progress = Callable[[str, Session | None, float], None]  # what is done, by whom, and the passes it will take
_CELLS = 8  # a side: explainers that hide one patch at a time hide cells where there are more patches than 100
_MANY = 100
_RARE = 1e-3  # a word less probable than this is asked about by its log odds: differences of its probability are none


def explain_answer(
    model: Model | str,
    image: Any,
    text: str | None = None,
    explainer: str | Sequence[str] | None = None,
    *,
    word: str | None = None,
    say: str | None = None,
    against: str | None = None,
    show: Show = "all",
    budget: float | None = None,
    check: bool = False,
    mask: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Explanation:
    """The answer of a model and, for each word of it, a map of each explainer.

    Args:
        model, image, text, explainer, say, against, seed: As in `karat.explain`; without `explainer` up to three that
            go with the model, by what is recorded of them. One image.
        word: Explain this word or phrase only.
        show: "words" keeps the scores of the question's words, "cells" the maps, "pairs" those of places with words.
        budget: About so many seconds for each explainer that asks: they ask less where they would take longer.
        check: Put the maps of the answer to the test (`karat.engine.explain_check`), and say whether to believe them.
        mask: An image of the same size whose bright half is where the evidence should lie; checked too.
        progress: Called with each explainer's name before it begins, the session, and the forward passes to come.

    Returns:
        An `Explanation`.

    Example:
        >>> from karat.datasets.grid import generate
        >>> made = explain_answer("gridprog.pure", generate("D1_M_F0_d0.3", 1)[0], explainer="cam/layercam")
        >>> [method.name for method in made.methods], len(made.targets)
        (['cam/layercam'], 1)
    """
    loaded = load_model(model) if isinstance(model, str) else model
    samples = samples_of(image, text)
    if len(samples) != 1:
        raise BadInput(f"explain_answer takes one image; got {len(samples)}. Lists go to karat.explain.")
    [sample] = samples
    check_text(loaded, sample)
    bright = _mask(mask, sample)
    names = [pairs_for(loaded)] if show == "pairs" and explainer is None else explainers_for(loaded, explainer, 3)
    if show == "pairs" and (without := [name for name in names if name not in gives_pairs()]):
        raise BadInput(f"{without[0]} gives no pairs of places and words; these do: {', '.join(gives_pairs())}.")
    for name in names:
        check_capabilities(name, build("explainer", name, {}), loaded)

    answer = say if say is not None else loaded.answer([sample])[0]
    if not answer.strip():
        raise BadInput(f'{loaded.name} said nothing about {sample.id}: make it say something, as in --say "a dog".')
    targets = words_of(loaded, answer) if word is None else [word_of(loaded, word, answer)]
    if against is not None:
        targets = [replace(t if isinstance(t, Target) else Target.whole(t), contrast=against) for t in targets]
    targets = [plain(t) if isinstance(t, Target) and len(targets) == 1 else t for t in targets]
    session = Session(loaded, [sample] * len(targets), targets, seed=seed)
    probabilities = _probabilities(loaded, sample, targets)
    rare = min(probabilities) < _RARE
    per_pass = 0.0
    if budget is not None:
        began = perf_counter()
        loaded.score([sample], [targets[0]])
        per_pass = perf_counter() - began
    built = [_fitted(name, session, rare, budget, per_pass) for name in names]
    session.expect([method for method, _ in built])
    methods = []
    for name, (method, note) in zip(names, built, strict=True):
        passes = float(method.passes) if plays(method, CountsPasses) else 1.0
        if progress is not None:
            progress(name, session, passes)
        began = perf_counter()
        made = [_only(one, show, name) for one in method(session)]
        place = place_of(name, loaded.capabilities)
        record = f"recorded: {place}" if place else "no record of it on twins of this kind"
        named = tuple(about(one, sample, t, loaded, name, record) for one, t in zip(made, targets, strict=True))
        methods.append(Method(name, named, record, note, perf_counter() - began))
    spoken = tuple(Spoken(str(t), p) for t, p in zip(targets, probabilities, strict=True))
    tokens = _tokens(loaded, sample, answer)
    verdicts: tuple[str, ...] = ()
    if check or bright is not None:
        if progress is not None:
            progress("check", session, CHECK_PASSES)
        verdicts = _checked(model if isinstance(model, str) else None, session, methods, bright)
    session.close()
    return Explanation(
        sample, loaded.name, answer, say is not None, tokens, tuple(targets), spoken, tuple(methods), verdicts,
        why=WHY, against=against,
    )  # fmt: skip


def _checked(name: str | None, session: Session, methods: Sequence[Method], mask: Mask | None) -> tuple[str, ...]:
    """A sentence for each map of the answer. Weights can be shuffled where the model was given by its name."""
    maps = {method.name: method.maps[0] for method in methods}
    shuffled = None
    if name is not None and session.inside is not None:
        shuffled = shuffled_maps(load_model("randomised", of=name), session, list(maps))
    return tuple(check.sentence() for check in check_maps(session, maps, shuffled, mask))


def _mask(mask: Any, sample: Sample) -> Mask | None:
    if mask is None:
        return None
    bright = pixels_of(mask).max(-1) > 127
    if bright.shape != sample.size:
        raise BadInput(f"the mask has {bright.shape[1]} × {bright.shape[0]} pixels, the image {sample.size[1]} × "
                       f"{sample.size[0]}: they must be of one size.")  # fmt: skip
    if not bright.any() or bright.all():
        raise BadInput("the mask is all of one kind: pixels brighter than half are where the evidence should lie.")
    return bright


def _fitted(name: str, session: Session, rare: bool, budget: float | None, per_pass: float) -> tuple[Any, str]:
    """The explainer with as much effort as its budget allows, and what was changed for it."""
    usual = build("explainer", name, {})
    changes: dict[str, Any] = {}
    known = {each.name for each in fields(usual)}
    patches = session.layout.grid if session.layout is not None else None
    count = patches[0] * patches[1] if patches is not None else 49
    words = len(session.samples[0].words)
    if "visual" in known and usual.visual == "auto" and "budget" not in known and count > _MANY:
        changes["visual"], count = (_CELLS, _CELLS), _CELLS**2
    if rare and "value" in known and usual.value == "probability":
        changes["value"] = "log_odds"
    if budget is not None:
        changes |= _less(usual, max(1, int(budget / max(per_pass, 1e-6))), count, words)
    if not changes:
        return usual, ""
    changed = ", ".join(f"{key} {_said(value)}" for key, value in changes.items())
    why = f" to stay near {budget:g} s" if budget is not None else ""
    return build("explainer", name, changes), f"run with {changed}{why}"


def _less(usual: Any, passes: int, count: int, words: int) -> Mapping[str, Any]:
    """Parameters that keep an explainer within so many passes; none where it does anyway."""
    known = {each.name for each in fields(usual)}
    if "masks" in known and usual.masks + getattr(usual, "word_masks", 0) > passes:
        masks = max(24, passes // 2)
        return {"masks": masks, **({"word_masks": max(8, passes // 4)} if "word_masks" in known else {})}
    if "budget" in known and usual.budget > passes:
        return {"budget": max(2 * (count + words) + 2, passes)}
    if "window" in known and (usual.cells - usual.window + 1) ** 2 > passes:
        cells = max(usual.window, int(np.sqrt(passes)) + usual.window - 1)
        return {"cells": min(cells, usual.cells)}
    if "visual" in known and "budget" not in known and count + words + 1 > passes:
        side = max(2, int(np.sqrt(max(passes - words - 1, 4))))
        return {"visual": (side, side)}
    return {}


def _said(value: Any) -> str:
    return " × ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _only(attribution: Attribution, show: Show, name: str) -> Attribution:
    """Without the parts that were not asked for."""
    if show == "all":
        return attribution
    part = {"words": attribution.words, "cells": attribution.visual, "pairs": attribution.pairs}[show]
    if part is None:
        what = {"words": "scores of words", "cells": "map", "pairs": "pairs"}[show]
        raise BadInput(f"{name} gives no {what} on this model; show something else, or choose another explainer.")
    if show == "pairs":
        return attribution
    return replace(attribution, visual=None, pairs=None) if show == "words" else replace(
        attribution, words=None, pairs=None, words_error=None
    )  # fmt: skip


def _probabilities(model: Model, sample: Sample, targets: Sequence[TargetLike]) -> list[float]:
    if isinstance(model, ReadsSpans) and isinstance(model, TorchModel) and len(targets) > 1:
        import torch

        with torch.no_grad():
            return model.span_scores(model.encode([sample]), targets, True)[0].exp().tolist()
    return [float(p) for p in model.score([sample] * len(targets), list(targets))]


def _tokens(model: Model, sample: Sample, answer: str) -> tuple[Spoken, ...]:
    """The answer token by token; a model that answers as a whole has one piece."""
    if not isinstance(model, AnswersByToken):
        return (Spoken(answer, float(model.score([sample], [answer])[0])),)
    spans = [span for span in model.token_spans(answer) if span[1] > span[0]]
    targets: list[TargetLike] = [Target(answer, span) for span in spans]
    return tuple(
        Spoken(answer[a:b], p) for (a, b), p in zip(spans, _probabilities(model, sample, targets), strict=True)
    )
