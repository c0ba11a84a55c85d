"""`karat.explain`: one explanation of one sample, for those who want a map rather than a run."""

from __future__ import annotations

from typing import Any

from karat.kernel.attribution import Attribution
from karat.kernel.errors import CapabilityMissing
from karat.kernel.registry import build
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.models import load_model
from karat.probe.session import Session


def explain(
    model: Model | str,
    sample: Sample,
    explainer: str = "control/random",
    *,
    target: TargetLike | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Attribution:
    """The attribution that `explainer` gives for the model's answer to `sample`, or for `target`, if given: a text,
    or a span of what was said (`karat.Target.word("dog", text)`).

    `model` is a loaded model or a name for `karat.load_model`; `parameters` are the explainer's own.
    """
    loaded = load_model(model) if isinstance(model, str) else model
    method = build("explainer", explainer, parameters)
    if missing := method.card.needs - loaded.capabilities:
        raise CapabilityMissing(explainer, missing, loaded.name, loaded.capabilities)
    session = Session(loaded, [sample], None if target is None else [target], seed=seed)
    [attribution] = method(session)
    return attribution
