"""`Session`: a batch of samples put to one model. Explainers are called with it and share what it has learnt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from karat.kernel.answers import Reading, read_answer
from karat.kernel.errors import BadInput, CapabilityMissing
from karat.kernel.identity import generator
from karat.kernel.roles import Model
from karat.kernel.row import Failure
from karat.kernel.sample import Sample
from karat.kernel.target import Target, TargetLike, plain, text_of
from karat.kernel.typing import Keep, Values
from karat.models.torch_model import CutsImages, Inputs, Layout, ReadsSpans, TorchModel
from karat.probe.absence import Absence
from karat.probe.batcher import Batcher, Passes, RowQuestion
from karat.probe.coalitions import ImagePasses, Kind, ModelGame, ModelGames, Setting
from karat.probe.evaluator import Evaluator, Question, ask
from karat.probe.players import TextSpec, VisualSpec, text_players, visual_players
from karat.probe.request import Request

if TYPE_CHECKING:
    from karat.probe.masked_inputs import MaskedInputs
    from karat.probe.trace import Trace

T = TypeVar("T")


@runtime_checkable
class Traces(Protocol):
    """An explainer that says in advance what it will trace, so that a session records for all of them at once."""

    def traces(self, model: TorchModel, /) -> Request: ...


@dataclass(repr=False)
class Cost:
    """What a session has asked of its model: traces (each one forward for the whole batch), and coalitions."""

    traces: int = 0
    backwards: int = 0
    shared: int = 0  # traces asked for that were there already
    passes: Passes = field(default_factory=Passes)
    images: ImagePasses = field(default_factory=ImagePasses)
    seconds: dict[str, float] = field(default_factory=dict)  # where time went, by what it was for; see `clock`
    _running: list[str] = field(default_factory=list)  # clocks that run, the innermost last

    def __repr__(self) -> str:
        passes = f"{self.passes.made:,} forward passes ({self.passes.saved:,} saved) in {self.passes.batches:,} batches"
        return f"Cost: {self.traces} traces ({self.shared} shared), {self.backwards} backwards, {passes}"

    def _repr_html_(self) -> str:
        from karat.drawing.table import html_table, html_text

        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        return html_text(repr(self), (), html_table(["for", "seconds"], rows) if rows else "")

    @contextmanager
    def clock(self, what: str) -> Iterator[None]:
        """Add the seconds of a block to `seconds`. They go to a run's events, never into its rows."""
        began = perf_counter()
        self._running.append(what)
        try:
            yield
        finally:
            self._running.pop()
            self.seconds[what] = self.seconds.get(what, 0.0) + perf_counter() - began

    def share(self, spent: float, among: list[str]) -> None:
        """Whatever clock runs has use of what took `spent` seconds: all that have had, bear it in equal parts."""
        if not self._running or (what := self._running[-1]) in among:
            return
        before, after = len(among), len(among) + 1
        for other in among:
            self.seconds[other] = self.seconds.get(other, 0.0) - (spent / before - spent / after)
        # the first has paid in full while its clock ran; a later one takes over its part
        self.seconds[what] = self.seconds.get(what, 0.0) + (spent / after if among else 0.0)
        among.append(what)


