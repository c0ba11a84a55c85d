"""Images whose every pixel has a class: public sets in their native layouts, read from local paths."""

from __future__ import annotations

from assay.datasets.segmentation.ade20k import Ade20k
from assay.datasets.segmentation.coco import Coco
from assay.datasets.segmentation.coco_stuff import CocoStuff
from assay.datasets.segmentation.folder import Folder
from assay.datasets.segmentation.imagenet_s import ImageNetS
from assay.datasets.segmentation.parquet import Parquet
from assay.datasets.segmentation.voc import Voc

__all__ = ["Ade20k", "Coco", "CocoStuff", "Folder", "ImageNetS", "Parquet", "Voc"]
