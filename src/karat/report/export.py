"""What a run says, for other places: tables as papers print them, rows as a dataset, the page as a static Space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karat.kernel.errors import BadInput
from karat.report.evidence import Evidence, gather
from karat.report.leaderboards import boards
from karat.report.page import report
from karat.results import Run, load_run
from karat.results.export import write_file, write_rows

if TYPE_CHECKING:
    import pandas as pd

_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
_CONTEXT = {
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs", "column": "cr:column",
    "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/", "examples": {"@id": "cr:examples", "@type": "@json"}, "extract": "cr:extract",
    "field": "cr:field", "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject", "fileSet": "cr:fileSet",
    "format": "cr:format", "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath",
    "key": "cr:key", "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path", "recordSet": "cr:recordSet",
    "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace",
    "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField",
    "transform": "cr:transform",
}  # fmt: skip
_KINDS = {"double": "sc:Float", "float": "sc:Float", "int64": "sc:Integer", "bool": "sc:Boolean"}


def leaderboard(runs: Sequence[str | Path]) -> pd.DataFrame:
    """Every table of the page as rows: means, intervals, ranks, coverage, cost, and what is told apart.

    Args:
        runs: run directories or fsspec URLs.

    Returns:
        One row per protocol × score × model × dataset × explainer; "" is all models, or all datasets. `first`: its rank
        interval reaches 1, so this run cannot tell it from the best; `above_noise`: the paired interval of its
        difference from noise excludes zero.

    Example:
        >>> leaderboard(["runs/grid-quick"]).columns[:3].tolist()  # doctest: +SKIP
        ['protocol', 'metric', 'model']
    """
    import pandas as pd

    return pd.DataFrame(list(_rows(gather(runs))))


def _rows(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for board in boards(evidence):
        plain = board.plain(evidence)
        for row in plain["rows"]:
            rank, low, high = row["rank"]
            yield {
                "protocol": evidence.plain[plain["protocol"]], "metric": plain["metric"], "model": plain["model"],
                "dataset": plain["dataset"], "explainer": row["explainer"], "is_control": row["control"],
                "better": board.metric.direction, "mean": row["mean"], "low": row["low"], "high": row["high"],
                "rank": rank, "rank_low": low, "rank_high": high, "first": low == 1 if low is not None else None,
                "above_noise": row["beats"], "samples": plain["samples"], "rows": row["asked"],
                "scored": row["scored"], "failed": row["failed"], "not_applicable": row["absent"],
                "passes": row["passes"], "seconds": row["seconds"],
            }  # fmt: skip


def latex(table: pd.DataFrame) -> str:
    """Tables for a paper (booktabs): a table per protocol and model, explainers as rows, scores as columns.

    Bold: this run cannot tell it from the first. A dagger: not above noise. Small: 95 % intervals.
    """
    parts = ["% needs \\usepackage{booktabs}"]
    models = table[(table["dataset"] == "")].groupby(["protocol", "model"], sort=False)
    for (protocol, model), rows in models:
        if model == "" and (table[table["protocol"] == protocol]["model"] != "").any():
            continue  # its models have tables of their own
        metrics = list(dict.fromkeys(rows["metric"]))
        cells: dict[tuple[str, str], dict[str, Any]] = {
            (row["explainer"], row["metric"]): {str(key): value for key, value in row.items()}
            for row in rows.to_dict("records")
        }
        names = list(dict.fromkeys(rows.sort_values("is_control", kind="stable")["explainer"]))
        where = f" on {model}" if model else ""
        n = int(rows["samples"].max())
        caption = (
            f"{protocol}{where}: means over {n:,} samples with 95\\,\\% bootstrap intervals. Bold: not told apart from "
            "the first; $\\dagger$: not above noise."
        )
        arrows = {"higher": r" $\uparrow$", "lower": r" $\downarrow$", "none": ""}
        heads = [_tex(name) + arrows[rows[rows["metric"] == name]["better"].iloc[0]] for name in metrics]
        parts += [
            r"\begin{table}", r"  \centering", f"  \\caption{{{_caption(caption)}}}",
            f"  \\begin{{tabular}}{{l{'r' * len(metrics)}}}", r"  \toprule",
            f"  explainer & {' & '.join(heads)} \\\\", r"  \midrule",
            *(f"  {_tex(name)} & {' & '.join(_cell(cells.get((name, metric))) for metric in metrics)} \\\\"
              for name in names),
            r"  \bottomrule", r"  \end{tabular}", r"\end{table}", "",
        ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _caption(text: str) -> str:
    return text.replace("_", r"\_").replace("#", r"\#").replace("&", r"\&")


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or row["mean"] is None or row["mean"] != row["mean"]:
        return "--"
    value = f"{row['mean']:.3f}"
    if row["first"] is True:
        value = f"\\textbf{{{value}}}"
    if row["above_noise"] is False and not row["is_control"]:
        value += r"$^\dagger$"
    known = row["low"] is not None and row["low"] == row["low"]
    return f"{value} {{\\scriptsize [{row['low']:.3f}, {row['high']:.3f}]}}" if known else value


def hub(run: str | Path, out: str | Path) -> Path:
    """A run's rows as a dataset to push: Parquet, a card, Croissant metadata, and what the run says of itself.

    Args:
        run: a run directory or fsspec URL.
        out: the folder to write.

    Returns:
        The path of its README.md.
    """
    loaded = load_run(run)
    folder = Path(out)
    data = "data/scores.parquet"
    columns, n = write_rows(loaded, folder / data)
    if not n:
        raise BadInput(f"{run}: no finished cell yet, nothing to export. `karat status` says how far it is.")
    for name in ("spec.json", "manifest.json", "findings.json"):
        if loaded.store.exists(name):
            write_file(loaded.store.read(name), folder / name)
    write_file(_card(loaded, columns, n).encode(), folder / "README.md")
    digest = hashlib.sha256((folder / data).read_bytes()).hexdigest()
    metadata = json.dumps(_croissant(loaded, data, digest, columns), indent=1, ensure_ascii=False)
    write_file((metadata + "\n").encode(), folder / "croissant.json")
    return folder / "README.md"


def _title(run: Run) -> str:
    return str(run.manifest.get("name") or run.store.name)


def _about(run: Run) -> str:
    what = str(run.spec.get("about") or "Scores of explanations of a vision model.")
    return f"{what} One row per sample, explainer and score, written by Karat."


def _card(run: Run, columns: dict[str, str], n: int) -> str:
    sizes = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
    size = next((name for most, name in sizes if n < most), "n>10M")
    names = run.manifest
    kinds = "\n".join(f"| `{name}` | {kind} |" for name, kind in columns.items())
    return f"""---
