"""Dataset `grid`: certified samples as a run's dataset, buckets interleaved so that any first N covers them all.

Stands beside the package `grid` and loads it when first used, so that `karat ls` need not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from karat.kernel.card import Card
from karat.kernel.errors import UnknownName
from karat.kernel.sample import Sample


@dataclass(frozen=True)
class GridDataset:
    """`buckets` are names or patterns (`D2_M_*`); the default is the 38 that were published.

    `order` "mixed" takes one sample of each bucket in turn; "bucket" takes all of a bucket before the next, so that a
    batch can be the samples of one bucket: what scores of a whole dataset (`modality/*`) are made of.
    """

    buckets: tuple[str, ...] = ()
    mode: Literal["pure", "spur"] = "pure"
    per_bucket: Annotated[int, Ge(1)] = 50
    seed: Annotated[int, Ge(0)] = 0
    preset: Literal["certified", "paper"] = "certified"
    cell: Annotated[int, Ge(4), Le(1024)] = 64
    order: Literal["mixed", "bucket"] = "mixed"
    card: ClassVar[Card] = Card(
        "grid", "questions about shapes on a grid; each sample carries the proof of what it takes to answer", "dataset",
        citation="gridvqax2026",
    )  # fmt: skip

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The buckets that were asked for, in the order of the taxonomy."""
        from karat.datasets.grid.bucket import buckets as all_buckets

        known = all_buckets()
        if not self.buckets:
            return tuple(all_buckets(published_only=True))
        for pattern in self.buckets:
            if not any(fnmatch(name, pattern) for name in known):
                raise UnknownName("bucket", pattern, known)
        return tuple(name for name in known if any(fnmatch(name, pattern) for pattern in self.buckets))

    @property
    def label(self) -> str:
        more = f"+{len(self.buckets) - 1}" if len(self.buckets) > 1 else ""
        chosen = f":{self.buckets[0]}{more}" if self.buckets else ""
        seed = f" seed {self.seed}" if self.seed else ""
        preset = "" if self.preset == "certified" else f" {self.preset}"
        return f"grid.{self.mode}{preset}{chosen}{seed}"

    @property
    def revision(self) -> str:
        from karat.datasets.grid.render import FINE

        averaged = "-averaged" if self.cell < FINE else ""  # how small cells are drawn: see `render.glyphs`
        return f"{self.card.name}-{self.card.version}{averaged}"

    def __len__(self) -> int:
        return len(self.names) * self.per_bucket

    def load(self, start: int, stop: int) -> list[Sample]:
        """Position i is sample i // B of bucket i % B, or in the order of buckets sample i % n of bucket i // n."""
        from karat.datasets.grid.generate import generate

        count, each = len(self.names), self.per_bucket
        slots: dict[int, Sample] = {}
        for b, name in enumerate(self.names):
            if self.order == "mixed":
                places = range(start + (b - start) % count, stop, count)
            else:
                places = range(max(start, b * each), min(stop, (b + 1) * each))
            if places:
                first = places[0] // count if self.order == "mixed" else places[0] % each
                made = generate(name, len(places), self.seed, self.preset, self.mode, start=first, cell=self.cell)
                slots.update(zip(places, made, strict=True))
        return [slots[i] for i in range(start, stop)]
