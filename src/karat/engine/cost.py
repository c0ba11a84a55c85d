"""What a run costs in time on any number of workers: the schedule played through, with the bottleneck named."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """One job: the position of its model, seconds of computing with the weights loaded, and of loading them."""

    model: int
    seconds: float
    load: float | None = None  # as for any model, if not known


@dataclass(frozen=True)
class Costs:
    """Seconds of everything that is not computing. The defaults were measured; see docs/concepts/scaling.md."""

    start: float = 3.0  # a worker, from nothing to its first job
    load: float = 1.0  # the weights of a model, for a worker that has another loaded or none; where `Work` has no own
    driver: float = 0.002  # of the driver, for a job: handing out, hearing, logging
    store: float = 0.01  # for a shard, while it holds one of the store's lanes
    lanes: int = 8  # shards that the store takes at once


@dataclass(frozen=True)
class Forecast:
    seconds: float
    bottleneck: str  # the largest of the bounds
    bounds: Mapping[str, float]  # seconds that the run would take if only that cost anything


def bounds(works: Sequence[Work], workers: int, costs: Costs) -> dict[str, float]:
    """Lower bounds, each from one resource alone. The run takes at least the largest."""
    if not works:
        return {"computing": 0.0}
    longest = max(work.seconds for work in works)
    loads = _loads(works, costs)
    rounds = math.ceil(len(loads) / workers)  # some worker loads as many
    loading = max(max(loads.values()), sum(loads.values()) / workers, rounds * min(loads.values()))
    return {
        "computing": sum(work.seconds for work in works) / workers,
        "the longest job": longest,
        "starting workers and loading models": costs.start + loading,
        "the driver": costs.driver * len(works),
        "the store": costs.store * len(works) / costs.lanes,
    }


def simulate(works: Sequence[Work], workers: int, costs: Costs) -> Forecast:
    """Play the schedule through: idle workers take the next job of the model they have loaded, else of the least
    attended one; the driver serves one at a time, the store `lanes` at a time.

    >>> simulate([Work(0, 1.0)] * 8, workers=4, costs=Costs(start=0, load=0, driver=0, store=0)).seconds
    2.0
    """
    queues: dict[int, deque[float]] = {}
    for work in works:
        queues.setdefault(work.model, deque()).append(work.seconds)
    loads = _loads(works, costs)
    attending = dict.fromkeys(queues, 0)
    free = [(costs.start, worker) for worker in range(min(workers, len(works)))]
    lanes = [0.0] * costs.lanes
    loaded: dict[int, int] = {}
    driver = end = 0.0
    left = len(works)
    while left:
        now, worker = heapq.heappop(free)
        driver = max(driver, now) + costs.driver
        begun = driver
        model = loaded.get(worker)
        if model is None or not queues[model]:
            if model is not None:
                attending[model] -= 1
            model = max(queues, key=lambda m: (len(queues[m]) / (1 + attending[m]), -m))
            attending[model] += 1
            loaded[worker] = model
            begun += loads[model]
        done = begun + queues[model].popleft()
        written = max(done, heapq.heappop(lanes)) + costs.store
        heapq.heappush(lanes, written)
        heapq.heappush(free, (written, worker))
        end = max(end, written)
        left -= 1
    limits = bounds(works, workers, costs)
    return Forecast(end, max(limits, key=limits.__getitem__), limits)


def _loads(works: Sequence[Work], costs: Costs) -> dict[int, float]:
    """Seconds that the weights of each model take."""
    return {work.model: costs.load if work.load is None else work.load for work in works}
