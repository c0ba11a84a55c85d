"""Weights of the trained twins, with a model card each. Only safetensors, at most 5 MB a twin."""

from __future__ import annotations

import hashlib
from pathlib import Path

from karat.kernel.errors import BadInput

HERE = Path(__file__).parent


def shipped(name: str) -> Path:
    """Where the package keeps the weights of that name."""
    return HERE / name


def file_revision(path: Path) -> str:
    """First 16 digits of the file's SHA-256: other bytes, other revision."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise BadInput(
            f"cannot read the weights at {path}: {error.strerror or error}. "
            "Make them with `karat train ARCHITECTURE --mode MODE`."
        ) from None


def check_whole(path: Path) -> None:
    """Refuse a file that is missing, truncated or no safetensors, before any loader trips over it."""
    from safetensors import SafetensorError, safe_open

    file_revision(path)
    try:
        with safe_open(path, framework="np"):
            pass
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} is not a whole safetensors file: {error}. Train it again or fetch it anew.") from None
