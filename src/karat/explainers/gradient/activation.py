"""Gradient times activation at inner layers: of one layer, and creg2026's contrast of the answer with a foil.

Where all that reads a state is a norm, the answer does not change with the state's length, so that by Euler's theorem
Σ_d g_d · h_d is 0: what is left is rounding, and looks like a map. That is so for hidden state -2 of every pre-norm
decoder (visual tokens reach the answer through the last block's norm alone), which creg2026 Eq. 7 reads, and for the
last vision layer of encoders whose output is normed (Qwen's, Gemma's). `signal` measures it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Le, MinLen

from karat.explainers.to_attribution import at_text, attributions, in_sequence, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import BadInput
from karat.kernel.target import TargetLike, instead
from karat.models.torch_model import ListsAnswers, ListsLabels, ScoresAnswers, TorchModel
from karat.probe.request import Request
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor

_ATTENTION = re.compile(r"att(entio)?n", re.IGNORECASE)
_NUMBERED = re.compile(r"(vision|decoder)\.\d+")
_NEEDS = frozenset({"gradients", "activations"})
_card = partial(Card, kind="explainer", needs=_NEEDS, gives=frozenset({"visual", "words"}), extra="vision")
SIGNAL = 1e-4  # of Σ|g · h|; in float32 rounding alone leaves less than 5e-6
_HALF = 0.125  # of the spacing of numbers in half precision: bfloat16 rounds to about 2e-4 of Σ|g · h|


@dataclass(frozen=True)
@checked
class GradXAct:
    """Σ_d g_d · h_d at every token or cell of one layer.

    Args:
        layer: a role ("decoder.signal") or a dotted name; by default "vision.signal" where the model's adapter names
            one, else "vision.last". A layer at which the sum is rounding (see `signal`) fails the sample.
    """

    layer: str | None = None
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = _card(
        "gradient/grad_x_act",
        "gradient times activation at one layer",
        citation="creg2026 Eq. 7, one layer",
        departures="sign kept; the paper takes the absolute value",
        passes="1",
        version=2,
    )

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, (self._layer(model),), ("activations", "gradients"), ())

    def __call__(self, session: Session) -> list[Attribution]:
        layer = self._layer(session.torch_model)
        trace = session.trace((layer,))
        states, slopes = trace.spatial(layer), trace.spatial(layer, "gradients")
        weak = ~is_signal(states, slopes)
        if bool(weak.any()):
            raise BadInput(_rounding(self.card.name, layer, float(signal(states, slopes)[weak][0])))
        tokens = None
        if in_sequence(session, trace, layer):
            tokens = at_text(session, wide(trace.activations[layer]) * wide(trace.gradients[layer]))
        maps = (wide(states) * wide(slopes)).sum(1)
        return attributions(session, maps, None if tokens is None else tokens.sum(-1), signed=True)

    def _layer(self, model: TorchModel) -> str:
        return self.layer or ("vision.signal" if "vision.signal" in model.layers else "vision.last")


@dataclass(frozen=True)
@checked
class ContrastiveGradXAct:
    """|Σ_d g_d · h_d| of the difference between the answer's score and that of its foil, over several layers.

    The foil is the strongest other answer (creg2026 calls it the rival).

    Args:
        layers: hidden states counted from the end, as in transformers: -1 is the model's output, so -2 is the state
            after the last block but one. Those that a shallow model does not have are left out, and so are, sample by
            sample, those at which the sum is rounding (see `signal`); a sample without any other fails.
        candidates: the answers among which the foil is found; by default all that the model can give, where it has a
            list of them, else the choices of the sample.
    """

    layers: Annotated[tuple[Annotated[int, Le(-2)], ...], MinLen(1)] = (-2, -3, -4, -5)
    candidates: tuple[str, ...] = ()
    card: ClassVar[Card] = _card(
        "gradient/contrastive_grad_x_act",
        "what speaks for the answer and against its strongest rival, over several layers",
        needs=_NEEDS | {"attention"},
        citation="creg2026 Eq. 7-9",
        departures="the layer weights of Eq. 8 come from visual tokens and serve words too: the paper has no words; "
        "layers whose sum is rounding (hidden state -2 of a pre-norm decoder) are left out",
        passes="2 + candidates",
        version=3,
    )

    def __post_init__(self) -> None:
        if len(self.candidates) == 1:
            raise BadInput(f"{self.card.name}: candidates are two or more, or none; got {self.candidates}.")

    @property
    def passes(self) -> int:
        """Two traces, and the scores of the candidates: in one pass where the model tables all its answers."""
        return 2 + (len(self.candidates) or 1)

    def traces(self, model: TorchModel) -> Request:
        return Request.of(model.layers, self._names(model), ("activations", "gradients"), ())

    def __call__(self, session: Session) -> list[Attribution]:
        names = self._names(session.torch_model)
        # The prompt's hidden states do not depend on the answer, so ∇(z_tgt - z_neg) is a difference of two gradients.
        others, passes = foils(session, self.candidates)
        of_foil = session.trace(names, targets=others)
        trace = session.trace(names)
        maps, tokens, heard = [], [], []
        for name in names:
            slope = trace.spatial(name, "gradients") - of_foil.spatial(name, "gradients")
            heard.append(is_signal(trace.spatial(name), slope))
            maps.append((wide(slope) * wide(trace.spatial(name))).sum(1).abs())  # creg2026 Eq. 7
            state = at_text(session, trace.activations[name])
            plus, minus = at_text(session, trace.gradients[name]), at_text(session, of_foil.gradients[name])
            if state is not None and plus is not None and minus is not None:
                tokens.append(((wide(plus) - wide(minus)) * wide(state)).sum(-1).abs())
        return attributions(session, *self._weighted(maps, tokens, heard), passes=2 + passes)

    def _names(self, model: TorchModel) -> list[str]:
        blocks = block_names(model)
        names = [blocks[k] for k in self.layers if -len(blocks) <= k]
        if not names:
            raise BadInput(
                f"{self.card.name}: of the hidden states {self.layers}, {model.name!r} has none; it has {len(blocks)} "
                f"blocks, so give layers from -2 to -{len(blocks)}."
            )
        return names

    def _weighted(
        self, maps: Sequence[Tensor], tokens: Sequence[Tensor], heard: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """creg2026 Eq. 8: softmax over layers of the largest relevance of each; `heard` (n,) of every layer says which
        samples it has a signal for."""
        import torch

        if len({tuple(each.shape) for each in maps}) > 1:
            sizes = ", ".join(f"{each.shape[1]}×{each.shape[2]}" for each in maps)
            raise BadInput(f"layers with grids of different sizes ({sizes}) cannot be added; name some of one size.")
        stacked, usable = torch.stack(list(maps), 1), torch.stack(list(heard), 1)  # (n, layers, h, w), (n, layers)
        if not bool(usable.any(1).all()):
            raise BadInput(_rounding(self.card.name, f"hidden states {self.layers}"))
        weights = stacked.amax((2, 3)).masked_fill(~usable, -torch.inf).softmax(1)
        words = (torch.stack(list(tokens), 1) * weights[..., None]).sum(1) if tokens else None
        return (stacked * weights[..., None, None]).sum(1), words


# ---- is it a signal?


def signal(states: Tensor, slopes: Tensor) -> Tensor:
    """How much of gradient times activation is left after adding up channels: Σ|Σ_d g·h| / Σ Σ_d |g·h|, sums over
    tokens or cells.

    Args:
        states: (n, d, h, w) activations, as `Trace.spatial` gives them.
        slopes: (n, d, h, w) gradients there.

    Returns:
        (n,) from 0 to 1, in float32 or wider; NaN where the answer does not depend on the layer at all.

    Example:
        >>> import torch
        >>> signal(torch.tensor([[[[1.0]], [[2.0]]]]), torch.tensor([[[[1.0]], [[-0.25]]]]))
        tensor([0.3333])
    """
    products = wide(states) * wide(slopes)
    return products.sum(1).abs().sum((1, 2)) / products.abs().sum((1, 2, 3))


def is_signal(states: Tensor, slopes: Tensor) -> Tensor:
    """(n,) whether it is more than rounding: `signal` of 1e-4 or more. Where the gradient is 0 there is a map of zeros,
    which is no rounding and is reported as what it is."""
    import torch

    rounding = _HALF * torch.finfo(states.dtype).eps if states.element_size() < 4 else 0.0
    return ~(signal(states, slopes) < max(SIGNAL, rounding))


def signal_by_layer(session: Session, layers: Sequence[str] = ()) -> dict[str, float]:
    """`signal` of every layer, the smallest of the session's samples: where does gradient times activation mean
    something?

    Args:
        session: samples put to a model that can be looked into.
        layers: roles or dotted names; by default all numbered roles of the model ("vision.0", "decoder.3").

    Returns:
        The ratio by layer, NaN for layers that the answer does not depend on.

    Example:
        >>> import karat
        >>> from karat.datasets.grid import generate
        >>> session = karat.probe.Session(karat.load_model("gridvlm.pure"), generate("D1_M_F0_d0.3", 2))
        >>> {name: ratio > SIGNAL for name, ratio in signal_by_layer(session, ["decoder.3", "decoder.4"]).items()}
        {'decoder.3': True, 'decoder.4': False}
    """
    roles = list(layers) or [name for name in session.torch_model.layers if _NUMBERED.fullmatch(name)]
    ratios = {}
    for name in roles:
        try:
            trace = session.trace((name,))
        except BadInput:  # nothing that is said depends on it
            ratios[name] = float("nan")
            continue
        ratios[name] = float(signal(trace.spatial(name), trace.spatial(name, "gradients")).min())
    return ratios


def _rounding(explainer: str, layer: str, ratio: float | None = None) -> str:
    measured = "" if ratio is None else f" ({ratio:.0e} of Σ|g · h|)"
    return (
        f"{explainer}: gradient times activation is rounding error at {layer}{measured}: what reads this state is a "
        "norm, so that the sum over channels is 0. Name an earlier layer (decoder.signal and vision.signal, where the "
        "model has them)."
    )


def block_names(model: TorchModel) -> list[str]:
    """The blocks around the attention layers, first to last: their outputs are the hidden states."""
    names = []
    for layer in model.attention_layers:
        parts = layer.split(".")
        while parts and _ATTENTION.search(parts[-1]):
            parts.pop()
        names.append(".".join(parts) or layer)
    return names


# ---- foils


def foils(session: Session, candidates: Sequence[str]) -> tuple[list[TargetLike], int]:
    """creg2026 Eq. 9: the highest-scoring candidate; where that is the target itself, the next one. A candidate stands
    in the target's place, in its context.

    And how many passes a sample it took to find out.
    """
    import torch

    from karat.probe.hooks import evaluating

    with torch.no_grad(), evaluating(session.torch_model.module):
        names, scores, passes = _candidate_scores(session, candidates)
    if len(names) < 2:
        raise BadInput(f"a contrast needs two candidates or more; got {', '.join(names) or 'none'}.")
    chosen: list[TargetLike] = []
    for target, row in zip(session.targets, scores, strict=True):
        order = [names[k] for k in row.argsort(descending=True, stable=True)[:2].tolist()]
        chosen.append(instead(target, order[1] if order[0] == str(target) else order[0]))
    return chosen, passes


def _candidate_scores(session: Session, candidates: Sequence[str]) -> tuple[list[str], Tensor, int]:
    """Candidates, their raw scores (n, candidates), and passes a sample. What is no choice of a sample scores -inf."""
    import torch

    model, inputs = session.torch_model, session.inputs
    answers = list(model.answers) if isinstance(model, ListsAnswers) else []
    if not candidates and isinstance(model, ScoresAnswers):
        table = model.logits(inputs)
        labels = list(model.labels or ()) if isinstance(model, ListsLabels) else []
        return answers or labels or [str(k) for k in range(table.shape[1])], table, 1
    names = list(candidates) or answers
    choices = [sample.choices for sample in session.samples]
    if not names and min(map(len, choices)) < 2:
        raise BadInput(
            f"{model.name!r} has no list of answers, and not all of its samples have two choices or more: name "
            "candidates, e.g. ('left', 'right')."
        )
    among = names or list(dict.fromkeys(choice for each in choices for choice in each))
    columns = [model.readout(inputs, [instead(target, name) for target in session.targets]) for name in among]
    table = torch.stack(columns, 1)
    if not names:
        allowed = torch.tensor([[name in each for name in among] for each in choices], device=table.device)
        table = table.masked_fill(~allowed, -torch.inf)
    return among, table, len(among)
