"""`discover`: finds out how a vision-language model is built, by looking at one forward and by probing.

Every probe has a name, and a failed one says what was seen. What cannot be had lowers the level and is kept as a
reason; what would make answers wrong is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from karat.kernel.errors import BadInput, KaratError
from karat.kernel.sample import Sample
from karat.models.discovery.cells import Movement, movement, view_of
from karat.models.discovery.discovered import Discovered, Parts, Sighting, key_of
from karat.models.discovery.forward import OwnForward
from karat.models.discovery.lens import Lens
from karat.models.discovery.mixing import OwnTiles, silenced
from karat.models.discovery.parts import parts, tower_attention, watch
from karat.models.discovery.processing import Processing
from karat.models.torch_model import Inputs

if TYPE_CHECKING:
    from karat.models.discovery.model import DiscoveredVLM
    from karat.models.vlm import VLMParameters

QUESTION, LONGER = "Is the red cup left of it?", "Is the red cup really to the left of the blue bottle?"
_SIDES = (56, 64, 112, 128, 224, 336, 448)
_CLOSE = 1e-3  # relative, of log-probabilities
_CELLS = 16  # 4 × 4


class _Stop(Exception):
    """The forward has gone far enough."""


def discover(module: nn.Module, processor: Any, name: str, given: VLMParameters) -> DiscoveredVLM:
    """A model with a family that was found out. Levels: see `Discovered`."""
    from karat.models.discovery.model import DiscoveredVLM

    if not getattr(getattr(processor, "tokenizer", None), "is_fast", False):
        raise BadInput(f"{type(processor).__name__}: a fast tokenizer is needed, which tells what a token covers.")
    processing = Processing(processor, given.suffix)
    _one_image(processing)
    side = _side(processing)
    _one_reading(processing, side)
    samples = [probe_sample(side, side, seed, QUESTION) for seed in (0, 1)]
    sized = [probe_sample(height, width, 0, QUESTION).image for height, width in _sizes(side)[1:]]
    lens = Lens.of(processing, [*(sample.image for sample in samples), *sized], QUESTION)
    config: Any = module.config
    encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    family = Discovered(
        model_type=str(config.model_type), level="asks", parts=Parts("", "", (), (), (), (), "", "", "", ""),
        lens=lens.kind, moving=lens.moving, along=lens.along, counting=lens.counting, padding="apart", reuse="no",
        saying="decoder" if encoder_decoder else "together", start=_start(config) if encoder_decoder else None,
        axes=1, image_first=False, shift=0,
    )  # fmt: skip
    model = DiscoveredVLM(module, processor, family, name, None, given)
    model = _asked(model, samples)
    model = _looked_into(model, samples)
    model = replace(model, family=replace(model.family, padding=_padding(model)))
    if model.family.saying != "decoder":
        model = _reusing(model, samples[0])
    return _differentiated(model, samples[0])


def probe_sample(height: int, width: int, seed: int, question: str) -> Sample:
    """Noise: every place of it differs from every other."""
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Sample(f"probe-{height}-{width}-{seed}", image, question)


def entering(model: DiscoveredVLM, inputs: Inputs) -> Tensor:
    """(n, length, width) what the first layer of the decoder gets; the forward goes no further."""
    return _captured(model, inputs, [(f"{model.family.parts.decoder_layers}.0", True)])[0]


def visual_positions(model: DiscoveredVLM, inputs: Inputs) -> list[int]:
    """Positions of the decoder's sequence whose states move when the image does."""
    one = replace(
        inputs, pixels=inputs.pixels[:1], tokens=inputs.tokens[:1] if inputs.tokens is not None else None,
        token_keep=None, other={k: v[:1] for k, v in inputs.other.items()}, reuse={},
    )  # fmt: skip
    noise = torch.rand(one.pixels.shape, generator=torch.Generator().manual_seed(0)).to(one.pixels)
    low, high = one.pixels.min(), one.pixels.max() + 1e-3
    with torch.no_grad():
        before, after = (entering(model, each) for each in (one, replace(one, pixels=low + noise * (high - low))))
    moved = (before - after)[0].abs().amax(-1)
    return (moved > 1e-6 * before.abs().max()).nonzero()[:, 0].tolist()


