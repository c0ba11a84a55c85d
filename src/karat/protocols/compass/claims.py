"""The claims of creg2026 about who points where, and whether better answers come with better directions."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from karat.kernel.claim import Claim
from karat.protocols.compass.beside import TRANSFORMER
from karat.protocols.compass.judging import judged
from karat.protocols.compass.tables import CHANCE, is_control


def layout_claims(table: pd.DataFrame) -> Iterator[Claim]:
    text = "Box-only geometry points more than 30 degrees better than every model-based explainer"
    real = table[~table["explainer"].map(is_control)].dropna(subset=["gap low"])
    where, said = "section 4.2, table 1", "gaps of 34 to 43 degrees, 47.1 at best against 14.2 to 32.7"
    if real.empty:
        yield Claim(text, where, said, "no explainer beside control/box_only", "cannot tell")
    else:
        near = real.sort_values("gap to box-only").iloc[0]
        ours = f"gaps of {near['gap to box-only']:.1f} to {real['gap to box-only'].max():.1f} degrees"
        yield Claim(
            text, where, said, ours, judged(real["gap low"] > 30, real["gap high"] < 30),
            f"nearest to the box: {near['explainer']} on {near['model']}, {near['gap low']:.1f} to "
            f"{near['gap high']:.1f} degrees behind it",
        )  # fmt: skip
    noise = table[table["explainer"] == "control/random"].dropna(subset=["dae low"])
    text, said = "Noise through the same projection is at chance, 90 degrees and .25", "89.9 to 94.2, .221 to .257"
    if noise.empty:
        yield Claim(text, "table 1", said, "no control/random in the run", "cannot tell")
        return
    row = noise.iloc[0]
    off = (noise["dae high"] < CHANCE) | (noise["dae low"] > CHANCE)
    yield Claim(
        text, "table 1", said, f"{row['dae']:.1f} ({row['dae low']:.1f} to {row['dae high']:.1f}), {row['ea']:.3f}",
        judged(~off & (noise["dae high"] - noise["dae low"] < 20), off),
        "sums over sectors favour the side with more picture, which is the target's side; a peak drawn at random gives "
        f"90. Freed from the layout it is {row['excess dae']:.1f}" if off.any() else "",
    )  # fmt: skip


def order_claims(table: pd.DataFrame) -> Iterator[Claim]:
    real = table[~table["explainer"].map(is_control)].dropna(subset=["dae low"])
    groups = {key: part.set_index("explainer") for key, part in real.groupby(["dataset", "model"]) if len(part) > 1}
    first = [
        (part["dae high"].drop(TRANSFORMER).min(), part["dae low"].drop(TRANSFORMER).min(), part.loc[TRANSFORMER])
        for part in groups.values() if TRANSFORMER in part.index
    ]  # fmt: skip
    text, said = "Transformer Attribution points best", "49.4 against 53.5 (GradCAM) and more on COCO-Pairs"
    if not first:
        yield Claim(text, "section 4.2, table 1", said, f"no {TRANSFORMER} beside others", "cannot tell")
    else:
        holds = pd.Series([row["dae high"] < low for _, low, row in first])
        fails = pd.Series([row["dae low"] > high for high, _, row in first])
        best = sum(int(part["dae"].idxmin() == TRANSFORMER) for part in groups.values())
        because = f"clearly so in {int(holds.sum())}, clearly not in {int(fails.sum())}"
        yield Claim(text, "section 4.2, table 1", said, f"lowest DAE in {best} of {len(first)} comparisons",
                    judged(holds, fails), because)  # fmt: skip
    winners: dict[str, set[str]] = {}
    for (dataset, _), part in groups.items():
        first_name = str(part["dae"].idxmin())
        if part["dae high"][first_name] < part["dae low"].drop(first_name).min():  # clearly ahead of all others
            winners.setdefault(str(dataset), set()).add(first_name)
    text, said = "The explainer that points best depends on the model", "Transformer Attribution or GradCAM"
    several = [names for names in winners.values() if len(names) > 1]
    best_names = sorted({str(part["dae"].idxmin()) for part in groups.values()})
    yield Claim(
        text, "F.1, table 8", said, f"lowest DAE: {', '.join(best_names) or 'one explainer only'}",
        "agree" if several else "cannot tell",
        "" if several else "no two models of one dataset have different explainers that are clearly ahead",
    )  # fmt: skip


def accuracy_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    best = shown.get("Do better answers come with better directions?")
    text, said = "Better models do not point better", "accuracy .554 to .717 while DAE goes 61.1 to 69.5"
    if best is None or len(best) < 2:
        yield Claim(text, "section 6, table 9", said, "one model only", "cannot tell")
    else:
        ends = [part.sort_values("accuracy").iloc[[0, -1]] for _, part in best.groupby("dataset")]
        ends = [two for two in ends if two["accuracy"].iloc[1] > two["accuracy"].iloc[0]]
        holds = pd.Series([two["dae low"].iloc[1] > two["dae high"].iloc[0] for two in ends], dtype=bool)
        fails = pd.Series([two["dae high"].iloc[1] < two["dae low"].iloc[0] for two in ends], dtype=bool)
        ours = [f"accuracy {a['accuracy']:.2f} to {b['accuracy']:.2f}, DAE {a['dae']:.1f} to {b['dae']:.1f}"
                for a, b in ((two.iloc[0], two.iloc[1]) for two in ends)]  # fmt: skip
        verdict = judged(holds, fails) if ends else "cannot tell"
        yield Claim(text, "section 6, table 9", said, "; ".join(ours) or "models answer alike", verdict)
    gains = shown.get("Accuracy against direction after training")
    texts = "All three training objectives improve the answers", "None of them improves the direction reliably"
    said_two = ".554 to .708-.754 on VSR", "61.1 to 61.7, 70.0 and 65.2 on VSR"
    if gains is None:
        for text, said in zip(texts, said_two, strict=True):
            yield Claim(text, "section 6, table 9", said, "no trained model in the run", "cannot tell")
        return
    rows = gains[~gains["objective"].isin(["none", "answers"])]
    once = rows.drop_duplicates(["dataset", "base", "objective"])
    ours_all = ", ".join(f"{row.objective} {row.accuracy:.2f}" for row in once.itertuples())
    yield Claim(texts[0], "section 6, table 9", said_two[0], ours_all,
                judged(once["accuracy low"] > 0, once["accuracy high"] < 0))  # fmt: skip
    rows = rows[rows["explainer"] == TRANSFORMER] if (rows["explainer"] == TRANSFORMER).any() else rows
    moved = ", ".join(f"{row['objective']} {row['dae change']:+.1f} ({row['dae low']:+.1f} to {row['dae high']:+.1f})"
                      for _, row in rows.iterrows())  # fmt: skip
    better, worse = rows["dae high"] < 0, rows["dae low"] > 0
    # "Reliably" is refuted by all of them improving and borne out by one that gets worse.
    verdict = "disagree" if better.all() else "agree" if worse.any() else "cannot tell"
    yield Claim(texts[1], "section 6, table 9", said_two[1], moved, verdict, "change of the DAE, by sample")
