"""Places for tests whose calls fail on demand: `faulty://` is memory, `faultyfolder://` a folder, behind a gate of
errors; `listing://` is a folder that remembers its listings, as s3fs does; and the count of all faults that a test
session has injected.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import toys
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.errors import KaratError
from karat.probe.session import Session
from karat.results.files import LocalFiles

INJECTED: Counter[str] = Counter()  # kind of fault -> how many; `make faults` prints it at its end


class Gate:
    """Counts calls; `fails(call number, method)` gives the error of a call, or None. `injected` counts the errors."""

    calls = 0
    injected = 0
    fails: Callable[[int, str], Exception | None] = staticmethod(lambda number, method: None)

    @classmethod
    def reset(cls, fails: Callable[[int, str], Exception | None] | None = None) -> None:
        cls.calls = cls.injected = 0
        cls.fails = staticmethod(fails or (lambda number, method: None))

    @classmethod
    def check(cls, method: str) -> None:
        cls.calls += 1
        error = cls.fails(cls.calls, method)
        if error is not None:
            cls.injected += 1
            raise error


def scaled(count: int) -> int:
    """A count of the fault suite, times KARAT_FAULTS."""
    return max(1, round(count * float(os.environ.get("KARAT_FAULTS", "1"))))


def complaint(call: Callable[[], Any]) -> str:
    """What the user is told, which must be one line; nothing where all is well. Other errors are not for users."""
    try:
        call()
    except KaratError as told:
        text = str(told)
        if len(text.splitlines()) != 1:
            raise AssertionError(f"not one line: {text}") from told
        return text
    return ""


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


FULL, BROKEN = errno.ENOSPC, errno.EIO


class Gated(fsspec.AbstractFileSystem):
    """Errors before some calls of another file system."""

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        Gate.check("read")
        return bytes(super().cat_file(path, start, end, **kwargs))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        Gate.check("write")
        super().pipe_file(path, value, mode=mode, **kwargs)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        Gate.check("info")
        return dict(super().info(path, **kwargs))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        Gate.check("list")
        return list(super().ls(path, detail=detail, **kwargs))

    def rm_file(self, path: str) -> None:
        Gate.check("remove")
        super().rm_file(path)


class FaultyFileSystem(Gated, MemoryFileSystem):
    """Memory of this process, shared by all instances like fsspec's own."""

    protocol = "faulty"
    store: dict[str, Any] = {}  # noqa: RUF012  shared on purpose, as in the parent class
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        path = path.removeprefix("faulty://")
        return "/" + path.strip("/") if path.strip("/") else ""


class FaultyFolder(Gated, LocalFileSystem):
    """A folder of this machine, through fsspec."""

    protocol = "faultyfolder"


class ListingFolder(LocalFileSystem):
    """A folder of this machine whose listings are remembered, and believed, until they are said to be stale."""

    protocol = "listing"
    cachable = False

    def ls(self, path: str, detail: bool = False, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True, **kwargs)
        listing = self.dircache[path]
        return listing if detail else [each["name"] for each in listing]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if (listed := self.dircache.get(self._parent(path))) is None:
            return dict(super().info(path, **kwargs))
        for each in listed:
            if each["name"] == path:
                return dict(each)
        raise FileNotFoundError(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


@dataclass(frozen=True)
class Squares(toys.Squares):
    """A spec that names them has these places registered in its worker processes, too."""


@dataclass(frozen=True)
class Drifting(toys.Squares):
    """Squares that are other data where the environment says so: a node that was badly set up."""

    card: ClassVar[Card] = Card("faulty/drifting", "bright squares, or others", "dataset")

    @property
    def revision(self) -> str:
        return os.environ.get("FAULTY_REVISION", "1")


@dataclass(frozen=True)
class Unplugs(toys.Noise):
    """Noise; its process can write no file to a folder from then on, or only not the next one, if there is a `fuse`."""

    fuse: str = ""
    card: ClassVar[Card] = Card("faulty/unplugs", "cannot be stored", "explainer", gives=frozenset({"visual"}))

    def __call__(self, session: Session) -> list[Attribution]:
        write = LocalFiles.write

        def fails(files: LocalFiles, name: str, data: bytes) -> None:
            if self.fuse:
                LocalFiles.write = write  # type: ignore[method-assign]
            raise error(BROKEN)

        if not self.fuse or Path(self.fuse).exists():
            if self.fuse:
                Path(self.fuse).unlink()
            LocalFiles.write = fails  # type: ignore[method-assign]
        return super().__call__(session)


fsspec.register_implementation("listing", ListingFolder, clobber=True)
fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)
fsspec.register_implementation("faultyfolder", FaultyFolder, clobber=True)
