"""MultiViz, second order: how the image changes what each word does to the answer. Needs gradients of gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karat.explainers.to_attribution import WORDS, at_text, frame_of, over_image, reads_text, wide
from karat.kernel.attribution import Attribution
from karat.kernel.card import Card
from karat.kernel.constraints import checked
from karat.kernel.errors import CapabilityMissing
from karat.probe.request import PIXELS
from karat.probe.session import Session

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
@checked
class MultiViz:
    """g_w = sum over the tokens of word w of e · dy/de; the map is the sum over channels of |d(sum |g_w|)/dx|.

    With `pairs` the map of each word alone, |d g_w/dx|, is given too, at one more backward pass per word.
    """

    pairs: bool = True
    passes: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "interaction/multiviz",
        "where the image changes what the words do to the answer: a second-order gradient",
        "explainer",
        needs=frozenset({"gradients", "text"}),
        gives=frozenset({"visual", "words", "pairs"}),
        citation="Liang et al. 2023, MultiViz; gridvqax2026 A.3",
        departures="of the answer's own score (the public code adds up all logits, so it explains no answer in "
        "particular), over the words of the question (it takes special tokens too)",
        passes="1 (and one backward per word)",
        extra="vision",
    )

    def __call__(self, session: Session) -> list[Attribution]:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        from karat.probe.trace import trace

        model = session.torch_model
        if not reads_text(model):
            raise CapabilityMissing(self.card.name, ["text"], model.name, model.capabilities)
        layers, want = [PIXELS, WORDS], {"activations", "gradients"}
        with (
            sdpa_kernel(SDPBackend.MATH),  # fused kernels have no second derivative
            trace(model, session.inputs, session.targets, layers, want, (), create_graph=True) as recorded,
        ):
            session.cost.traces += 1
            embedded = at_text(session, recorded.activations[WORDS])
            slopes = at_text(session, recorded.gradients[WORDS])
            pixels = recorded.activations[PIXELS]
            assert embedded is not None
            assert slopes is not None
            tokens = (wide(embedded) * wide(slopes)).sum(-1)  # (n, T)
            effects = self._by_word(session, tokens)  # (n, most words)
            slope = _slope(effects.abs().sum(), pixels)
            by_word = [_slope(effects[:, w].sum(), pixels) for w in range(effects.shape[1])] if self.pairs else []
            session.cost.backwards += 2 + len(by_word)
            word_scores = effects.detach().abs().double().cpu().numpy()
            word_maps = torch.stack(by_word, dim=-1).float().cpu().numpy() if by_word else None
            maps = slope.double().cpu().numpy()
        made = []
        for i, sample in enumerate(session.samples):
            frame, words = frame_of(session, i), len(sample.words)
            pairs = None
            if word_maps is not None:
                on_image = [over_image(word_maps[i, :, :, w], frame, sample.size) for w in range(words)]
                pairs = np.stack([each.ravel() for each in on_image], axis=1)
            made.append(Attribution(over_image(maps[i], frame, sample.size), word_scores[i, :words], pairs, passes=1))
        return made

    @staticmethod
    def _by_word(session: Session, tokens: Tensor) -> Tensor:
        """(n, most words): tokens of a word added up; 0 beyond the words of a question."""
        import torch

        spans = session.inputs.words
        most = max(len(words) for words in spans)
        member = torch.zeros(len(spans), most, tokens.shape[1], dtype=tokens.dtype, device=tokens.device)
        for i, words in enumerate(spans):
            for w, (start, stop) in enumerate(words):
                member[i, w, start:stop] = 1
        return torch.einsum("nwt,nt->nw", member, tokens)


def _slope(total: Tensor, pixels: Tensor) -> Tensor:
    """(n, H, W): the sum over channels of |d total / d pixel|; zero where the total does not depend on the pixels."""
    import torch

    if not total.requires_grad:
        return torch.zeros_like(pixels[:, 0])
    [slope] = torch.autograd.grad(total, [pixels], retain_graph=True, allow_unused=True)
    return torch.zeros_like(pixels[:, 0]) if slope is None else slope.abs().sum(1).detach()
