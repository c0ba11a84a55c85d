"""A page per run recorded with Karat, made whenever the docs are built (a MkDocs hook): what it shows, in words, the
paper's claims beside it, and the whole report behind a link."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from karat.kernel.errors import KaratError
from karat.kernel.finding import Finding
from karat.protocols.paper import RECORDED, paper, papers
from karat.report import report
from karat.results.run import load_run

BESIDE = "Beside paper"  # sections that the claims below stand for
LONGEST = 30  # rows of a table that a page has room for


def names() -> list[str]:
    return sorted(path.parent.name for path in RECORDED.glob("*/spec.json"))


def on_config(config: Any) -> Any:
    """Recorded runs get a place of their own in the menu, before the benchmarks."""
    listed = [{name: f"runs/{name}.md"} for name in names()]
    place = next((k for k, entry in enumerate(config["nav"]) if "Benchmarks" in entry), len(config["nav"]))
    if listed:
        config["nav"].insert(place, {"Recorded runs": listed})
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name in names():
        files.append(File.generated(config, f"runs/{name}.md", content=page(name)))
    return files


def on_post_build(config: Any) -> None:
    for name in names():
        report([RECORDED / name], Path(config["site_dir"]) / "runs" / name / "page")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Tables of recorded runs in the text: `[[sss RECORD MODEL]]` or `[[csv FILE]]` on a line of its own."""
    listed = re.compile(r"^\[\[csv (\S+)\]\]$", re.MULTILINE)
    markdown = listed.sub(lambda place: csv_table(Path(__file__).parent / "recorded" / place[1]), markdown)
    return re.sub(
        r"^\[\[sss (\S+) (\S+)\]\]$", lambda asked: sss_table(asked[1], asked[2]), markdown, flags=re.MULTILINE
    )


def csv_table(path: Path) -> str:
    """A CSV of docs/recorded as Markdown."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def sss_table(name: str, model: str) -> str:
    """SSS of a model's explainers on two sets of the same images, with intervals, from a recorded run."""
    from karat.kernel.identity import generator
    from karat.protocols.semantic.analysis import mean, per_image, predictions
    from karat.statistics import paired_difference

    table = predictions(load_run(RECORDED / name))
    table = table[table["model"] == model]
    images, (first, second) = per_image(table), sorted(table["dataset"].unique())
    matched = table[table["dataset"] == first].groupby("explainer")["size_matched"].mean()
    lines = [f"| explainer | SSS, {first} | SSS, {second} | difference | size-matched |", "|---|---|---|---|---|"]
    for explainer, group in images.groupby("explainer"):
        wide = group.pivot(index="image", columns="dataset", values="sss")
        levels = [mean(wide[one].dropna(), model, one, explainer) for one in (first, second)]
        gap = paired_difference(wide[second], wide[first], rng=generator(0, str(explainer), "docs/sss"))
        told = [f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in levels]
        apart = f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]" if gap.value else "0"
        lines.append(f"| {explainer} | {told[0]} | {told[1]} | {apart} | {matched[explainer]:.2f} |")
    return "\n".join(lines)


def page(name: str) -> str:
    """The recorded run of a protocol as Markdown."""
    run = load_run(RECORDED / name)
    lines = [
        f"# Recorded: {name}",
        "",
        f"{run.spec.get('about', '')}. {len(run.scores()):,} rows, which travel with the package. "
        '<a href="page/index.html">The whole report</a> has every table and figure.',
        "",
    ]
    for finding in run.findings():
        if not finding.section.startswith(BESIDE):
            lines += _finding(finding)
    lines += _claims(name)
    return "\n".join(lines)


def _finding(finding: Finding) -> list[str]:
    lines = ["", f"## {finding.title}", "", finding.about, "", *(f"- {_text(said)}" for said in finding.sentences), ""]
    if finding.rows and len(finding.rows) <= LONGEST:
        lines += _table(finding)
    elif finding.rows:
        lines.append(f"*{len(finding.rows)} rows, in the report.*")
    return lines


def _claims(protocol: str) -> list[str]:
    number = next((number for number, name in papers().items() if name == protocol), None)
    if number is None:
        return []
    try:
        comparison = paper(number)
    except KaratError as error:
        return ["", f"## The claims of paper {number}", "", str(error)]
    counted = ", ".join(f"{n} {verdict}" for verdict, n in comparison.counts().items())
    return ["", f"## The claims of paper {number}", "", f"{counted}.", "", *_table(comparison.findings("")[0])]


def _table(finding: Finding) -> list[str]:
    head = [f"| {' | '.join(map(_text, finding.columns))} |", f"|{'---|' * len(finding.columns)}"]
    return [*head, *(f"| {' | '.join(_cell(value) for value in row)} |" for row in finding.rows), ""]


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else _text(str(value))


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
