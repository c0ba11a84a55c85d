"""What the scores of protocol `synergy` say about themselves, and what their details hold."""

from __future__ import annotations

from typing import Literal

from karat.kernel.card import Card
from karat.metrics.synergy import CURVES

CITATION = "fsyn2026"
# What each detail holds, K numbers a name. That of `sii` ends with two counts more: the distinct coalitions that F_syn
# and the exact index asked for.
DETAILS: dict[str, tuple[str, ...]] = {
    "f_syn": (*CURVES, "syn_del", "syn_ins"),
    "srg_visual": ("insertion", "deletion"),
    "srg_text": ("insertion", "deletion"),
    "sii": ("sii",),
}

F_SYN = Card(
    "f_syn", "do the first features of image and text matter together? (synergistic faithfulness)", "metric",
    direction="higher", range=(-2.0, 2.0), floor="control/random", ceiling="control/oracle", citation=CITATION,
    departures="text players are words, not tokens; the oracle is a reference here, not a maximum",
    detail=DETAILS["f_syn"],
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
            floor="control/random", citation=CITATION, detail=DETAILS.get(f"{name}_{modality}", ()),
        )
        for modality, what in (("visual", "image"), ("text", "text"))
    )  # fmt: skip
    return image, text


SRG = _unimodal("srg", "insertion minus deletion", "higher", -1.0)
INSERTION = _unimodal("insertion", "the answer's probability as the first features come", "higher", 0.0)
DELETION = _unimodal("deletion", "the answer's probability as the first features go", "lower", 0.0)
