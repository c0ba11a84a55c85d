"""`Files`: bytes by name under one root, and the `LocalFiles` of a folder on this machine (or a shared file system)."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from karat.kernel.errors import BadInput, RunBusy

_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK)  # Lustre without `flock`, NFS without lockd


class PlaceFailed(BadInput):
    """The place of a run cannot be read or written just now. Trying again may help, unlike with other bad input."""


class Files(Protocol):
    """What a run asks of its place. Every method raises OSError where the place fails, FileNotFoundError if absent."""

    def read(self, name: str) -> bytes: ...
    def write(self, name: str, data: bytes) -> None:
        """The whole file or nothing: no reader ever sees a part of it."""
        ...

    def exists(self, name: str) -> bool: ...
    def remove(self, name: str) -> None: ...
    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, without it; none where there is no such folder."""
        ...

    def append(self, name: str, data: bytes) -> None: ...
    def read_log(self, name: str) -> bytes:
        """Everything that was appended under a name, by any driver, oldest first."""
        ...

    def sweep(self) -> None:
        """Clear away what a killed writer left. Only under the lease."""
        ...

    def lease(self) -> AbstractContextManager[str]:
        """Be the only driver, or RunBusy. Gives what the user must know of it, or nothing."""
        ...

    def holder(self) -> str:
        """Who holds the lease just now, or nothing."""
        ...


def me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def busy(root: object, holder: str) -> RunBusy:
    return RunBusy(
        f"{root} is being written by {holder or 'another process'}. Wait for it, watch it with `karat status {root}`, "
        "or give this run its own --out."
    )


@dataclass(frozen=True)
class LocalFiles:
    """A folder. The lease is a lock that goes with its process, so a killed driver leaves none behind."""

    root: Path

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Temporary file, fsync, rename, fsync of the folder."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        where = self.root / folder
        return [path.name for path in where.iterdir()] if where.is_dir() else []

    def append(self, name: str, data: bytes) -> None:
        with open(self.root / name, "ab") as file:
            file.write(data)

    def read_log(self, name: str) -> bytes:
        return self.read(name)

    def sweep(self) -> None:
        for leftover in self.root.glob("**/.*.tmp"):
            leftover.unlink(missing_ok=True)
        for log in self.root.glob("*.jsonl"):
            data = log.read_bytes()
            if data and not data.endswith(b"\n"):  # torn by a kill: the next line must not be glued to it
                self.append(log.name, b"\n")

    @contextmanager
    def lease(self) -> Iterator[str]:
        self.root.mkdir(parents=True, exist_ok=True)
        caution = ""
        with open(self.root / ".lease", "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.seek(0)
                raise busy(self.root, file.read().strip()) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                caution = (  # two drivers would write the same shards: wasted work, but no wrong row
                    f"the file system of {self.root} has no locks ({error.strerror}), so nothing keeps a second "
                    "`karat run` from doing the same work: start one at a time"
                )
            file.truncate(0)
            file.write(me())
            file.flush()
            yield caution

    def holder(self) -> str:
        try:
            with open(self.root / ".lease", errors="replace") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except (BlockingIOError, PermissionError):
                    return file.read().strip()
        except OSError:
            pass
        return ""
