"""Images with a shortcut planted in a few pixels, beside their clean twins (pixelrules2024)."""

from assay.datasets.shortcut.dataset import ShortcutDataset
from assay.datasets.shortcut.sample import ShortcutSample, planted
from assay.datasets.shortcut.shortcut import PRESETS, Shortcut, difference, preset

__all__ = ["PRESETS", "Shortcut", "ShortcutDataset", "ShortcutSample", "difference", "planted", "preset"]
