"""The smallest things that fit the nouns: for tests of the engine, where what is computed does not matter."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.sample import Phrase, Region, Sample, Uses
from karat.probe.session import Session


@dataclass(frozen=True)
class Squares:
    """n images of one bright square; the square is the truth."""

    n: int = 10
    side: int = 16
    card: ClassVar[Card] = Card("toys/squares", "bright squares", "dataset")

    @property
    def revision(self) -> str:
        return "1"

    def __len__(self) -> int:
        return self.n

    def load(self, start: int, stop: int) -> list[Sample]:
        return [square(i, self.side) for i in range(start, stop)]


def square(i: int, side: int = 16) -> Sample:
    image = np.zeros((side, side, 3), dtype=np.uint8)
    x, y = i % (side - 4), (i * 3) % (side - 4)
    image[y : y + 4, x : x + 4] = 255
    return Sample(
        id=f"square-{i}",
        image=image,
        text="Where is the square?",
        answer="here",
        regions=(Region("square", "target", boxes=((x, y, 4, 4),)),),
        phrases=(Phrase((13, 19), "target", ("square",)),),
        mechanisms={"reasons": Uses(frozenset({"target"}), frozenset({"target"}))},
        meta={"row": y, "parity": "even" if i % 2 == 0 else "odd"},
    )


@dataclass(frozen=True)
class ToyModel:
    name: str = "toy"
    capabilities: frozenset[str] = frozenset({"scores", "text", "mechanism"})
    mechanism: str | None = "reasons"

    def answer(self, samples: Sequence[Sample]) -> list[str]:
        return ["here" for _ in samples]

    def score(self, samples: Sequence[Sample], answers: Sequence[str]) -> np.ndarray:
        return np.array([sample.image.mean() / 255 for sample in samples])


@dataclass(frozen=True)
class Toy:
    """A model that says "here"; `weights` stands for anything that would change it."""

    weights: str = "a"
    card: ClassVar[Card] = Card("toys/toy", "says here", "model")

    @property
    def label(self) -> str:
        return f"toy-{self.weights}"

    @property
    def capabilities(self) -> frozenset[str]:
        return ToyModel().capabilities

    @property
    def revision(self) -> str:
        return self.weights

    def load(self) -> ToyModel:
        return ToyModel(self.label)


@dataclass(frozen=True)
class Hungry(Toy):
    """A toy that declares more than any test machine has."""

    resources: ClassVar[dict[str, float]] = {"GPU": 2.0}
    card: ClassVar[Card] = Card("toys/hungry", "wants two GPUs", "model")


@dataclass(frozen=True)
class OnGpu(Toy):
    """A toy for GPUs that nobody has. It answers with what its process was shown, and whether torch came before it.

    `breaks` names a folder: a file in it called after a GPU is a GPU that fails while a model is loaded, and the word
    in it how often.
    """

    device: str = "cuda"
    gpus: float | None = None
    gigabytes: float = 0.0
    breaks: str = ""
    card: ClassVar[Card] = Card("toys/on_gpu", "says which GPU it has", "model")

    def weights_bytes(self) -> int | None:
        return round(self.gigabytes * 2**30) or None

    def load(self) -> ToyModel:
        sees = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        broken = Path(self.breaks) / f"gpu-{sees}"
        if self.breaks and broken.exists():
            left = int(broken.read_text()) - 1
            broken.write_text(str(left)) if left else broken.unlink()
            raise RuntimeError("CUDA error: no CUDA-capable device is detected")
        if self.breaks:
            (Path(self.breaks) / f"loaded-{sees}-{os.getpid()}").touch()
        return ToyModel(self.label)


@dataclass(frozen=True)
class Noise:
    """Seeded noise, a little slow if asked."""

    wait: float = 0.0
    card: ClassVar[Card] = Card("toys/noise", "noise", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        time.sleep(self.wait)
        return [Attribution(session.rng(i, "toys/noise").random((8, 8))) for i in range(len(session.samples))]


@dataclass(frozen=True)
class Patient:
    """Explains the first samples at once, and waits for a file before the others: tests say when it goes on.

    Who waits leaves a file `<gate>.<process>`.
    """

    gate: str
    free: int = 8
    card: ClassVar[Card] = Card("toys/patient", "waits for a file", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        if any(int(sample.id.split("-")[1]) >= self.free for sample in session.samples):
            Path(f"{self.gate}.{os.getpid()}").touch()
            while not Path(self.gate).exists():
                time.sleep(0.05)
        return Noise()(session)


@dataclass(frozen=True)
class Moody:
    """Raises on one sample, gives NaN on another, all zeros on a third."""

    card: ClassVar[Card] = Card("toys/moody", "fails here and there", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        attributions = []
        for sample in session.samples:
            if sample.id == "square-1":
                raise ValueError("cannot stand square-1")
            visual = np.ones((4, 4))
            if sample.id == "square-2":
                visual[0, 0] = np.nan
            if sample.id == "square-3":
                visual[:] = 0
            attributions.append(Attribution(visual))
        return attributions


@dataclass(frozen=True)
class Killer:
    """Kills its process, as long as the file `fuse` can be taken away: then it works."""

    fuse: str
    card: ClassVar[Card] = Card("toys/killer", "kills its process", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        try:
            Path(self.fuse).unlink()
        except FileNotFoundError:
            return [Attribution(np.ones((2, 2))) for _ in session.samples]
        os.kill(os.getpid(), signal.SIGKILL)
        return []


@dataclass(frozen=True)
class Deadly:
    """Kills its process every time."""

    card: ClassVar[Card] = Card("toys/deadly", "always kills its process", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


@dataclass(frozen=True)
class Poisoned:
    """Kills its process on one sample; seeded noise on the others."""

    sample: str = "square-5"
    card: ClassVar[Card] = Card("toys/poisoned", "dies of one sample", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        if any(sample.id == self.sample for sample in session.samples):
            os.kill(os.getpid(), signal.SIGKILL)
        return Noise()(session)


@dataclass(frozen=True)
class BadSquares(Squares):
    """Squares of which one raises when it is read, and one kills the process that reads it."""

    raises: int = -1
    kills: int = -1
    card: ClassVar[Card] = Card("toys/badsquares", "squares, some unreadable", "dataset")

    def load(self, start: int, stop: int) -> list[Sample]:
        if start <= self.kills < stop:
            os.kill(os.getpid(), signal.SIGKILL)
        if start <= self.raises < stop:
            raise OSError(f"cannot decode image {self.raises}")
        return super().load(start, stop)


@dataclass(frozen=True)
class Greedy:
    """Needs what no toy offers."""

    card: ClassVar[Card] = Card("toys/greedy", "wants gradients", "explainer", needs=frozenset({"gradients"}))

    def __call__(self, session: Session) -> list[Attribution]:
        return []


def spec(**changes: object) -> dict[str, object]:
    """Plain data of a small sound spec."""
    return {
        "name": "toys",
        "protocol": "localization",
        "models": ["toys:Toy"],
        "datasets": [{"name": "toys:Squares", "n": 10}],
        "explainers": ["control/random", "control/oracle"],
        "shard_size": 4,
        "batch_size": 2,
        **changes,
    }
