"""One-sided rules: what the image alone, or the text alone, gives away about the answer.

A rule is a feature. It is as strong as the best answer per value of that feature, learnt on one half of the samples
and tested on the other, so a rule cannot score by fitting noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from karat.datasets.grid.executor import Codes, Places, Query
from karat.datasets.grid.world import World

Features = Mapping[str, npt.NDArray[np.int64]]


def image_features(codes: Codes, world: World) -> Features:
    """Image-only features of scenes (n, P): salience of each attribute, distinct attributes, largest groups, totals."""
    n = len(codes)
    rows = np.broadcast_to(np.arange(n)[:, None], codes.shape)[codes > 0]
    kind = codes[codes > 0].astype(np.int64) - 1
    classes = np.bincount(rows * world.n_classes + kind, minlength=n * world.n_classes).reshape(n, -1)
    table = classes.reshape(n, world.n_colours, world.n_shapes)
    groups = {"colour": table.sum(axis=2), "shape": table.sum(axis=1), "class": classes}
    names = {"colour": world.colours, "shape": world.shapes, "class": world.labels[1:]}
    features = {"number of objects": classes.sum(axis=1)}
    for group, counts in groups.items():
        features[f"distinct {group}s" if group != "class" else "distinct classes"] = (counts > 0).sum(axis=1)
        features[f"size of the largest {group}"] = counts.max(axis=1)
        features[f"which {group} is largest"] = counts.argmax(axis=1)
        for name, count in zip(names[group], counts.T, strict=True):
            features[f"salience of {name}"] = count
    return features


def text_features(queries: Sequence[Query], texts: Sequence[str]) -> Features:
    """Text-only features: the nouns, the directions, the length."""
    columns: dict[str, list[object]] = {
        "target": [query.clauses[0].noun for query in queries],
        "targets": [tuple(clause.noun for clause in query.clauses) for query in queries],
        "directions": [tuple(name for clause in q.clauses for name, _ in clause.constraints) for q in queries],
        "last word": [text.rsplit(" ", 1)[-1] for text in texts],
        "number of words": [text.count(" ") for text in texts],
    }
    anchors = [tuple(noun for clause in q.clauses for _, noun in clause.constraints) for q in queries]
    columns["first anchor"] = [names[:1] for names in anchors]
    return {name: _numbers(column) for name, column in columns.items()}


def _numbers(column: Sequence[object]) -> npt.NDArray[np.int64]:
    """Equal things get equal numbers; hashing keeps them equal across chunks of one process."""
    return np.array([hash(item) for item in column], dtype=np.int64)


def strength(feature: npt.NDArray[np.int64], answers: Places) -> float:
    """Accuracy of the best answer per feature value, learnt on even places and tested on odd ones.

    >>> import numpy as np
    >>> strength(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 7]))
    1.0
    """
    _, value = np.unique(feature, return_inverse=True)
    kinds, answer = np.unique(answers, return_inverse=True)
    learn, test = slice(0, None, 2), slice(1, None, 2)
    if len(answers) < 2:
        return float("nan")
    table = np.zeros((value.max() + 1, len(kinds)), dtype=np.int64)
    np.add.at(table, (value[learn], answer[learn]), 1)
    overall = np.bincount(answer[learn], minlength=len(kinds)).argmax()
    best = np.where(table.sum(axis=1) > 0, table.argmax(axis=1), overall)
    return float((best[value[test]] == answer[test]).mean())
