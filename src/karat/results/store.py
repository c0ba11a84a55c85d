"""`Store`: the files of one run. Writes are atomic, shards are named by their content, one driver holds the lease."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from karat.kernel.errors import BadInput
from karat.results.files import Files, LocalFiles, PlaceFailed

_NAME_LENGTH = 24
_SEAL, _LIST = "seal", "list"


@dataclass(frozen=True)
class Store:
    """A run directory: a path, or any fsspec URL. Readers trust only what has its final name and its own hash."""

    root: Path | str

    @property
    def files(self) -> Files:
        return _files(str(self.root))

    @property
    def name(self) -> str:
        """The last part of the place."""
        return PurePosixPath(str(self.root)).name

    def exists(self, name: str) -> bool:
        try:
            return self.files.exists(name)
        except OSError as error:
            raise self._unreadable(name, error) from error

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file or nothing."""
        try:
            self.files.write(name, data)
        except OSError as error:
            raise self._unwritable(name, error) from error

    def write_json(self, name: str, data: Mapping[str, Any] | Sequence[Any]) -> None:
        """Plain data, a mapping or a list, sealed with its own hash, so that altered data is known as such."""
        if isinstance(data, Sequence):
            data = {_LIST: list(data)}
        data = {**data, _SEAL: _seal(data)}
        self.write(name, (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())

    def write_shard(self, folder: str, suffix: str, data: bytes) -> str:
        """Write immutable bytes under the name of their content; the same bytes twice are one file."""
        name = f"{folder}/{hashlib.sha256(data).hexdigest()[:_NAME_LENGTH]}{suffix}"
        if not self.exists(name) or self.read_shard(name) is None:
            self.write(name, data)
        return name

    def read(self, name: str) -> bytes:
        try:
            return self.files.read(name)
        except FileNotFoundError:
            raise BadInput(
                f"{self.root} holds no {name}: not a run directory. `karat run SPEC --out {self.root}` makes one."
            ) from None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def read_shard(self, name: str) -> bytes | None:
        """The bytes of a shard, or None where they are not what its name promises (gone, truncated, altered).

        A place that cannot be reached is an error, not a None: what is not readable now may be whole.
        """
        try:
            data = self.files.read(name)
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error
        return data if hashlib.sha256(data).hexdigest()[:_NAME_LENGTH] == PurePosixPath(name).stem else None

    def shards(self, folder: str, suffix: str) -> list[str]:
        try:
            names = self.files.names(folder)
        except OSError as error:
            raise self._unreadable(folder, error) from error
        return sorted(f"{folder}/{name}" for name in names if name.endswith(suffix) and not name.startswith("."))

    def read_json(self, name: str) -> Any:
        """What `write_json` was given. What has no seal (older runs have lists without) is taken as it is."""
        again = "Running the same command again writes it anew."
        raw = self.read(name)
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"cannot read {self.root}/{name}: {error}. {again}") from None
        if isinstance(data, dict) and _SEAL in data:
            seal = data.pop(_SEAL)
            if seal != _seal(data):
                raise BadInput(f"{self.root}/{name} was altered after it was written. {again}")
            if set(data) == {_LIST}:
                return data[_LIST]
        return data

    def is_sealed(self, name: str) -> bool:
        """Whether a JSON file has a seal; `read_json` refuses one that does not fit."""
        try:
            data = json.loads(self.read(name))
        except (ValueError, RecursionError):
            return False
        return isinstance(data, dict) and _SEAL in data

    def remove(self, name: str) -> None:
        try:
            self.files.remove(name)
        except OSError as error:
            raise self._unwritable(name, error) from error

    def append(self, name: str, line: str) -> None:
        """Append one line. A torn last line (a kill in mid-write) is skipped by `lines`."""
        try:
            self.files.append(name, line.encode() + b"\n")
        except OSError as error:
            raise self._unwritable(name, error) from error

    def lines(self, name: str) -> Iterator[Any]:
        """JSON lines that can be read; the others were torn."""
        try:
            raw = self.files.read_log(name)
        except OSError:
            return
        for line in raw.split(b"\n"):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue

    def sweep(self) -> None:
        """Remove what a killed writer left. Call only under the lease."""
        try:
            self.files.sweep()
        except OSError as error:
            raise self._unwritable("", error) from error

    @contextmanager
    def lease(self) -> Iterator[str]:
        """Be the only driver of this run. Gives what the user must know of it, or nothing."""
        held = self.files.lease()
        try:
            caution = held.__enter__()
        except OSError as error:
            raise PlaceFailed(
                f"cannot write to {self.root}: {error.strerror or error}. Choose another directory with --out."
            ) from None
        try:
            yield caution
        finally:
            try:
                held.__exit__(None, None, None)
            except OSError as error:
                raise self._unwritable("", error) from error

    def holder(self) -> str:
        """Who is writing just now, or nothing."""
        try:
            return self.files.holder()
        except OSError:
            return ""

    def _unwritable(self, name: str, error: OSError) -> PlaceFailed:
        return PlaceFailed(
            f"cannot write {self.root}/{name}: {error.strerror or error}. Free some space or choose another --out; "
            "what is already written is safe, and running the same command again resumes."
        )

    def _unreadable(self, name: str, error: OSError) -> PlaceFailed:
        return PlaceFailed(
            f"cannot read {self.root}/{name}: {error.strerror or error}. Nothing was changed; try again when the "
            "place can be read, or delete this file and run the same command to make it anew."
        )


@lru_cache(maxsize=64)
def _files(root: str) -> Files:
    """One for each place and process: a remote one holds connections and lines not yet written."""
    if "://" in root and not root.startswith("file://"):
        from karat.results.remote import RemoteFiles

        return RemoteFiles(root.rstrip("/"))
    return LocalFiles(Path(root.removeprefix("file://")))


def _seal(data: Mapping[str, Any]) -> str:
    plain = json.dumps(json.loads(json.dumps(data)), sort_keys=True, separators=(",", ":"))  # as it will be read
    return hashlib.sha256(plain.encode()).hexdigest()[:_NAME_LENGTH]
