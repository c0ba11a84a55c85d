"""`check_explainer`: what must hold for an explainer before its scores mean anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, get_args

import numpy as np

from karat.kernel.attribution import Attribution
from karat.kernel.errors import BadInput, KaratError
from karat.kernel.registry import label
from karat.probe.session import Session
from karat.testing.axioms import AXIOMS, Axiom
from karat.testing.law import Law, card_laws, demand, tried, unlike
from karat.testing.traces_left import breaking, changed, surroundings
from karat.testing.worlds import World, worlds_for


def check_explainer(
    explainer: Any, *, worlds: Sequence[World] | None = None, axioms: Collection[Axiom] = (), alone: bool = True
) -> None:
    """Raise `Broken` (an AssertionError) that names every law the explainer breaks. Arguments as `explainer_laws`.

    Example:
        >>> from karat.explainers.control import Random
        >>> check_explainer(Random())
        >>> check_explainer(Random(), axioms=["finds"])
        Traceback (most recent call last):
        karat.testing.law.Broken: control/random breaks ... laws:...
    """
    demand(label(explainer), explainer_laws(explainer, worlds=worlds, axioms=axioms, alone=alone))


def explainer_laws(
    explainer: Any, *, worlds: Sequence[World] | None = None, axioms: Collection[Axiom] = (), alone: bool = True
) -> list[Law]:
    """Every law, on every world that offers what the explainer's card needs.

    A world may be refused with a `KaratError`; all of them may not.

    Args:
        explainer: anything with a card, called with a session.
        worlds: models and samples of your own (default: the built-in ones).
        axioms: promises that not every method makes: "finds", "dummy", "symmetry" (see `karat.testing.axioms`).
        alone: whether a batch must be its samples alone; False is for a method that by its definition explains samples
            by one another.

    Returns:
        One law each, with what was compared and where it broke.

    Example:
        >>> from karat.explainers.control import Center
        >>> [law.name for law in explainer_laws(Center(), axioms=["finds"]) if not law.holds]
        ['finds (spotlight)', 'finds (spotlight of images)']
    """
    if unknown := set(axioms) - set(get_args(Axiom)):
        raise BadInput(f"there is no axiom {sorted(unknown)}; there are {', '.join(get_args(Axiom))}.")
    laws = card_laws(explainer, "explainer")
    if not laws[0].holds:
        return laws
    chosen = worlds_for(explainer.card.needs) if worlds is None else tuple(worlds)
    refused = []
    for world in chosen:
        world.model.answer(world.samples[:1])  # libraries put hooks of their own in at the first forward
        before = surroundings(world.model, world.samples)
        try:
            attributions = list(explainer(_session(world)))
        except KaratError as error:
            refused.append(f"{world.name}: {error}")
            continue
        except Exception as error:  # anything may come out of code under test; it is the finding
            text = f"{type(error).__name__}: {error}. Refuse with a KaratError, or declare what it needs"
            laws.append(Law(f"it explains, or says why not ({world.name})", False, text))
            continue
        left = changed(before, surroundings(world.model, world.samples))  # at once: a second call leaves no more
        laws.append(Law(f"nothing is left behind ({world.name})", not left, left or "holds"))
        laws += _laws_in(explainer, world, attributions, alone)
        laws += [
            tried(f"{axiom} ({world.name})", _bound(AXIOMS[axiom], world, attributions)) for axiom in sorted(axioms)
        ]
    if len(refused) == len(chosen):
        why = "; ".join(refused) or f"none offers {', '.join(sorted(explainer.card.needs))}: give worlds=[World(...)]"
        laws.append(Law("it explains at least one known model", False, why))
    return laws


def _bound(axiom: Callable[[World, Sequence[Attribution]], str], world: World, attributions: list[Attribution]) -> Any:
    return lambda: axiom(world, attributions)


def _laws_in(explainer: Any, world: World, attributions: list[Attribution], alone: bool) -> list[Law]:
    laws = {
        "one attribution per sample, with the parts its card gives": lambda: _shapes(explainer, world, attributions),
        "values are finite, and negative only where signed": lambda: _values(attributions),
        "the same seed gives the same, whatever the global random state": lambda: _again(
            explainer, world, attributions
        ),
        "nothing is left behind when the model raises": lambda: _survives(explainer, world),
    }
    if alone:
        laws["a batch is its samples alone"] = lambda: _alone(explainer, world, attributions)
    return [tried(f"{name} ({world.name})", law) for name, law in laws.items()]


def _session(world: World, *positions: int) -> Session:
    session = Session(world.model, world.samples, world.answers, seed=7)
    return session.only(*positions) if positions else session


def _shapes(explainer: Any, world: World, attributions: Sequence[Attribution]) -> str:
    if len(attributions) != len(world.samples):
        return f"{len(attributions)} attributions for {len(world.samples)} samples"
    for sample, attribution in zip(world.samples, attributions, strict=True):
        if not isinstance(attribution, Attribution):
            return f"{sample.id}: {type(attribution).__name__}, expected a karat.Attribution"
        given = {part for part in ("visual", "words", "pairs", "scalar") if getattr(attribution, part) is not None}
        if extra := given - explainer.card.gives:
            return f"{sample.id}: {', '.join(sorted(extra))} given, which the card does not name"
        words = len(sample.words)
        if attribution.words is not None and len(attribution.words) != words:
            return f"{sample.id}: {len(attribution.words)} word scores for {words} words"
        if attribution.pairs is not None and attribution.pairs.shape[-1] != words:
            return f"{sample.id}: pairs {attribution.pairs.shape} for {words} words, expected (map cells, words)"
        if not (np.isfinite(attribution.passes) and attribution.passes >= 0):
            return f"{sample.id}: {attribution.passes} passes"
    return ""


def _values(attributions: Sequence[Attribution]) -> str:
    for i, attribution in enumerate(attributions):
        for part, values in _parts(attribution):
            undefined = part == "scalar" and np.isnan(values).all()  # a method's own number may not exist for a batch
            if not np.isfinite(values).all() and not undefined:
                return f"{part} of sample {i} has NaN or inf"
            if not attribution.signed and part != "scalar" and (values < 0).any():
                return f"{part} of sample {i} is negative; say Attribution(..., signed=True)"
    return ""


def _again(explainer: Any, world: World, attributions: Sequence[Attribution]) -> str:
    kept = np.random.get_state()
    try:
        np.random.seed(12345)
        return _differ(list(explainer(_session(world))), attributions, within=0.0)
    finally:
        np.random.set_state(kept)


def _survives(explainer: Any, world: World) -> str:
    before = surroundings(world.model, world.samples)
    with breaking(world.model):
        explainer(_session(world))
    return changed(before, surroundings(world.model, world.samples))


def _alone(explainer: Any, world: World, attributions: Sequence[Attribution]) -> str:
    single = [next(iter(explainer(_session(world, i)))) for i in range(len(world.samples))]
    return _differ(single, attributions, within=1e-5)


def _differ(ours: Sequence[Attribution], theirs: Sequence[Attribution], within: float) -> str:
    for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        mine, others = dict(_parts(one)), dict(_parts(other))
        if set(mine) != set(others):
            return f"sample {i}: {sorted(mine)} beside {sorted(others)}"
        for part, values in mine.items():
            if difference := unlike(values, others[part], within):
                return f"{part} of sample {i}: {difference}"
    return ""


def _parts(attribution: Attribution) -> list[tuple[str, np.ndarray[Any, Any]]]:
    named = [(part, getattr(attribution, part)) for part in ("visual", "words", "pairs", "scalar")]
    return [(part, np.asarray(values, dtype=np.float64)) for part, values in named if values is not None]