def measure(model: DiscoveredVLM, inputs: Inputs, passes: list[int]) -> Sighting:
    """Where the image tokens and the tower's patches lie for pixels of this size; `passes` gets the batched passes of
    each try."""
    positions = model.image_positions(inputs)
    found = model.family.parts
    tower = f"{found.vision_layers}.{_last(model.module, found.vision_layers)}" if found.vision_layers else ""
    first = replace(
        inputs, pixels=inputs.pixels[:1], tokens=None if inputs.tokens is None else inputs.tokens[:1],
        token_keep=None, other={k: v[:1] for k, v in inputs.other.items()}, reuse={},
    )  # fmt: skip
    held: dict[str, int] = {}

    def tokens(pixels: Tensor) -> Tensor:
        n = len(pixels)
        other = {k: v.expand(n, *v.shape[1:]) for k, v in first.other.items()}
        assert first.tokens is not None
        rows = replace(first, pixels=pixels, tokens=first.tokens.expand(n, -1), other=other)
        wanted = [*([(tower, False)] if tower else []), (f"{found.decoder_layers}.0", True)]
        *patches, states = _captured(model, rows, wanted)
        visual = states[:, positions].double()
        if not patches or patches[0].numel() % n or patches[0].ndim not in (2, 3):
            return visual
        if n == 1:
            model._run_shapes[key_of((pixels.shape[-2], pixels.shape[-1]))] = tuple(patches[0].shape[:-1])
        flat = patches[0].reshape(n, -1, patches[0].shape[-1]).double()
        held["patches"] = flat.shape[1]
        wide = max(flat.shape[-1], visual.shape[-1])
        return torch.cat([nn.functional.pad(t, (0, wide - t.shape[-1])) for t in (flat, visual)], 1)

    with torch.no_grad():
        most = tokens(first.pixels).shape[1]
    passes.append(1)
    strips = int(min(max(5 * np.sqrt(most), 24), 256))
    everything = tower_attention(model.module, found)
    inside = [name for name in everything if name.startswith(f"{found.vision_layers}.")]
    # What gathers a few patches by attention has cells too, which show if it is let run.
    # Convolutions that reach far show none, and are left their own tiles at last.
    ways: list[tuple[list[str], AbstractContextManager[Any]]]
    ways = [(everything, nullcontext()), *([(inside, nullcontext())] if inside != everything else [])]
    ways += [(quiet, OwnTiles()) for quiet, _ in ways]
    for k, (quiet, tiles) in enumerate(ways):
        try:
            with torch.no_grad(), silenced(model.module, quiet), tiles:
                moved = movement(first.pixels, strips, tokens)
            passes.append(moved.passes)
            count = held.get("patches", 0)
            view = view_of(_rows(moved, slice(count, None)))
        except (KaratError, RuntimeError):
            if k == len(ways) - 1:
                raise
            continue
        break
    patches = None
    if count:
        with suppress(KaratError):
            patches = view_of(_rows(moved, slice(count)), "patch")
    return Sighting(view, patches)


def _rows(moved: Movement, rows: slice) -> Movement:
    return replace(moved, down=moved.down[rows], across=moved.across[rows])


def next_position(model: DiscoveredVLM, sample: Sample) -> list[int]:
    """Where positions of text go on after what stands before the question, one number an axis."""
    plain = replace(model, family=replace(model.family, reuse="no"))
    with torch.no_grad():
        inputs = plain.encode([sample])
        places = _positions(plain, inputs)
    at = model.family.shift + inputs.other["before"].shape[1]
    return [int(axis[0, at]) for axis in places]


