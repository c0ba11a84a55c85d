"""`Session`: a batch of samples put to one model. Explainers are called with it and share what it has learnt."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy as np

from karat.kernel.answers import Reading, read_answer
from karat.kernel.errors import BadInput, CapabilityMissing
from karat.kernel.identity import generator
from karat.kernel.roles import Model
from karat.kernel.row import Failure
from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike, plain
from karat.kernel.typing import Keep, Values
from karat.models.torch_model import Inputs, Layout, TorchModel
from karat.probe.absence import Absence
from karat.probe.coalitions import Kind, Looks, ModelGame, ModelGames, Setting
from karat.probe.evaluator import Evaluator, Passes, Question, ask
from karat.probe.players import TextSpec, VisualSpec, text_players, visual_players
from karat.probe.request import Request

if TYPE_CHECKING:
    from karat.probe.trace import Trace

T = TypeVar("T")


@runtime_checkable
class Traces(Protocol):
    """An explainer that says in advance what it will trace, so that a session records for all of them at once."""

    def traces(self, model: TorchModel, /) -> Request: ...


@dataclass
class Cost:
    """What a session has asked of its model: traces (each one forward for the whole batch), and coalitions."""

    traces: int = 0
    backwards: int = 0
    shared: int = 0  # traces asked for that were there already
    passes: Passes = field(default_factory=Passes)
    looks: Looks = field(default_factory=Looks)
    seconds: dict[str, float] = field(default_factory=dict)  # where time went, by what it was for; see `clock`

    @contextmanager
    def clock(self, what: str) -> Iterator[None]:
        """Add the seconds of a block to `seconds`. They go to a run's events, never into its rows."""
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + perf_counter() - began


