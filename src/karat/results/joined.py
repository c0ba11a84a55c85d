"""`Joined(runs)`: the rows of several runs of one protocol as one, where a costly explainer had a run of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.errors import BadInput
from karat.results import details
from karat.results.details import Details
from karat.results.facts import KINDS, Parts, with_facts
from karat.results.run import Run

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = ["model", "dataset", "explainer"]


@dataclass(frozen=True)
class Joined(Run):
    """Reads like its first run, with the rows of all. Where several have a model, data and explainer, the one with the
    most samples stands, and the first of equals."""

    runs: tuple[Run, ...] = field(default=())

    @classmethod
    def of(cls, runs: list[Run]) -> Run:
        """One run as it is; several as one."""
        names = {run.spec["protocol"]["name"] for run in runs}
        if len(names) > 1:
            raise BadInput(f"runs of different protocols cannot be read as one: {', '.join(sorted(names))}.")
        _same_things(runs)
        return runs[0] if len(runs) == 1 else cls(runs[0].store, tuple(runs))

    def scores(self, *, metrics: Collection[str] | None = None, columns: Collection[str] | None = None) -> pd.DataFrame:
        import pandas as pd

        read = None if columns is None else {*columns, *_WHOLE, "sample"}
        frames = [run.scores(columns=read) for run in self.runs]
        chosen = _chosen(frames)  # by all rows of a run, whichever are asked for
        if metrics is not None:
            named = [run.scores(columns=["metric"])["metric"].isin(list(metrics)).to_numpy() for run in self.runs]
            chosen = [one & some for one, some in zip(chosen, named, strict=True)]
        whole = pd.concat([frame[rows] for frame, rows in zip(frames, chosen, strict=True)], ignore_index=True)
        whole = with_facts(whole, self.parts)  # what tells the parts of one run apart need not do so for another
        return whole if columns is None else whole[[name for name in whole.columns if name in columns]]

    @property
    def parts(self) -> Parts:
        return {kind: {label: facts for run in self.runs for label, facts in run.parts[kind].items()} for kind in KINDS}

    def details(self, metric: str) -> Details:
        import pandas as pd

        parts = [run.details(metric) for run in self.runs]
        parts = [part.take(mine) for part, mine in zip(parts, _chosen([part.keys for part in parts]), strict=True)]
        parts = [part for part in parts if len(part)]
        if not parts:
            return Details(pd.DataFrame(columns=list(details.KEYS)))
        keys = pd.concat([part.keys for part in parts], ignore_index=True)
        return Details.of(keys, [{**part.arrays, **part.texts} for part in parts])


def _chosen(frames: list[pd.DataFrame]) -> list[np.ndarray[Any, Any]]:
    """Of each frame, the rows of those models, data and explainers of which it is the first to have most samples."""
    import pandas as pd

    sizes = pd.concat([frame.groupby(_WHOLE)["sample"].nunique() for frame in frames], axis=1, keys=range(len(frames)))
    best = sizes.fillna(0).idxmax(axis=1)
    return [best.reindex(pd.MultiIndex.from_frame(frame[_WHOLE])).to_numpy() == k for k, frame in enumerate(frames)]


def _same_things(runs: list[Run]) -> None:
    """Models and data that go by one name must be one thing, and seeds one seed."""
    for kind in ("models", "datasets"):
        known: dict[str, Any] = {}
        for run in runs:
            for name, revision in run.manifest[kind].items():
                if known.setdefault(name, revision) != revision:
                    raise BadInput(
                        f"runs cannot be read as one: {name} is {known[name]} in one and {revision} in another."
                    )
    if len(seeds := {run.manifest["seed"] for run in runs}) > 1:
        raise BadInput(f"runs of different seeds cannot be read as one: {', '.join(map(str, sorted(seeds)))}.")
