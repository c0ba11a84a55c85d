"""Attention rules as their papers write them: whole matrices, explicit loops, nothing shared with the package.

`A[l]` and `G[l]` are (heads, L, L): attention of layer l and the gradient of the score with respect to it, one sample.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def fuse_heads(weights: Array, how: str) -> Array:
    return {"mean": np.mean, "max": np.max, "min": np.min}[how](weights, axis=0)


def thin(matrix: Array, pairs: npt.NDArray[np.bool_], ratio: float, guard: int | None) -> Array:
    """Everything not above the k-th smallest value is dropped, k = floor(ratio · number of pairs)."""
    values = sorted(matrix[i, j] for i in range(len(matrix)) for j in range(len(matrix)) if pairs[i, j])
    count = int(ratio * len(values))
    out = matrix.copy()
    if count:
        limit = values[count - 1]
        for i in range(len(matrix)):
            for j in range(len(matrix)):
                if pairs[i, j] and matrix[i, j] <= limit and not (i == j == guard):
                    out[i, j] = 0.0
    return out


def rollout(matrices: list[Array]) -> Array:
    """Ã_l = (W_l + I) with rows that sum to 1; the product Ã_B ··· Ã_1. Abnar and Zuidema 2020, Eq. 1."""
    product = np.eye(len(matrices[0]))
    for matrix in matrices:
        mixed = matrix + np.eye(len(matrix))
        product = (mixed / mixed.sum(axis=1, keepdims=True)) @ product
    return product


def released_rollout(matrices: list[Array]) -> Array:
    """vit-explain: a = (W + I) / 2; a / a.sum(-1) broadcasts the row sums over the columns."""
    product = np.eye(len(matrices[0]))
    for matrix in matrices:
        mixed = (matrix + np.eye(len(matrix))) / 2
        product = (mixed / mixed.sum(axis=1)) @ product
    return product


def chefer(attention: list[Array], gradients: list[Array]) -> Array:
    """R = I; R <- R + E_h (A ∘ G)^+ R. Chefer et al. 2021 (generic), Eq. 5-6."""
    relevance = np.eye(attention[0].shape[-1])
    for weights, slopes in zip(attention, gradients, strict=True):
        fused = np.zeros_like(relevance)
        for head in range(len(weights)):
            fused += np.maximum(weights[head] * slopes[head], 0) / len(weights)
        relevance = relevance + fused @ relevance
    return relevance


def gradient_fused(attention: list[Array], gradients: list[Array]) -> list[Array]:
    """(E_h A ∘ G)^+, as gradient attention rollout has it."""
    return [np.maximum((a * g).mean(axis=0), 0) for a, g in zip(attention, gradients, strict=True)]


def daam(attention: list[Array], values: list[Array], output_gradients: list[Array], answer: int) -> Array:
    """Σ_l ReLU(Σ_c w_c a_j v_jc), w = ReLU(dy/dO) at the answer. values, output_gradients (heads, L, width)."""
    length = attention[0].shape[-1]
    total = np.zeros(length)
    for weights, value, slope in zip(attention, values, output_gradients, strict=True):
        for j in range(length):
            score = 0.0
            for head in range(len(weights)):
                for c in range(value.shape[-1]):
                    score += max(slope[head, answer, c], 0.0) * weights[head, answer, j] * value[head, j, c]
            total[j] += max(score, 0.0)
    return total


def bimodal(steps: list[tuple[str, str, Array]], n_image: int, n_text: int) -> dict[str, Array]:
    """Chefer et al. 2021 (generic), Eq. 1-11, over (what, stream, fused map), with every R by its own name."""
    r_ii, r_tt = np.eye(n_image), np.eye(n_text)
    r_it, r_ti = np.zeros((n_image, n_text)), np.zeros((n_text, n_image))

    def bar(r: Array) -> Array:
        hat = r - np.eye(len(r))
        for row in hat:
            if row.sum() > 0:
                row /= row.sum()
        return hat + np.eye(len(r))

    for what, stream, a in steps:
        if what == "self" and stream == "image":
            r_ii, r_it = r_ii + a @ r_ii, r_it + a @ r_it
        elif what == "self":
            r_tt, r_ti = r_tt + a @ r_tt, r_ti + a @ r_ti
        elif stream == "image":
            r_it, r_ii = r_it + bar(r_ii).T @ a @ bar(r_tt), r_ii + a @ r_ti
        else:
            r_ti, r_tt = r_ti + bar(r_tt).T @ a @ bar(r_ii), r_tt + a @ r_it
    return {"image": r_ii, "text": r_tt, "image_text": r_it, "text_image": r_ti}
