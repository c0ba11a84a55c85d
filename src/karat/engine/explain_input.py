"""What people hand to `karat.explain`, as a sample: paths, pictures of Pillow, arrays, tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from karat.kernel.errors import BadInput
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.kernel.typing import Image

MOST_PIXELS = 50_000_000


def samples_of(images: Any, text: str | Sequence[str | None] | None) -> list[Sample]:
    """One sample per image; a text for all of them, or one for each."""
    many = is_many(images)
    listed = list(images) if many else [images]
    if not listed:
        raise BadInput("explain: got no image.")
    texts = [text] * len(listed) if text is None or isinstance(text, str) else list(text)
    if len(texts) != len(listed):
        raise BadInput(f"explain: one text per image, or one for all; got {len(texts)} texts for {len(listed)} images.")
    return [_sample(image, each, k) for k, (image, each) in enumerate(zip(listed, texts, strict=True))]


def is_many(images: Any) -> bool:
    """Whether this is a batch: a list, or an array or tensor of four dimensions."""
    return isinstance(images, list | tuple) or (_is_array(images) and images.ndim == 4)


def pixels_of(image: Any) -> Image:
    """Any image as (H, W, 3) bytes."""
    if isinstance(image, str | Path):
        return _read(Path(image))
    if hasattr(image, "convert") and hasattr(image, "size"):  # a picture of Pillow, without importing it
        return _rgb(image)
    if not _is_array(image):
        raise BadInput(f"an image is a path, a picture of Pillow, an array or a tensor; got {type(image).__name__}.")
    return _from_array(image)


def check_text(model: Model, sample: Sample) -> None:
    """A question for a model that reads one, and none for a model that does not."""
    reads = "text" in model.capabilities
    if reads and sample.text is None and "autoregressive" in model.capabilities:
        raise BadInput(f'{model.name} answers questions: give one, as in `karat explain IMAGE "What is this?"`.')
    if sample.text is not None and not reads:
        raise BadInput(
            f"{model.name} reads no text, so it cannot be asked {_short(sample.text)!r}: leave the text out."
        )
    if sample.text is not None and not sample.words:
        raise BadInput(f"the text {_short(sample.text)!r} has no words: ask with at least one.")


def _sample(image: Any, text: str | None, number: int) -> Sample:
    if isinstance(image, Sample):
        if text is not None:
            raise BadInput(
                f"sample {image.id} brings its own text; got {_short(text)!r} beside it. To name an explainer, write "
                f"explainer={text!r}."
            )
        return image
    name = Path(image).name if isinstance(image, str | Path) else f"image {number + 1}"
    return Sample(name, pixels_of(image), text)


def _read(path: Path) -> Image:
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"))
        hint = f" Images there: {', '.join(near[:4])}." if near and path.parent.is_dir() else ""
        raise BadInput(f"no image {path}: there is no such file.{hint}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Pillow.DecompressionBombWarning)  # its size is checked below
            with Pillow.open(path) as opened:
                width, height = opened.size
                if width * height > MOST_PIXELS:
                    raise BadInput(
                        f"{path} has {width * height / 1e6:,.0f} million pixels ({width} × {height}); at most "
                        f"{MOST_PIXELS // 10**6} million are read. Shrink it first: models see a few hundred a side."
                    )
                return _rgb(opened)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Pillow.DecompressionBombError) as error:
        raise BadInput(f"{path} cannot be read as an image: {error}. PNG, JPEG, WebP, GIF, BMP and TIFF can.") from None


def _rgb(picture: Any) -> Image:
    """As a viewer shows it: turned as its EXIF says, on white where it is transparent, sixteen bits brought to eight;
    of an animation the first frame."""
    from PIL import Image as Pillow
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(picture)
    if upright.mode.startswith(("I", "F")):  # Pillow would clip what is beyond 255
        values = np.asarray(upright, dtype=np.float64)
        highest = 65535.0 if upright.mode.startswith("I") and values.max(initial=0) > 255 else 255.0
        if upright.mode == "F" and values.max(initial=0) <= 1:
            highest = 1.0
        return np.rint(np.clip(values / highest, 0, 1) * 255).astype(np.uint8)[..., None].repeat(3, -1)
    if "A" in upright.getbands() or "transparency" in upright.info:
        over = upright.convert("RGBA")
        upright = Pillow.alpha_composite(Pillow.new("RGBA", over.size, "white"), over)
    return np.array(upright.convert("RGB"))


def _is_array(value: Any) -> bool:
    return hasattr(value, "ndim") and hasattr(value, "shape")


def _from_array(image: Any) -> Image:
    """Arrays are (H, W), (H, W, 3 or 4); tensors (3, H, W) too. Bytes, or numbers from 0 to 1. A fourth channel, of
    opacity, shows white."""
    array: npt.NDArray[Any] = np.asarray(image.detach().cpu().numpy() if hasattr(image, "detach") else image)
    if array.ndim == 2:
        array = array[..., None].repeat(3, -1)
    elif array.ndim == 3 and array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim != 3 or array.shape[-1] not in (1, 3, 4) or 0 in array.shape:
        raise BadInput(f"an image array is (H, W), (H, W, 3) or (3, H, W); got shape {tuple(np.shape(image))}.")
    if array.dtype == np.bool_:
        array = array.astype(np.float64)
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < -1e-6 or array.max() > 1 + 1e-6:
            low, high = float(np.nanmin(array)), float(np.nanmax(array))
            raise BadInput(
                f"numbers of an image go from 0 to 1, bytes from 0 to 255; got {array.dtype} from {low:.3g} to "
                f"{high:.3g}. Hand over the image before it is normalised."
            )
        array = np.rint(np.clip(array, 0, 1) * 255)
    elif array.min() < 0 or array.max() > 255:
        raise BadInput(f"bytes of an image go from 0 to 255; got {array.min()} to {array.max()}.")
    array = array.astype(np.uint8)
    if array.shape[-1] == 4:
        from PIL import Image as Pillow

        return _rgb(Pillow.fromarray(array, "RGBA"))
    return np.ascontiguousarray(array.repeat(3, -1) if array.shape[-1] == 1 else array)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
