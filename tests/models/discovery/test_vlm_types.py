"""Small models of many types, each with its real processor, are found out to the level that the docs table says.

The whole table with every law is `python tools/vlm_types.py`; here a few types of every way of building, and the laws
that would notice a wrong prompt, batch or grid.
"""

from __future__ import annotations

from typing import Any

import pytest
import vlm_zoo

from karat.models.vlm import vlm
from karat.testing import vlm_laws

OPENS = (
    "vipllava",  # several layers of its tower
    "llava_next",  # tiles, a picture of the whole, and line ends
    "smolvlm",  # tiles with separators in the text
    "mistral3",  # patches merged, line ends
    "paligemma",  # the prompt is seen both ways: answers are run token by token
    "ovis2",  # visual words
    "deepseek_vl",  # padded to a square: cells of the padding are none
    "llama4",  # experts, a tile order of its own
    "lfm2_vl",  # convolutions beside attention
    "molmo2",  # patches counted on from image to image
    "minimax_m3_vl",  # images of one batch see each other: they are run one at a time
    "minicpmv4_6",  # merged twice
    "fast_vlm",  # a tower of convolutions that reach far
    "git",  # the image stands before a prompt that does not hold it
)
BELOW = {
    "mllama": ("differentiates", "cross_attn"),
    "blip": ("differentiates", "crossattention"),
    "idefics": ("asks", "takes no floats"),
    "idefics2": ("differentiates", "make no grid"),
    "blip-2": ("differentiates", "no visual token of 8 moves"),  # its processor writes the image tokens itself
    "florence2": ("differentiates", "a decoder of its own"),
}
LAWS = (
    "its probability is that of the module's own forward",
    "a batch is its samples alone",
    "a sample is the same among others of other sizes",
    "masking the image or the processed patches is the same",
    "masking nothing changes nothing",
    "a visual token is of its own cell of the image",
)


def built(kind: str) -> Any:
    return vlm(*vlm_zoo.make(kind), name=kind, family="discovered", max_new_tokens=3)


def broken(model: Any) -> dict[str, str]:
    laws = vlm_laws(model, *vlm_zoo.law_samples(model), only=LAWS)
    return {law.name: law.found for law in laws if not law.holds}


@pytest.mark.parametrize("kind", OPENS)
def test_opens(kind: str) -> None:
    model = built(kind)
    assert model.family.level == "opens", model.family.reasons
    assert model.family.passes <= 64
    assert broken(model) == {}


@pytest.mark.parametrize("kind", BELOW)
def test_below_and_why(kind: str) -> None:
    model = built(kind)
    level, reason = BELOW[kind]
    assert model.family.level == level
    assert any(reason in each for each in model.family.reasons)
    assert "attention" not in model.capabilities
    assert broken(model) == {}
