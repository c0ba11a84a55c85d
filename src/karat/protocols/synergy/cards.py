"""What the scores of protocol `synergy` say about themselves, and what their details hold."""

from __future__ import annotations

from typing import Literal

from karat.kernel.card import Card, Drawing
from karat.metrics.synergy import CURVES

CITATION = "fsyn2026"
# Details: curves (n, K) over the steps. Those of `sii` have two counts beside, `f_syn_passes` and `sii_passes`: the
# distinct coalitions that F_syn and the exact index asked for.
SYNERGY_CURVES = (*CURVES, "syn_del", "syn_ins")


def _curves(*names: str) -> tuple[tuple[str, Drawing], ...]:
    return tuple((name, "curve") for name in names)


F_SYN = Card(
    "f_syn", "do the first features of image and text matter together? (synergistic faithfulness)", "metric",
    direction="higher", range=(-2.0, 2.0), floor="control/random", ceiling="control/oracle", citation=CITATION,
    departures="text players are words, not tokens; the oracle is a reference here, not a maximum",
    draws=_curves(*SYNERGY_CURVES),
)  # fmt: skip
SII = Card(
    "sii", "the exact Shapley interaction of the first features of image and text, among six background players",
    "metric", direction="higher", range=(-2.0, 2.0), citation=CITATION,
)  # fmt: skip


def _unimodal(name: str, summary: str, better: Literal["higher", "lower"], low: float) -> tuple[Card, Card]:
    """The same score for the image and for the text."""
    image, text = (
        Card(
            f"{name}_{modality}", f"{summary}, {what} alone", "metric", direction=better, range=(low, 1.0),
            floor="control/random", citation=CITATION, draws=_curves("insertion", "deletion") if name == "srg" else (),
        )
        for modality, what in (("visual", "image"), ("text", "text"))
    )  # fmt: skip
    return image, text


SRG = _unimodal("srg", "insertion minus deletion", "higher", -1.0)
INSERTION = _unimodal("insertion", "the answer's probability as the first features come", "higher", 0.0)
DELETION = _unimodal("deletion", "the answer's probability as the first features go", "lower", 0.0)