def _one_image(processing: Processing) -> None:
    """The chat template shows the question, and one image."""
    text = processing.chat("⁅?⁆")
    if "⁅?⁆" not in text:
        raise BadInput(f"probe 'template': the chat template eats the question; it gives {text!r}.")
    token = processing.image_token
    if token and text.count(token) > 1:
        raise BadInput(
            f"probe 'template': the prompt shows {text.count(token)} images, one is explained here; it gives {text!r}."
        )


def _one_reading(processing: Processing, side: int) -> None:
    """The question stands in the prompt and nowhere else: words hidden there are hidden."""
    image = np.zeros((side, side, 3), np.uint8)
    one, other = (processing.one(image, question).images for question in (QUESTION, LONGER))
    again = [name for name, tensor in one.items() if not torch.equal(tensor, other[name])]
    if again:
        raise BadInput(
            f"probe 'template': {type(processing.processor).__name__} shows the question a second time, as "
            f"{', '.join(again)}, where its words cannot be hidden."
        )


def _side(processing: Processing) -> int:
    """The smallest square image with at least 4 × 4 image tokens and room for strips of each."""
    fitting = []
    for side in _SIDES:
        try:
            tokens = processing.one(np.zeros((side, side, 3), np.uint8), QUESTION).tokens
        except KaratError:
            continue
        repeated = Counter(tokens).most_common(1)[0][1]  # the image token, where there is one
        fitting.append((repeated < _CELLS or side < 3 * np.sqrt(repeated), side))
    if not fitting:
        processing.one(np.zeros((224, 224, 3), np.uint8), QUESTION)  # says what is wrong
    return min(fitting)[1]


def _sizes(side: int) -> tuple[tuple[int, int], ...]:
    """Images that probes are made on: square, wide and tall."""
    return (side, side), (side, side * 2), (side * 2, side)


def _start(config: Any) -> int:
    text = config.get_text_config(decoder=True)
    for holder in (config, text, getattr(config, "text_config", None)):
        for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
            if isinstance(number := getattr(holder, name, None), int):
                return number
    return 0


def _asked(model: DiscoveredVLM, samples: list[Sample]) -> DiscoveredVLM:
    """Its forward takes what its processor makes; and whether tokens said later are seen by those before them."""
    forward, device = model.forward, next(model.module.parameters()).device
    answer = torch.tensor([[5, 6, 7]], device=device)
    try:
        with torch.no_grad():
            inputs = model.encode(samples[:1])
            logits = forward.logits(inputs, answer)
            changed = forward.logits(inputs, torch.tensor([[5, 9, 7]], device=device))
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, AssertionError) as error:
        raise BadInput(
            f"probe 'forward': {type(model.module).__name__} cannot run on what {type(model.processor).__name__} makes"
            f": {type(error).__name__}: {' '.join(str(error).split())[:200]}. Do processor and weights belong together?"
        ) from error
    if not bool(logits.isfinite().all()):
        raise BadInput(f"probe 'forward': the logits of {model.name} are NaN or infinite on a picture of noise.")
    with torch.no_grad():
        other = forward.logits(model.encode(samples[1:]), answer)
    if torch.equal(logits, other):
        raise BadInput(f"probe 'does the answer depend on the image': two images give {model.name} the same logits.")
    if _far(logits[:, :2], changed[:, :2]):
        model = replace(model, family=replace(model.family, saying="singly"))
    return model


