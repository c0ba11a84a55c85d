"""What the formats share: files on this machine or from the Hugging Face hub, of which nothing is unpickled, and how a
question is put (fsyn2026 A.1).

A question is put as it is, or with a directive that keeps the answer to a letter. The directive is no part of the
question: it is a phrase of role "instruction", whose words are never perturbed.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from karat.datasets.safe_read import open_parquet, read_row_group
from karat.kernel.errors import BadInput, ExtraMissing
from karat.kernel.sample import Phrase
from karat.kernel.typing import Image

if TYPE_CHECKING:
    import pyarrow as pa


def locate(source: str, names: Sequence[str], hub_revision: str | None = None) -> list[Path]:
    """The first of `names` that `source` holds, with all files that match it, sorted.

    `source` is a file, a folder, or a hub id (`owner/name`), whose files are fetched into the hub's own cache.
    """
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        for name in names:
            if files := sorted(path.glob(name)) or sorted(path.glob(f"*/{name}")):
                return files
        raise BadInput(f"{source} holds none of {', '.join(names)}; give the file itself or the folder that has it.")
    if _is_hub_id(source):
        return _fetched(source, names, hub_revision)
    raise BadInput(f"no file or folder at {source}. A dataset of the hub goes by owner/name.")


def _is_hub_id(source: str) -> bool:
    return source.count("/") == 1 and not source.startswith((".", "/", "~")) and " " not in source


def _fetched(source: str, names: Sequence[str], revision: str | None) -> list[Path]:
    try:
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled
    except ImportError:
        raise ExtraMissing(f"the hub dataset {source}", "huggingface_hub", "vlm") from None
    try:
        held = HfApi().list_repo_files(source, repo_type="dataset", revision=revision)
        for name in names:
            if files := sorted(file for file in held if Path(file).match(name)):
                return [Path(hf_hub_download(source, file, repo_type="dataset", revision=revision)) for file in files]
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"cannot fetch the dataset {source} from the hub: {reason}. Or give a local folder.") from None
    raise BadInput(f"the dataset {source} on the hub holds none of {', '.join(names)}.")


class ParquetRows:
    """Rows of Parquet files by position, one row group in memory at a time."""

    def __init__(self, paths: Sequence[Path], needed: Sequence[str]) -> None:
        self.groups: list[tuple[str, int, int]] = []  # file, row group, rows
        self.columns: set[str] = set()
        for path in paths:
            file = open_parquet(path, "questions")
            if lacking := [name for name in needed if name not in file.schema_arrow.names]:
                have = ", ".join(file.schema_arrow.names)
                raise BadInput(f"{path} has no column {lacking[0]!r}; it has {have}. Is it the right dataset?")
            self.columns |= set(file.schema_arrow.names)
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
            self.groups += [(str(path), g, rows) for g, rows in enumerate(sizes)]
        self.starts = np.cumsum([0, *(rows for _, _, rows in self.groups)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def row(self, position: int) -> dict[str, Any]:
        which = int(np.searchsorted(self.starts, position, side="right")) - 1
        path, number, _ = self.groups[which]
        row: dict[str, Any] = _row_group(path, number).slice(position - int(self.starts[which]), 1).to_pylist()[0]
        return row

    def column(self, name: str) -> list[Any]:
        read = (read_row_group(path, number, [name], "questions") for path, number, _ in self.groups)
        return [value for table in read for value in table[name].to_pylist()]


@lru_cache(maxsize=1)
def _row_group(path: str, number: int) -> pa.Table:
    return read_row_group(path, number, None, "questions")


def picture(data: bytes | Path, what: str) -> Image:
    """An image file as (H, W, 3) uint8."""
    from PIL import Image as Pillow

    try:
        with Pillow.open(io.BytesIO(data) if isinstance(data, bytes) else data) as opened:
            return np.array(opened.convert("RGB"))  # a copy: views of Pillow's memory cannot be written to
    except (OSError, SyntaxError, Pillow.DecompressionBombError) as error:
        raise BadInput(f"{what}: the image cannot be read: {error}.") from None


# ---- how a question is put

Directive = Literal["letter", "answer", "none"]
DIRECTIVES: dict[Directive, str] = {
    "letter": "\nAnswer directly with only the letter inside parentheses, and nothing else. \n",
    "answer": "\nAnswer:",  # for LLaVA-1.5
    "none": "",
}
INSTRUCTION = "instruction"


def put(question: str, directive: Directive) -> tuple[str, tuple[Phrase, ...]]:
    """The text for the model and the phrase that marks its directive."""
    question, added = question.strip(), DIRECTIVES[directive]
    whole = question + added
    return whole, (Phrase((len(question), len(whole)), INSTRUCTION),) if added else ()
