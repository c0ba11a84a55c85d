"""`karat.explain`: where a model looked when it said this, for those who want a map rather than a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

from karat.engine.explain_input import check_text, is_many, samples_of
from karat.engine.recommended import place_of, recommended
from karat.kernel.attribution import Attribution, Subject
from karat.kernel.attribution_picture import Attributions
from karat.kernel.errors import BadInput, CapabilityMissing
from karat.kernel.registry import build, find
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike, split_spoken
from karat.models import load_model
from karat.models.batching import in_parts
from karat.models.torch_model import SizesBatches
from karat.probe.session import Session


@overload
def explain(
    model: Model | str,
    image: Any,
    text: str | None = None,
    explainer: str | None = None,
    target: TargetLike | None = None,
    *,
    word: str | None = None,
    say: str | None = None,
    against: str | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Attribution: ...
@overload
def explain(
    model: Model | str,
    image: Sequence[Any],
    text: str | Sequence[str | None] | None = None,
    explainer: str | Sequence[str] | None = None,
    target: TargetLike | None = None,
    *,
    word: str | None = None,
    say: str | None = None,
    against: str | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Attributions: ...
@overload
def explain(
    model: Model | str,
    image: Any,
    text: str | None = None,
    *,
    explainer: Sequence[str],
    target: TargetLike | None = None,
    word: str | None = None,
    say: str | None = None,
    against: str | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Attributions: ...
def explain(
    model: Model | str,
    image: Any,
    text: str | Sequence[str | None] | None = None,
    explainer: str | Sequence[str] | None = None,
    target: TargetLike | None = None,
    *,
    word: str | None = None,
    say: str | None = None,
    against: str | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Attribution | Attributions:
    """Where a model looked when it said this.

    Args:
        model: A loaded model, or its name: a twin (`gridvlm.pure`), a hub id or directory, `timm:NAME`,
            `torchvision:NAME`, `package.module:function`.
        image: A path, a picture of Pillow, an array (H, W, 3), a tensor (3, H, W) or a `Sample`, which brings its text;
            or a list of these.
        text: The question, for models that read one; one for all images, or one for each.
        explainer: A registered name (`karat ls explainers`), or several. By default the best recorded one that the
            model can serve (`karat.engine.recommended`).
        target: What is explained, a text or a span of what was said (`karat.Target.word("dog", text)`); by default the
            model's own answer.
        word: A word or phrase of what was said, instead of `target`.
        say: What the model is made to say, instead of its answer.
        against: Words that could have stood in the target's place: what speaks for the one rather than the other.
        seed: Of whatever the explainer draws.
        parameters: The explainer's own.

    Returns:
        An `Attribution` that knows its image, words and target and draws itself (`.show()`, `.save("x.png")`,
        `.top(5)`); of several images or explainers, a list of them that lays itself out as a grid.

    Example:
        >>> import numpy as np
        >>> from karat.models.blackbox import blackbox
        >>> model = blackbox(
        ...     lambda images, texts: images[:, :8].mean((1, 2))[:, :2] / 255, ["red", "green"], "half", text=False
        ... )
        >>> image = np.zeros((16, 16, 3), np.uint8)
        >>> image[:8, :, 0] = 200
        >>> attribution = explain(model, image, target="red")
        >>> attribution
        Attribution of 'red' by perturbation/leave_one_out on half: map 7 × 7 (patch, signed), 50 passes
        >>> bool(attribution.visual[:3].mean() > 5 * abs(attribution.visual[-3:].mean()))
        True
    """
    loaded = load_model(model) if isinstance(model, str) else model
    names = explainers_for(loaded, explainer)
    samples = samples_of(image, text)
    for sample in samples:
        check_text(loaded, sample)
    methods = [build("explainer", name, parameters) for name in names]
    for name, method in zip(names, methods, strict=True):
        check_capabilities(name, method, loaded)

    def some(positions: Sequence[int]) -> list[list[Attribution]]:
        """The attributions of some samples, one for each method."""
        chosen = [samples[k] for k in positions]
        targets = [target_for(loaded, sample, target, word, say, against) for sample in chosen]
        session = Session(loaded, chosen, None if None in targets else [t for t in targets if t is not None], seed=seed)
        session.expect(methods)
        made = [list(method(session)) for method in methods]
        named = [
            [about(one, sample, session.targets[k], loaded, name) for name, one in zip(names, row, strict=True)]
            for k, (sample, row) in enumerate(zip(chosen, zip(*made, strict=True), strict=True))
        ]
        session.close()
        return named

    keys = [loaded.batch_key(s) if isinstance(loaded, SizesBatches) else s.size for s in samples]
    rows = in_parts(keys, some)
    attributions = Attributions(one for row in rows for one in row)
    alone = not is_many(image) and (explainer is None or isinstance(explainer, str))
    return attributions[0] if alone else attributions


def explainers_for(model: Model, explainer: str | Sequence[str] | None, count: int = 1) -> list[str]:
    """The names that were given, or the recommended ones."""
    if isinstance(explainer, str):
        return [explainer]
    if explainer is not None:
        if not explainer:
            raise BadInput("explain: `explainer` is an empty list; name at least one, or leave it out.")
        return list(explainer)
    return [place.explainer for place in recommended(model.capabilities, count)]


def check_capabilities(name: str, method: Any, model: Model) -> None:
    """An error before work for an explainer that the model cannot serve, with some that it can."""
    if missing := method.card.needs - model.capabilities - {"scores"}:
        able = [place.explainer for place in recommended(model.capabilities)]
        raise CapabilityMissing(name, missing, model.name, model.capabilities, f"Use {' or '.join(able)}.")


def target_for(
    model: Model, sample: Sample, target: TargetLike | None, word: str | None, say: str | None, against: str | None
) -> TargetLike | None:
    """What is explained of a sample; None for the model's own answer, which the session asks for."""
    if target is not None and (word is not None or say is not None):
        raise BadInput("explain: give `target`, or `word` and `say`, which make one.")
    if isinstance(target, Target) and against is not None:
        return replace(target, contrast=against)
    if target is None and word is None and say is None and against is None:
        return None
    spoken = say if say is not None else target if isinstance(target, str) else None
    if spoken is None:
        [spoken] = model.answer([sample])
    if not spoken.strip():
        raise BadInput(f"{model.name} said nothing about {sample.id}; make it say something with `say`.")
    chosen = Target.whole(spoken) if word is None else word_of(model, word, spoken)
    if against is not None:
        chosen = replace(chosen, contrast=against)
    whole = chosen.span == (0, len(spoken)) and chosen.contrast is None
    return spoken if whole else chosen


