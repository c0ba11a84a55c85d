"""TAM and LLaVA-CAM as their papers write them: loops over places and tokens, arrays in, arrays out."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def rank_gaussian(image: Array) -> Array:
    """Sort each 3 × 3 window (mirrored edges); weights exp(-r² / 2σ²) around the median, σ = std / mean."""
    rows, columns = image.shape
    out = np.zeros_like(image)
    mirrored = [[abs(k) if k < size else 2 * (size - 1) - k for k in range(-1, size + 1)] for size in (rows, columns)]
    for y in range(rows):
        for x in range(columns):
            window = sorted(image[mirrored[0][y + dy], mirrored[1][x + dx]] for dy in range(3) for dx in range(3))
            mean = sum(window) / 9
            std = math.sqrt(sum((v - mean) ** 2 for v in window) / 9)
            if std == 0 or mean <= 0:
                out[y, x] = image[y, x]
                continue
            weights = [math.exp(-((k - 4) ** 2) / (2 * (std / mean) ** 2)) for k in range(9)]
            out[y, x] = sum(w * v for w, v in zip(weights, window, strict=True)) / sum(weights)
    return out


def tam(logits: Array, tokens: list[int], visual: list[int], earlier: list[int], target: int) -> tuple[Array, Array]:
    """Scores at the visual positions before the filter, and at the earlier text positions, in [0, 1] together.

    `logits` (L, vocabulary) of the whole sequence `tokens` (L,); `earlier` are positions of the question and of the
    answer before the target.
    """
    activation = np.array([max(logits[p, target], 0) for p in visual])
    text = [max(logits[p, target], 0) for p in earlier]
    interference, total = np.zeros(len(visual)), 0.0
    for p, weight in zip(earlier, text, strict=True):
        if tokens[p] == target:
            continue
        own = np.array([max(logits[v, tokens[p]], 0) for v in visual])
        interference += weight * own
        total += weight
    if total > 0 and (interference**2).sum() > 0:
        interference /= total
        s = (activation * interference).sum() / (interference**2).sum()
        activation = np.maximum(activation - s * interference, 0)
    both = np.concatenate([activation, text])
    both = (both - both.min()) / (both.max() - both.min())
    return both[: len(visual)], both[len(visual) :]


def llava_cam(states: Array, gradients: Array, visual: list[int], text: list[int]) -> tuple[Array, Array]:
    """One image. states, gradients (L, width): w_c = mean_v ReLU(g_vc); ReLU(mean_c h_c w_c) / max over the image,
    words likewise and not rectified; nothing where the image has nothing."""
    width = states.shape[1]
    weights = [sum(max(gradients[v, c], 0) for v in visual) / len(visual) for c in range(width)]

    def at(places: list[int]) -> Array:
        return np.array([sum(states[p, c] * weights[c] for c in range(width)) / width for p in places])

    image, words = np.maximum(at(visual), 0), at(text)
    if image.max() == 0:
        return np.zeros_like(image), np.zeros_like(words)
    return image / image.max(), words / image.max()