def _looked_into(model: DiscoveredVLM, samples: list[Sample]) -> DiscoveredVLM:
    """Parts, positions and cells. What is not found is a reason."""
    inputs = model.encode(samples[:1])
    answer = torch.tensor([[5]], device=inputs.pixels.device)
    length = inputs.other["before"].shape[1] + inputs.other["after"].shape[1] + inputs.tokens.shape[1]  # type: ignore[union-attr]  # encoded
    if model.family.saying == "decoder":
        length = 1
    arguments = model.forward.arguments(inputs, answer)
    watched = watch(model.module, lambda: model.module(**arguments))
    found = parts(model.module, watched, length)
    family = replace(model.family, parts=found)
    if not found.decoder_layers:
        return _with(model, family, "no list of decoder layers runs over the whole sequence")
    if family.saying == "decoder":
        return _with(model, family, "its answers are said by a decoder of its own, which holds no visual tokens")
    model = replace(model, family=replace(family, shift=watched.runs[f"{found.decoder_layers}.0"].given[1] - length))
    try:
        positions = model.image_positions(inputs)
        if len(positions) < 4:
            seen = f"{len(positions)} positions of its decoder move with the image"
            cross = ", ".join(found.cross_attention[:2]) or "nothing that was seen"
            return _with(model, model.family, f"{seen}; the decoder sees it through {cross}")
        sightings, passes = _sightings(model, samples[0].size[0])
    except (KaratError, RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        return _with(model, model.family, " ".join(str(error).split())[:300])
    before = inputs.other["before"].shape[1]
    first = all(position < model.family.shift + before for position in positions)
    grids = {sighting.tokens.grid for sighting in sightings.values() if sighting.tokens is not None}
    family = replace(
        model.family, level="opens", image_first=first, sightings=sightings, same_grid=len(grids) == 1, passes=passes
    )
    if found.without_attention:
        listed = ", ".join(found.without_attention[:3])
        lacking = f"{len(found.without_attention)} of its decoder layers have no attention maps ({listed}...)"
        family = replace(family, reasons=(*family.reasons, lacking))
    if not found.attention_layers:
        family = replace(
            family, level="asks", reasons=(*family.reasons, "no layer of the decoder forms attention maps")
        )
    return replace(model, family=family)


def _sightings(model: DiscoveredVLM, side: int) -> tuple[dict[str, Sighting], int]:
    """Measured on a square, a wide and a tall image; on larger ones, where small ones are shown twice at one scale."""
    passes: list[int] = []
    for scale in (1, 2):
        sightings: dict[str, Sighting] = {}
        try:
            for height, width in _sizes(side * scale):
                sized = model.encode([probe_sample(height, width, 0, QUESTION)])
                key = key_of((sized.pixels.shape[-2], sized.pixels.shape[-1]))
                if key not in sightings:
                    sightings[key] = measure(model, sized, passes)
        except KaratError:
            if scale == 2:
                raise
        else:
            break
    return sightings, sum(passes)


def _with(model: DiscoveredVLM, family: Discovered, reason: str) -> DiscoveredVLM:
    return replace(model, family=replace(family, reasons=(*family.reasons, reason)))


def _differentiated(model: DiscoveredVLM, sample: Sample) -> DiscoveredVLM:
    """Whether gradients reach pixels and embeddings."""
    family = model.family
    reason = ""
    if family.lens == "exact":
        reason = f"no gradient passes {type(model.processor.image_processor).__name__}, whose code takes no floats"
    elif not family.parts.words:
        reason = "its word embeddings do not run once a forward, so no gradient of words can be read"
    else:
        inputs = model.encode([sample])
        pixels = inputs.pixels.clone().requires_grad_()
        try:
            score = model.readout(replace(inputs, pixels=pixels), ["yes"]).sum()
            [slope] = torch.autograd.grad(score, pixels)
            if not bool(slope.abs().sum() > 0) or not bool(slope.isfinite().all()):
                reason = "the gradient of its score with respect to pixels is zero or not finite"
        except (RuntimeError, ValueError, TypeError, KaratError) as error:
            reason = f"no gradient reaches the pixels: {' '.join(str(error).split())[:200]}"
    if reason:
        return _with(model, replace(family, level="asks"), reason)
    return model if family.level == "opens" else replace(model, family=replace(family, level="differentiates"))


def _padding(model: DiscoveredVLM) -> Any:
    """How several questions can be run beside each other so that it changes nothing."""
    short, other, long = (probe_sample(64, 64, k, text) for k, text in enumerate((QUESTION, QUESTION, LONGER)))
    answer = torch.tensor([[5, 6]] * 2, device=next(model.module.parameters()).device)
    with torch.no_grad():
        alone, beside = (model.forward.logits(model.encode([each]), answer[:1]) for each in (short, other))
        if _far(model.forward.logits(model.encode([short, other]), answer), torch.cat([alone, beside])):
            return "alone"
        both = model.encode([short, long])
        for way in ("masked", "counted"):
            forward: OwnForward = replace(model.forward, padding=way)
            if way == "counted" and "position_ids" not in forward.takes:
                continue
            try:
                if not _far(forward.logits(both, answer)[:1], alone):
                    return way
            except (RuntimeError, ValueError, TypeError, IndexError):
                continue
    return "apart"


def _reusing(model: DiscoveredVLM, sample: Sample) -> DiscoveredVLM:
    """Whether keys and values of what precedes the question can be kept while the question changes."""
    if not model.family.image_first or model.family.saying == "singly" or "past_key_values" not in model.forward.takes:
        return model
    answer = torch.tensor([[5, 6]], device=next(model.module.parameters()).device)
    other = replace(sample, text=QUESTION.replace("red", "blue"))
    for way in ("tables", "keys"):
        tried = replace(model, family=replace(model.family, reuse=way))
        try:
            with torch.no_grad():
                inputs = tried.encode([sample])
                kept = tried.reuse_image(inputs).reuse
                again = tried.encode([other])
                ours = tried.forward.logits(replace(again, reuse=kept), answer)
                theirs = tried.forward.logits(again, answer)
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, KaratError):
            continue
        if not _far(ours, theirs):
            return tried
    return model


