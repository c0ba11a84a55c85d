"""The run directory: the only code that knows file formats. No torch here."""

from karat.results.run import Run, load_run

__all__ = ["Run", "load_run"]
