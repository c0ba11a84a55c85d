"""`vlm_laws`: what must hold for a vision-language model of any architecture before its numbers are believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.kernel.sample import Sample
from karat.kernel.target import Target
from karat.models.vlm_adapter import VLM
from karat.probe.absence import Absence
from karat.probe.session import Session
from karat.testing.law import Law, tried

if TYPE_CHECKING:
    from torch import Tensor

_CLOSE = 1e-3  # relative, of probabilities: float32 through other kernels, padding and reused states
_ROUNDED = 0.05  # where a thumbnail is downscaled to 256 levels by the processor, and without rounding here


def vlm_laws(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> list[Law]:
    """Every law on a few samples with questions. `answers` are any; the model's own need not be among them."""
    laws: dict[str, Callable[[VLM, Sequence[Sample], Sequence[str]], str]] = {
        "its probability is that of the module's own forward": _own_probability,
        "its answer is what generate gives": _own_answer,
        "a batch is its samples alone": _batches,
        "masking nothing changes nothing": _no_mask,
        "masking a patch changes the pixels of that patch": _one_patch,
        "masking the image or the processed patches is the same": _image_or_patches,
        "masking words touches question tokens only": _words,
        "a visual token is of its own cell of the image": _cells,
        "the probability of a span is given what was said before it": _own_span,
    }
    return [tried(name, partial(law, model, samples, answers)) for name, law in laws.items()]


