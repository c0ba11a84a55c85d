"""`report(runs, out)`: runs as one static page that opens from `file://`, offline, and survives rsync and zipping."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from karat.drawing.colours import SIGNED_NAMES, UNSIGNED_NAMES, colours
from karat.drawing.heat import ALPHA, VEIL
from karat.kernel.references import cited
from karat.kernel.registry import find
from karat.report.cautions import cautions
from karat.report.encode import number, packed, to_json
from karat.report.evidence import Evidence, gather
from karat.report.findings import verdict_of, write_findings
from karat.report.front import front
from karat.report.leaderboards import Board, boards, chief, speaks
from karat.report.maps import Written
from karat.report.page_output import Folder, Inside, Sink
from karat.report.samples import PICTURES, write_samples
from karat.report.slices import slices
from karat.report.verdict import listed, verdict

# In order: each may use what those before it define.
SCRIPTS = (
    "data.js", "dom.js", "format.js", "colour.js", "save.js", "table.js", "sources.js", "chart.js", "plot-bars.js",
    "plot-lines.js", "plot-points.js", "plot-intervals.js", "plot-slopes.js", "plot-grid.js", "plot.js", "figures.js",
    "address.js", "overview.js", "front.js", "findings.js", "slices.js", "filter.js", "canvas.js", "detail.js",
    "matrix.js", "viewer.js", "browser.js", "about.js", "main.js", "live.js",
)  # fmt: skip

_FIELDS = ("models", "datasets", "seed", "versions", "hardware", "command")  # of a manifest


def report(
    runs: Sequence[str | Path], out: str | Path, single_file: bool = False, pictures: int | None = PICTURES
) -> Path:
    """Write the page for one or more runs and return the path of its index.html.

    Args:
        runs: run directories or fsspec URLs.
        out: folder that the page is written to. The same rows give the same bytes.
        single_file: all inside index.html, for small runs that go by mail.
        pictures: samples whose pictures and maps the page holds, at even distances; None for all of them. Every sample
            has its rows.

    Returns:
        The path of index.html.

    Example:
        >>> report(["runs/grid-quick"], "page")  # doctest: +SKIP
        PosixPath('page/index.html')
    """
    return write_page(gather(runs), out, single_file, pictures, Written())


def write_page(evidence: Evidence, out: str | Path, single_file: bool, pictures: int | None, written: Written) -> Path:
    """The page of what was gathered; chunks that were `written` for an earlier page of it are taken over."""
    folder = Folder(Path(out))
    inside = Inside()
    sink: Sink = inside if single_file else folder
    main = _write_boards(evidence, sink)
    samples = write_samples(evidence, sink, pictures, written)
    core = {
        "plain": evidence.plain,
        "front": [front(evidence, name, speaking, samples) for name, speaking in main.items()],
        "mechanisms": {
            model: facts.get("mechanism") for run in evidence.runs for model, facts in run.parts["model"].items()
        },
        "protocols": evidence.protocols,
        "metrics": [vars(metric) for metric in evidence.metrics],
        "controls": sorted(name for name in evidence.explainers if evidence.is_control(name)),
        "slices": _write_slices(evidence, sink),
        "chief": {name: {"metric": first.metric.name, "model": first.model} for name, (first, *_) in main.items()},
        "findings": write_findings(evidence, sink),
        "work": _work(evidence),
        "browser": samples.about,
        "about": _about(evidence),
        "colours": colours_of_page(),
    }
    page = (
        _environment()
        .get_template("index.html")
        .render(
            title=listed(evidence.names),
            about=[text for run in evidence.runs if (text := str(run.spec.get("about") or ""))],
            tested=in_words(evidence),
            verdicts=[_verdict(evidence, name, speaking) for name, speaking in main.items()],
            cautions=cautions(evidence, [board for speaking in main.values() for board in speaking]),
            core=Markup(to_json(core)),  # escaped by to_json: no tag can start in it
            blocks={name: Markup(text) for name, text in inside.blocks.items()},
            style=Markup(_asset("style.css")) if single_file else None,
            scripts=[Markup(_asset(name)) for name in SCRIPTS] if single_file else None,
            names=SCRIPTS,
        )
    )
    if not single_file:
        for name in ("style.css", *SCRIPTS):
            folder.write(f"assets/{name}", _asset(name).encode())
    folder.write("index.html", page.encode())
    folder.sweep()
    return folder.root / "index.html"


def colours_of_page() -> dict[str, Any]:
    """The colour tables of `karat.drawing`, and how much its overlays cover: a page draws no other."""
    tables = {kind: [[name, packed(colours(name), "u")["data"]] for name in names]
              for kind, names in (("plain", UNSIGNED_NAMES), ("signed", SIGNED_NAMES))}  # fmt: skip
    return {**tables, "alpha": ALPHA, "veil": VEIL}


def _write_boards(evidence: Evidence, sink: Sink) -> dict[str, list[Board]]:
    """One chunk of boards per protocol; gives the chief boards of each."""
    plain: dict[str, list[dict[str, Any]]] = {name: [] for name in evidence.protocols}
    kept: list[Board] = []  # only what may be chief: a board holds its draws
    speaking = {name: speaks(evidence.metrics_of(name)) for name in evidence.protocols}
    for board in boards(evidence):
        plain[board.metric.protocol].append({**board.plain(evidence), "verdict": verdict(board)})
        if board.metric == speaking[board.metric.protocol] and not board.dataset:
            kept.append(board)
    for k, found in enumerate(plain.values()):
        sink.data(f"boards-{k}", found)
    return chief(evidence, kept)


def _write_slices(evidence: Evidence, sink: Sink) -> dict[str, list[dict[str, Any]]]:
    """One chunk of tables per score; gives the keys and models that each protocol has tables of."""
    places = {(metric.protocol, metric.name): k for k, metric in enumerate(evidence.metrics)}
    index: dict[str, dict[tuple[str, str], None]] = {}
    for (protocol, metric), tables in groupby(slices(evidence), key=lambda table: (table["protocol"], table["metric"])):
        found = list(tables)
        sink.data(f"slices-{places[protocol, metric]}", found)
        index.setdefault(protocol, {}).update({(table["key"], table["model"]): None for table in found})
    return {protocol: [{"key": key, "model": model} for key, model in pairs] for protocol, pairs in index.items()}


def _verdict(evidence: Evidence, protocol: str, speaking: Sequence[Board]) -> dict[str, Any]:
    """What the protocol itself concluded, where it did; then what its chief boards say."""
    return {
        "protocol": protocol,
        "plain": evidence.plain[protocol],
        "question": evidence.protocols[protocol],
        "spoken": verdict_of(evidence, protocol),
        "boards": [(board.model, verdict(board)) for board in speaking],
    }


def in_words(evidence: Evidence) -> str:
    """What was tested, in plain words.

    "7 explainers and 3 controls on 2 models (...) over 240 samples of grid: 6 scores, 14,400 rows."
    """
    rows = evidence.rows
    places = {place for protocol in evidence.protocols for place in rows.places(protocol)}
    models, data, explainers = (sorted({place[k] for place in places}) for k in (0, 1, 2))
    controls = [name for name in explainers if evidence.is_control(name)]
    who = [_count(len(explainers) - len(controls), "explainer")] if len(controls) < len(explainers) else []
    who += [_count(len(controls), "control")] if controls else []
    samples = f"{_count(len(rows.samples), 'sample')} of {listed(data)}"
    scores = f"{_count(len(evidence.metrics), 'score')} each, {len(rows):,} rows in all"
    on = f"{_count(len(models), 'model')} ({listed(models)})"
    return f"{' and '.join(who)} on {on}, over {samples}. {scores}."


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _work(evidence: Evidence) -> list[dict[str, Any]]:
    """Seconds of all jobs of a model on a dataset: the honest cost where explainers share passes."""
    return [
        {"protocol": protocol, "model": model, "dataset": dataset, "seconds": number(seconds, 4), "explanations": pairs}
        for (protocol, model, dataset), (seconds, pairs) in sorted(evidence.clock.shared.items())
    ]


def _about(evidence: Evidence) -> dict[str, Any]:
    runs = [
        {"name": name, "spec": run.spec, "manifest": {k: run.manifest[k] for k in _FIELDS if k in run.manifest}}
        for name, run in zip(evidence.names, evidence.runs, strict=True)
    ]
    try:
        made_with = version("karat")
    except PackageNotFoundError:
        made_with = ""
    explainers = _explainers(evidence)
    citations = [
        *(metric.citation for metric in evidence.metrics),
        *(explainer["citation"] for explainer in explainers),
    ]
    sources = {short: text for citation in citations for short, text in cited(citation).items()}
    return {"version": made_with, "runs": runs, "explainers": explainers, "sources": sources}


def _explainers(evidence: Evidence) -> list[dict[str, str]]:
    """What the cards of the explainers say; only names of those that are not installed here."""
    known = []
    for name in sorted(evidence.rows.explainers.texts):
        try:
            card = find("explainer", name.split("(")[0]).card
            known.append({"name": name, "summary": card.summary, "citation": card.citation})
        except Exception:  # it may be another's code, absent or broken here: its rows are shown all the same
            known.append({"name": name, "summary": "", "citation": ""})
    return known


def _environment() -> jinja2.Environment:
    loader = jinja2.FunctionLoader(lambda name: files("karat.report").joinpath("templates", name).read_text("utf-8"))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["prose"] = prose
    return environment


def prose(text: str) -> Markup:
    """Escaped text in which what stands between backticks is code.

    >>> str(prose("`a<b` & c"))
    '<code>a&lt;b</code> &amp; c'
    """
    parts = [
        Markup("<code>{}</code>").format(part) if k % 2 else escape(part) for k, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


def _asset(name: str) -> str:
    text = files("karat.report").joinpath("static", name).read_text("utf-8")
    assert not re.search(r"</(script|style)", text), f"{name} must be fit to stand inside a page"
    return text
