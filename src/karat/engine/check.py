"""`check_model`: does this model work here? Loads it, asks it, shows where its tokens are, says what it will cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from karat.engine.explain_input import pixels_of
from karat.engine.footprint import Footprint, Subject, footprints
from karat.engine.inventory import free_bytes
from karat.engine.places import gigabytes
from karat.kernel.errors import BadInput, CapabilityMissing, KaratError
from karat.kernel.registry import registered
from karat.kernel.roles import Model, ModelRecipe
from karat.kernel.sample import Sample
from karat.kernel.typing import Image
from karat.metrics.synergy import synergy_question
from karat.models import load_model
from karat.models.hub import DType, weights_bytes
from karat.models.torch_model import TorchModel
from karat.probe.session import Session

_SPARE = 1.2  # weights, and a fifth for what is computed with them


@dataclass(frozen=True)
class Checked:
    """`grid` are the visual tokens over the `frame` of the image; `tokens` the question as the model reads it, one
    list of pieces per word. `works` are explainers the model can serve, `refused` the others with the reason. `passes`
    and `seconds` are those of one sample of F_syn (fsyn2026, 11 steps); None where it has no meaning."""

    answer: str
    probability: float
    grid: tuple[int, int] | None
    pixels: tuple[int, int] | None
    frame: tuple[float, float, float, float] | None
    tokens: tuple[tuple[str, ...], ...]
    works: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    passes: int | None
    seconds: float | None


def check_model(
    source: str, image: str | Path | Image, text: str | None, answer: str | None = None, **parameters: Any
) -> tuple[Model, Sample, Checked]:
    """Load `source` (a directory, a hub id or a registered name) with `parameters` and ask it one question.

    `answer` is what the costs are measured on; by default the model's own.
    """
    for problem in missing(source, **{name: parameters[name] for name in ("dtype", "device") if name in parameters}):
        raise BadInput(problem)
    model = load_model(source, **parameters)
    sample = Sample("check", pixels_of(image), text)
    if "text" in model.capabilities and not sample.words:
        raise BadInput(f"{model.name!r} reads a question: give one, e.g. --text 'Is there a cup?'")
    session = Session(model, [sample], None if answer is None else [answer])
    [target] = session.targets
    probability = float(model.score([sample], [target])[0])
    works, refused = _explainers(model)
    passes, seconds = _cost(session)
    return model, sample, Checked(str(target), probability, *_tokens(session), works, refused, passes, seconds)


def foretold(recipe: ModelRecipe, image: str | Path | Image, text: str | None, room: float | None) -> list[Footprint]:
    """The memory of every registered explainer that the model can serve, one sample at a time, in `room` bytes; nothing
    where its configuration is not known. Raises where not even asking fits. Nothing is loaded."""
    sample = Sample("check", pixels_of(image), text)
    subject = Subject.of(recipe, sample, rows=1)
    if subject is None:
        return []
    able = [kind for kind in registered("explainer").values() if kind.card.needs <= recipe.capabilities]
    sizes = footprints(subject, able, room)
    least = min(sizes, key=lambda one: one.peak)
    if not least.fits:
        raise BadInput(f"{subject.model}: memory at the peak (forecast) {least.in_words}.")
    return sizes


def missing(source: str, dtype: DType = "float32", device: str = "cpu") -> list[str]:
    """What a directory lacks, or this machine where the model is to run on its CPU: one sentence each. Nothing is
    loaded."""
    folder = Path(source)
    if not folder.is_dir():
        return []
    if not (folder / "config.json").is_file():
        return [f"{source} has no config.json: give the directory that `hf download ID --local-dir DIR` made."]
    held = {file.name: file.stat().st_size for file in folder.glob("*.safetensors")}
    index = folder / "model.safetensors.index.json"
    listed = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) if index.is_file() else set()
    if absent := sorted(listed - set(held)):
        return [f"{source} lacks {', '.join(absent[:4])}: fetch again with `hf download ID --local-dir {source}`."]
    if not held:
        pickled = any(folder.glob("*.bin"))
        why = (
            "only pickled weights (*.bin), which Karat does not load: convert them" if pickled else "no weights: fetch"
        )
        return [f"{source} has {why} *.safetensors with `hf download ID --local-dir {source}`."]
    needed, free = _SPARE * (weights_bytes(source, None, dtype) or 0), free_bytes()
    if device == "cpu" and free is not None and needed > free:
        return [
            f"{source} needs about {gigabytes(needed)} in {dtype}, {gigabytes(free)} are free: use --set "
            "dtype=bfloat16 or, on GPUs, --set device=auto, with --set quantised=4bit where that is still too much."
        ]
    return []


def grid_picture(image: Image, checked: Checked) -> Image:
    """The image with the borders of its visual tokens, and what the model does not see dimmed."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    scale = max(1, round(480 / max(image.shape[:2])))
    picture = Pillow.fromarray(image).resize(
        (image.shape[1] * scale, image.shape[0] * scale), Pillow.Resampling.NEAREST
    )
    width, height = picture.size
    top, left, bottom, right = checked.frame or (0.0, 0.0, 1.0, 1.0)
    box = (round(left * width), round(top * height), round(right * width) - 1, round(bottom * height) - 1)
    dim = Pillow.fromarray((np.asarray(picture) // 3).astype(np.uint8))
    dim.paste(picture.crop((box[0], box[1], box[2] + 1, box[3] + 1)), box[:2])
    draw = ImageDraw.Draw(dim)
    rows, columns = checked.grid or (1, 1)
    for r in range(rows + 1):
        y = box[1] + round((box[3] - box[1]) * r / rows)
        draw.line([(box[0], y), (box[2], y)], fill=(255, 210, 0))
    for c in range(columns + 1):
        x = box[0] + round((box[2] - box[0]) * c / columns)
        draw.line([(x, box[1]), (x, box[3])], fill=(255, 210, 0))
    return np.asarray(dim)


def _tokens(session: Session) -> tuple[Any, Any, Any, tuple[tuple[str, ...], ...]]:
    """Grid, pixels, frame and the pieces of every word, where the model tells."""
    if not isinstance(session.model, TorchModel):
        return None, None, None, ()
    inputs = session.inputs
    layout = session.model.layout(inputs)
    frame = (0.0, 0.0, 1.0, 1.0) if inputs.frames == () else inputs.frames[0] if inputs.frames else None
    processor = getattr(session.model, "processor", None)
    pieces: list[tuple[str, ...]] = []
    if inputs.words and inputs.tokens is not None and processor is not None:
        for start, stop in inputs.words[0]:
            numbers = inputs.tokens[0, start:stop].tolist()
            pieces.append(tuple(str(processor.tokenizer.decode([number])) for number in numbers))
    return layout.grid, tuple(inputs.pixels.shape[-2:]), frame, tuple(pieces)


def _explainers(model: Model) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    works, refused = [], []
    for name, kind in registered("explainer").items():
        if lacking := kind.card.needs - model.capabilities:
            refused.append((name, str(CapabilityMissing(name, lacking, model.name, model.capabilities))))
        else:
            works.append(name)
    return tuple(works), tuple(refused)


def _cost(session: Session) -> tuple[int | None, float | None]:
    """One F_syn, orders left to right: the order does not change the cost."""
    try:
        game = session.game(0)
    except KaratError:  # no patches
        return None, None
    if not game.n_visual or not game.n_text:
        return None, None
    before, began = session.cost.passes.made, perf_counter()
    session.ask([(game, synergy_question(game, range(game.n_visual), range(game.n_text)))])
    return session.cost.passes.made - before, perf_counter() - began
