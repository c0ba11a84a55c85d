"""A captum object that takes two classes to build, as a user's package would name it."""

from __future__ import annotations

from typing import Any


def noisy(answered: Any) -> Any:
    from captum.attr import NoiseTunnel, Saliency

    return NoiseTunnel(Saliency(answered))
