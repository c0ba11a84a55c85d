"""`karat run`: carry out a spec, or what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from karat.cli.console import RUNS, print_table, spec_path
from karat.kernel.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.engine.footprint import Footprint
    from karat.engine.plan import Plan

STYLES = ("live", "plain", "json", "none")


def run(
    spec: Annotated[str, typer.Argument(help="A YAML file, or the name of a shipped spec (`karat ls specs`).")],
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="The run directory, or an fsspec URL (s3://...); runs/<name> if not given."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a field: seed=3, protocol.steps=5; the value is YAML. Repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Take only the first N images of each dataset.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run and what it would cost, then stop.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Worker processes. If not given: one per GPU for a model with device: cuda, one for all GPUs with "
            "device: auto, else as many as cores and memory allow (or the cluster has room for)."
        ),
    ] = None,
    per_device: Annotated[int | None, typer.Option(help="Workers that share one GPU; 1 if not given.")] = None,
    engine: Annotated[str, typer.Option(help="Where jobs run: local (this machine) or ray (a cluster).")] = "local",
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster, host:port or auto; the one this machine is in if not given.")
    ] = None,
    fail_on_error: Annotated[
        float, typer.Option(help="Largest share of failed rows that still exits 0; 0 means any failure exits 1.")
    ] = 1.0,
    progress: Annotated[
        str | None, typer.Option(help="live, plain, json or none; live on a terminal, plain in a pipe.")
    ] = None,
    tracker: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:NAME", help="Pass the run's events on to an object of your own. Repeatable."),
    ] = None,
    until_settled: Annotated[
        float | None,
        typer.Option(help="Spend samples only until the order of the explainers is settled at this confidence (0.95)."),
    ] = None,
    settle_by: Annotated[
        str | None, typer.Option(help="The score that --until-settled looks at; the protocol's first if not given.")
    ] = None,
) -> None:
    """Run a spec. The same command again resumes; adding a model or explainer to the spec extends the run.

    Example: `karat run grid-quick --limit 40 --set 'explainers=[control/random, control/oracle]'`
    """
    from karat.engine.events import renderer
    from karat.engine.plan import plan
    from karat.engine.race import RECORD, Settle
    from karat.engine.resolve import read_spec
    from karat.engine.run import check_workers
    from karat.engine.run import run as carry_out
    from karat.engine.trackers import Tracked, tracker_named

    if progress is not None and progress not in STYLES:
        raise BadInput(f"--progress takes {', '.join(STYLES)}; got {progress!r}.")
    if not 0 <= fail_on_error <= 1:
        raise BadInput(f"--fail-on-error is a share between 0 and 1; got {fail_on_error:g}.")
    if address is not None and engine != "ray":
        raise BadInput(f"--address is of a Ray cluster: add --engine ray (got --engine {engine}).")
    if until_settled is not None and not 0 < until_settled < 1:
        raise BadInput(f"--until-settled is a confidence between 0 and 1, such as 0.95; got {until_settled:g}.")
    if settle_by is not None and until_settled is None:
        raise BadInput("--settle-by names the score of a race: add --until-settled 0.95.")
    trackers = [tracker_named(name) for name in tracker or ()]
    limits = [f"limit={limit}"] if limit is not None else []
    wanted = read_spec(spec_path(spec), [*(settings or []), *limits])
    where = out or str(RUNS / wanted.name)
    check_workers(workers, engine, per_device)
    if dry_run:
        planned = plan(wanted, strict=False)
        if engine == "ray" and workers is None:
            from karat.engine.executors.ray import room

            workers = room(planned, address, per_device)
        show_plan(planned, where, workers, per_device, engine == "local" and workers != 0)
        return
    finished = carry_out(
        wanted, where, workers=workers, per_device=per_device, engine=engine, address=address,
        show=Tracked(renderer(progress), trackers) if trackers else renderer(progress),
        fail_on_error=fail_on_error, until=None if until_settled is None else Settle(until_settled, settle_by),
    )  # fmt: skip
    if until_settled is not None and progress not in ("json", "none"):
        show_race(finished.store.read_json(RECORD))
    if progress not in ("json", "none"):
        typer.echo(f"rows in {finished.path}; look at them with `karat report {finished.path}`", err=True)


def show_race(race: dict[str, Any]) -> None:
    """Where each pair settled, and what the race has saved."""
    print_table(
        ["first", "second", "better", "settled at", "samples"],
        [
            [p["first"], p["second"], p["winner"] or "open", str(p["settled_at"] or "-"), str(p["n"])]
            for p in sorted(race["pairs"], key=lambda p: p["settled_at"] or 10**9)
        ],
        title=f"{race['metric']}: which of two explainers wins more samples, at confidence {race['confidence']:g}",
    )
    left = sum(p["winner"] is None for p in race["pairs"])
    state = "all pairs are settled" if not left else f"{left} of {len(race['pairs'])} pairs are open"
    typer.echo(f"{state} after {race['samples']} samples; {race['shards_unused']} shards were not needed", err=True)


def show_plan(
    planned: Plan,
    where: str,
    workers: int | None = None,
    per_device: int | None = None,
    local: bool = True,
    tried: str | None = None,
) -> None:
    """What a run would do: the grid, its cost, what is refused and why; on this machine, where its workers run. The
    time is that of earlier runs, and of a trial at `tried`."""
    from karat.engine.footprint import planned_footprints, rooms
    from karat.engine.forecast import forecast
    from karat.engine.plan import missing_extras
    from karat.engine.precision import precision_cautions
    from karat.engine.run import placement
    from karat.kernel.registry import label
    from karat.kernel.roles import FetchesWeights, KnowsLevel, plays
    from karat.results.run import Run
    from karat.results.store import Store

    done = set(Run(Store(where)).cells()) & {cell.id for cell in planned.cells}
    jobs = planned.jobs(done)
    problem, lines, room = "", ["one after the other"], {}
    try:
        if local and jobs:
            placed = placement(planned, jobs, workers, per_device)
            workers, lines, room = placed.workers, [*placed.says], rooms(placed)
        elif workers:
            lines = [f"{workers} in the cluster"]
    except BadInput as error:  # it may be meant for another machine
        problem, lines = str(error), ["none could run on this machine"]
    print_table(
        ["what", "how many"],
        [
            ["models", str(len(planned.models))],
            ["explainers", str(len(planned.explainers))],
            ["samples", ", ".join(f"{_size(planned, i)} of {label(d)}" for i, d in enumerate(planned.datasets))],
            ["cells", f"{len(planned.cells)}, {len(done)} of them done in {where}"],
            ["jobs to run", str(len(jobs))],
            ["workers", "\n".join(lines)],
            ["forward passes to ask for", f"{planned.passes(jobs):,.0f}"],
            ["time", forecast(planned, jobs, where, workers, tried)],
            ["scores per explanation", ", ".join(planned.metrics)],
        ],
        title=f"{planned.spec.name}: protocol {label(planned.protocol)}",
    )
    sizes = planned_footprints(planned, room)
    show_memory([one for some in sizes.values() for one in some])
    for text in precision_cautions(planned):
        typer.echo(f"caution: {text}")
    for recipe in planned.models:
        if plays(recipe, KnowsLevel):
            typer.echo(f"{label(recipe)}: level {recipe.level or 'not known until it is loaded and probed'}")
    for refusal in planned.refusals:
        typer.echo(f"not run: {refusal.model} × {refusal.explainer}: {refusal.reason}")
    for text in (*missing_extras(planned), *planned.absent):
        typer.echo(f"missing: {text}")
    if problem:
        typer.echo(f"not on this machine: {problem}")
    for recipe in planned.models:
        name = recipe.label
        if plays(recipe, FetchesWeights) and (address := recipe.to_fetch()) is not None:
            typer.echo(f"to fetch: {name}: {address}")
    if planned.unserved:
        raise BadInput(
            f"as it stands the run would be refused: no model here can serve {', '.join(planned.unserved)}. "
            "Drop them from the spec, or add a model that offers what they need."
        )


def show_memory(sizes: Sequence[Footprint]) -> None:
    """The forecast of every kind of trace, in a table; nothing where no model tells its configuration."""
    if sizes:
        print_table(
            ["model", "explainers", "at most"],
            [[f"{one.model}, {one.tokens:,} tokens", _some(one.explainers), one.in_words] for one in sizes],
            title="memory at the peak (forecast)",
        )


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join([*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])])


def _size(planned: Plan, dataset: int) -> int:
    return max((job.stop for job in planned.grid if job.dataset == dataset), default=0)