class Session:
    """`targets` are what to explain, texts or spans of them (`Target`); by default the model's own answers, asked for
    when first needed. Where a sample lists `choices`, that is the choice the model made (`read_answer`), in the context
    of what it said before.

    Explainers get the session and nothing else: `session.trace(...)` looks inside, `session.game(i, ...)` asks about
    altered inputs. Both remember, so that what one explainer has paid for is free for the next.
    """

    def __init__(
        self,
        model: Model,
        samples: Sequence[Sample],
        targets: Sequence[TargetLike] | None = None,
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        if targets is not None and len(targets) != len(samples):
            raise BadInput(f"a session needs one target per sample; got {len(targets)} for {len(samples)} samples.")
        self.model = model
        self.samples = tuple(samples)
        self.seed = seed
        self.batch_size = batch_size
        self.cost = Cost()
        self._targets = None if targets is None else tuple(targets)
        self._expected = Request()
        self._traces: list[tuple[tuple[TargetLike, ...], Trace]] = []
        self._known: dict[tuple[object, ...], ModelGame] = {}

    @cached_property
    def targets(self) -> tuple[TargetLike, ...]:
        if self._targets is not None:
            return self._targets
        by_token = "autoregressive" in self.model.capabilities  # others answer as a whole
        return tuple(
            plain(Target(text, reading.span)) if by_token and isinstance(reading, Reading) else text
            for text, reading in self._readings
        )

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """The choices that the targets amount to; the targets' own words where a sample lists none, or none fits."""
        return tuple(reading.answer if isinstance(reading, Reading) else text for text, reading in self._readings)

    def unread(self, i: int) -> str | None:
        """Why what the model said about sample i is none of its choices, or None where it is one.

        A reference model that does not talk says one of its own answers, right or wrong: there is nothing to read.
        """
        reading = self._readings[i][1]
        talks = self.model.mechanism is None or "autoregressive" in self.model.capabilities
        return reading.reason if isinstance(reading, Failure) and talks else None

    @cached_property
    def _readings(self) -> list[tuple[str, Reading | Failure | None]]:
        """The words of each target, and what they were read as; None where there are no choices."""
        answers = self.model.answer(self.samples) if self._targets is None else [str(t) for t in self._targets]
        return [
            (answer, read_answer(answer, sample.choices) if sample.choices else None)
            for answer, sample in zip(answers, self.samples, strict=True)
        ]

    @cached_property
    def inside(self) -> TorchModel | None:
        """The model as one that can be looked into, or None. Asked once: a structural check reads every property."""
        return self.model if isinstance(self.model, TorchModel) else None

    @property
    def torch_model(self) -> TorchModel:
        """The model as one that can be looked into; an error for one that cannot."""
        if self.inside is None:
            raise CapabilityMissing("this explainer", ["gradients"], self.model.name, self.model.capabilities)
        return self.inside

    @cached_property
    def layout(self) -> Layout | None:
        """Where things sit in the sequence of a model that can be looked into (see `Layout`)."""
        return None if self.inside is None else self.inside.layout(self.inputs)

    @cached_property
    def inputs(self) -> Inputs:
        """All samples, encoded."""
        return self.torch_model.encode(self.samples)

    def rng(self, i: int, component: str) -> np.random.Generator:
        """The random stream of one component on sample i: the same in any batch, order and number of workers."""
        return generator(self.seed, self.samples[i].id, component)

    def only(self, *positions: int) -> Session:
        """A session over some of the samples, with the same targets and random streams."""
        samples, targets = [self.samples[i] for i in positions], [self.targets[i] for i in positions]
        return Session(self.model, samples, targets, self.seed, self.batch_size)

    def expect(self, explainers: Sequence[object]) -> None:
        """Tell in advance who will ask, so that the first trace records for all of them (see `Traces`)."""
        for explainer in explainers:
            if self.inside is not None and isinstance(explainer, Traces):
                self._expected |= explainer.traces(self.inside)

    def trace(
        self,
        layers: Sequence[str] = (),
        want: Collection[str] = ("activations", "gradients"),
        attention_layers: Sequence[str] | None = None,
        targets: Sequence[TargetLike] | None = None,
    ) -> Trace:
        """A trace of all samples (see `karat.probe.trace`), shared: asked twice, the model runs once.

        `targets` differ from the session's for contrastive explanations; such a trace is shared with its like only.
        """
        heads = self.torch_model.attention_layers if attention_layers is None else attention_layers
        return self.traced(Request.of(self.torch_model.layers, layers, want, heads), targets)

    def traced(self, request: Request, targets: Sequence[TargetLike] | None = None) -> Trace:
        """What `trace` does, for a request made elsewhere."""
        from karat.probe.recording import record

        wanted = self.targets if targets is None else tuple(targets)
        for held_targets, held in self._traces:
            if held_targets == wanted and request <= held.request:
                self.cost.shared += 1
                return held
        if wanted == self.targets:
            request |= self._expected
        seen = record(self.torch_model, self.inputs, wanted, request)
        self.cost.traces += 1
        self.cost.backwards += seen.backwards
        self._traces.append((wanted, seen))
        return seen

    def game(
        self,
        i: int,
        visual: VisualSpec = "patches",
        text: TextSpec = "words",
        absence: Absence | None = None,
        value: Kind = "probability",
        target: TargetLike | None = None,
        question: int | None = None,
    ) -> ModelGame:
        """The coalition game of sample i (see `karat.probe.players` and `Absence`). Equal games share their answers.

        With `question` the image of sample i goes with the text of that sample instead of its own.
        """
        absence = absence or Absence()
        asker = i if question is None else question
        sample = self.samples[i]
        if asker != i:  # keeps the id of its image: looks at the image are shared by it
            other = self.samples[asker]
            sample = replace(sample, text=other.text, answer=None, phrases=other.phrases, mechanisms={})
        patches = self._patches(i, visual, text)[0]
        tokens = self._patches(asker, visual, text)[1]
        seen = visual_players(visual, sample, patches)
        read = text_players(text if "text" in self.model.capabilities else None, sample, tokens)
        answer = self.targets[i] if target is None else target
        key = (i, asker, *seen.identity, read, *absence.visual_identity, absence.text, absence.words, value, answer)
        if key not in self._known:
            setting = Setting(sample, answer, seen, read, absence, value)
            index = self.games.add(setting)
            self._known[key] = ModelGame(self.evaluator.game(index).function, index, setting)
        return self._known[key]

    def ask(self, questions: Sequence[tuple[ModelGame, Question[T]]]) -> list[T]:
        """Results of questions about games of this session, answered together in full batches."""
        return self.evaluator.run([(game.index, question) for game, question in questions])

    def evaluate(self, requests: Sequence[tuple[ModelGame, Keep]]) -> list[Values]:
        """Values of joint masks (m, n) of many games, in full batches across samples."""
        return self.ask([(game, ask(keep)) for game, keep in requests])

    def close(self) -> None:
        """Let go of traces and remembered answers."""
        for _, held in self._traces:
            held.close()
        self._traces.clear()
        self._known.clear()
        self.__dict__.pop("evaluator", None)
        self.__dict__.pop("games", None)

    @cached_property
    def evaluator(self) -> Evaluator:
        games = self.games
        return Evaluator(games.answer, games.shapes, batch_size=self.batch_size, passes=self.cost.passes)

    @cached_property
    def games(self) -> ModelGames:
        """All games asked for so far, by index."""
        return ModelGames(self.model, looks=self.cost.looks)

    def _patches(
        self, i: int, visual: VisualSpec, text: TextSpec
    ) -> tuple[tuple[int, int] | None, tuple[tuple[int, int], ...] | None]:
        """The model's patch grid and the token spans of the words of sample i, where they are asked for and known."""
        asked = (isinstance(visual, str) and visual == "patches") or (isinstance(text, str) and text == "tokens")
        if not asked or self.layout is None:
            return None, None
        words = self.inputs.words[i] if self.inputs.words else None
        return self.layout.grid, words
