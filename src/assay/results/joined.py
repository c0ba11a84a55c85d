"""`Joined(runs)`: the rows of several runs of one protocol as one, where a costly explainer had a run of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.kernel.errors import BadInput
from assay.results.run import KEYS, Run

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = ["model", "dataset", "explainer"]


@dataclass(frozen=True)
class Joined(Run):
    """Reads like its first run, with the rows of all. What an earlier run has of a model, data and explainer stands."""

    runs: tuple[Run, ...] = field(default=())

    @classmethod
    def of(cls, runs: list[Run]) -> Run:
        """One run as it is; several as one."""
        names = {run.spec["protocol"]["name"] for run in runs}
        if len(names) > 1:
            raise BadInput(f"runs of different protocols cannot be read as one: {', '.join(sorted(names))}.")
        return runs[0] if len(runs) == 1 else cls(runs[0].store, tuple(runs))

    def scores(self) -> pd.DataFrame:
        import pandas as pd

        frames = [run.scores() for run in self.runs]
        return pd.concat([frame[new] for frame, new in zip(frames, _new(frames), strict=True)], ignore_index=True)

    def details(self, metric: str) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
        """Of the runs whose details are as wide as the widest: others were computed from something else."""
        import pandas as pd

        found = [run.details(metric) for run in self.runs]
        width = max(values.shape[1] for _, values in found)
        found = [(keys, values) for keys, values in found if values.shape[1] == width]
        new = _new([keys for keys, _ in found])
        keys = pd.concat([keys[mine] for (keys, _), mine in zip(found, new, strict=True)], ignore_index=True)
        keys = keys.sort_values(list(KEYS), kind="stable")
        values = np.concatenate([values[mine] for (_, values), mine in zip(found, new, strict=True)])[keys.index]
        return keys.reset_index(drop=True), values


def _new(frames: list[pd.DataFrame]) -> list[np.ndarray[Any, Any]]:
    """Of each frame, the rows whose model, data and explainer no frame before it has."""
    import pandas as pd

    found = []
    there = pd.MultiIndex.from_tuples([], names=_WHOLE)
    for frame in frames:
        places = pd.MultiIndex.from_frame(frame[_WHOLE])
        found.append(~places.isin(there))
        there = there.append(places.unique())
    return found
