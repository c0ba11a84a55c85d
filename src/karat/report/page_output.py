"""Where a report's data goes: chunks beside the page that load when needed, or blocks inside one single file."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from karat.kernel.errors import BadInput
from karat.report.encode import to_json

_TILE = re.compile(rb"tiles/[0-9a-f]{20}\.(?:png|jpg)")
_TYPES = {"png": "image/png", "jpg": "image/jpeg"}


class Sink(Protocol):
    def data(self, name: str, value: Any) -> None:
        """Keep a chunk of data under a name that the page asks for."""
        ...

    def keep(self, name: str, older: Path | None) -> bool:
        """Take a chunk over, with its pictures, from the folder of an earlier page; whether it was there."""
        ...

    def picture(self, data: bytes, suffix: str) -> str:
        """Keep an image and return the address the page shows it from."""
        ...


@dataclass(frozen=True)
class Folder:
    """`data/<name>.js` and `tiles/<content>.png`: plain scripts and images, which `file://` pages may load."""

    root: Path
    written: set[Path] = field(default_factory=set)

    def data(self, name: str, value: Any) -> None:
        self.write(f"data/{name}.js", f'window.KARAT.push("{name}",{to_json(value)});\n'.encode())

    def keep(self, name: str, older: Path | None) -> bool:
        path = older / f"data/{name}.js" if older is not None else None
        if path is None or not path.is_file():
            return False
        data = path.read_bytes()
        for tile in set(_TILE.findall(data)):
            if self.root / tile.decode() not in self.written:
                self.write(tile.decode(), (older / tile.decode()).read_bytes())
        self.write(f"data/{name}.js", data)
        return True

    def picture(self, data: bytes, suffix: str) -> str:
        # Named by content: many questions about one image keep one file.
        name = f"tiles/{hashlib.sha256(data).hexdigest()[:20]}.{suffix}"
        if self.root / name not in self.written:
            self.write(name, data)
        return name

    def write(self, name: str, data: bytes) -> None:
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            self.written.add(path)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror or error}. Choose another --out.") from None

    def sweep(self) -> None:
        """Remove chunks and tiles that an earlier report left here: only names that a report writes."""
        for pattern in ("data/*.js", "tiles/*.png", "tiles/*.jpg", "assets/*.js", "assets/style.css"):
            for path in self.root.glob(pattern):
                if path not in self.written:
                    path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Inside:
    """Everything in the page itself: chunks as inert JSON blocks that are parsed when asked for, images as URLs."""

    blocks: dict[str, str] = field(default_factory=dict)

    def data(self, name: str, value: Any) -> None:
        self.blocks[name] = to_json(value)

    def keep(self, name: str, older: Path | None) -> bool:
        return False

    def picture(self, data: bytes, suffix: str) -> str:
        return f"data:{_TYPES[suffix]};base64,{base64.b64encode(data).decode()}"