def word_of(model: Model, word: str, spoken: str) -> Target:
    """A word or phrase of what was said; an error for models whose answer is one piece."""
    chosen = Target.phrase(word, spoken) if len(word.split()) > 1 else Target.word(word, spoken)
    if "autoregressive" not in model.capabilities and chosen.span != (0, len(spoken)):
        raise BadInput(
            f"{model.name!r} answers as a whole, so no part of {spoken!r} can be explained: leave `word` out, or ask a "
            "model that answers token by token."
        )
    return chosen


def about(
    attribution: Attribution, sample: Sample, target: TargetLike, model: Model, explainer: str, note: str = ""
) -> Attribution:
    """The attribution with what it is of."""
    place = place_of(explainer, model.capabilities)
    return replace(
        attribution, of=Subject(sample, target, model.name, explainer, note or (str(place) if place else ""))
    )


def words_of(model: Model, spoken: str) -> list[TargetLike]:
    """What of an answer gets maps: all of it and, from a model that answers token by token, each of its words."""
    words = split_spoken(spoken) if "autoregressive" in model.capabilities else []
    if len(words) < 2:
        return [spoken]
    return [Target.whole(spoken), *(Target(spoken, span) for span in words)]


def pairs_for(model: Model) -> str:
    """The best recorded explainer of pairs that a model can serve; one without a record where none has one."""
    able = [name for name in gives_pairs() if find("explainer", name).card.needs - {"scores"} <= model.capabilities]
    if "text" not in model.capabilities or not able:
        raise BadInput(f"pairs are of places with words, and {model.name!r} reads none: show the cells.")
    places = {name: place_of(name, model.capabilities) for name in able}
    return max(able, key=lambda name: -1.0 if (place := places[name]) is None else place.value)


def gives_pairs() -> list[str]:
    """Explainers whose attributions have pairs of places and words."""
    from karat.kernel.registry import registered

    return [name for name in sorted(registered("explainer")) if "pairs" in find("explainer", name).card.gives]