pretty_name: {json.dumps(_title(run))}
tags: [explainability, karat]
size_categories: [{size}]
configs:
- config_name: default
  data_files: data/scores.parquet
---

# {_title(run)}

{_about(run)}

- Protocol: {run.spec["protocol"]["name"]}
- Models: {", ".join(f"{name} ({revision})" for name, revision in names["models"].items())}
- Data: {", ".join(f"{name} ({revision})" for name, revision in names["datasets"].items())}
- Seed: {names["seed"]}
- Rows: {n:,}

A row without a value keeps its reason: `status` is score, failure or not_applicable. Neither of the latter is ever 0.
`spec.json` and `manifest.json` say how to make the rows again; `findings.json` what the protocol concluded.

| column | kind |
|---|---|
{kinds}
"""


def _croissant(run: Run, data: str, digest: str, columns: dict[str, str]) -> dict[str, Any]:
    fields = [
        {
            "@type": "cr:Field", "@id": f"rows/{name}", "name": name, "dataType": _KINDS.get(kind, "sc:Text"),
            "source": {"fileObject": {"@id": "scores"}, "extract": {"column": name}},
        }
        for name, kind in columns.items()
    ]  # fmt: skip
    return {
        "@context": _CONTEXT, "@type": "sc:Dataset", "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": _title(run), "description": _about(run), "version": "1.0.0",
        "distribution": [{
            "@type": "cr:FileObject", "@id": "scores", "name": "scores", "contentUrl": data, "sha256": digest,
            "encodingFormat": "application/x-parquet",
        }],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": fields}],
    }  # fmt: skip


def space(runs: Sequence[str | Path], out: str | Path) -> Path:
    """The page as a folder that can be pushed as a static Space as it is."""
    page = report(runs, out)
    title = json.dumps(", ".join(_title(load_run(run)) for run in runs))
    card = f"---\ntitle: {title}\nsdk: static\napp_file: index.html\npinned: false\n---\n\nA report of Karat.\n"
    write_file(card.encode(), page.parent / "README.md")
    return page