def _own_probability(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    import torch

    expected = []
    for sample, answer in zip(samples, answers, strict=True):
        asked, whole = _prepared(model, sample), _prepared(model, sample, answer)
        start = asked["input_ids"].shape[1]
        with torch.no_grad():
            table = _module(model)(**whole).logits[0].float().log_softmax(-1)
        said = whole["input_ids"][0, start:].tolist()
        expected.append(math.exp(sum(float(table[start - 1 + k, number]) for k, number in enumerate(said))))
    return _compared(model.score(samples, answers), expected)


def _own_span(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """Of the last token of "yes, yes", by the module's own forward over all of it."""
    import torch

    expected, targets = [], []
    for sample, answer in zip(samples, answers, strict=True):
        said = f"{answer}, {answer}"
        whole = _prepared(model, sample, said)
        with torch.no_grad():
            table = _module(model)(**whole).logits[0].float().log_softmax(-1)
        expected.append(math.exp(float(table[-2, int(whole["input_ids"][0, -1])])))
        targets.append(Target.token(-1, said, model.token_spans(said)))
    return _compared(model.score(samples, targets), expected)


def _own_answer(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    plain = replace(model, parameters=replace(model.parameters, options=()))
    for sample, ours in zip(samples, plain.answer(samples), strict=True):
        given = _prepared(model, sample)
        made = _module(model).generate(**given, max_new_tokens=model.parameters.max_new_tokens, do_sample=False)[0]
        theirs = model.processor.tokenizer.decode(made[given["input_ids"].shape[1] :], skip_special_tokens=True).strip()
        if ours != theirs:
            return f"{sample.id}: {ours!r}, generate says {theirs!r}"
    return ""


def _batches(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    alone = [float(model.score([sample], [answer])[0]) for sample, answer in zip(samples, answers, strict=True)]
    return _compared(model.score(samples, answers), alone)


def _no_mask(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    values = []
    for sample, answer in zip(samples, answers, strict=True):
        game = Session(model, [sample], [answer]).game(0)
        values.append(float(game.value(np.ones((1, game.n_visual), bool), np.ones((1, game.n_text), bool))[0]))
    return _compared(values, model.score(samples, answers))


def _one_patch(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    session = Session(model, [_native(model, samples[0])], answers[:1])
    game = session.game(0, absence=Absence(visual="black"))
    grid = model.layout(session.inputs).grid
    assert grid is not None
    mixed = session.masked_inputs(game)
    for player in {0, grid[1] - 1, grid[0] * grid[1] - 1}:
        keep = np.ones((1, game.n_visual), bool)
        keep[0, player] = False
        moved = (mixed.pixels(keep) != mixed.base.pixels).any(1)[0].cpu().numpy()
        tall, wide = moved.shape[0] // grid[0], moved.shape[1] // grid[1]
        row, column = divmod(player, grid[1])
        inside = np.zeros_like(moved)
        inside[row * tall : (row + 1) * tall, column * wide : (column + 1) * wide] = True
        if (moved & ~inside).any():
            return f"patch {player}: {int((moved & ~inside).sum())} pixels outside of it changed"
    return ""


def _image_or_patches(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    session = Session(model, [_native(model, samples[0])], answers[:1])
    game = session.game(0, absence=Absence(visual="blur", radius=3))
    visual = np.random.default_rng(0).random((4, game.n_visual)) < 0.5
    text = np.ones((4, game.n_text), bool)
    altered = game.setting.altered(visual, text)
    rounded = "thumbnail" in model.encode(altered[:1]).other
    return _compared(
        game.value(visual, text), model.score(altered, list(answers[:1]) * 4), _ROUNDED if rounded else _CLOSE
    )


def _words(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
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


def _cells(model: VLM, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    """With the tower's attention silenced, tokens mix nothing: a change in one cell moves one token."""
    import torch

    inputs = model.encode([_native(model, samples[0])])
    grid = model.layout(inputs).grid
    assert grid is not None
    sight = model.family.sight
    order = list(sight.view(model.module, (inputs.pixels.shape[-2], inputs.pixels.shape[-1])).order)
    tall, wide = inputs.pixels.shape[-2] // grid[0], inputs.pixels.shape[-1] // grid[1]
    with torch.no_grad(), _without_attention(model):
        before = sight.features(model.module, inputs.pixels, inputs.other)["features"][0, order]
        for row, column in {(0, 0), (0, grid[1] - 1), (grid[0] - 1, 0), (grid[0] // 2, grid[1] // 2)}:
            pixels = inputs.pixels.clone()
            pixels[..., row * tall : (row + 1) * tall, column * wide : (column + 1) * wide] += 1
            after = sight.features(model.module, pixels, inputs.other)["features"][0, order]
            moved = ((before - after).abs().amax(-1) > 1e-6).nonzero()[:, 0].tolist()
            if moved != [row * grid[1] + column]:
                return f"a change in cell ({row}, {column}) moved the tokens {moved[:5]} of a grid of {grid}"
    return ""


@contextmanager
def _without_attention(model: VLM) -> Iterator[None]:
    from karat.explainers.patched_forward import patched_forward
    from karat.models.structure import attention_modules, submodule

    def nothing(output: Tensor) -> Tensor:
        return output * 0

    with ExitStack() as stack:
        for name in attention_modules(submodule(model.module, model.vision)):
            stack.enter_context(patched_forward(model.module, f"{model.vision}.{name}", nothing))
        yield


def _native(model: VLM, sample: Sample) -> Sample:
    """The sample with its image in the size of the model's pixels, so that nothing is resized."""
    from PIL import Image as Pillow

    height, width = model.encode([sample]).pixels.shape[-2:]
    return replace(sample, image=np.array(Pillow.fromarray(sample.image).resize((width, height))), regions=())


def _prepared(model: VLM, sample: Sample, said: str = "") -> dict[str, Any]:
    """One sample as the processor itself makes it."""
    content = [{"type": "image"}, {"type": "text", "text": (sample.text or "") + model.parameters.suffix}]
    chat = model.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    gap = " " if said and not chat[-1].isspace() else ""
    given = model.processor(images=[sample.image], text=[chat + gap + said], return_tensors="pt")
    example = next(model.module.parameters())
    return {
        name: tensor.to(example.device, example.dtype if tensor.is_floating_point() else tensor.dtype)
        for name, tensor in given.items()
    }


def _module(model: VLM) -> Any:
    return model.module


def _compared(ours: Sequence[float] | Any, theirs: Sequence[float] | Any, within: float = _CLOSE) -> str:
    one, other = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    off = np.abs(one - other) > within * np.abs(other) + 1e-12
    if not off.any():
        return ""
    k = int(off.argmax())
    return f"value {k} is {one[k]:.6g}, expected {other[k]:.6g}"
