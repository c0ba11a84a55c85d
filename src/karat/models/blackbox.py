"""`blackbox`: a plain function as a model. It can be scored and explained by every method that only asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from karat.kernel.card import Card
from karat.kernel.errors import BadInput
from karat.kernel.identity import source
from karat.kernel.registry import load_object
from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike, whole_answer
from karat.kernel.typing import Scalar, Values

Images = npt.NDArray[np.uint8]  # (n, H, W, 3)
Returned = npt.ArrayLike | Sequence[Mapping[str, float]] | Sequence[str]
Function = Callable[[Images, list[str | None]], Returned]


def blackbox(
    fn: Function,
    answers: Iterable[str] | None = None,
    name: str | None = None,
    text: bool = True,
    mechanism: str | None = None,
) -> BlackBox:
    """A plain function as a model: it can be explained by every method that only asks.

    Args:
        fn: `fn(images, texts)` of images (n, H, W, 3) uint8 and n texts, called once per image size in a batch. It
            returns an array (n, len(answers)) of probabilities, in the order of `answers`; or n mappings {answer:
            probability}, answers left out having probability 0; or n answers as strings, each then certain.
        answers: What the columns of an array stand for.
        name: How tables call it; by default the name of the function.
        text: False says that it ignores the texts.
        mechanism: How it reasons, where that is known.

    Returns:
        A model that answers and scores.

    Example:
        >>> from karat.kernel.sample import Sample
        >>> def bright(images, texts):
        ...     share = images.mean((1, 2, 3)) / 255
        ...     return np.stack([share, 1 - share], axis=1)
        >>> model = blackbox(bright, answers=["yes", "no"])
        >>> model.answer([Sample("white", np.full((2, 2, 3), 255, dtype=np.uint8), "Is it bright?")])
        ['yes']
    """
    label = name or str(getattr(fn, "__name__", type(fn).__name__))
    return BlackBox(fn, tuple(answers) if answers is not None else None, label, text, mechanism)


@dataclass(frozen=True, eq=False)
class BlackBox:
    """A `Model` over a function. Made by `blackbox`."""

    fn: Function
    answers: tuple[str, ...] | None
    name: str
    text: bool = True
    mechanism: str | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        mechanism = {"mechanism"} if self.mechanism else set()
        return frozenset({"scores"} | mechanism | ({"text"} if self.text else set()))

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return [max(row, key=row.__getitem__) for row in self.probabilities(samples)]

    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike]) -> Values:
        rows = self.probabilities(samples)
        return np.array([self._score(row, target) for row, target in zip(rows, targets, strict=True)], np.float64)

    def _score(self, row: Mapping[str, float], target: TargetLike) -> float:
        answer = whole_answer(target, self.name)
        contrast = target.contrast if isinstance(target, Target) else None
        for name in (answer, contrast):
            if name is not None and self.answers is not None and name not in self.answers:
                raise BadInput(f"{self.name} answers {', '.join(self.answers)}; it was asked about {name!r}.")
        if contrast is None:
            return row.get(answer, 0.0)
        both = row.get(answer, 0.0) + row.get(contrast, 0.0)
        return row.get(answer, 0.0) / both if both > 0 else float("nan")  # neither is possible: there is no choice

    def probabilities(self, samples: Sequence[Sample]) -> list[Mapping[str, float]]:
        """One mapping answer -> probability per sample; the function is called once per image size."""
        rows: list[Mapping[str, float]] = [{}] * len(samples)
        sizes: dict[tuple[int, int], list[int]] = {}
        for i, sample in enumerate(samples):
            sizes.setdefault(sample.size, []).append(i)
        for members in sizes.values():
            images = np.stack([samples[i].image for i in members])
            of_size = self._rows(self.fn(images, [samples[i].text for i in members]), len(members))
            for i, row in zip(members, of_size, strict=True):
                rows[i] = row
        return rows

    def _rows(self, result: Any, n: int) -> list[Mapping[str, float]]:
        if not isinstance(result, np.ndarray) and len(result) == n and n:
            if all(isinstance(row, str) for row in result):
                return [{row: 1.0} for row in result]
            if all(isinstance(row, Mapping) and row for row in result):
                return [_checked(row, self.name) for row in result]
        if self.answers is None:
            raise BadInput(
                f"{self.name} returned numbers, but nobody said of which answers: give `answers` to blackbox()."
            )
        table = np.asarray(result, dtype=np.float64)
        if table.shape != (n, len(self.answers)):
            raise BadInput(
                f"{self.name} must return probabilities of shape ({n}, {len(self.answers)}) for {n} samples and the "
                f"answers {', '.join(self.answers[:5])}; got shape {table.shape}."
            )
        return [_checked(dict(zip(self.answers, row, strict=True)), self.name) for row in table.tolist()]


def _checked(row: Mapping[str, float], name: str) -> Mapping[str, float]:
    for answer, value in row.items():
        if not 0.0 <= value <= 1.0 + 1e-6:
            raise BadInput(f"{name} gave {answer!r} the probability {value}; it must lie in [0, 1].")
    return row


@dataclass(frozen=True)
class BlackBoxRecipe:
    """A function by name. It is imported and run: name what you trust.

    Attributes:
        fn: `package.module:function`, as `blackbox` takes it.
        answers: What the columns of an array that it returns stand for.
        text: False says that it ignores the texts.
        version: Raise it when the function changes, so that old rows are not taken for new ones.
    """

    card: ClassVar[Card] = Card(name="blackbox", summary="a Python function of images and texts", kind="model")
    fn: str = ""
    answers: tuple[str, ...] = ()
    text: bool = True
    version: str = "1"

    @property
    def label(self) -> str:
        return self.fn.rpartition(":")[2] or "blackbox"

    @property
    def facts(self) -> dict[str, Scalar]:
        return {"family": "blackbox", "fn": self.fn, "version": self.version}

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset({"scores", "text"} if self.text else {"scores"})

    @property
    def revision(self) -> str:
        return f"1:{self.fn}:{self.version}:{source(self._function())}"

    def load(self) -> BlackBox:
        return blackbox(self._function(), self.answers or None, self.label, self.text)

    def _function(self) -> Any:
        if ":" not in self.fn:
            raise BadInput(f"blackbox: fn must be 'package.module:function'; got {self.fn!r}.")
        fn = load_object(self.fn)
        if not callable(fn):
            raise BadInput(f"blackbox: {self.fn} is a {type(fn).__name__}, not a function.")
        return fn
