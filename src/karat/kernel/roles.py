"""What the rooms expect of one another: structural types, so that a user's own class needs no inheritance.

The first half are the parts of a run. The second half are what such a part *may* have beside: each is a small Protocol,
asked for with `plays`.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard, TypeVar, runtime_checkable

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.claim import Comparison
from karat.kernel.finding import Finding
from karat.kernel.row import Outcomes
from karat.kernel.sample import Sample
from karat.kernel.target import TargetLike
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


class KnowsAbsence(Protocol):
    """A model of which it was measured what absent states do to it."""

    def broken_states(self) -> Mapping[str, str]:
        """Absent states in which it no longer answers as it does, each with the reason."""
        ...


class Dataset(Protocol):
    """Samples by position. `load` must give the same bytes for any slice, alone or together."""

    card: ClassVar[Card]

    @property
    def revision(self) -> str:
        """Changes whenever the same parameters would give other samples."""
        ...

    def __len__(self) -> int: ...
    def load(self, start: int, stop: int) -> list[Sample]: ...


class HasVocabulary(Protocol):
    """A recipe or dataset that knows the names of its classes without loading a model; empty where it does not."""

    def vocabulary(self) -> tuple[str, ...]: ...


class AsksRepeatedly(Protocol):
    """A dataset that asks about each image so many times, one sample after another: a spec's `limit` counts images."""

    @property
    def predictions(self) -> int: ...


class Explainer(Protocol[S_contra]):
    """Parameters only; one call explains a whole batch: `Explainer[karat.probe.Session]`."""

    card: ClassVar[Card]

    def __call__(self, session: S_contra, /) -> Sequence[Attribution]:
        """One attribution per sample."""
        ...


class ChecksBudget(Protocol):
    """An explainer whose budget must grow with the players of a sample: whether it is enough is known without a model.

    `KernelShap(budget=10).refuses(n_visual=36, n_text=8)` is the reason; None where the budget will do.
    """

    def refuses(self, n_visual: int, n_text: int, /) -> str | None: ...


class MayHide(Protocol):
    """An explainer with a parameter `absence` that it does not always use: `hides` says whether it does."""

    @property
    def hides(self) -> bool: ...


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
    def scores(
        self, *, metrics: Collection[str] | None = None, columns: Collection[str] | None = None
    ) -> pd.DataFrame: ...
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
    """A part with a better name for tables than its registered name and parameters: `gridprog.pure`."""

    @property
    def label(self) -> str: ...


class StatesFacts(Protocol):
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

    def targets(self, session: Any, /) -> Sequence[TargetLike]: ...


class HasControls(Protocol):
    """A protocol whose tables never lack some explainers, whether a spec names them or not: names, or names with the
    parameters they have there."""

    @property
    def controls(self) -> tuple[str, ...] | Mapping[str, Mapping[str, Any]]: ...


class Concludes(Protocol):
    """A protocol with something to say about a whole run."""

    def findings(self, run: Results, /) -> list[Finding]: ...


class FromPaper(Protocol):
    """A protocol that sets a run beside what its paper says; `card.paper` is the paper's number."""

    card: ClassVar[Card]

    def paper(self, run: Results, /) -> Comparison: ...


class RanksSome(Protocol):
    """A protocol whose rankings leave rows out, or count missing ones as something: a race is decided by the same."""

    def ranked(self, run: Results, /) -> pd.DataFrame:
        """Rows of `Results.scores` with explainer, model, dataset, sample, metric and value."""
        ...


class Writes(Protocol):
    """A protocol that keeps texts in the run's directory, by file name."""

    def writes(self, run: Results, /) -> Mapping[str, str]: ...


class KnowsMechanism(Protocol):
    """A recipe that knows how its model reasons ("reasons", "matches_words", ...) before it is loaded."""

    @property
    def mechanism(self) -> str | None: ...


class RunsOnDevice(Protocol):
    """A recipe that says where its model computes: "cpu", "cuda", "cuda:1", "mps", or "auto" for all there is."""

    @property
    def device(self) -> str: ...


class SpreadsOverGpus(Protocol):
    """A recipe that says over how many GPUs one worker of its model is spread, or which share of one it takes."""

    @property
    def gpus(self) -> float | None: ...


class Weighs(Protocol):
    """A recipe that may know how much memory its weights take before they are loaded."""

    def weights_bytes(self) -> int | None: ...


class SharesWeights(Protocol):
    """A recipe that may know that workers of one machine will hold its weights once, together."""

    def shares_weights(self) -> bool: ...


class KnowsConfiguration(Protocol):
    """A recipe that knows what its model is built like before it is loaded."""

    def configuration(self) -> Mapping[str, Any] | None:
        """The plain data of its config.json, with `max_pixels` and `max_tiles` where something bounds what it sees;
        None where it is not on this machine."""
        ...


class HoldsResources(Protocol):
    """A recipe whose model holds more of a machine than a core and its device, e.g. {"GPU": 0.5} or {"licence": 1}."""

    @property
    def resources(self) -> Mapping[str, float]: ...


class DescribesInput(Protocol):
    """A recipe that knows how images are shown to its model, without loading it."""

    def sees(self) -> str:
        """For `karat check`: "the whole image at 224×224 (bicubic), mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5"."""
        ...


class KnowsLevel(Protocol):
    """A recipe of a model whose architecture may have to be found out; what was found is kept with a run."""

    @property
    def level(self) -> str | None:
        """ "asks", "differentiates" or "opens"; None: not known until the model is loaded and probed."""
        ...

    def discovered(self) -> str | None:
        """What was found out, as the text of a file that a spec can name; None where nothing had to be, or was yet."""
        ...


class FetchesWeights(Protocol):
    """A recipe whose weights may have to come from the network."""

    def to_fetch(self) -> str | None:
        """What must be fetched before the model can be loaded, in words; None where all is here."""
        ...
