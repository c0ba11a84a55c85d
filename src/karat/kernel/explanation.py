"""`Explanation`: what a model said about an image, and a map of each explainer for each word of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from karat.kernel.attribution import Attribution
from karat.kernel.attribution_picture import Attributions
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike


@dataclass(frozen=True)
class Spoken:
    """A piece of the answer, and its probability given the image, the question and what was said before."""

    text: str
    probability: float


@dataclass(frozen=True, eq=False)
class Method:
    """One explainer's maps: `maps[k]` is of target k. `place` is what is recorded of it, `note` how it was run here."""

    name: str
    maps: tuple[Attribution, ...]
    place: str = ""
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Explanation:
    """What `karat explain` shows.

    Attributes:
        sample: Image and question.
        model: Its name.
        answer: What was said; `forced` where the model was made to say it.
        tokens: The answer piece by piece.
        targets: What has maps: the answer as a whole first, where it is more than one word, then each of its words.
        spoken: Each target in words, with its probability.
        methods: Explainers with their maps, in the order of the targets.
        verdicts: Sentences of a check, one for each method, where one was made.
        against: What the answer was explained rather than, if anything.
    """

    sample: Sample
    model: str
    answer: str
    forced: bool
    tokens: tuple[Spoken, ...]
    targets: tuple[TargetLike, ...]
    spoken: tuple[Spoken, ...]
    methods: tuple[Method, ...]
    verdicts: tuple[str, ...] = ()
    why: str = field(default="")
    against: str | None = None

    @property
    def attributions(self) -> Attributions:
        """All maps, explainer by explainer."""
        return Attributions(one for method in self.methods for one in method.maps)

    def plain(self) -> dict[str, Any]:
        """Everything but the image as lists and numbers, for JSON."""
        return {
            "model": self.model,
            "image": self.sample.id,
            "question": self.sample.text,
            "words_of_question": [(self.sample.text or "")[a:b] for a, b in self.sample.words],
            "answer": self.answer,
            "forced": self.forced,
            "against": self.against,
            "tokens": [{"text": each.text, "probability": each.probability} for each in self.tokens],
            "targets": [{"text": each.text, "probability": each.probability} for each in self.spoken],
            "explainers": [
                {
                    "name": method.name,
                    "place": method.place,
                    "note": method.note,
                    "seconds": round(method.seconds, 3),
                    "maps": [_plain(one) for one in method.maps],
                }
                for method in self.methods
            ],
            "verdicts": list(self.verdicts),
        }

    def _repr_html_(self) -> str:
        return self.attributions._repr_html_()

    def __repr__(self) -> str:
        names = ", ".join(method.name for method in self.methods)
        words = f"{len(self.targets)} target{'' if len(self.targets) == 1 else 's'}"
        return f"Explanation of {self.answer!r} by {self.model} on {self.sample.id}: {words}, {names}"


def _plain(attribution: Attribution) -> dict[str, Any]:
    parts = {"map": attribution.visual, "words": attribution.words, "pairs": attribution.pairs}
    listed = {name: _listed(values) for name, values in parts.items() if values is not None}
    scalar = {} if attribution.scalar is None else {"scalar": attribution.scalar}
    return {**listed, **scalar, "signed": attribution.signed, "space": attribution.space, "passes": attribution.passes}


def _listed(values: np.ndarray[Any, Any]) -> Sequence[Any]:
    """Numbers of seven digits; None for those that are none, which JSON does not have."""
    if values.ndim > 1:
        return [_listed(row) for row in values]
    return [float(f"{v:.7g}") if np.isfinite(v) else None for v in values.tolist()]
