"""`load_run(path)`: a finished or growing run, read back as tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import safetensors.numpy

from karat.kernel.errors import BadInput
from karat.kernel.finding import Finding
from karat.results.details import KEYS, Details
from karat.results.facts import KINDS, Parts, parts_of, with_facts
from karat.results.frame import ORDER, frame_of
from karat.results.shard import DETAIL, TEXT, read_shard
from karat.results.store import Store

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class ShardView:
    """One shard: sample ids by position, cells (id, place, fields), metrics in the protocol's order; maps on demand."""

    store: Store
    samples: list[str]
    cells: list[dict[str, Any]]
    metrics: list[str]
    attributions: str  # name of the file that keeps the maps, "" where none were kept

    def maps(self) -> dict[str, dict[int, dict[str, Any]]]:
        """cell → sample position → {"visual": (h, w), "words": ..., "pairs": ...}; empty where the file is gone."""
        kept: dict[str, dict[int, dict[str, Any]]] = {}
        for (cell, position, part), values in self._kept():
            if position not in (DETAIL, TEXT):
                kept.setdefault(cell, {}).setdefault(int(position), {})[part] = values
        return kept

    def details(self) -> dict[str, dict[str, dict[str, Any]]]:
        """cell → metric → name → what its values were computed from: an array (n, ...), or n texts."""
        kept: dict[str, dict[str, dict[str, Any]]] = {}
        for (cell, position, rest), values in self._kept():
            if position in (DETAIL, TEXT):
                metric, _, name = rest.rpartition("/")
                value = values if position == DETAIL else json.loads(values.tobytes())
                kept.setdefault(cell, {}).setdefault(metric, {})[name] = value
        return kept

    def kept(self) -> tuple[dict[str, dict[int, dict[str, Any]]], dict[str, dict[str, dict[str, Any]]]]:
        """`maps` and `details`, from one reading of the file."""
        maps: dict[str, dict[int, dict[str, Any]]] = {}
        details: dict[str, dict[str, dict[str, Any]]] = {}
        for (cell, position, rest), values in self._kept():
            if position == DETAIL:
                metric, _, name = rest.rpartition("/")
                details.setdefault(cell, {}).setdefault(metric, {})[name] = values
            elif position != TEXT:
                maps.setdefault(cell, {}).setdefault(int(position), {})[rest] = values
        return maps, details

    def _kept(self) -> Iterator[tuple[list[str], Any]]:
        data = self.store.read_shard(self.attributions) if self.attributions else None
        for key, values in (safetensors.numpy.load(data) if data else {}).items():
            yield key.split("/", 2), values


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of one file; `view` is the shard, nothing where a record keeps all rows in one."""

    name: str
    table: pa.Table
    view: ShardView | None


COLUMNS = (
    "cell", "protocol", "model", "dataset", "explainer", "metric", "sample", "answer",
    "expected", "probability", "value", "level", "status", "reason", "passes",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What a run directory holds. Rows of cells that the present spec no longer asks for are left out."""

    store: Store
    _unordered: ClassVar[bool] = True  # rows come as workers wrote them

    @property
    def path(self) -> Path | str:
        """Where it lies: a directory, or an fsspec URL."""
        return self.store.root

    @cached_property
    def spec(self) -> dict[str, Any]:
        return dict(self.store.read_json("spec.json"))

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return dict(self.store.read_json("manifest.json"))

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset(self.manifest["cells"])

    @property
    def parts(self) -> Parts:
        """Facts of the run's models, datasets and explainers: kind → label → fact → value."""
        return parts_of(self.manifest)

    def findings(self) -> list[Finding]:
        """What the protocol concluded when the run was last completed."""
        if not self.store.exists("findings.json"):
            return []
        try:
            return [Finding.read(data) for data in self.store.read_json("findings.json")]
        except (KeyError, TypeError, ValueError, AttributeError):  # its seal is gone, too
            raise BadInput(
                f"{self.path}/findings.json holds no findings. Running the same command again writes it anew."
            ) from None

    def _repr_html_(self) -> str:
        """What a notebook shows: what ran, and what the protocol concluded first."""
        from karat.drawing.table import html_table, html_text

        what = ("models", "datasets", "explainers")
        rows = [(kind, ", ".join(self.parts.get(kind.removesuffix("s"), {}))) for kind in what]
        verdict = next((finding for finding in self.findings() if not finding.section), None)
        lines = () if verdict is None else (verdict.title, *verdict.sentences)
        return html_text(f"{self.manifest.get('name', self.path)}: {self.manifest.get('protocol', '')}", lines,
                         html_table(("of", "names"), rows))  # fmt: skip

    def events(self) -> Iterator[dict[str, Any]]:
        return self.store.lines("events.jsonl")

    def damaged(self) -> list[str]:
        """Score shards whose content is not what their name promises."""
        return [name for name in self.store.shards("scores", ".parquet") if self.store.read_shard(name) is None]

    def cells(self) -> dict[str, dict[str, Any]]:
        """Every cell that is done, by id: its place, its fields and the shards that hold it."""
        done: dict[str, dict[str, Any]] = {}
        for name in self.store.shards("scores", ".parquet"):
            shard = read_shard(self.store, name)
            if shard is None:
                continue
            about, _ = shard
            for cell in about["cells"]:
                done.setdefault(cell["id"], {**cell, "scores": name, "attributions": about["attributions"]})
        return done

    def scores(self, *, metrics: Collection[str] | None = None, columns: Collection[str] | None = None) -> pd.DataFrame:
        """One row per sample × explainer × metric: value (NaN where there is none), status, reason, passes, level.

        `meta.*` are facts of the sample; `model.*`, `dataset.*`, `explainer.*` facts of the parts (see `with_facts`).

        Args:
            metrics: scores whose rows are read; all of them by default.
            columns: columns that are read, of those that the run has; all by default. The rest costs neither time nor
                memory.
        """
        # facts of a part follow from its label
        facts = columns is None or any(name.partition(".")[0] in KINDS for name in columns if "." in name)
        read = None if columns is None else {*columns, *KINDS} if facts else set(columns)
        frame = frame_of(self.tables(metrics, read), read, ordered=self._unordered)
        if not len(frame.columns):
            return frame.reindex(columns=[name for name in COLUMNS if columns is None or name in columns])
        whole = with_facts(frame, self.parts) if facts else frame
        return whole if columns is None else whole[[name for name in whole.columns if name in columns]]

    def tables(
        self, metrics: Collection[str] | None = None, columns: Collection[str] | None = None
    ) -> Iterator[pa.Table]:
        """Rows file by file: each cell once, without those that the present spec no longer asks for."""
        import pyarrow as pa
        import pyarrow.compute as pc

        held: set[str] = set()
        for piece in self.pieces(columns=None if columns is None else {*columns, "cell", *ORDER}):
            names = set(piece.table.column("cell").unique().to_pylist())
            fresh = (names & self._wanted if piece.view is not None else names) - held
            held |= fresh
            table = piece.table
            for name, kept in (("cell", fresh if fresh != names else None), ("metric", metrics)):
                if kept is not None:
                    known = pa.array(sorted(kept), pa.string())
                    table = table.filter(pc.is_in(table.column(name).cast(pa.string()), known))
            yield table

    def shards(self) -> Iterator[ShardView]:
        """Shard by shard, each file read once: for whoever goes through a whole run."""
        for name in self.store.shards("scores", ".parquet"):
            shard = read_shard(self.store, name)
            if shard is not None:
                yield self._view(*shard)

    def pieces(self, held: Collection[str] = (), columns: Collection[str] | None = None) -> Iterator[Piece]:
        """Rows file by file, each read once, those that are `held` not at all."""
        for name in self.store.shards("scores", ".parquet"):
            if name not in held:
                shard = read_shard(self.store, name, columns)
                if shard is None:
                    raise self._damage(self.damaged())
                yield Piece(name, shard[1], self._view(*shard))

    def _view(self, about: dict[str, Any], table: Any) -> ShardView:
        metrics = table.column("metric").unique().to_pylist()
        return ShardView(self.store, about["samples"], about["cells"], metrics, about["attributions"])

    def _damage(self, names: list[str]) -> BadInput:
        return BadInput(
            f"{self.path}: damaged (content and name differ): {', '.join(names[:3])}. "
            "Run the same `karat run` again: it computes exactly the missing cells anew."
        )

    def details(self, metric: str) -> Details:
        """What a metric's values were computed from, row by row in the order of their keys."""
        import pandas as pd

        held: set[str] = set()
        keys: list[pd.DataFrame] = []
        parts: list[dict[str, Any]] = []
        for shard in self.shards():
            details = shard.details()
            for cell in shard.cells:
                detail = details.get(cell["id"], {}).get(metric)
                if detail is None or cell["id"] in held or cell["id"] not in self._wanted:
                    continue
                held.add(cell["id"])
                _, model, explainer, dataset, *_ = cell["place"]
                keys.append(pd.DataFrame({"model": model, "dataset": dataset, "explainer": explainer,
                                          "sample": shard.samples}))  # fmt: skip
                parts.append(detail)
        if not parts:
            return Details(pd.DataFrame(columns=list(KEYS)))
        return Details.of(pd.concat(keys, ignore_index=True), parts)

    def attributions(self, cell: str) -> dict[int, dict[str, Any]]:
        """Kept maps of one cell: sample position → {"visual": (h, w), "words": ...}, each at most 1 in size."""
        entry = self.cells().get(cell)
        if entry is None:
            raise BadInput(f"{self.path} has no finished cell {cell!r}. `karat status {self.path}` lists them.")
        if not entry["attributions"]:
            return {}
        data = self.store.read_shard(entry["attributions"])
        if data is None:
            raise BadInput(
                f"{entry['attributions']} is missing or damaged; delete the cell's shard and run again to rebuild it."
            )
        kept: dict[int, dict[str, Any]] = {}
        for key, values in safetensors.numpy.load(data).items():
            owner, position, part = key.split("/", 2)
            if owner == cell and position not in (DETAIL, TEXT):
                kept.setdefault(int(position), {})[part] = values
        return kept


def load_run(path: str | Path) -> Run:
    """A finished, growing or recorded run.

    Args:
        path: its directory, or an fsspec URL.

    Returns:
        The run: `scores()` is a dataframe of one row per sample × explainer × metric, with facts as columns;
        `findings()` what its protocol concludes; `details(metric)` what values were computed from.

    Example:
        >>> load_run("nowhere")
        Traceback (most recent call last):
        karat.kernel.errors.BadInput: nowhere is not a run directory. `karat run SPEC --out nowhere` makes one.
    """
    from karat.results.record import SCORES, Record

    run = Run(Store(path))
    if run.store.exists(SCORES):
        return Record(run.store)
    if not run.store.exists("manifest.json"):
        raise BadInput(f"{path} is not a run directory. `karat run SPEC --out {path}` makes one.")
    return run
