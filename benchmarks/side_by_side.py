"""`compared(...)`: one comparison with a peer, for the table that `benchmarks/run.py` makes of all of them.

A script prints what it likes; beside that it calls `compared` once for every ratio that is worth a row.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

RECORD = "ASSAY_BENCH_RECORD"  # the file that rows go to; without it, nothing is kept


def compared(what: str, peer: str, ours: float, theirs: float, agree: str, aim: str = "") -> None:
    """Costs of both sides in the same unit (most often CPU seconds); the ratio is theirs over ours, more is better.

    `agree` says how the results were found to agree before anything was timed.
    """
    path = os.environ.get(RECORD)
    if path:
        row = {"what": what, "peer": peer, "ours": ours, "theirs": theirs, "agree": agree, "aim": aim}
        with Path(path).open("a") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
