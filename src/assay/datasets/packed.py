"""Reading packed files of others: what would unpack without end is refused before it fills the memory."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from assay.kernel.errors import BadInput

DENSE = 100  # bytes unpacked for each packed one: text and masks stay well below
_SMALL = 2**26  # bytes that may come of any file


def read_packed(path: str | Path, what: str) -> bytes:
    """The content of a file, unpacked if it is gzip."""
    data = Path(path).read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    most = max(_SMALL, DENSE * len(data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            found = packed.read(most + 1)
    except (OSError, EOFError) as error:
        raise BadInput(f"{what}: {path} is damaged: {error}.") from None
    if len(found) > most:
        raise BadInput(
            f"{what}: {path} would unpack into more than {most / 2**20:.0f} MB, {DENSE} times its size and more. "
            "If that is meant, unpack it first."
        )
    return found
