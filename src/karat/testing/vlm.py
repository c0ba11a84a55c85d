"""`vlm_laws`: what must hold for a vision-language model of any architecture before its numbers are believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from karat.kernel.sample import Sample
from karat.kernel.target import Target
from karat.models.discovery.model import DiscoveredVLM
from karat.models.discovery.processing import Processing
from karat.models.vlm_adapter import VLM
from karat.probe.absence import Absence
from karat.probe.session import Session
from karat.testing.law import Law, tried
from karat.testing.vlm_variants import (
    can_be_adapted,
    can_be_copied,
    kernels,
    same_by_kernel,
    same_by_precision,
    same_merged,
)

_CELL = "a visual token is of its own cell of the image"
_KERNEL = "another attention kernel gives the same explanations"
_PRECISION = "bfloat16 and float32 give maps of the same ranks"
_ADAPTER = "an adapter merged is the adapter beside the weights"
AnyVLM = VLM | DiscoveredVLM
_CLOSE = 1e-3  # relative, of probabilities: float32 through other kernels, padding and reused states
_SPILT = 0.34  # of the movement of a token, that of its neighbour where cells are resized
_ROUNDED = 0.15  # of normalised pixels: some of 256 levels, where edges were sharpened by resizing


def vlm_laws(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str], only: Collection[str] = ()) -> list[Law]:
    """Every law, or `only` those named, on a few samples with questions. `answers` are any; the model's own need not be
    among them."""
    laws: dict[str, Callable[[AnyVLM, Sequence[Sample], Sequence[str]], str]] = {
        "its probability is that of the module's own forward": _own_probability,
        "its answer is what generate gives": _own_answer,
        "a batch is its samples alone": _batches,
        "masking nothing changes nothing": _no_mask,
        "masking a patch changes the pixels of that patch": _one_patch,
        "masking the image or the processed patches is the same": _image_or_patches,
        "masking words touches question tokens only": _words,
        _CELL: _cells,
        "the probability of a span is given what was said before it": _own_span,
        "a sample is the same among others of other sizes": _other_sizes,
        _KERNEL: same_by_kernel,
        _PRECISION: same_by_precision,
        _ADAPTER: same_merged,
    }
    # What a model says of itself that it has not: cells of its tokens; and what does not run here.
    opens = not isinstance(model, DiscoveredVLM) or model.family.level == "opens"
    there = {_CELL: opens, _PRECISION: can_be_copied(model), _ADAPTER: can_be_adapted(model)}
    return [
        tried(name, partial(law, model, samples, answers))
        for name, law in laws.items()
        if (not only or name in only) and there.get(name, True) and (name != _KERNEL or len(kernels(model.module)) > 1)
    ]


def _own_probability(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    expected = [
        math.exp(sum(_own_log_probabilities(model, sample, answer)))
        for sample, answer in zip(samples, answers, strict=True)
    ]
    return _compared(model.score(samples, answers), expected)


def _own_span(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """Of the last token of "yes, yes", by the module's own forward over all of it."""
    expected, targets = [], []
    for sample, answer in zip(samples, answers, strict=True):
        said = f"{answer}, {answer}"
        expected.append(math.exp(_own_log_probabilities(model, sample, said)[-1]))
        targets.append(Target.token(-1, said, model.token_spans(said)))
    return _compared(model.score(samples, targets), expected)


def _own_log_probabilities(model: AnyVLM, sample: Sample, answer: str) -> list[float]:
    """Of each token of an answer, by the module's own forward on what its processor makes."""
    import torch

    asked, whole = _prepared(model, sample), _prepared(model, sample, answer)
    start = asked["input_ids"].shape[1]
    spoken = whole["input_ids"][0, start:].tolist()
    decoder = isinstance(model, DiscoveredVLM) and model.family.saying == "decoder"
    if decoder or not torch.equal(whole["input_ids"][:, :start], asked["input_ids"]) or not spoken:
        # The processor ends prompts with tokens of its own: the answer comes after them.
        spoken = list(model.target_tokens(answer).numbers)
        whole = asked if decoder else _longer(asked, spoken)
    with torch.no_grad():
        if decoder:
            assert isinstance(model, DiscoveredVLM)
            begun = torch.tensor([[model.family.start, *spoken[:-1]]], device=whole["input_ids"].device)
            tables = _module(model)(**whole, decoder_input_ids=begun).logits[0].float().log_softmax(-1)
        elif isinstance(model, DiscoveredVLM) and model.family.saying == "singly":
            steps = [_module(model)(**_until(whole, start + k)).logits[0, -1] for k in range(len(spoken))]
            tables = torch.stack(steps).float().log_softmax(-1)
        else:
            logits = _module(model)(**whole).logits[0].float()
            tables = logits[-len(spoken) - 1 : -1].log_softmax(-1)
    return [float(tables[k, number]) for k, number in enumerate(spoken)]


