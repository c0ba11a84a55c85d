"""Keeps a finished run as a small Parquet that travels with Assay: what `assay paper` reads when no run is named.

    python docs/recorded/make.py runs/grid-full src/assay/recorded/grid

Values are rounded to three decimals, and rows of scores that an explainer never has are left out; findings are kept as
they were computed from all rows. A third argument, a pandas query, says which rows are worth keeping:

    python docs/recorded/make.py runs/compass-full src/assay/recorded/compass '`meta.kind` == "plain"'
"""

from __future__ import annotations

import sys

import pandas as pd

from assay.results.record import record
from assay.results.run import Run, load_run

DETAILS = {"synergy": ("f_syn", "sii")}  # what `assay paper` needs beside the scores


class Rounded(Run):
    keep = ""

    def scores(self) -> pd.DataFrame:
        frame = super().scores()
        frame = frame.query(self.keep) if self.keep else frame
        known = frame.groupby(["explainer", "metric"])["value"].transform("count") > 0
        return frame[known].assign(value=frame["value"].round(3)).reset_index(drop=True)


def main(run: str, out: str, keep: str = "") -> None:
    whole = Rounded(load_run(run).store)
    whole.keep = keep
    kept = record(whole, out, DETAILS.get(whole.store.read_json("spec.json")["protocol"]["name"], ()))
    print(f"{len(kept.scores())} rows in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
