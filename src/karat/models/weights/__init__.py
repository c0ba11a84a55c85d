"""Weights of the trained twins, with a model card each. Only safetensors, at most 5 MB a twin."""

from __future__ import annotations

import hashlib
from pathlib import Path

from karat.kernel.errors import BadInput

HERE = Path(__file__).parent


def shipped(name: str) -> Path:
    """Where the package keeps the weights of that name."""
    return HERE / name


def twin_name(family: str, variant: str, seed: int = 0) -> str:
    """The name that a twin's files have.

    >>> twin_name("gridnet", "pure", 1)
    'gridnet.pure.seed1'
    """
    return f"{family}.{variant}{f'.seed{seed}' if seed else ''}"


def find_twin(family: str, variant: str, seed: int, ending: str = "") -> Path:
    """Where the package keeps a twin. Seeds that do not ship are refused with the command that trains them."""
    name = twin_name(family, variant, seed)
    path = shipped(name + ending)
    if seed and not path.exists():
        raise BadInput(
            f"{family}.{variant} ships with seed 0, not with seed {seed}. Train it with `karat train {family} --mode "
            f"{variant} --seed {seed}` and give `weights: checkpoints/{name}/{name}{ending}`."
        )
    return path


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
