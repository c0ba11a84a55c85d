"""Relevance propagation on explicit matrices, one sample, as R_j = Σ_k (share of j in k) R_k. No gradients anywhere.

The network: x0 (L, d) tokens; per layer x += W_o · attention(norm(x)); x += MLP(norm(x)); the score is
w · mean(norm(x)). Weights act on the right of rows: z = x W. Everything float64, no biases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import erf

Array = npt.NDArray[np.float64]


def linear(x: Array, w: Array, relevance: Array) -> Array:
    """LRP-0: R_j = Σ_k x_j w_jk / z_k R_k, row by row."""
    out = np.zeros_like(x)
    for row in range(len(x)):
        parts = x[row][:, None] * w
        out[row] = (parts / parts.sum(0) * relevance[row]).sum(1)
    return out


def gamma_linear(x: Array, w: Array, relevance: Array, gamma: float) -> Array:
    """R_j = Σ_k (c + γ c^±)_jk / Σ_j (c + γ c^±)_jk R_k, ± the sign of output k."""
    out = np.zeros_like(x)
    for row in range(len(x)):
        for k in range(w.shape[1]):
            c = x[row] * w[:, k]
            kept = np.maximum(c, 0) if c.sum() >= 0 else np.minimum(c, 0)
            share = c + gamma * kept
            out[row] += share / share.sum() * relevance[row, k]
    return out


def residual(a: Array, b: Array, relevance: Array) -> tuple[Array, Array]:
    """A sum: shares in proportion."""
    return a / (a + b) * relevance, b / (a + b) * relevance


def norm(x: Array, kind: str) -> tuple[Array, Array]:
    """The normed rows and the matrices that made them, deviation fixed: y = M x, one M per row."""
    d = x.shape[1]
    centre = np.eye(d) - (1 / d if kind == "layer" else 0)
    made = [centre / np.sqrt(((centre @ row) ** 2).mean() + 1e-5) for row in x]
    return np.stack([m @ row for m, row in zip(made, x, strict=True)]), np.stack(made)


def norm_back(x: Array, made: Array, relevance: Array) -> Array:
    return np.concatenate([linear(x[i : i + 1], made[i].T, relevance[i : i + 1]) for i in range(len(x))])


def softmax_back(scores: Array, s: Array, relevance: Array, hold: bool) -> Array:
    """attnlrp: R_i = x_i (R_i - s_i Σ_j R_j), row by row; cplrp: nothing goes on."""
    if hold:
        return np.zeros_like(scores)
    return scores * (relevance - s * relevance.sum(1, keepdims=True))


@dataclass
class Layer:
    q: Array
    k: Array
    v: Array
    o: Array
    gate: Array | None
    up: Array
    down: Array
    heads: int
    key_heads: int


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def propagate(x0: Array, layers: list[Layer], readout: Array, kind: str, hold: bool) -> tuple[float, Array, float]:
    """The score, the relevance of every token's every feature (L, d), and what the softmaxes lost."""
    x, kept = x0, []
    for layer in layers:
        memory: dict[str, Any] = {"x": x}
        h, memory["norm1"] = norm(x, kind)
        memory["h"], outs, memory["heads"] = h, [], []
        size, group = layer.q.shape[1] // layer.heads, layer.heads // layer.key_heads
        q, k, v = h @ layer.q, h @ layer.k, h @ layer.v
        memory["qkv"] = (q, k, v)
        for head in range(layer.heads):
            shared = head // group
            mine, theirs = slice(head * size, (head + 1) * size), slice(shared * size, (shared + 1) * size)
            scores = q[:, mine] @ k[:, theirs].T / np.sqrt(size)
            s = np.exp(scores - scores.max(1, keepdims=True))
            s /= s.sum(1, keepdims=True)
            outs.append(s @ v[:, theirs])
            memory["heads"].append((mine, theirs, scores, s))
        memory["mixed"] = np.concatenate(outs, 1)
        memory["attended"] = memory["mixed"] @ layer.o
        y = x + memory["attended"]
        memory["y"] = y
        memory["g"], memory["norm2"] = norm(y, kind)
        up = memory["g"] @ layer.up
        gate = None if layer.gate is None else memory["g"] @ layer.gate
        memory["inner"] = gelu(up) if gate is None else silu(gate) * up
        memory["mlp"] = memory["inner"] @ layer.down
        x = y + memory["mlp"]
        kept.append(memory)
    final, made = norm(x, kind)
    mean = final.mean(0)
    score = float(mean @ readout)

    relevance = mean * readout  # of the mean's features
    relevance = norm_back(x, made, final / final.sum(0) * relevance)
    lost = 0.0
    for layer, memory in zip(reversed(layers), reversed(kept), strict=True):
        to_y, to_mlp = residual(memory["y"], memory["mlp"], relevance)
        inner = linear(memory["inner"], layer.down, to_mlp)
        if layer.gate is None:
            to_g = linear(memory["g"], layer.up, inner)  # identity rule through the activation
        else:
            to_g = linear(memory["g"], layer.up, inner / 2) + linear(memory["g"], layer.gate, inner / 2)
        relevance = to_y + norm_back(memory["y"], memory["norm2"], to_g)
        to_x, to_attended = residual(memory["x"], memory["attended"], relevance)
        mixed = linear(memory["mixed"], layer.o, to_attended)
        q, k, v = memory["qkv"]
        to_q, to_k, to_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        size = layer.q.shape[1] // layer.heads
        for mine, theirs, scores, s in memory["heads"]:
            share = 1.0 if hold else 0.5
            to_s = np.zeros_like(s)
            for i in range(len(s)):
                for c in range(size):
                    parts = s[i] * v[:, theirs][:, c]  # o_ic = Σ_j s_ij v_jc
                    received = parts / parts.sum() * mixed[i, mine][c]
                    to_v[:, theirs][:, c] += share * received
                    to_s[i] += (1 - share) * received
            to_scores = softmax_back(scores, s, to_s, hold)
            lost += to_s.sum() - to_scores.sum()
            for i in range(len(s)):
                for j in range(len(s)):
                    parts = q[i, mine] * k[j, theirs]  # score_ij = Σ_c q_ic k_jc / sqrt(size)
                    received = parts / parts.sum() * to_scores[i, j] / 2
                    to_q[i, mine] += received
                    to_k[j, theirs] += received
        h = memory["h"]
        to_h = linear(h, layer.q, to_q) + linear(h, layer.k, to_k) + linear(h, layer.v, to_v)
        relevance = to_x + norm_back(memory["x"], memory["norm1"], to_h)
    return score, relevance, lost
