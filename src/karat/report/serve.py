"""`view(runs)`: the page of runs on this computer alone, made anew while they go on.

Only 127.0.0.1 is listened to, only files of the page's own folder are given out, and only to requests that name this
address (so that no website can have its name point here and read along).
"""

from __future__ import annotations

import contextlib
import json
import mimetypes
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from karat.kernel.errors import BadInput, KaratError
from karat.report.evidence import Gatherer
from karat.report.maps import Written
from karat.report.page import write_page
from karat.report.samples import PICTURES
from karat.results import load_run
from karat.results.shard import read_shard

HOST = "127.0.0.1"
PORT = 8765
_SECONDS = 3.0  # between looks at the runs
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_WAITING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Karat</title>
<meta http-equiv="refresh" content="2"><p>No cell of the run is finished yet. This page waits for the first one.</p>
"""


@dataclass
class Pages:
    """The newest page of some runs. Each is written to a folder of its own, so that nobody reads half of one."""

    runs: Sequence[Path]
    place: Path
    current: Path | None = None
    number: int = 0
    written: Written = field(default_factory=Written)
    _gatherer: Gatherer | None = None
    _seen: str = ""
    _cells: dict[str, frozenset[str]] = field(default_factory=dict)  # of every shard read so far
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self) -> bool:
        """Make the page anew where a run holds other files than last time; whether it did."""
        folder = self.place / f"page-{self.number + 1}"
        try:
            state = _state(self.runs)
            if state == self._seen:
                return False
            self._gatherer = self._gatherer or Gatherer(self.runs)
            write_page(self._gatherer.gather(), folder, False, PICTURES, self.written)
            self.written.folder = folder
        except BadInput:
            if self.current is None and not _started(self.runs):
                raise
            shutil.rmtree(folder, ignore_errors=True)  # no cell yet, or a file in the making: try again later
            return False
        with self._lock:
            older, self.current, self._seen = self.current, folder, state
            self.number += 1
        # The page before stays for readers who have it open; the one before that goes.
        if older is not None:
            shutil.rmtree(self.place / f"page-{self.number - 2}", ignore_errors=True)
        return True

    def live(self) -> dict[str, int]:
        """What an open page asks for every few seconds."""
        cells = [self._progress(path) for path in self.runs]
        done, wanted = (sum(pair[i] for pair in cells) for i in (0, 1))
        return {"page": self.number, "done": done, "wanted": wanted}

    def _progress(self, path: Path) -> tuple[int, int]:
        """Cells done and cells wanted. A shard never changes, so each is opened once."""
        try:
            run = load_run(path)
            wanted = set(run.manifest["cells"])
            done: set[str] = set()
            for name in run.store.shards("scores", ".parquet"):
                if name not in self._cells and (shard := read_shard(run.store, name)) is not None:
                    self._cells[name] = frozenset(cell["id"] for cell in shard[0]["cells"])
                done |= self._cells.get(name, frozenset())
            return len(done & wanted), len(wanted)
        except KaratError:
            return 0, 0

    def file(self, address: str) -> Path | None:
        """The file of an address, if it is one of the page's own."""
        with self._lock:
            root = self.current
        if root is None:
            return None
        try:
            path = (root / (unquote(urlsplit(address).path).lstrip("/") or "index.html")).resolve()
            return path if path.is_relative_to(root.resolve()) and path.is_file() else None
        except (OSError, ValueError):  # an address that no file can have: a null byte, a name too long
            return None


def _state(runs: Sequence[Path]) -> str:
    """Names of what a page is made from: shards are named by their content, so new rows are new names."""
    known: list[Any] = []
    for path in runs:
        store = load_run(path).store
        known.append([store.shards("scores", ".parquet"), store.read_json("manifest.json")["cells"]])
        known.append(store.read_json("findings.json") if store.exists("findings.json") else None)
    return json.dumps(known)


def _started(runs: Sequence[Path]) -> bool:
    return all((path / "manifest.json").is_file() for path in runs)


def _handler(pages: Pages, port: int) -> type[BaseHTTPRequestHandler]:
    hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    class Handler(BaseHTTPRequestHandler):
        """GET of the page's files, and of `live`; nothing else."""

        def do_GET(self) -> None:
            if self.headers.get("Host", "") not in hosts:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "this server answers for 127.0.0.1 only")
                return
            if urlsplit(self.path).path == "/live.json":
                self._send(json.dumps(pages.live()).encode(), "application/json")
                return
            path = pages.file(self.path)
            if path is None and pages.current is None:
                self._send(_WAITING.encode(), "text/html; charset=utf-8")
                return
            try:
                data = path.read_bytes() if path is not None else None
            except OSError:  # a newer page has just taken its place
                data = None
            if path is None or data is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            if path.name == "index.html":
                mark = f'<html lang="en" data-live="{pages.number}"'.encode()
                data = data.replace(b'<html lang="en"', mark, 1)
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            self._send(data, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(HTTPStatus.OK)
            for name, value in (
                ("Content-Type", kind), ("Content-Length", str(len(data))), ("Cache-Control", "no-store"),
                ("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", _POLICY),
                ("Referrer-Policy", "no-referrer"),
            ):  # fmt: skip
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: who reads his own page needs no log of it."""

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who has gone on is no error, wherever in an answer it is noticed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def served(runs: Sequence[str | Path], port: int = PORT) -> Iterator[tuple[str, Pages]]:
    """The page's address and its pages, while the server runs in a thread. Port 0: any that is free."""
    with tempfile.TemporaryDirectory(prefix="karat-view-") as place:
        pages = Pages([Path(run) for run in runs], Path(place))
        pages.refresh()
        try:
            server = _Server((HOST, port), BaseHTTPRequestHandler)
        except OSError as error:
            raise BadInput(f"cannot listen on {HOST}:{port}: {error.strerror}. Choose another --port, or 0.") from None
        server.RequestHandlerClass = _handler(pages, server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}/", pages
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def view(runs: Sequence[str | Path], port: int = PORT, ready: Callable[[str], None] = print) -> None:
    """Serve the page of `runs` until interrupted; `ready` is told its address."""
    with served(runs, port) as (address, pages):
        ready(address)
        stop = threading.Event()
        while not stop.wait(_SECONDS):
            pages.refresh()
