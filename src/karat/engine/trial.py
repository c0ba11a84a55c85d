"""A timed trial: two samples of a spec, so that a first run has a forecast too."""

from __future__ import annotations

from karat.engine.events import Renderer
from karat.engine.run import run
from karat.kernel.spec import Spec

SAMPLES = 2  # of each dataset: the first warms up, the second is timed


def trial(spec: Spec, directory: str, show: Renderer | None = None) -> str:
    """Run the first two samples of every dataset, one by one in this process, into a directory of its own. Its events
    are what `forecast` reads. Methods that need a batch (blocks of samples, cells of other images) are timed on what
    two samples let them do."""
    some = spec.model_copy(update={"limit": min(SAMPLES, spec.limit or SAMPLES), "shard_size": 1})
    run(some, directory, workers=0, show=show)
    return directory
