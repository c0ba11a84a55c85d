"""What the rooms expect of one another: structural types, so that a user's own class needs no inheritance.

The first half are the parts of a run. The second half are what such a part *may* have beside: each is a small Protocol,
asked for with `plays`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard, TypeVar, runtime_checkable

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.claim import Comparison
from karat.kernel.finding import Finding
from karat.kernel.row import Outcomes
from karat.kernel.sample import Sample
from karat.kernel.typing import Scalar, Values

if TYPE_CHECKING:
    import pandas as pd

S_contra = TypeVar("S_contra", contravariant=True)  # the session that explainers and protocols are called with


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
    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> Values:
        """Probability of each answer on its sample."""
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


class Explainer(Protocol[S_contra]):
    """Parameters only; one call explains a whole batch: `Explainer[karat.probe.Session]`."""

    card: ClassVar[Card]

    def __call__(self, session: S_contra, /) -> Sequence[Attribution]:
        """One attribution per sample."""
        ...


@runtime_checkable
class ChecksBudget(Protocol):
    """An explainer whose budget must grow with the players of a sample: whether it is enough is known without a model.

    `KernelShap(budget=10).refuses(n_visual=36, n_text=8)` is the reason; None where the budget will do.
    """

    def refuses(self, n_visual: int, n_text: int, /) -> str | None: ...


class Benchmark(Protocol[S_contra]):
    """A protocol of the papers: turns attributions into rows. (`Protocol` is taken by Python's own.)"""

    card: ClassVar[Card]

    @property
    def scores(self) -> Sequence[Card]:
        """A card for each score it gives (name, direction, range, floor, ceiling), in the order tables show them."""
        ...

    def score(self, session: S_contra, attributions: Sequence[Attribution], /) -> Mapping[str, Outcomes]:
        """For every metric, one outcome per sample."""
        ...


class Details(Protocol):
    """What the values of one metric were computed from, over a whole run."""

    @property
    def keys(self) -> pd.DataFrame: ...
    @property
    def arrays(self) -> Mapping[str, Any]: ...
    @property
    def texts(self) -> Mapping[str, Sequence[str]]: ...


class Results(Protocol):
    """A run as protocols conclude from it (`karat.results.Run`)."""

    @property
    def spec(self) -> dict[str, Any]: ...
    @property
    def manifest(self) -> dict[str, Any]: ...
    def scores(self) -> pd.DataFrame: ...
    def details(self, metric: str) -> Details: ...
    def findings(self) -> list[Finding]: ...
    def events(self) -> Iterator[dict[str, Any]]: ...


# --- what a part may have beside ---

R = TypeVar("R")
_MISSING = object()


def plays(thing: object, role: type[R]) -> TypeGuard[R]:
    """Whether a thing has all that a role names. Unlike `isinstance`, it reads no property: some of them read files."""
    return all(
        inspect.getattr_static(thing, name, _MISSING) is not _MISSING for name in vars(role) if not name.startswith("_")
    )


class Labelled(Protocol):
    """A part with a better name for tables than its registered one with parameters."""

    @property
    def label(self) -> str: ...


class Described(Protocol):
    """A part that says what it is made of (family, variant, seed, dose): columns for code, beside its label."""

    @property
    def facts(self) -> Mapping[str, Scalar]: ...


class Revised(Protocol):
    """A part that reads files, or runs code that a spec names: `revision` changes with them."""

    @property
    def revision(self) -> str: ...


class CountsPasses(Protocol):
    """An explainer or protocol that knows the forward passes a sample costs; others count as one."""

    @property
    def passes(self) -> float: ...


class ChoosesTargets(Protocol):
    """A protocol that chooses what is explained of each sample; by default it is the model's own answer."""

    def targets(self, session: Any, /) -> Sequence[str]: ...


class HasControls(Protocol):
    """A protocol whose tables never lack some explainers, whether a spec names them or not."""

    @property
    def controls(self) -> tuple[str, ...]: ...


class Concludes(Protocol):
    """A protocol with something to say about a whole run."""

    def findings(self, run: Results, /) -> list[Finding]: ...


class FromPaper(Protocol):
    """A protocol that sets a run beside what its paper says; `card.paper` is the paper's number."""

    card: ClassVar[Card]

    def paper(self, run: Results, /) -> Comparison: ...


class Writes(Protocol):
    """A protocol that keeps texts in the run's directory, by file name."""

    def writes(self, run: Results, /) -> Mapping[str, str]: ...


class MechanismKnown(Protocol):
    """A recipe that knows, before loading, how its model reasons."""

    @property
    def mechanism(self) -> str | None: ...


class Sees(Protocol):
    """A recipe that can say how images are shown to its model."""

    @property
    def sees(self) -> str | None: ...


class Fetches(Protocol):
    """A recipe that has something to download first, and says what; None where all is here."""

    @property
    def to_fetch(self) -> str | None: ...


class Placed(Protocol):
    """A recipe whose model asks for a device: "cpu", "cuda", "auto"."""

    @property
    def device(self) -> str: ...


class Resourceful(Protocol):
    """A recipe that asks a cluster for resources of its own, by name."""

    @property
    def resources(self) -> Mapping[str, float]: ...
