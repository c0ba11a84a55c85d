"""The claims of creg2026 about its diagnostics and about the instrument itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from karat.kernel.claim import Agreement, Claim
from karat.protocols.compass import synthetic
from karat.protocols.compass.judging import judged, real_rows
from karat.protocols.compass.robustness import WIDTHS

NONE = 0.01  # degrees: less is rounding


def intervention_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    text, said = "The compass hardly reacts to the probed answer", "PTA 24.9 % (chance 25), JSD 0.004"
    probes = real_rows(shown.get("Target intervention"))
    if probes is None:
        yield Claim(text, "E.1", said, "no probes in the run (dataset kinds: probe)", "cannot tell")
    else:
        follow = probes["pta low"] > 0.25
        best = probes.sort_values("pta").iloc[-1]
        ours = f"PTA at most {best['pta']:.3f} ({best['pta low']:.3f} to {best['pta high']:.3f}), {best['explainer']}"
        because = f"{int(follow.sum())} of {len(probes)} rows follow the probe more often than chance"
        yield Claim(text, "E.1", said, ours, judged(probes["pta high"] < 0.35, follow), because)
    text, said = "Swapping the roles in the question moves the peak", "98.5 ± 52.7 degrees"
    swaps = real_rows(shown.get("Query role swap"))
    if swaps is None:
        yield Claim(text, "E.1", said, "no swaps in the run (dataset kinds: swap)", "cannot tell")
    else:
        alone, same = swaps["shift of the centre alone"], swaps["shift at the same centre"]
        ours = (
            f"{swaps['shift'].min():.0f} to {swaps['shift'].max():.0f}, of which the question itself {same.min():.0f} "
        )
        yield Claim(
            text, "E.1", said, ours + f"to {same.max():.0f}", judged(swaps["low"] > 0, swaps["high"] <= 0),
            f"reading the unchanged map from the other object moves the peak by {alone.min():.0f} to {alone.max():.0f} "
            f"already; that is more than the question does in {int((alone > same).sum())} of {len(swaps)} rows",
        )  # fmt: skip
    text, said = "Direction explains less of the compass than location", "eta² .013 and .069"
    parts = real_rows(shown.get("Variance partition: fix the target, move the reference"))
    if parts is None:
        yield Claim(text, "table 4", said, "no moves in the run (dataset kinds: move)", "cannot tell")
    else:
        ours = f"direction {_span(parts['eta2 direction'])}, location {_span(parts['eta2 location'])}"
        because = (f"location leads clearly in {int((parts['low'] > 0).sum())} of {len(parts)} rows, direction in "
                   f"{int((parts['high'] < 0).sum())}")  # fmt: skip
        yield Claim(text, "table 4", said, ours, judged(parts["low"] > 0, parts["high"] < 0), because)


def centre_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    text, said = "The true reference is no better a centre than a random one", "one-sided p >= .93"
    table = real_rows(shown.get("Reference-centre randomisation"))
    if table is None:
        yield Claim(text, "E.2, table 3", said, "no readings around other centres", "cannot tell")
        return
    rows = table[table["centre"] == "random"]
    p = rows["p (true is lower)"]
    won = int((p < 0.05).sum())
    yield Claim(
        text, "E.2, table 3", said, f"p from {p.min():.4f} to {p.max():.4f}", judged(p >= 0.5, p < 0.05),
        f"{won} of {len(rows)} rows are clearly better from the true reference",
    )  # fmt: skip
    here = [table[table["centre"] == f"target ({how})"]["dae"] for how in ("to the reference", "as asked")]
    yield Claim(
        "Read from the target itself, the error falls to 22.5 degrees", "table 3", "22.5 on both datasets",
        f"{here[0].min():.0f} to {here[0].max():.0f} with the reference as the truth, {here[1].min():.0f} to "
        f"{here[1].max():.0f} with the direction asked for", "cannot tell",
        "from a point to itself there is no direction and the paper names no other; 22.5 is half a sector, what the "
        "peak of an empty compass scores against an angle between sectors",
    )  # fmt: skip


def instrument_claims(patterns: pd.DataFrame, injected: pd.DataFrame) -> Iterator[Claim]:
    drawn = patterns[patterns["map"] != synthetic.NOISE]
    yield Claim(
        "Relational patterns score like a filled target box", "table 6", "11.5 to 12.5 degrees, EA >= .996",
        f"{drawn['dae'].min():.1f} to {drawn['dae'].max():.1f} degrees, EA >= {drawn['ea'].min():.3f}",
        judged((drawn["high"] < 14) & (drawn["ea"] >= 0.99), drawn["low"] > 14),
    )  # fmt: skip
    steady = bool((np.diff(injected["dae to direction"]) <= 1e-9).all())
    yield Claim(
        "An injected direction is recovered", "table 5", "11.1 degrees at alpha = 1, crossover near .3",
        f"{injected['dae to direction'].iloc[-1]:.1f} degrees at alpha = 1, crossover at "
        f"{synthetic.crossover(injected):.2f}",
        "agree" if steady else "disagree", "the crossover depends on widths that are not given",
    )  # fmt: skip


def reading_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    both = real_rows(shown.get("Peak or circular mean?"))
    if both is not None:
        yield Claim(
            "Peak and circular mean tell the same story", "B.2", "56.0 and 49.5 degrees, r = .68",
            f"r from {both['pearson r'].min():.2f} to {both['pearson r'].max():.2f}",
            judged(both["r low"] > 0, both["r high"] < 0),
        )  # fmt: skip
    damaged = real_rows(shown.get("Damaged maps"))
    if damaged is not None:
        turned = damaged[damaged["damage"] == "rotation 90"].dropna(subset=["low"])
        yield Claim(
            "Turning the maps by a quarter costs direction", "table 7", "71.4 to 80.6 degrees",
            f"{turned['change'].min():+.1f} to {turned['change'].max():+.1f} degrees",
            judged(turned["low"] > NONE, turned["high"] < -NONE),
            f"clearly worse in {int((turned['low'] > 0).sum())} of {len(turned)} rows",
        )  # fmt: skip
    settings = real_rows(shown.get("Other settings"))
    if settings is None:
        return
    by = {str(name): part.dropna(subset=["low"]) for name, part in settings.groupby("setting")}
    narrow, coarse, moved = by["width 0.3"], by["sectors 4"], by["box noise 50"]
    wide = pd.concat([by[f"width {r:g}"] for r in WIDTHS if r > 0.3])
    yield Claim("A width of 0.3 is too narrow", "D.1", "consistently worse", _changes(narrow),
                judged(narrow["low"] > NONE, narrow["high"] < -NONE))  # fmt: skip
    yield Claim("Widths of 0.6 to 2.0 read alike", "D.1", "within 3 degrees", _changes(wide), _within(wide, 3.0))
    yield Claim("Four sectors are too coarse", "D.1", "worse than eight", _changes(coarse),
                judged(coarse["low"] > NONE, coarse["high"] < -NONE))  # fmt: skip
    oracle = settings[settings["setting"] == "oracle at box noise 50"]["dae"].mean()
    yield Claim(
        "Boxes that are 50 pixels off hardly matter", "D.2", "3.7 degrees at most, the geometry oracle 24.2",
        f"{_changes(moved)}; the direction of the noisy boxes is {oracle:.1f} off", _within(moved, 3.7),
        "how much 50 pixels are depends on the picture: 640 wide in COCO, 384 on the grid",
    )  # fmt: skip


def _within(rows: pd.DataFrame, most: float) -> Agreement:
    return judged((rows["low"] > -most) & (rows["high"] < most), (rows["low"] > most) | (rows["high"] < -most))


def _changes(rows: pd.DataFrame) -> str:
    return f"{rows['change'].min():+.1f} to {rows['change'].max():+.1f} degrees"


def _span(values: pd.Series[float]) -> str:
    return f"{values.min():.3f} to {values.max():.3f}"