def _far(one: Tensor, other: Tensor) -> bool:
    a, b = one.log_softmax(-1), other.log_softmax(-1)
    return bool(((a - b).abs() > _CLOSE * b.abs().clamp(min=1)).any())


def _last(module: nn.Module, layers: str) -> int:
    blocks: Any = module.get_submodule(layers)
    return len(blocks) - 1


def _captured(model: DiscoveredVLM, inputs: Inputs, wanted: list[tuple[str, bool]]) -> list[Tensor]:
    """What enters (True) or leaves a module, of several in the order in which they run; then the forward stops."""
    kept: dict[str, Tensor] = {}
    last = wanted[-1][0]

    def enter(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, kwargs: Any) -> None:
            kept[name] = args[0] if args else kwargs["hidden_states"]
            if name == last:
                raise _Stop

        return hook

    def leave(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            kept[name] = output[0] if isinstance(output, tuple | list) else output

        return hook

    answer = torch.zeros(len(inputs.pixels), 1, dtype=torch.long, device=inputs.pixels.device)
    with ExitStack() as stack:
        for name, entry in wanted:
            part = model.module.get_submodule(name)
            hook = (
                part.register_forward_pre_hook(enter(name), with_kwargs=True)
                if entry
                else part.register_forward_hook(leave(name))
            )
            stack.callback(hook.remove)
        stack.enter_context(suppress(_Stop))
        model.forward.logits(inputs, answer)
    return [kept[name] for name, _ in wanted]


def _positions(model: DiscoveredVLM, inputs: Inputs) -> list[Tensor]:
    """(n, L) positions that the decoder is given, one an axis."""
    kept: list[Any] = []
    decoder = model.module.get_submodule(model.family.parts.decoder)
    hook = decoder.register_forward_pre_hook(
        lambda _, args, kwargs: kept.append(kwargs.get("position_ids")), with_kwargs=True
    )
    answer = torch.zeros(len(inputs.pixels), 1, dtype=torch.long, device=inputs.pixels.device)
    try:
        model.forward.logits(inputs, answer)
    finally:
        hook.remove()
    given = kept[0] if kept else None
    if given is None:
        length = model.family.shift + sum(inputs.other[name].shape[1] for name in ("before", "after"))
        length += 0 if inputs.tokens is None else inputs.tokens.shape[1]
        return [torch.arange(length, device=inputs.pixels.device)[None].expand(len(inputs.pixels), -1)]
    return [given] if given.ndim == 2 else list(given.unbind(0))
