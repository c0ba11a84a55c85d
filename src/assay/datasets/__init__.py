"""Datasets: where samples come from. None of them imports torch."""

DECLARES = ("arrays", "grid.dataset")
