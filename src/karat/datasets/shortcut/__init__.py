"""Images with a shortcut planted in a few pixels, beside their clean twins (pixelrules2024)."""

from karat.datasets.shortcut.dataset import ShortcutDataset
from karat.datasets.shortcut.sample import ShortcutSample, planted
from karat.datasets.shortcut.shortcut import PRESETS, Shortcut, difference, preset

__all__ = ["PRESETS", "Shortcut", "ShortcutDataset", "ShortcutSample", "difference", "planted", "preset"]