def _until(given: dict[str, Any], length: int) -> dict[str, Any]:
    """Inputs whose tables by token end sooner."""
    whole = given["input_ids"].shape[1]
    return {k: v[:, :length] if v.ndim >= 2 and v.shape[:2] == (1, whole) else v for k, v in given.items()}


def _longer(given: dict[str, Any], numbers: Sequence[int]) -> dict[str, Any]:
    """Inputs with more tokens; tables by token go on with their last value."""
    import torch

    whole, more = given["input_ids"].shape[1], len(numbers)
    longer = {
        k: torch.cat([v, v[:, -1:].expand(-1, more, *v.shape[2:])], 1)
        if v.ndim >= 2 and v.shape[:2] == (1, whole)
        else v
        for k, v in given.items()
    }
    longer["input_ids"][0, whole:] = torch.tensor(numbers)
    return longer


def _own_answer(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    plain = replace(model, parameters=replace(model.parameters, options=()))
    for sample, ours in zip(samples, plain.answer(samples), strict=True):
        given = _prepared(model, sample)
        made = _module(model).generate(**given, max_new_tokens=model.parameters.max_new_tokens, do_sample=False)[0]
        start = 1 if _module(model).config.is_encoder_decoder else given["input_ids"].shape[1]
        theirs = model.processor.tokenizer.decode(made[start:], skip_special_tokens=True).strip()
        if ours != theirs:
            return f"{sample.id}: {ours!r}, generate says {theirs!r}"
    return ""


def _batches(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    alone = [float(model.score([sample], [answer])[0]) for sample, answer in zip(samples, answers, strict=True)]
    return _compared(model.score(samples, answers), alone)


def _other_sizes(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """The first sample beside a tall one, a small one, and another of its own size with a longer question."""
    sample, answer = samples[0], answers[0]
    height, width = sample.size
    others = [
        _resized(sample, 2 * height, width),
        _resized(sample, -(-height * 3 // 4), -(-width * 3 // 4)),
        replace(sample, image=np.ascontiguousarray(sample.image[::-1, ::-1]), text=f"{sample.text} {sample.text}"),
    ]
    mixed = model.score([*others, sample], [answer] * (len(others) + 1))
    return _compared(mixed, [float(model.score([each], [answer])[0]) for each in (*others, sample)])


def _no_mask(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    values = []
    for sample, answer in zip(samples, answers, strict=True):
        game = Session(model, [sample], [answer]).game(0)
        values.append(float(game.value(np.ones((1, game.n_visual), bool), np.ones((1, game.n_text), bool))[0]))
    return _compared(values, model.score(samples, answers))


def _one_patch(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    session = Session(model, [_native(model, samples[0])], answers[:1])
    game = session.game(0, absence=Absence(visual="black"))
    grid = model.layout(session.inputs).grid
    assert grid is not None
    mixed = session.masked_inputs(game)
    for player in {0, grid[1] - 1, grid[0] * grid[1] - 1}:
        keep = np.ones((1, game.n_visual), bool)
        keep[0, player] = False
        moved = (mixed.pixels(keep) != mixed.base.pixels).any(1)[0].cpu().numpy()
        row, column = divmod(player, grid[1])
        inside = np.zeros_like(moved)
        inside[_cell(row, grid[0], moved.shape[0]), _cell(column, grid[1], moved.shape[1])] = True
        if (moved & ~inside).any():
            return f"patch {player}: {int((moved & ~inside).sum())} pixels outside of it changed"
    return ""


def _image_or_patches(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """Of images that are masked before the processor, and of pixels that are masked after it.

    Processors that resize round to 256 levels. What that adds (`residue`, a thumbnail) is kept as it is of the
    unaltered image while patches are masked, so it is left as it was here too, and must be small by itself.
    """
    import torch

    session = Session(model, [_native(model, samples[0])], answers[:1])
    game = session.game(0, absence=Absence(visual="blur", radius=3))
    visual = np.random.default_rng(0).random((4, game.n_visual)) < 0.5
    altered = game.setting.altered(visual, np.ones((4, game.n_text), bool))
    by_image = model.encode(altered)
    added = {name: float(t.abs().max()) for name, t in by_image.other.items() if name.startswith("residue.")}
    if far := [f"{name} {most:.2g}" for name, most in added.items() if most > _ROUNDED]:
        return f"rounding to 256 levels adds up to {', '.join(far)} to normalised pixels, more than {_ROUNDED}"
    kept = {name: tensor.expand(4, *tensor.shape[1:]) for name, tensor in session.inputs.other.items()}
    with torch.no_grad():
        theirs = model.log_probability(replace(by_image, other=kept), list(answers[:1]) * 4).exp().cpu()
    return _compared(game.value(visual, np.ones((4, game.n_text), bool)), theirs)


def _words(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    for sample, answer in zip(samples, answers, strict=True):
        session = Session(model, [sample], [answer])
        game = session.game(0)
        masked, base = session.masked_inputs(game).texts(np.zeros((1, game.n_text), bool)), session.inputs
        assert base.tokens is not None
        assert masked.tokens is not None
        if any(bool((masked.other[name] != tensor).any()) for name, tensor in base.other.items()):
            return f"{sample.id}: tokens of the template changed"
        mine = {place for start, stop in base.words[0] for place in range(start, stop)}
        moved = set((masked.tokens != base.tokens)[0].nonzero()[:, 0].tolist())
        if moved - mine:
            return f"{sample.id}: tokens {sorted(moved - mine)} changed, which belong to no word"
    return ""


def _cells(model: AnyVLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """With the tower's attention silenced, and its convolutions left their own tiles, tokens mix nothing: a change in
    one cell moves one token."""
    import torch

    inputs = model.encode([_native(model, samples[0])])
    view = model.view(inputs)
    grid, order = view.grid, list(view.order)
    resized = any(name.startswith("residue.") for name in inputs.other)
    with torch.no_grad(), _without_mixing(model):
        before = model.features(inputs)[0, order]
        for row, column in {(0, 0), (0, grid[1] - 1), (grid[0] - 1, 0), (grid[0] // 2, grid[1] // 2)}:
            pixels = inputs.pixels.clone()
            cell = _inside(row, grid[0], pixels.shape[-2]), _inside(column, grid[1], pixels.shape[-1])
            pixels[..., cell[0], cell[1]] += 0.25 if resized else 1  # of levels from 0 to 1, or normalised
            after = model.features(replace(inputs, pixels=pixels))[0, order]
            change = (before - after).abs().amax(-1)
            # What a resizing processor lets over the border of a cell is little.
            moved = (change > max(1e-6, _SPILT * float(change.max()) * resized)).nonzero()[:, 0].tolist()
            if moved != [row * grid[1] + column]:
                return f"a change in cell ({row}, {column}) moved the tokens {moved[:5]} of a grid of {grid}"
    return ""


def _cell(k: int, count: int, size: int) -> slice:
    """Pixels of cell k of `count`, border pixels included."""
    return slice(k * size // count, -(-(k + 1) * size // count))


def _inside(k: int, count: int, size: int) -> slice:
    """Pixels that are of cell k alone."""
    first, stop = -(-k * size // count), (k + 1) * size // count
    return slice(first, stop) if first < stop else _cell(k, count, size)


@contextmanager
def _without_mixing(model: AnyVLM) -> Iterator[None]:
    from karat.models.discovery.mixing import OwnTiles, silenced
    from karat.models.structure import attention_modules, submodule

    names = attention_modules(submodule(model.module, model.vision))
    with silenced(model.module, [f"{model.vision}.{name}" for name in names]), OwnTiles():
        yield


def _native(model: AnyVLM, sample: Sample) -> Sample:
    """The sample with its image in the size of the model's pixels, so that nothing is resized."""
    height, width = model.encode([sample]).pixels.shape[-2:]
    return _resized(sample, height, width)


def _resized(sample: Sample, height: int, width: int) -> Sample:
    from PIL import Image as Pillow

    return replace(sample, image=np.array(Pillow.fromarray(sample.image).resize((width, height))), regions=())


def _prepared(model: AnyVLM, sample: Sample, said: str = "") -> dict[str, Any]:
    """One sample as the processor itself makes it."""
    text = Processing(model.processor, model.parameters.suffix).chat(sample.text or "", said)
    given = Processing(model.processor).call([sample.image], [text])
    example = next(model.module.parameters())
    return {
        name: tensor.to(example.device, example.dtype if tensor.is_floating_point() else tensor.dtype)
        for name, tensor in given.items()
        if hasattr(tensor, "to") and name != "labels"
    }


def _module(model: AnyVLM) -> Any:
    return model.module


def _compared(ours: Sequence[float] | Any, theirs: Sequence[float] | Any, within: float = _CLOSE) -> str:
    one, other = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    off = np.abs(one - other) > within * np.abs(other) + 1e-12
    if not off.any():
        return ""
    k = int(off.argmax())
    return f"value {k} is {one[k]:.6g}, expected {other[k]:.6g}"
