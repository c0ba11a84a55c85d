"""`check_model`: what must hold for a model adapter before anything is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from karat.kernel.card import CAPABILITIES
from karat.kernel.roles import Model
from karat.kernel.sample import Sample
from karat.models.torch_model import TorchModel
from karat.testing.law import Law, card_laws, demand, tried, unlike
from karat.testing.traces_left import changed, surroundings
from karat.testing.worlds import spotlight

_CLOSE = 1e-4  # of a probability: other kernels for another batch size


def check_model(model: Any, samples: Sequence[Sample] | None = None) -> None:
    """Raise `Broken` (an AssertionError) that names every law the model breaks. Arguments as `model_laws`.

    Example:
        >>> from karat.datasets.grid import generate
        >>> from karat.models import load_model
        >>> check_model(load_model("gridprog.pure"), generate("D1_M_F0_d0.3", 2))
    """
    name = getattr(model, "label", None) or getattr(model, "name", None) or type(model).__name__
    demand(str(name), model_laws(model, samples))


def model_laws(model: Any, samples: Sequence[Sample] | None = None) -> list[Law]:
    """Every law of a model, or of a recipe (anything with `load`). A vision-language model has more: `vlm_laws`.

    Args:
        model: the model or recipe.
        samples: what it is asked (default: three small images with questions); its answers are its own.

    Returns:
        One law each, with what was compared and where it broke.

    Example:
        >>> all(law.holds for law in model_laws(spotlight().model))
        True
    """
    questions = spotlight().samples if samples is None else tuple(samples)
    laws: list[Law] = []
    if hasattr(model, "load"):
        recipe, model = model, model.load()
        laws = [*card_laws(recipe, "model"), tried("its recipe says what it loads", lambda: _recipe(recipe, model))]
    laws.append(tried("it says what it is", lambda: _nature(model)))
    if not laws[-1].holds:
        return laws
    try:
        answers = model.answer(questions)
    except Exception as error:  # anything may come out of code under test; it is the finding
        return [*laws, Law("it answers", False, f"{type(error).__name__}: {error}")]
    laws += [
        tried("one answer and one probability per sample", lambda: _shapes(model, questions, answers)),
        tried("a batch is its samples alone", lambda: _alone(model, questions, answers)),
        tried("asked twice it says the same", lambda: _twice(model, questions, answers)),
        tried("it reads the text only if it says so", lambda: _text(model, questions, answers)),
        tried("nothing is left behind", lambda: _leaves_nothing(model, questions, answers)),
    ]
    if "gradients" in model.capabilities:
        laws += [
            tried("it can be looked into", lambda: _inside(model)),
            tried("tensors in give the same probability", lambda: _tensors(model, questions, answers)),
            tried("its score can be differentiated", lambda: _differentiable(model, questions, answers)),
            tried("every word has its tokens", lambda: _words(model, questions)),
        ]
    return laws


def _recipe(recipe: Any, model: Model) -> str:
    if not (isinstance(recipe.revision, str) and recipe.revision == replace(recipe).revision):
        return f"revision must be a text that stays the same; got {recipe.revision!r}"
    missing = recipe.capabilities - model.capabilities
    return f"promises {', '.join(sorted(missing))}, which the loaded model does not offer" if missing else ""


def _nature(model: Any) -> str:
    if not isinstance(model, Model):
        return "a model needs name, capabilities, mechanism, answer(samples) and score(samples, answers)"
    if unknown := model.capabilities - set(CAPABILITIES):
        return f"capabilities {', '.join(sorted(unknown))} are unknown; there are {', '.join(CAPABILITIES)}"
    if (model.mechanism is not None) != ("mechanism" in model.capabilities):
        return f"mechanism {model.mechanism!r} and capabilities {sorted(model.capabilities)} contradict each other"
    return ""


def _shapes(model: Model, samples: Sequence[Sample], answers: Any) -> str:
    if not (isinstance(answers, list) and len(answers) == len(samples) and all(isinstance(a, str) for a in answers)):
        return f"answer() must give a list of {len(samples)} texts; got {answers!r:.80}"
    values = np.asarray(model.score(samples, answers))
    if values.shape != (len(samples),):
        return f"score() must give {len(samples)} numbers; got shape {values.shape}"
    if not (np.isfinite(values).all() and (values >= 0).all() and (values <= 1 + 1e-6).all()):
        return f"score() must give probabilities; got {values.tolist()}"
    return ""


def _alone(model: Model, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    single = [model.answer([sample])[0] for sample in samples]
    if single != list(answers):
        return f"answers {single} alone, {list(answers)} together"
    alone = [float(model.score([sample], [answer])[0]) for sample, answer in zip(samples, answers, strict=True)]
    return unlike(alone, model.score(samples, answers), _CLOSE)


def _twice(model: Model, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    return unlike(model.score(samples, answers), model.score(samples, answers), 0.0)


def _text(model: Model, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    if "text" in model.capabilities:
        return ""
    other = [replace(sample, text="something else entirely", phrases=(), mechanisms={}) for sample in samples]
    return unlike(model.score(other, answers), model.score(samples, answers), 0.0)


def _leaves_nothing(model: Model, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    before = surroundings(model, samples)
    model.answer(samples)
    model.score(samples, answers)
    return changed(before, surroundings(model, samples))


def _inside(model: Any) -> str:
    if not isinstance(model, TorchModel):
        return "a model with gradients needs what karat.models.torch_model.TorchModel lists"
    names = dict(model.module.named_modules())
    absent = [name for name in (*model.layers.values(), *model.attention_layers) if name not in names]
    if absent:
        return f"layers {absent[:3]} are not in its module"
    return "its module is in training mode" if model.module.training else ""


def _tensors(model: TorchModel, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    import torch

    with torch.no_grad():
        ours = model.log_probability(model.encode(samples), answers).exp().cpu().numpy()
    return unlike(ours, model.score(samples, answers), _CLOSE)


def _differentiable(model: TorchModel, samples: Sequence[Sample], answers: Sequence[str]) -> str:
    import torch

    inputs = model.encode(samples)
    pixels = inputs.pixels.detach().clone().requires_grad_()
    scores = model.readout(replace(inputs, pixels=pixels), answers)
    if scores.shape != (len(samples),):
        return f"readout() must give {len(samples)} scores; got shape {tuple(scores.shape)}"
    [gradient] = torch.autograd.grad(scores.sum(), [pixels])
    return "" if bool(torch.isfinite(gradient).all()) else "its gradient has NaN or inf"


def _words(model: TorchModel, samples: Sequence[Sample]) -> str:
    inputs = model.encode(samples)
    for sample, spans in zip(samples, inputs.words or ((),) * len(samples), strict=True):
        if inputs.words and len(spans) != len(sample.words):
            return f"{sample.id}: {len(spans)} token spans for {len(sample.words)} words"
    return ""
