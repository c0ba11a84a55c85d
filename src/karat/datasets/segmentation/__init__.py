"""Images whose every pixel has a class: public sets in their native layouts, read from local paths."""

from __future__ import annotations

from karat.datasets.segmentation.ade20k import Ade20k
from karat.datasets.segmentation.coco import Coco
from karat.datasets.segmentation.coco_stuff import CocoStuff
from karat.datasets.segmentation.folder import Folder
from karat.datasets.segmentation.imagenet_s import ImageNetS
from karat.datasets.segmentation.parquet import Parquet
from karat.datasets.segmentation.voc import Voc

__all__ = ["Ade20k", "Coco", "CocoStuff", "Folder", "ImageNetS", "Parquet", "Voc"]
