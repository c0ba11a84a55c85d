"""Modules and processors of transformers from a directory or the hub: safetensors only, no code of the repository."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from karat.kernel.errors import BadInput, ExtraMissing

DType = Literal["float32", "bfloat16", "float16", "float64"]
Quantisation = Literal["8bit", "4bit"]
BYTES: dict[str, float] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "8bit": 1, "4bit": 0.5}  # a number
_STORED = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}  # as safetensors call them
_AN_EDGE = 8192  # `longest_edge` of some processors is an edge, of others an area
_GATED = ("gated", "401", "403", "restricted", "not authorized", "unauthorized")
_ABSENT = ("not a local folder", "not a valid model identifier", "couldn't connect", "cannot find", "offline", "404")


def load(
    what: str,
    model_class: str,
    source: str,
    dtype: DType = "float32",
    device: str = "cpu",
    revision: str | None = None,
    quantised: Quantisation | None = None,
) -> tuple[Any, Any]:
    """(module, processor). `what` it is for messages; `model_class` is one of transformers' Auto classes.

    `device` "auto" spreads the layers over what the machine has (transformers' device map). `quantised` weights are
    "8bit" or "4bit", by bitsandbytes.
    """
    try:
        import torch
        import transformers
        from safetensors import SafetensorError
    except ImportError as error:
        raise ExtraMissing(f"{what}()", error.name or "transformers", "vlm") from None
    options: dict[str, Any] = {"dtype": getattr(torch, dtype)}
    if quantised is not None:
        options["quantization_config"] = _quantisation(what, quantised)
    if device == "auto" or quantised is not None:
        if importlib.util.find_spec("accelerate") is None:
            raise ExtraMissing(f"{what}() with device='auto' or quantised weights", "accelerate", "gpu")
        options["device_map"] = "auto" if device == "auto" else {"": device}
    try:
        processor = transformers.AutoProcessor.from_pretrained(source, revision=revision, trust_remote_code=False)
        with _progress_bars(visible=not Path(source).is_dir()):  # what is here already is read in a moment
            loaded: Any = getattr(transformers, model_class).from_pretrained(
                source,
                revision=revision,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **options,
            )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise BadInput(_reason(what, source, error)) from None
    module, report = loaded
    # transformers would fill what is missing with random numbers and only warn.
    if missing := sorted(report["missing_keys"]):
        raise BadInput(f"cannot load a {what} from {source}: no weights for {', '.join(missing[:5])}.")
    if "device_map" not in options:
        try:
            module = module.to(device)
        except (RuntimeError, AssertionError) as error:
            raise BadInput(f"cannot put {source} on {device!r}: {_line(error)} Use device='cpu' or 'auto'.") from None
    return module.eval(), processor


def adapted(module: Any, adapter: str, quantised: Quantisation | None = None) -> Any:
    """A module with a PEFT adapter merged into its weights, so that every explainer meets the layers it knows."""
    if importlib.util.find_spec("peft") is None:
        raise ExtraMissing("an adapter", "peft", "train")
    from peft import PeftModel
    from safetensors import SafetensorError

    folder = Path(adapter)
    if not (folder / "adapter_config.json").is_file() or not (folder / "adapter_model.safetensors").is_file():
        raise BadInput(f"{adapter} is no adapter: it needs adapter_config.json and adapter_model.safetensors (PEFT).")
    if quantised is not None:
        raise BadInput(f"an adapter cannot be merged exactly into {quantised} weights: load them in bfloat16.")
    try:
        merged: Any = PeftModel.from_pretrained(module, adapter).merge_and_unload(safe_merge=True)
    except (ValueError, RuntimeError, KeyError, OSError, SafetensorError) as error:
        raise BadInput(f"cannot put the adapter {adapter} on {type(module).__name__}: {_line(error)}") from None
    return merged.eval()


def describe_preprocessing(source: str, revision: str | None = None) -> str:
    """How the image processor of a directory, or of a hub id that was downloaded before, shows images to its model. No
    network is asked: this is for `karat check`."""
    try:
        from transformers import AutoImageProcessor
    except ImportError as error:
        raise ExtraMissing("an image processor", error.name or "transformers", "vlm") from None
    try:
        processor: Any = AutoImageProcessor.from_pretrained(
            source, revision=revision, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, KeyError):
        return f"images as the processor of {source} says, which is not on this machine yet"
    cut = processor.crop_size if getattr(processor, "do_center_crop", False) else None
    size = cut or processor.size
    tall = size.get("height") or size.get("shortest_edge") or size.get("longest_edge")
    numbers = (", ".join(f"{value:.4g}" for value in values) for values in (processor.image_mean, processor.image_std))
    part = "the centre of the image" if cut else "the whole image"
    return "{} at {}×{}, mean {}, std {}".format(part, tall, size.get("width") or tall, *numbers)


def local_folder(path: str, hub_revision: str | None = None) -> Path | None:
    """The directory itself, or the one that a hub id was downloaded to; None where it is not on this machine."""
    folder = Path(path)
    if folder.is_dir():
        return folder
    if path.count("/") != 1 or importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(path, "config.json", revision=hub_revision)
    return Path(config).parent if isinstance(config, str) else None


def configuration(path: str, hub_revision: str | None) -> dict[str, Any] | None:
    """The plain data of config.json in a directory, or of a downloaded hub id; with `max_pixels`, where its processor
    bounds the pixels that it shows."""
    folder = local_folder(path, hub_revision)
    if folder is None or not (folder / "config.json").is_file():
        return None
    held: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if "hidden_size" not in (held.get("text_config") or held):  # files may leave out what is the default of a class
        from transformers import AutoConfig

        with suppress(ValueError, OSError, KeyError):  # a type that this transformers does not know
            held = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False).to_dict()
    shown = folder / "preprocessor_config.json"
    settings = json.loads(shown.read_text(encoding="utf-8")) if shown.is_file() else {}
    size = settings.get("size")
    most = settings.get("max_pixels") or (size.get("longest_edge") if isinstance(size, dict) else None)
    return {**held, "max_pixels": most if isinstance(most, int) and most > _AN_EDGE else None}


def weights_bytes(
    path: str, hub_revision: str | None, dtype: DType, quantised: Quantisation | None = None
) -> int | None:
    """Bytes that the weights of a directory, or of a downloaded hub id, take once they are loaded; None where they are
    not on this machine."""
    folder = local_folder(path, hub_revision)
    files = [] if folder is None else list(folder.glob("*.safetensors"))
    if folder is None or not files or not (folder / "config.json").is_file():
        return None
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kept = BYTES.get(str(stored.get("dtype") or stored.get("torch_dtype") or "float32"), 4.0)
    return round(sum(file.stat().st_size for file in files) * BYTES.get(quantised or dtype, 4.0) / kept)


def shares_weights(
    path: str, hub_revision: str | None, dtype: DType, device: str = "cpu", quantised: Quantisation | None = None
) -> bool:
    """Whether all processes of a machine hold the weights once, together: transformers maps safetensors, and tensors
    stay on the file's pages unless they are converted, moved or quantised."""
    folder = local_folder(path, hub_revision)
    files = [] if folder is None else list(folder.glob("*.safetensors"))
    if not files or device != "cpu" or quantised is not None or sys.platform == "win32":
        return False
    return {kind for file in files for kind in _stored_dtypes(file)} <= {_STORED[dtype]}


def _stored_dtypes(file: Path) -> set[str]:
    """In which types a safetensors file holds its numbers; integers, which nobody converts, left out."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np") as held:
            kinds = {held.get_slice(name).get_dtype() for name in held.keys()}  # noqa: SIM118  # it is no mapping
    except (SafetensorError, OSError):
        return set(_STORED.values())  # loading will say what is wrong with it
    return {kind for kind in kinds if not kind.startswith(("I", "U", "BOOL"))}


def weights_revision(path: str, hub_revision: str | None, salt: str) -> str:
    """A digest of every file of a directory; for a hub id, what it is pinned to."""
    folder = Path(path)
    if not folder.is_dir():
        return f"1:{hub_revision or 'latest'}:{salt}"
    digest = hashlib.sha256(salt.encode())
    for file in sorted(each for each in folder.iterdir() if each.suffix in (".json", ".safetensors", ".jinja", ".txt")):
        with file.open("rb") as content:
            digest.update(file.name.encode() + hashlib.file_digest(content, "sha256").digest())
    return f"1:{digest.hexdigest()[:16]}"


@contextmanager
def _progress_bars(visible: bool) -> Iterator[None]:
    """With or without the progress bars of transformers."""
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    if not visible:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


def _quantisation(what: str, quantised: Quantisation) -> Any:
    from transformers import BitsAndBytesConfig

    if importlib.util.find_spec("bitsandbytes") is None:
        raise ExtraMissing(f"{what}() with {quantised} weights", "bitsandbytes", "gpu")
    return BitsAndBytesConfig(load_in_8bit=quantised == "8bit", load_in_4bit=quantised == "4bit")


def _reason(what: str, source: str, error: Exception) -> str:
    """One line: what went wrong, and how to get what is missing."""
    reason = _line(error)
    lower = reason.lower()
    start = f"cannot load a {what} from {source}"
    if Path(source).is_dir():
        return f"{start}: {reason}"
    if source.count("/") > 1 or source.startswith((".", "/", "~")):
        return f"{start}: there is no such directory."
    if any(sign in lower for sign in _GATED):
        return (
            f"{start}: its weights are gated. Accept the terms at https://huggingface.co/{source}, then log in with "
            "`hf auth login` (or set HF_TOKEN)."
        )
    if any(sign in lower for sign in _ABSENT):
        return (
            f"{start}: there is no such directory, and the hub has no such id or cannot be reached. Where there is a "
            f"network, `hf download {source} --local-dir DIR`; then give DIR."
        )
    return f"{start}: {reason}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
