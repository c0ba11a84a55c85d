"""Is each twin what its name says? Judged by the answers of the run itself, before anything is said of explainers."""

from __future__ import annotations

import pandas as pd
from scipy import stats

from karat.kernel.finding import Finding
from karat.models.claims import bar_for
from karat.protocols.grid.frames import number, once
from karat.protocols.grid.yardstick import known_answers

COLUMNS = ("model", "mode", "right", "follows", "of", "needed", "worst", "holds")
_UNLIKELY = 0.001  # that a bucket's samples show a twin to fail which does not; there are 38 buckets
_SAYS = {"pure": "truth", "spur": "shortcut"}


def twin_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per twin and mode: right, follows (said what its mechanism says), of, needed, worst (bucket), holds.

    `needed` is the share that twins of this family must reach (`karat.models.claims`); a pure twin answers for pure
    samples only, since nothing was asked of it on others. On its own data a twin must hold in every bucket too, as far
    as the samples can show that it does not: `worst` is the bucket that speaks most against it.
    """
    twins = once(rows[rows["twin"] != ""], ["model", "mode", "sample"])
    known = known_answers(twins)
    found = []
    for (model, twin, mode), group in twins.groupby(["model", "twin", "mode"], observed=True):
        own = known.loc[group["sample"], _SAYS[str(twin)]].to_numpy()
        followed = pd.Series(group["answer"].to_numpy() == own, index=group["bucket"].to_numpy())
        follows = float(followed.mean())
        bar = bar_for(str(model))
        needed = bar.overall if twin == mode else bar.follows if twin == "spur" else float("nan")
        buckets = followed.groupby(level=0).agg(["sum", "size"])
        chance = stats.binom.cdf(buckets["sum"].to_numpy(), buckets["size"].to_numpy(), bar.each)
        worst = int(chance.argmin())
        bucket, right, of = str(buckets.index[worst]), int(buckets["sum"].iloc[worst]), int(buckets["size"].iloc[worst])
        fails = twin == mode and chance[worst] < _UNLIKELY
        found.append(
            {
                "model": model, "mode": mode, "right": float((group["answer"] == group["expected"]).mean()),
                "follows": follows, "of": len(group), "needed": needed,
                "worst": f"{bucket} {right / of:.0%}",
                "holds": not (follows < needed - 1e-9 or fails),
                "missed": _missed(follows, needed, bucket, right, of, bar.each if fails else None),
            }
        )  # fmt: skip
    return pd.DataFrame(found, columns=[*COLUMNS, "missed"])


def _missed(follows: float, needed: float, bucket: str, followed: int, of: int, each: float | None) -> str:
    """Which of the bars a twin missed, in words."""
    overall = f"{needed:.0%} needed" if follows < needed - 1e-9 else ""
    where = f"in bucket {bucket} on {followed} of {of}, {each:.0%} needed there" if each is not None else ""
    return "; ".join(filter(None, (overall, where)))


def unproven(rows: pd.DataFrame) -> dict[str, str]:
    """Twins that do not do what their name says, and what they did instead."""
    table = twin_table(rows)
    return {
        row["model"]: f"{row['model']} follows its mechanism on {row['follows']:.1%} of {row['of']} {row['mode']} "
        f"samples only ({row['missed']})"
        for row in table[~table["holds"]].to_dict("records")
    }


def twin_finding(rows: pd.DataFrame) -> Finding | None:
    table = twin_table(rows)
    if table.empty:
        return None
    failed = table[~table["holds"]]
    cautions = [
        f"{row['model']} does not hold up: it says what its mechanism says on {row['follows']:.1%} of {row['of']} "
        f"{row['mode']} samples only ({row['missed']}). Read everything about it with that in mind."
        for row in failed.to_dict("records")
    ]
    well = "Every twin of this run answered as its mechanism does, as often as is asked of its family."
    return Finding(
        title="Do the twins do what their name says?",
        about="`follows` is the share of answers that the twin's mechanism gives (the truth for pure, the count of "
        "whatever matches the words for spur), by the independent executor. On the other samples a twin's own truth "
        "is unknown: own_mass and own_words leave them out. `karat train` verifies by intervention as well.",
        sentences=tuple(cautions) or (well,),
        columns=COLUMNS,
        rows=tuple(
            (m, mode, right, follows, int(of), number(needed), worst, "yes" if holds else "no")
            for m, mode, right, follows, of, needed, worst, holds, _ in table.itertuples(index=False, name=None)
        ),
        section="The models",
        cautions=tuple(cautions),
    )
