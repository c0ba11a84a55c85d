"""`RemoteFiles`: a run at any fsspec URL (s3://, gs://, memory://...). Whole objects only: no rename, no locks."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from karat.kernel.errors import BadInput
from karat.results.files import busy, me

T = TypeVar("T")

_ATTEMPTS = 5
_FINAL = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


class RemoteFiles:
    """Objects under a URL. What fails in passing is tried again; putting an object is atomic by itself.

    A log is a folder of segments (objects cannot grow), written every few seconds. The lease is an object whose
    counter its holder keeps raising: a counter that stands still belongs to a dead driver. Nobody's clock is compared
    with anybody else's. Should two drivers ever believe that they hold it, both write the same shards.
    """

    beat = 5.0  # seconds between two marks of life
    patience = 20.0  # a lease that has not changed for so long is taken over
    pause = 0.2  # before the second attempt; doubled each time
    segment_every = 5.0

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self.fs, self.root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise BadInput(f"{url}: {error}") from None
        except ValueError as error:
            raise BadInput(f"{url} is no place that fsspec knows: {error}") from None
        self.url = url
        self._lines: dict[str, list[bytes]] = {}
        self._session = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self._segments = 0
        self._written = time.monotonic()
        self._lost = threading.Event()

    def read(self, name: str) -> bytes:
        return bytes(self._try(lambda: self.fs.cat_file(self._at(name))))

    def write(self, name: str, data: bytes) -> None:
        if self._lost.is_set():
            raise busy(self.url, "another driver, which has taken over")
        self._put(name, data)

    def exists(self, name: str) -> bool:
        def look() -> bool:
            try:
                return bool(self.fs.info(self._at(name))["type"] == "file")
            except FileNotFoundError:
                return False

        return self._try(look)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._try(lambda: self.fs.rm_file(self._at(name)))

    def names(self, folder: str) -> list[str]:
        def look() -> list[str]:
            paths = self.fs.ls(self._at(folder), detail=False)
            return [str(path).rstrip("/").rsplit("/", 1)[-1] for path in paths]

        try:
            return self._try(look)
        except FileNotFoundError:
            return []

    def append(self, name: str, data: bytes) -> None:
        self._lines.setdefault(name, []).append(data)
        if time.monotonic() - self._written > self.segment_every:
            self._flush()

    def read_log(self, name: str) -> bytes:
        self._flush()
        folder = name.rsplit(".", 1)[0]
        return b"".join(self.read(f"{folder}/{segment}") for segment in sorted(self.names(folder)))

    def sweep(self) -> None:
        """Nothing to do: an object that was not put whole does not exist."""

    @contextmanager
    def lease(self) -> Iterator[str]:
        token = secrets.token_hex(8)
        self._take(token)
        self._lost.clear()
        stop = threading.Event()
        beating = threading.Thread(target=self._keep, args=(token, stop), daemon=True)
        beating.start()
        try:
            yield ""
            self._flush()
        finally:
            stop.set()
            beating.join()
            with suppress(OSError):
                if not self._lost.is_set() and self._lease().get("token") == token:
                    self.remove(".lease")

    def holder(self) -> str:
        """Believed on its word: finding out whether it still lives would take `patience`."""
        return str(self._lease().get("holder", ""))

    def _take(self, token: str) -> None:
        """Create the lease, or take over one that stands still."""
        deadline = time.monotonic() + self.patience
        seen = None
        mark = json.dumps({"token": token, "holder": me(), "count": 0}).encode()
        while True:
            try:
                self._put(".lease", mark, mode="create")
                return
            except FileExistsError:
                found = self._lease()
            if found.get("token") == token:  # ours: put by an attempt whose answer was lost
                return
            if seen is not None and found != seen:
                raise busy(self.url, str((found or seen).get("holder", "")))  # nothing: it is being written just now
            seen = found
            if time.monotonic() > deadline:
                self.remove(".lease")
            else:
                time.sleep(min(self.beat / 2, 1.0))

    def _keep(self, token: str, stop: threading.Event) -> None:
        count = 0
        while not stop.wait(self.beat):
            count += 1
            with suppress(Exception):  # out of reach for a moment, in whatever words: the next beat tries again
                if self._lease().get("token") != token:
                    self._lost.set()
                    return
                mark = json.dumps({"token": token, "holder": me(), "count": count}).encode()
                self.fs.pipe_file(self._at(".lease"), mark)

    def _lease(self) -> dict[str, Any]:
        try:
            found = json.loads(self.read(".lease"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _flush(self) -> None:
        self._written = time.monotonic()
        for name, lines in self._lines.items():
            if lines:
                folder = name.rsplit(".", 1)[0]
                self.write(f"{folder}/{self._session}-{self._segments:06d}.jsonl", b"".join(lines))
                self._segments += 1
                lines.clear()

    def _put(self, name: str, data: bytes, mode: str = "overwrite") -> None:
        """An object store has no folders; a file system behind a URL (sftp://, local://) wants them made first."""
        at = self._at(name)

        def put() -> None:
            try:
                self.fs.pipe_file(at, data, mode=mode)
            except FileNotFoundError:
                self.fs.makedirs(at.rsplit("/", 1)[0], exist_ok=True)
                self.fs.pipe_file(at, data, mode=mode)

        self._try(put)

    def _at(self, name: str) -> str:
        return f"{self.root}/{name}" if name else str(self.root)

    def _try(self, call: Callable[[], T]) -> T:
        """Object stores fail in passing; each library has its own errors for it, so all become OSError in the end."""
        pause = self.pause
        for attempt in range(_ATTEMPTS):
            try:
                self.fs.invalidate_cache()  # others write here too: what was listed before tells nothing
                return call()
            except _FINAL:
                raise
            except Exception as error:
                if attempt == _ATTEMPTS - 1:
                    if isinstance(error, OSError):
                        raise
                    raise OSError(f"{type(error).__name__}: {error}") from error
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")