class Session:
    """A batch of samples put to one model.

    Args:
        model: an adapter (`karat.load_model`, `karat.models`).
        samples: n samples.
        targets: what to explain of each, n texts or spans of them (`Target`), or a function of the session that chooses
            them when they are first needed; by default the model's own answers. Where a sample lists `choices`, that is
            the choice the model made (`read_answer`), in the context of what it said before.
        seed: of all random streams (`rng`).
        batch_size: rows of a forward pass.
        peers: samples of the same data that these are read beside (in a run, those of their shard); by default these.
        checkpointed: traces keep the input of each layer alone and compute its inside again in the backward pass: the
            same values for a fraction of the memory, and one more forward.

    Example:
        >>> from karat.datasets.grid import generate
        >>> from karat.models import load_model
        >>> session = Session(load_model("gridprog.pure"), generate("D1_M_F0_d0.3", 2))
        >>> session.trace(["vision.last"], ("activations",)).spatial("vision.last").shape[-2:]
        torch.Size([6, 6])
        >>> game = session.game(0)
        >>> game.value(np.ones((1, game.n), dtype=bool)).shape, session.cost.passes.made
        ((1,), 1)

    Explainers get the session and nothing else: `session.trace(...)` looks inside, `session.game(i, ...)` asks about
    altered inputs. Both remember, so that what one explainer has paid for is free for the next; `session.memo` does so
    for anything else.
    """

    def __init__(
        self,
        model: Model,
        samples: Sequence[Sample],
        targets: Sequence[TargetLike] | Callable[[Session], Sequence[TargetLike]] | None = None,
        seed: int = 0,
        batch_size: int = 64,
        peers: Sequence[Sample] | None = None,
        checkpointed: bool = False,
    ) -> None:
        self.model = model
        self.samples = tuple(samples)
        self.peers = self.samples if peers is None else tuple(peers)
        self.seed = seed
        self.batch_size = batch_size
        self.checkpointed = checkpointed
        self.cost = Cost()
        self._targets = targets if targets is None or callable(targets) else self._one_each(targets)
        self._expected = Request()
        self._traces: list[tuple[tuple[TargetLike, ...], Trace]] = []
        self._trace_seconds: list[tuple[float, list[str]]] = []  # of each trace: what it took, and who has used it
        self._games: dict[tuple[object, ...], ModelGame] = {}
        self._memo: dict[Hashable, Any] = {}

    @cached_property
    def targets(self) -> tuple[TargetLike, ...]:
        if callable(self._targets):
            return self._one_each(self._targets(self))
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
        texts = self.model.answer(self.samples) if self._targets is None else [str(t) for t in self.targets]
        return [
            (text, read_answer(text, sample.choices) if sample.choices else None)
            for text, sample in zip(texts, self.samples, strict=True)
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
        """All samples, encoded; a sample that fills the session is encoded once."""
        if len(self.samples) > 1 and all(sample is self.samples[0] for sample in self.samples):
            import torch

            from karat.probe.inputs import take

            return take(self.torch_model.encode(self.samples[:1]), torch.zeros(len(self.samples), dtype=torch.long))
        return self.torch_model.encode(self.samples)

    def rng(self, i: int, component: str) -> np.random.Generator:
        """The random stream of one component on sample i: the same in any batch, order and number of workers."""
        return generator(self.seed, self.samples[i].id, component)

    def only(self, *positions: int) -> Session:
        """A session over some of the samples, with the same targets and random streams."""
        samples, targets = [self.samples[i] for i in positions], [self.targets[i] for i in positions]
        return Session(self.model, samples, targets, self.seed, self.batch_size, self.peers, self.checkpointed)

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
        """A trace of all samples, shared: asked twice, the model runs once.

        Args:
            layers, want, attention_layers: as in `karat.probe.trace`.
            targets: other than the session's, for contrastive explanations; such a trace is shared with its like only.

        Returns:
            A `Trace` that stays open until the session is closed.
        """
        heads = self.torch_model.attention_layers if attention_layers is None else attention_layers
        return self.traced(Request.of(self.torch_model.layers, layers, want, heads), targets)

    def traced(self, request: Request, targets: Sequence[TargetLike] | None = None) -> Trace:
        """What `trace` does, for a request made elsewhere."""
        from karat.probe.recording import record, record_spans

        wanted = self.targets if targets is None else tuple(targets)
        for (held_targets, held), (spent, users) in zip(self._traces, self._trace_seconds, strict=True):
            if held_targets == wanted and request <= held.request:
                self.cost.shared += 1
                self.cost.share(spent, users)
                return held
        if wanted == self.targets:
            request |= self._expected
        began, users = perf_counter(), list[str]()
        if self.one_forward(wanted) and not request.relu:
            trace = record_spans(self.torch_model, self.inputs, wanted, request)
        else:
            trace = record(self.torch_model, self.inputs, wanted, request, self.checkpointed)
        self._trace_seconds.append((perf_counter() - began, users))
        self.cost.share(self._trace_seconds[-1][0], users)
        self.cost.traces += 1
        self.cost.backwards += trace.backwards
        self._traces.append((wanted, trace))
        return trace

    def one_forward(self, targets: Sequence[TargetLike] | None = None) -> bool:
        """Whether all rows are one sample and their targets spans of one text, on a model that reads them off one
        forward: maps of all words of an answer."""
        wanted = self.targets if targets is None else targets
        same = len(wanted) > 1 and all(sample is self.samples[0] for sample in self.samples)
        return same and len({text_of(target) for target in wanted}) == 1 and isinstance(self.model, ReadsSpans)

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
        """The coalition game of sample i. Equal games share their answers.

        Args:
            i: position of the sample.
            visual: "patches", "cells", "pixels", "superpixels", "objects", "objects_and_background", (rows, columns), a
                label map (H, W) or None (see `karat.probe.players`).
            text: "words", "phrases", "tokens", groups of word positions or None.
            absence: what an absent feature looks like; by default `Absence()`.
            value: "probability", "logit" or "log_odds" of the target.
            target: by default the sample's own.
            question: position of a sample whose text the image of sample i goes with, instead of its own.

        Returns:
            A `ModelGame`: a `Game` that goes through the session's batches and memory.
        """
        absence = (absence or Absence()).drawn(self.samples[i], self.samples)
        asker = i if question is None else question
        sample = self.samples[i]
        if asker != i:  # keeps the id of its image: features of the image are shared by it
            other = self.samples[asker]
            sample = replace(sample, text=other.text, answer=None, phrases=other.phrases, mechanisms={})
        patches = self._patches(i, visual, text)[0]
        tokens = self._patches(asker, visual, text)[1]
        patch_players = visual_players(visual, sample, patches)
        word_players = text_players(text if "text" in self.model.capabilities else None, sample, tokens)
        answer = self.targets[i] if target is None else target
        players = (*patch_players.identity, word_players)
        key = (i, asker, *players, *absence.visual_identity, absence.text, absence.words, value, answer)
        if key not in self._games:
            setting = Setting(sample, answer, patch_players, word_players, absence, value)
            index = self.games.add(setting)
            self._games[key] = ModelGame(self.evaluator.game(index).function, index, setting)
        return self._games[key]

    def ask(self, questions: Sequence[tuple[ModelGame, Question[T]]]) -> list[T]:
        """Results of questions about coalitions of this session's games, answered together in full batches."""
        return self.run([self.about(game, question) for game, question in questions])

    def evaluate(self, requests: Sequence[tuple[ModelGame, Keep]]) -> list[Values]:
        """Values of joint masks (m, n) of many games, in full batches across samples."""
        return self.ask([(game, ask(keep)) for game, keep in requests])

    def about(self, game: ModelGame, question: Question[T]) -> RowQuestion[T]:
        """A question about coalitions as part of a larger one: `values = yield from session.about(game, ask(keep))`."""
        return self.evaluator.about(game.index, question)

    def run(self, questions: Sequence[RowQuestion[T]]) -> list[T]:
        """Results of questions about rows of any kind (see `karat.probe.batcher`), in full batches of each kind."""
        return self.batcher.run(questions)

    def masked_inputs(self, game: ModelGame) -> MaskedInputs:
        """The encoded form of a game: what its masks choose between, as tensors."""
        return self.games.masked_inputs(self.torch_model, game.index)

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made once a session and kept as long as it: for facts that several explainers or metrics
        need. Keys begin with the name of whoever makes them; a dict as value is a place to add to.

        >>> from karat.models.blackbox import blackbox
        >>> session = Session(blackbox(lambda images, texts: [{"yes": 1.0}] * len(images)), [])
        >>> session.memo("example/answers", dict) is session.memo("example/answers", dict)
        True
        """
        if key not in self._memo:
            self._memo[key] = make()
        value: T = self._memo[key]
        return value

    def close(self) -> None:
        """Let go of traces, remembered answers and what `memo` holds."""
        for _, held in self._traces:
            held.close()
        self._traces.clear()
        self._trace_seconds.clear()
        self._games.clear()
        self._memo.clear()
        for name in ("batcher", "evaluator", "games"):
            self.__dict__.pop(name, None)

    @cached_property
    def batcher(self) -> Batcher:
        return Batcher(self.batch_size, passes=self.cost.passes)

    @cached_property
    def evaluator(self) -> Evaluator:
        return Evaluator(self.games.values, self.games.shapes, self.batcher)

    @cached_property
    def games(self) -> ModelGames:
        """All games asked for so far, by index."""
        return ModelGames(self.model, images=self.cost.images, passes=self.cost.passes)

    def _one_each(self, targets: Sequence[TargetLike]) -> tuple[TargetLike, ...]:
        if len(targets) != len(self.samples):
            raise BadInput(
                f"a session needs one target per sample; got {len(targets)} for {len(self.samples)} samples."
            )
        return tuple(targets)

    def _patches(
        self, i: int, visual: VisualSpec, text: TextSpec
    ) -> tuple[tuple[int, int] | None, tuple[tuple[int, int], ...] | None]:
        """The model's patch grid and the token spans of the words of sample i, where they are asked for and known."""
        needed = (isinstance(visual, str) and visual == "patches") or (isinstance(text, str) and text == "tokens")
        if not needed or self.layout is None:
            return self.model.grid if isinstance(self.model, CutsImages) else None, None
        words = self.inputs.words[i] if self.inputs.words else None
        return self.layout.grid, words
