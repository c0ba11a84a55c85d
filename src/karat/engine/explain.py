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

#: Needs nothing but scores, so any model can be explained with it, and means what it says: the answer without a part.
DEFAULT = "perturbation/occlusion"


def explain(
    model: Model | str,
    sample: Sample,
    explainer: str = DEFAULT,
    *,
    target: TargetLike | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Attribution:
    """One explanation of one sample.

    Args:
        model: a loaded model, or a name for `karat.load_model`.
        sample: what is asked about.
        explainer: a registered name (`karat ls explainers`); by default what each part of the image and each word does
            to the answer when it is hidden.
        target: what is explained, a text or a span of what was said (`karat.Target.word("dog", text)`); by default the
            model's own answer.
        seed: of whatever the explainer draws.
        parameters: the explainer's own.

    Returns:
        An `Attribution`: a map, scores of words, or both.

    Example:
        >>> import numpy as np
        >>> from karat.models.blackbox import blackbox
        >>> model = blackbox(lambda images, texts: images[:, :8].mean((1, 2))[:, :2] / 255, answers=["red", "green"])
        >>> image = np.zeros((16, 16, 3), np.uint8)
        >>> image[:8, :, 0] = 200
        >>> attribution = explain(model, Sample("one", image), target="red")
        >>> bool(attribution.visual[:4].mean() > 5 * abs(attribution.visual[-4:].mean()))
        True
    """
    loaded = load_model(model) if isinstance(model, str) else model
    method = build("explainer", explainer, parameters)
    if missing := method.card.needs - loaded.capabilities:
        raise CapabilityMissing(explainer, missing, loaded.name, loaded.capabilities)
    session = Session(loaded, [sample], None if target is None else [target], seed=seed)
    [attribution] = method(session)
    return attribution
