"""The run directory: the only code that knows file formats. No torch here."""

from assay.results.run import Run, load_run

__all__ = ["Run", "load_run"]
