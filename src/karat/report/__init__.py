"""The report: tables, figures and a sample browser as one static page. No torch here."""

from karat.report.page import report

__all__ = ["report"]
