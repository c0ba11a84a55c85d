"""`Rows`: the rows of runs in DuckDB, read shard by shard and asked for one score at a time.

Names are numbers in the table, and the table is a file that goes with the process: memory grows with samples and names,
not with rows, and nothing of it is needed to open a run later. Reading a run again takes in its new shards alone.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.results.frame import Codes, coded
from karat.results.run import Piece, Run, ShardView
from karat.results.shard import STATUS

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]
NO_ROW = 255  # in `Values.state`
_BATCH = 400_000  # rows that are written to the table at a time
_MEMORY = "400MB"  # of DuckDB's own; what does not fit goes to its file
_ROWS = (
    ("owner", "SMALLINT"), ("model", "SMALLINT"), ("explainer", "SMALLINT"), ("metric", "SMALLINT"),
    ("sample", "INTEGER"), ("value", "DOUBLE"), ("status", "TINYINT"), ("reason", "INTEGER"), ("passes", "DOUBLE"),
)  # fmt: skip
_ITEMS = (
    ("owner", "SMALLINT"), ("model", "SMALLINT"), ("sample", "INTEGER"), ("turn", "INTEGER"),
    ("answer", "INTEGER"), ("expected", "INTEGER"), ("probability", "DOUBLE"),
)  # fmt: skip


@dataclass
class Names:
    """Texts by number, in order of appearance."""

    texts: list[Any] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)

    def number(self, text: Any) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass
class Meta:
    """One property of all samples: distinct values, and a number for each sample; -1 where it has none."""

    values: Names = field(default_factory=Names)
    codes: array[int] = field(default_factory=lambda: array("i"))

    def put(self, sample: int, value: Any) -> None:
        self.codes.extend([-1] * (sample + 1 - len(self.codes)))
        if value is not None and self.codes[sample] < 0:
            # True == 1 == 1.0 in a dictionary, and not on a page
            self.codes[sample] = self.values.number((type(value).__name__, value))

    def column(self, samples: int) -> tuple[list[Any], Codes]:
        codes = np.full(samples, -1, dtype=np.int32)
        codes[: len(self.codes)] = np.array(self.codes, dtype=np.int32)
        return [value for _, value in self.values.texts], codes


@dataclass(frozen=True, eq=False)
class Values:
    """One score of one protocol. Arrays are (models, explainers, samples), samples by their number in `Rows`.

    `values` is NaN where there is no score; `state` is 0 for a score, 1 a failure, 2 not applicable, 255 no row;
    `reason` points into `Rows.reasons`, -1 where there is none.
    """

    models: tuple[str, ...]
    explainers: tuple[str, ...]
    values: Floats
    state: npt.NDArray[np.uint8]
    reason: Codes
    passes: Floats


@dataclass(frozen=True, eq=False)
class Items:
    """What a protocol's models answered, one entry per (model, sample), in that order; texts are in `Rows.answers`."""

    model: Codes
    sample: Codes
    answer: Codes
    expected: Codes
    probability: Floats


