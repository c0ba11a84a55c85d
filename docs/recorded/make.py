"""Keeps a finished run as a small Parquet that travels with Assay: what `assay paper` reads when no run is named.

    python docs/recorded/make.py runs/grid-full src/assay/recorded/grid

Values are rounded to three decimals, and rows of scores that an explainer never has are left out; findings are kept as
they were computed from all rows.
"""

from __future__ import annotations

import sys

import pandas as pd

from assay.results.record import record
from assay.results.run import Run, load_run


class Rounded(Run):
    def scores(self) -> pd.DataFrame:
        frame = super().scores()
        known = frame.groupby(["explainer", "metric"])["value"].transform("count") > 0
        return frame[known].assign(value=frame["value"].round(3)).reset_index(drop=True)


def main(run: str, out: str) -> None:
    kept = record(Rounded(load_run(run).store), out)
    print(f"{len(kept.scores())} rows in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
