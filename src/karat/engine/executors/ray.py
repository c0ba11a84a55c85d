"""Jobs on a Ray cluster: the way in. `Driver` hands them out, an `Actor` on each share of a machine does them."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from karat.engine.executors.job import Report
from karat.engine.executors.ray_driver import Driver
from karat.engine.executors.ray_resources import no_room, resources, shares
from karat.engine.plan import Plan
from karat.kernel.cell import Job
from karat.kernel.errors import BadInput, ExtraMissing
from karat.results.store import Store


def in_ray(
    planned: Plan,
    jobs: Sequence[Job],
    store: Store,
    *,
    address: str | None = None,
    workers: int | None = None,
    per_device: int | None = None,
    retries: int = 2,
) -> Iterator[Report]:
    """Jobs over a Ray cluster: the one at `address`, else the one this machine belongs to, else one of its own.

    `workers` limits the actors, or asks an autoscaling cluster for more than it has; as many as there is room for if
    not given. Nodes may come and go at any time.
    """
    with _connected(address) as ray:
        driver = Driver(ray, planned, jobs, store, workers, retries, per_device)
        try:
            yield from driver.reports()
        finally:
            driver.stop()


def room(planned: Plan, address: str | None = None, per_device: int | None = None) -> int:
    """Workers that the cluster has room for just now; where models hold different resources, of the rarest kind."""
    with _connected(address) as ray:
        nodes = ray.nodes()
    places = []
    for recipe in planned.models:
        places.append(shares(nodes, wanted := resources(recipe, per_device)))
        if not places[-1]:
            raise no_room(wanted)
    return min(places, default=1)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        _knock(address)
        try:
            started = {} if address else {"include_dashboard": False}
            ray.init(address=address, log_to_driver=False, logging_level="error", **started)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BadInput(f"cannot reach a Ray cluster at {address or 'this machine'}: {error}") from None
    with redirect_stdout(sys.stderr):  # Ray tells of lost workers and nodes on stdout, which may be a program's
        try:
            yield ray
        finally:  # inside: its threads may still have a word to say
            if ours:
                ray.shutdown()


def _knock(address: str | None) -> None:
    """Is anybody there? Ray itself would try for a quarter of an hour."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise BadInput(
                f"cannot reach a Ray cluster at {address}: {error}. `ray status` shows its address."
            ) from None


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run reports to nobody
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ExtraMissing("--engine ray", "ray", "ray") from None
    return ray
