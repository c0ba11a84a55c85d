"""`assay paper 003`: what SemScore claims, beside what a run shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from assay.kernel.claim import Claim, Comparison
from assay.kernel.finding import Finding
from assay.kernel.identity import generator
from assay.kernel.typing import Scalar
from assay.protocols.published import Table, load
from assay.protocols.semantic import judging
from assay.protocols.semantic.levels import per_image, predictions
from assay.statistics import bootstrap_mean

if TYPE_CHECKING:
    from assay.results.run import Run

METHODS = {
    "GradCAM": "cam/gradcam", "GradCAM++": "cam/gradcam_pp", "ScoreCAM": "cam/scorecam", "LayerCAM": "cam/layercam",
    "EigenCAM": "cam/eigencam", "EigenGradCAM": "cam/eigengradcam", "AblationCAM": "cam/ablationcam",
    "XGradCAM": "cam/xgradcam", "FullGrad": "gradient/fullgrad", "DAAM": "attention/daam", "GAR": "attention/gar",
    "Attention Rollout": "attention/rollout",
}  # fmt: skip
OUT_OF_DOMAIN = ("clip-rsicd", "quiltnet", "plip", "fashionclip", "pubmedclip")
_TABLES = ("Table 1", "Table 2", "Table 3", "Table 4")


def compare(run: Run) -> Comparison:
    """Claims that need models the run does not have are "cannot tell": run the spec that is named with them."""
    rows = predictions(run)
    published = load("semantic").tables
    images = per_image(rows).assign(method=lambda frame: [name.partition("(")[0] for name in frame["explainer"]])
    groups: Sequence[Callable[[], Claim]] = (
        lambda: judging.lowest(images, published["Table 1"], METHODS, ("flexivit-base", "convit-small"), "section 4.1",
                               "FlexiViT and ConViT have the lowest SSS under most methods", "semantic-classifiers"),
        lambda: judging.highest(images, published["Table 1"], METHODS, ("swin-base", "hiera-base-plus"), "section 4.1",
                                "Swin and Hiera have the highest SSS under most methods", "semantic-classifiers"),
        lambda: judging.lowest(images, published["Table 2"], METHODS, ("ssd300",), "section 4.2",
                               "SSD300 has the lowest SSS of all detectors", "semantic-detectors"),
        lambda: judging.higher(images, published["Table 3"], METHODS, OUT_OF_DOMAIN, "section 4.3",
                               "CLIPs trained for other domains score worse on photographs (falsification test)",
                               "semantic-falsification"),
        lambda: judging.higher(images, published["Table 4"], METHODS, ("deit-base",), "section 4.4",
                               "DeiT Tiny and Small are less spurious than DeiT Base",
                               "semantic-attention", ("deit-tiny", "deit-small")),
        lambda: judging.methods_differ(images),
        lambda: judging.orthogonal(rows),
        lambda: judging.hidden_flaws(rows),
        lambda: judging.right_place_wrong_answer(rows),
        lambda: judging.threshold_helps(run),
        lambda: judging.similar_classes(rows),
    )  # fmt: skip
    return Comparison(tuple(claim() for claim in groups), tuple(_beside(published[t], images) for t in _TABLES))


def _beside(table: Table, images: pd.DataFrame) -> Finding:
    """A published table, one cell a row, with the run's mean and interval where it has that model and method."""
    rows: list[tuple[Scalar, ...]] = []
    for values in table.rows:
        for method, value in zip(table.columns[1:], values[1:], strict=True):
            ours = images[(images["model"] == values[0]) & (images["method"] == METHODS[method])]["sss"]
            rows.append((values[0], method, value, *_mean(ours, str(values[0]), method)))
    return Finding(
        title=f"{table.number}: {table.title}",
        about="Published per-image SSS beside this run's, with a 95 % interval over images. Other data and other "
        "configurations give other numbers: SSS is for comparing models under one configuration.",
        sentences=(table.note,) if table.note else (),
        columns=("model", "method", "published", "ours", "low", "high", "images"),
        rows=tuple(rows),
        section=table.number,
    )


def _mean(values: pd.Series, *parts: str) -> tuple[float | None, float | None, float | None, int]:
    if values.empty:
        return None, None, None, 0
    found = bootstrap_mean(values, rng=generator(0, "\0".join(parts), "semantic/published"))
    low, high = (None, None) if np.isnan(found.low) else (found.low, found.high)
    return found.value, low, high, found.n
