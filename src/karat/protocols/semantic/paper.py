"""`karat paper 003`: what SemScore claims, beside what a run shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from karat.kernel.claim import Claim, Comparison
from karat.kernel.finding import Finding
from karat.kernel.identity import generator
from karat.kernel.typing import Scalar
from karat.protocols.common.published import Published, Table, load
from karat.protocols.semantic import judging
from karat.protocols.semantic.levels import per_image, predictions
from karat.protocols.semantic.orders import higher, highest, lowest, widest
from karat.statistics import bootstrap_mean

if TYPE_CHECKING:
    from karat.results.run import Run

METHODS = {
    "GradCAM": "cam/gradcam", "GradCAM++": "cam/gradcam_pp", "ScoreCAM": "cam/scorecam", "LayerCAM": "cam/layercam",
    "EigenCAM": "cam/eigencam", "EigenGradCAM": "cam/eigengradcam", "AblationCAM": "cam/ablationcam",
    "XGradCAM": "cam/xgradcam", "FullGrad": "gradient/fullgrad", "DAAM": "attention/daam", "GAR": "attention/gar",
    "Attention Rollout": "attention/rollout",
}  # fmt: skip
OUT_OF_DOMAIN = ("clip-rsicd", "quiltnet", "plip", "fashionclip", "pubmedclip")
SPECS = {
    "Table 1": "semantic-classifiers", "Table 2": "semantic-detectors", "Table 3": "semantic-falsification",
    "Table 4": "semantic-attention", "Table 8": "semantic-classifiers", "Table 9": "semantic-falsification",
}  # fmt: skip
_OTHERWISE = (
    "Other data and other configurations give other numbers: SSS is for comparing models under one configuration."
)


def compare(run: Run) -> Comparison:
    """Claims that need models the run does not have are "cannot tell": run the spec that is named with them."""
    rows = predictions(run)
    published = load("semantic")
    images = _with_method(per_image(rows))
    levels = {number: _with_method(rows) if number in ("Table 8", "Table 9") else images for number in SPECS}
    methods = rows[~rows["explainer"].str.startswith("control/")]  # a control explains nothing
    claims = [*_of_models(images, rows, run, published), *_of_predictions(images, methods, run)]
    beside = [_beside(published.tables[number], level, SPECS[number]) for number, level in levels.items()]
    return Comparison(tuple(claims), (_own(images), *beside))


def _of_models(images: pd.DataFrame, rows: pd.DataFrame, run: Run, published: Published) -> list[Claim]:
    one, two, three, four = (published.tables[f"Table {k}"] for k in (1, 2, 3, 4))
    detectors = tuple(str(row[0]) for row in two.rows)
    least = float(run.spec["protocol"].get("min_confidence", published.facts["min_confidence"]["value"]))
    return [
        lowest(images, one, METHODS, ("flexivit-base", "convit-small"), "section 4.1",
               "FlexiViT and ConViT have the lowest SSS under most methods", SPECS["Table 1"]),
        highest(images, one, METHODS, ("swin-base", "hiera-base-plus"), "section 4.1",
                "Swin and Hiera have the highest SSS under most methods", SPECS["Table 1"]),
        lowest(images, two, METHODS, ("ssd300",), "section 4.2",
               "SSD300 has the lowest SSS of all detectors", SPECS["Table 2"]),
        highest(images, two, METHODS, ("fcos", "ssdlite320"), "section 4.2",
                "FCOS and SSDLite have the highest SSS of all detectors", SPECS["Table 2"]),
        judging.coverage(rows, detectors, least, float(published.facts["coverage"]["value"])),
        higher(images, three, METHODS, OUT_OF_DOMAIN, "section 4.3",
               "CLIPs trained for other domains score worse on photographs (falsification test)", SPECS["Table 3"]),
        lowest(images, three, METHODS, ("tinyclip-8m", "metaclip"), "section 4.3",
               "TinyCLIP 8M and MetaCLIP have low SSS under most methods", SPECS["Table 3"]),
        higher(images, four, METHODS, ("deit-base",), "section 4.4",
               "DeiT Tiny and Small are less spurious than DeiT Base", SPECS["Table 4"], ("deit-tiny", "deit-small")),
        highest(images, four, METHODS, ("vit-small", "vit-base"), "section 4.4",
                "ViT Small and Base have the highest SSS of the attention maps", SPECS["Table 4"]),
        widest(images, four, METHODS, "Attention Rollout", "section 4.4",
               "Attention rollout tells models apart best", SPECS["Table 4"]),
    ]  # fmt: skip


def _of_predictions(images: pd.DataFrame, rows: pd.DataFrame, run: Run) -> list[Claim]:
    return [
        judging.methods_differ(images),
        judging.orthogonal(rows),
        judging.occurs(rows, ("correct", "confident", "spurious"),
                       "Some correct, confident predictions rest on spurious features", "figure 3"),
        judging.occurs(rows, ("incorrect", "unsure", "spurious"),
                       "Some wrong, unsure predictions look at the wrong place", "figure 4"),
        judging.occurs(rows, ("correct", "confident", "on the class"),
                       "Some correct, confident predictions look at the right place", "appendix A.2"),
        judging.occurs(rows, ("incorrect", "unsure", "on the class"),
                       "Some wrong, unsure predictions look at the right place", "appendix A.3"),
        judging.similar_classes(rows),
        judging.classes_differ(rows),
        judging.threshold_helps(run),
    ]  # fmt: skip


def _with_method(frame: pd.DataFrame) -> pd.DataFrame:
    """`method` is the explainer's name without its parameters."""
    return frame.assign(method=[name.partition("(")[0] for name in frame["explainer"]])


def _own(images: pd.DataFrame) -> Finding:
    rows: list[tuple[Scalar, ...]] = []
    for keys, group in images.groupby(["model", "dataset", "explainer"], sort=True):
        named = tuple(str(key) for key in keys)
        rows.append((*named, *_mean(group["sss"], *named)))
    return Finding(
        title="This run",
        about="Per-image SSS of the run's own models with a 95 % interval over images.",
        sentences=(),
        columns=("model", "dataset", "explainer", "SSS", "low", "high", "images"),
        rows=tuple(rows),
        section="This run",
    )


def _beside(table: Table, scored: pd.DataFrame, spec: str) -> Finding:
    """A published table with the run's mean and interval, one cell a row, for the models that the run has; the table as
    it was printed where it has none of them."""
    known = [values for values in table.rows if values[0] in set(scored["model"])]
    columns: tuple[str, ...] = table.columns
    rows: list[tuple[Scalar, ...]] = list(table.rows)
    about = f"As published: the run has none of these models (`karat run {spec}`). {table.note}".strip()
    if known:
        columns = ("model", "method", "published", "ours", "low", "high", "n")
        about = f"Published beside this run's, with a 95 % interval. {_OTHERWISE} {table.note}".strip()
        rows = []
        for values in known:
            for method, value in zip(table.columns[1:], values[1:], strict=True):
                ours = scored[(scored["model"] == values[0]) & (scored["method"] == METHODS[method])]["sss"]
                rows.append((values[0], method, value, *_mean(ours, str(values[0]), method)))
    return Finding(f"{table.number}: {table.title}", about, (), columns, tuple(rows), section=table.number)


def _mean(values: pd.Series, *parts: str) -> tuple[float | None, float | None, float | None, int]:
    if values.notna().sum() == 0:
        return None, None, None, 0
    found = bootstrap_mean(values, rng=generator(0, "\0".join(parts), "semantic/published"))
    low, high = (None, None) if np.isnan(found.low) else (found.low, found.high)
    return found.value, low, high, found.n
