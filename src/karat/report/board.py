"""`board(runs, out)`: many runs as one static site: explainers × protocols × models, ranked where they may be.

Only runs that are sealed and complete count; the others are listed with the reason. Runs are ranked together only where
protocol with all its parameters, data with their revisions, models with theirs, seed and settings are the same: then
their rows join, and ranks come from samples that all explainers share. Whatever differs is another table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from karat.kernel.errors import BadInput, KaratError
from karat.report.encode import number
from karat.report.evidence import Evidence, gather
from karat.report.leaderboards import Board, boards_of, scores_of, speaks
from karat.report.page import report
from karat.report.page_output import Folder
from karat.results import Run, load_run
from karat.results.joined import Joined
from karat.results.record import Record
from karat.results.rows import NO_ROW
from karat.results.store import Store

_SETTINGS = ("limit", "absence", "skip", "seed")  # of a spec: what changes which samples are asked, or how


@dataclass(frozen=True)
class Entry:
    """A run of the board: `key` says what it may be ranked with, `why_not` why it does not count."""

    run: Run
    name: str
    place: str
    key: str = ""
    why_not: str = ""


def board(runs: Sequence[str | Path], out: str | Path, pages: bool = True) -> Path:
    """Write a site of many runs and return the path of its index.html.

    Args:
        runs: run directories or fsspec URLs.
        out: folder of the site; nothing in it needs a server.
        pages: make the page of every run that counts, too, and link to it.

    Returns:
        The path of index.html.

    Example:
        >>> board(["runs/a", "runs/b"], "site")  # doctest: +SKIP
        PosixPath('site/index.html')
    """
    if not runs:
        raise BadInput("a board needs at least one run: `karat board runs/* -o site`.")
    entries = [entry(str(place), k) for k, place in enumerate(runs)]
    counted = [one for one in entries if not one.why_not]
    groups = {key: [one for one in counted if one.key == key] for key in dict.fromkeys(one.key for one in counted)}
    folder = Folder(Path(out))
    tables = [table for own in groups.values() for table in _tables(own)]
    if pages:
        for one in counted:
            report([one.place], folder.root / "runs" / one.name)
    page = _environment().get_template("board.html").render(
        groups=[_about(own) for own in groups.values()], tables=tables, pages=pages,
        refused=[one for one in entries if one.why_not], style=_asset("style.css"), script=_asset("board.js"),
        protocols=sorted({table["protocol"] for table in tables}), models=sorted({t["model"] for t in tables}),
    )  # fmt: skip
    folder.write("index.html", page.encode())
    folder.write("board.json", (json.dumps(tables, indent=1, sort_keys=True) + "\n").encode())
    return folder.root / "index.html"


def entry(place: str, number: int) -> Entry:
    """A run as the board sees it: whole, sealed, and what it may be ranked with."""
    name = f"{number + 1}-{Path(place).name}"
    try:
        run = load_run(place)
        manifest = run.manifest
        if damaged := run.damaged():
            return Entry(run, name, place, why_not=f"damaged: {', '.join(damaged[:3])}")
        if not run.store.is_sealed("manifest.json"):
            return Entry(run, name, place, why_not="its manifest has no seal: written by hand, or by an old Karat")
        wanted = set(manifest["cells"])
        missing = 0 if isinstance(run, Record) else len(wanted - set(run.cells()))
        if missing:
            return Entry(run, name, place, why_not=f"not finished: {missing:,} of {len(wanted):,} cells are missing")
        if not run.findings():
            return Entry(run, name, place, why_not="no findings: the run was not completed")
    except KaratError as error:
        return Entry(Run(Store(place)), name, place, why_not=str(error))
    return Entry(run, name, place, key_of(run))


def key_of(run: Run) -> str:
    """What must be equal for runs to be ranked together, as one text."""
    manifest, spec = run.manifest, run.spec
    fields = {
        "protocol": spec["protocol"], "settings": {key: spec.get(key) for key in _SETTINGS}, "seed": manifest["seed"],
        "datasets": manifest["datasets"], "models": manifest["models"],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _about(own: Sequence[Entry]) -> dict[str, Any]:
    manifest, spec = own[0].run.manifest, own[0].run.spec
    versions = [{**one.run.manifest.get("versions", {})} for one in own]
    return {
        "key": own[0].key, "protocol": spec["protocol"]["name"],
        "parameters": {key: value for key, value in spec["protocol"].items() if key != "name"},
        "runs": own, "seed": manifest["seed"], "datasets": manifest["datasets"], "models": manifest["models"],
        "versions": [", ".join(f"{name} {version}" for name, version in sorted(v.items())) for v in versions],
    }  # fmt: skip


def _tables(own: Sequence[Entry]) -> list[dict[str, Any]]:
    """One table per model: every explainer of the joined runs by the protocol's chief score, on shared samples."""
    Joined.of([one.run for one in own])  # refuses what goes by one name and is not one thing
    evidence = gather([one.place for one in own])
    tables = []
    for protocol in evidence.protocols:
        scores = scores_of(evidence, speaks(evidence.metrics_of(protocol)))
        for m, model in enumerate(scores.rows.models):
            scored = scores.known[m] > 0  # (explainers, samples)
            some = scored.any(axis=0)
            shared = scored[scored.any(axis=1)].all(axis=0) & some
            samples = shared if shared.any() else some
            rows = (scores.rows.state[m] != NO_ROW).sum(axis=1)
            covered = {
                name: number(float(scored[e].sum() / rows[e]), 4)
                for e, name in enumerate(scores.rows.explainers)
                if rows[e]
            }
            for ranked in boards_of(evidence, scores, [model], samples):
                tables.append(_table(evidence, own[0], ranked, bool(shared.any()), int(some.sum()), covered))
    return tables


def _table(
    evidence: Evidence, first: Entry, ranked: Board, shared: bool, samples: int, covered: dict[str, float | None]
) -> dict[str, Any]:
    """`covered`: share of the rows asked that have a score, over all samples, shared or not."""
    plain = ranked.plain(evidence)
    return {
        "group": first.key, "protocol": evidence.plain[ranked.metric.protocol], "metric": ranked.metric.name,
        "model": ranked.model, "better": ranked.metric.direction, "samples": ranked.spread.samples, "of": samples,
        "shared": shared, "floor": plain["floor"], "reference": plain["reference"],
        "rows": [{
            "explainer": row["explainer"], "control": row["control"], "rank": row["rank"], "mean": row["mean"],
            "low": row["low"], "high": row["high"], "coverage": covered[row["explainer"]],
            "passes": row["passes"], "seconds": row["seconds"], "beats_noise": row["beats"],
        } for row in plain["rows"]],
    }  # fmt: skip


def _environment() -> jinja2.Environment:
    loader = jinja2.FunctionLoader(lambda name: files("karat.report").joinpath("templates", name).read_text("utf-8"))
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )


def _asset(name: str) -> Any:
    from markupsafe import Markup

    return Markup(files("karat.report").joinpath("static", name).read_text("utf-8"))
