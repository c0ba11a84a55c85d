"""`Store`: the files of one run. Writes are atomic, shards are named by their content, one driver holds the lease."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.kernel.errors import BadInput, RunBusy

_NAME_LENGTH = 24


@dataclass(frozen=True)
class Store:
    """A run directory. Readers trust only what has its final name: a half-written file never gets one."""

    root: Path

    def path(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file or nothing: temporary file, fsync, rename, fsync of the folder."""
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
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
        except OSError as error:
            raise BadInput(
                f"cannot write {path}: {error.strerror or error}. Free some space or choose another --out; "
                "what is already written is safe, and running the same command again resumes."
            ) from error

    def write_json(self, name: str, data: Any) -> None:
        self.write(name, (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())

    def write_shard(self, folder: str, suffix: str, data: bytes) -> str:
        """Write immutable bytes under the name of their content; the same bytes twice are one file."""
        name = f"{folder}/{hashlib.sha256(data).hexdigest()[:_NAME_LENGTH]}{suffix}"
        if not self.path(name).exists() or self.read_shard(name) is None:
            self.write(name, data)
        return name

    def read_shard(self, name: str) -> bytes | None:
        """The bytes of a shard, or None where they are not what its name promises (truncated, altered)."""
        try:
            data = self.path(name).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest()[:_NAME_LENGTH] == Path(name).stem else None

    def shards(self, folder: str, suffix: str) -> list[str]:
        where = self.path(folder)
        if not where.is_dir():
            return []
        return sorted(
            f"{folder}/{p.name}" for p in where.iterdir() if p.suffix == suffix and not p.name.startswith(".")
        )

    def read_json(self, name: str) -> Any:
        path = self.path(name)
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BadInput(
                f"{self.root} holds no {name}: not a run directory. `assay run SPEC --out {self.root}` makes one."
            ) from None
        except (OSError, ValueError) as error:
            raise BadInput(f"cannot read {path}: {error}. Running the same command again writes it anew.") from None

    def append(self, name: str, line: str) -> None:
        """Append one line. A torn last line (a kill in mid-write) is skipped by `lines`."""
        with open(self.path(name), "ab") as file:
            file.write(line.encode() + b"\n")

    def lines(self, name: str) -> Iterator[Any]:
        try:
            raw = self.path(name).read_bytes()
        except OSError:
            return
        for line in raw.split(b"\n"):
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def sweep(self) -> None:
        """Remove temporary files that a killed writer left. Call only under the lease."""
        for leftover in self.root.glob("**/.*.tmp"):
            leftover.unlink(missing_ok=True)

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Be the only driver of this run. The lock goes with the process, so a killed driver leaves none behind."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = open(self.path(".lease"), "a+")  # noqa: SIM115  closed below: the lock lives as long as the file
        except OSError as error:
            raise BadInput(
                f"cannot write to {self.root}: {error.strerror}. Choose another directory with --out."
            ) from None
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                holder = file.read().strip() or "another process"
                raise RunBusy(
                    f"{self.root} is being written by {holder}. Wait for it, watch it with `assay status {self.root}`, "
                    "or give this run its own --out."
                ) from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield
        finally:
            file.close()