class Rows:
    """Rows of one or more runs. `read(run, name)` takes in what is new; the rest asks.

    An owner is a (run, protocol): rows of two runs go by one protocol only where `titles` says so.
    """

    def __init__(self) -> None:
        import duckdb

        self._place = tempfile.TemporaryDirectory(prefix="karat-rows-")
        self._db: duckdb.DuckDBPyConnection = duckdb.connect(
            f"{self._place.name}/rows.duckdb", config={"memory_limit": _MEMORY, "preserve_insertion_order": "false"}
        )
        for table, columns in (("rows", _ROWS), ("items", _ITEMS)):
            self._db.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns)})")
        self.owners, self.models, self.datasets = Names(), Names(), Names()
        self.explainers, self.metrics, self.reasons, self.answers = Names(), Names(), Names(), Names()
        self.samples = Names()  # (dataset, id)
        self.where: array[int] = array("i")  # its place in the dataset, -1 where a run does not say
        self.meta: dict[str, Meta] = {}
        self.cells: set[str] = set()
        self.titles: dict[int, str] = {}  # owner → protocol on the page
        self._places: dict[int, set[tuple[str, str, str]]] = {}  # owner → (model, dataset, explainer)
        self._pieces: dict[int, set[str]] = {}  # run → shards that are in
        self._turn = 0
        self.read_shards = 0  # files opened, all told

    def close(self) -> None:
        self._db.close()
        self._place.cleanup()

    # --- reading ---

    def read(self, run: Run, number: int, name: str) -> list[ShardView]:
        """Take in the shards of a run that are new; gives them. Cells that are in already count once."""
        wanted = set(run.manifest["cells"])
        held = self._pieces.setdefault(number, set())
        views: list[ShardView] = []
        rows: list[Columns] = []
        items: list[Columns] = []
        waiting = 0
        for piece in run.pieces(held):
            held.add(piece.name)
            self.read_shards += 1
            if piece.view is not None:
                views.append(piece.view)
            for one, many in zip((rows, items), self._take(piece, wanted, number), strict=True):
                one.extend(many)
            waiting += piece.table.num_rows
            if waiting > _BATCH:
                self._write(rows, items)
                rows, items, waiting = [], [], 0
        self._write(rows, items)
        self._name(number, name)
        return views

    def _take(self, piece: Piece, wanted: set[str], run: int) -> tuple[list[Columns], list[Columns]]:
        """A piece as columns of numbers: its rows, and its items."""
        table = piece.table
        cells, cell_of = coded(table.column("cell"))
        fresh = {cell for cell in cells if cell not in self.cells and (piece.view is None or cell in wanted)}
        self.cells |= fresh
        if len(fresh) < len(cells):
            keep = np.array([cell in fresh for cell in cells], dtype=np.bool_)[cell_of]
            table = table.filter(keep)
        if not table.num_rows:
            return [], []
        protocols, protocol_of = coded(table.column("protocol"))
        owner = np.array([self.owners.number((run, protocol)) for protocol in protocols], dtype=np.int16)[protocol_of]
        datasets, dataset_of = coded(table.column("dataset"))
        model, explainer, metric = (
            _numbered(table.column(name), names)
            for name, names in (("model", self.models), ("explainer", self.explainers), ("metric", self.metrics))
        )
        ids, id_of = coded(table.column("sample"))
        pair = dataset_of.astype(np.int64) * len(ids) + id_of
        pairs, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
        known = [self._sample(datasets[int(p) // len(ids)], ids[int(p) % len(ids)]) for p in pairs]
        sample = np.array(known, dtype=np.int32)[inverse]
        for name in dict.fromkeys(datasets):
            self.datasets.number(name)
        if piece.view is not None:
            place = {s: piece.view.cells[0]["place"][4] + k for k, s in enumerate(piece.view.samples)}
            for number, p in zip(known, pairs, strict=True):
                if self.where[number] < 0:
                    self.where[number] = place.get(ids[int(p) % len(ids)], -1)
        self._metas(table.take(first), known)
        items = self._answers(table, owner, model, sample)
        key = np.unique(np.stack([owner, model, dataset_of, explainer]), axis=1)
        for o, m, d, e in key.T.tolist():
            self._places.setdefault(o, set()).add((self.models.texts[m], datasets[d], self.explainers.texts[e]))
        status, status_of = coded(table.column("status"))
        rows = {
            "owner": owner, "model": model, "explainer": explainer, "metric": metric, "sample": sample,
            "value": _floats(table.column("value")),
            "status": np.array([STATUS.index(text) for text in status], dtype=np.int8)[status_of],
            "reason": _numbered(table.column("reason"), self.reasons, np.int32),
            "passes": _floats(table.column("passes")),
        }  # fmt: skip
        return [rows], [items]

    def _sample(self, dataset: str, name: str) -> int:
        number = self.samples.number((dataset, name))
        if number == len(self.where):
            self.where.append(-1)
        return number

    def _metas(self, table: pa.Table, samples: Sequence[int]) -> None:
        for name in table.column_names:
            if name.startswith("meta."):
                meta = self.meta.setdefault(name.removeprefix("meta."), Meta())
                for sample, value in zip(samples, table.column(name).to_pylist(), strict=True):
                    meta.put(sample, value)

    def _answers(self, table: pa.Table, owner: npt.NDArray[Any], model: Codes, sample: Codes) -> Columns:
        """The first row of every (protocol, model, sample) says what the model answered."""
        key = (owner.astype(np.int64) * len(self.models) + model) * (int(sample.max()) + 1) + sample
        _, first = np.unique(key, return_index=True)
        some = table.take(first)
        absent = np.full(len(first), -1, dtype=np.int32)
        self._turn += 1
        return {
            "owner": owner[first], "model": model[first], "sample": sample[first],
            "turn": np.full(len(first), self._turn, dtype=np.int32),
            **{name: _numbered(some.column(name), self.answers, np.int32) if name in table.column_names else absent
               for name in ("answer", "expected")},
            "probability": _floats(some.column("probability")) if "probability" in table.column_names
            else np.full(len(first), np.nan),
        }  # fmt: skip

    def _write(self, rows: Sequence[Columns], items: Sequence[Columns]) -> None:
        import pyarrow as pa

        for table, parts in (("rows", rows), ("items", items)):
            if parts:
                batch = pa.table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
                self._db.register("batch", batch)
                self._db.execute(f"INSERT INTO {table} SELECT * FROM batch").fetchall()
                self._db.unregister("batch")

    def _name(self, run: int, name: str) -> None:
        """The same explainer on the same data with other parameters: another table, never one average."""
        mine = [k for k, (owner, _) in enumerate(self.owners.texts) if owner == run]
        for k in mine:
            protocol = self.owners.texts[k][1]
            others = [self._places.get(j, set()) for j, title in self.titles.items() if title == protocol and j != k]
            clash = any(places & self._places.get(k, set()) for places in others)
            self.titles[k] = f"{protocol} · {name}" if clash else protocol

    # --- asking ---

    def __len__(self) -> int:
        return self._count("SELECT count(*) FROM rows")

    def _count(self, query: str) -> int:
        return int(self._db.execute(query).fetchall()[0][0])

    def _ask(self, query: str) -> dict[str, npt.NDArray[Any]]:
        return {name: np.asarray(values) for name, values in self._db.execute(query).fetchnumpy().items()}

    def _owners(self, protocol: str) -> str:
        mine = [str(k) for k, title in self.titles.items() if title == protocol]
        if not mine:
            raise BadInput(f"no rows of protocol {protocol!r}; there are {', '.join(self.protocols)}.")
        return f"owner IN ({', '.join(mine)})"

    @property
    def protocols(self) -> list[str]:
        return list(dict.fromkeys(self.titles[k] for k in sorted(self.titles)))

    def scores(self) -> list[tuple[str, str]]:
        """(protocol, metric) of all rows."""
        columns = self._ask("SELECT owner, metric FROM rows GROUP BY owner, metric ORDER BY owner, metric")
        pairs = zip(columns["owner"].tolist(), columns["metric"].tolist(), strict=True)
        return list(dict.fromkeys((self.titles[o], self.metrics.texts[m]) for o, m in pairs))

    def places(self, protocol: str) -> set[tuple[str, str, str]]:
        """(model, dataset, explainer) that have rows."""
        return {place for k, title in self.titles.items() if title == protocol for place in self._places.get(k, ())}

    def values(self, protocol: str, metric: str) -> Values:
        """All rows of one score."""
        places = self.places(protocol)
        models, explainers = (tuple(sorted({place[k] for place in places})) for k in (0, 2))
        columns = self._ask(
            "SELECT model, explainer, sample, value, status, reason, passes FROM rows "
            f"WHERE {self._owners(protocol)} AND metric = {self.metrics.numbers[metric]}"
        )
        at = (
            _places(self.models, models)[columns["model"]],
            _places(self.explainers, explainers)[columns["explainer"]],
            columns["sample"],
        )
        shape = (len(models), len(explainers), len(self.samples))
        values, passes = np.full(shape, np.nan), np.full(shape, np.nan)
        state, reason = np.full(shape, NO_ROW, dtype=np.uint8), np.full(shape, -1, dtype=np.int32)
        values[at], state[at], reason[at], passes[at] = (
            columns["value"], columns["status"].astype(np.uint8), columns["reason"], columns["passes"],
        )  # fmt: skip
        return Values(models, explainers, values, state, reason, passes)

    def items(self, protocol: str) -> Items:
        columns = self._ask(
            "SELECT model, sample, arg_min(answer, turn) AS answer, arg_min(expected, turn) AS expected, "
            "arg_min(probability, turn) AS probability "
            f"FROM items WHERE {self._owners(protocol)} GROUP BY model, sample"
        )
        order = np.lexsort((columns["sample"], columns["model"]))
        return Items(*(columns[name][order] for name in ("model", "sample", "answer", "expected", "probability")))

    def failures(self) -> list[tuple[str, str, int]]:
        """(explainer, reason, rows) of all failures, the most frequent first."""
        counts = self._ask("SELECT explainer, reason, count(*) AS n FROM rows WHERE status = 1 GROUP BY ALL")
        columns = (counts[name].tolist() for name in ("explainer", "reason", "n"))
        rows = [(self.explainers.texts[e], self._reason(r), int(n)) for e, r, n in zip(*columns, strict=True)]
        return sorted(rows, key=lambda row: (-row[2], row[:2]))

    def _reason(self, number: int) -> str:
        return str(self.reasons.texts[number]) if number >= 0 else ""

    def order(self) -> Codes:
        """Numbers of the samples as their datasets have them: by dataset, place, id."""
        texts = self.samples.texts
        return np.array(sorted(range(len(texts)), key=lambda k: (texts[k][0], self.where[k], texts[k][1])), np.int32)


def _numbered(column: pa.ChunkedArray, names: Names, kind: type[np.signedinteger[Any]] = np.int16) -> npt.NDArray[Any]:
    texts, codes = coded(column)
    return np.array([-1 if text is None else names.number(text) for text in texts], dtype=kind)[codes]


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(_plain(column).to_numpy(zero_copy_only=False), dtype=np.float64)


def _plain(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa

    whole = column.combine_chunks()
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def _places(names: Names, chosen: Sequence[str]) -> npt.NDArray[np.intp]:
    """Number → position among the chosen."""
    position_of = np.zeros(len(names), dtype=np.intp)
    for position, name in enumerate(chosen):
        position_of[names.numbers[name]] = position
    return position_of
