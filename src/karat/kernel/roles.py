"""What the rooms expect of one another: structural types, so that a user's own class needs no inheritance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.row import Outcomes
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
from karat.kernel.typing import Scalar, Values


@runtime_checkable
class Model(Protocol):
    """A loaded model. `capabilities` are keys of `karat.kernel.card.CAPABILITIES`; `mechanism` where it is known."""

    @property
    def name(self) -> str: ...
    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def mechanism(self) -> str | None: ...

    def answer(self, samples: Sequence[Sample]) -> list[str]: ...
    def score(self, samples: Sequence[Sample], targets: Sequence[TargetLike], /) -> Values:
        """Probability of each target on its sample. A model that does not answer token by token is given texts."""
        ...


class ModelRecipe(Protocol):
    """How to get a model: parameters only, so that planning needs neither weights nor torch."""

    card: ClassVar[Card]

    @property
    def label(self) -> str: ...
    @property
    def capabilities(self) -> frozenset[str]: ...
    @property
    def revision(self) -> str:
        """Changes whenever the same parameters would load other weights or run other code."""
        ...

    @property
    def facts(self) -> Mapping[str, Scalar]:
        """What the model is made of, by name: `family`, and whatever tells it from its like (variant, seed, dose,
        path...). They become columns of a run's rows, so that no code reads a label."""
        ...

    def load(self) -> Model: ...


class Dataset(Protocol):
    """Samples by position. `load` must give the same bytes for any slice, alone or together."""

    card: ClassVar[Card]

    @property
    def revision(self) -> str:
        """Changes whenever the same parameters would give other samples."""
        ...

    def __len__(self) -> int: ...
    def load(self, start: int, stop: int) -> list[Sample]: ...


class Explainer(Protocol):
    """Parameters only; one call explains a whole batch. Optional `passes`: forward passes a sample costs."""

    card: ClassVar[Card]

    def __call__(self, asked: Any, /) -> Sequence[Attribution]:
        """One attribution per sample. `asked` is a `karat.probe.Session`."""
        ...


class Benchmark(Protocol):
    """A protocol of the papers: turns attributions into rows. (`Protocol` is taken by Python's own.)"""

    card: ClassVar[Card]

    @property
    def scores(self) -> Sequence[Card]:
        """A card for each score it gives (name, direction, range, floor, ceiling), in the order tables show them."""
        ...

    def score(self, asked: Any, attributions: Sequence[Attribution]) -> Mapping[str, Outcomes]:
        """For every metric, one outcome per sample.

        More methods are optional: `targets(model, samples)` chooses the answer to explain of each sample (by default
        the model's own); `findings(run)` gives what the whole run shows (a list of `Finding`), `writes(run)` texts to
        keep in the run's directory by file name, and `paper(run)` sets the run beside what the paper says (a
        `Comparison`). `run` is a `karat.results.run.Run`. A tuple `controls` names explainers that every run has,
        whether its spec names them or not.
        """
        ...


# ---- What a part may say besides. Each is optional, and asked for with isinstance.


@runtime_checkable
class Labelled(Protocol):
    """A part with a better name for tables than its registered name and parameters: `gridprog.pure`."""

    @property
    def label(self) -> str: ...


@runtime_checkable
class StatesFacts(Protocol):
    """A part that says what it is made of (see `ModelRecipe.facts`). Every recipe here does."""

    @property
    def facts(self) -> Mapping[str, Scalar]: ...


@runtime_checkable
class KnowsMechanism(Protocol):
    """A recipe that knows how its model reasons ("reasons", "matches_words", ...) before it is loaded."""

    @property
    def mechanism(self) -> str | None: ...


@runtime_checkable
class RunsOnDevice(Protocol):
    """A recipe that says where its model computes: "cpu", "cuda", "cuda:1", or "auto" for all there is."""

    @property
    def device(self) -> str: ...


@runtime_checkable
class HoldsResources(Protocol):
    """A recipe whose model holds more of a machine than a core and its device, e.g. {"GPU": 0.5} or {"licence": 1}."""

    @property
    def resources(self) -> Mapping[str, float]: ...


@runtime_checkable
class DescribesInput(Protocol):
    """A recipe that knows how images are shown to its model, without loading it."""

    def sees(self) -> str:
        """For `karat check`: "the whole image at 224×224 (bicubic), mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5"."""
        ...


@runtime_checkable
class FetchesWeights(Protocol):
    """A recipe whose weights may have to come from the network."""

    def to_fetch(self) -> str | None:
        """What must be fetched before the model can be loaded, in words; None where all is here."""
        ...
