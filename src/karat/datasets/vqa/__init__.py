"""Questions about photographs in the file formats they were published in (fsyn2026 4.1): RePOPE, CV-Bench, MMStar."""

from karat.datasets.vqa.cv_bench import CVBench
from karat.datasets.vqa.mmstar import MMStar
from karat.datasets.vqa.repope import RePOPE

__all__ = ["CVBench", "MMStar", "RePOPE"]
