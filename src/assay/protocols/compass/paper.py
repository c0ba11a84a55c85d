"""What creg2026 claims, beside a run: agree, disagree or cannot tell, by intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from assay.kernel.claim import Agreement, Claim, Comparison
from assay.kernel.finding import Finding
from assay.protocols import published
from assay.protocols.compass import synthetic
from assay.protocols.compass.findings import findings
from assay.protocols.compass.tables import BOX, is_control, main_table, plain
from assay.results.run import Run

#: What the paper calls an explainer, by the name it has here.
METHODS = {
    "control/geometry": "Geometry oracle", BOX: "Box-only", "attention/grad_rollout": "Transformer Attribution",
    "cam/gradcam": "GradCAM", "perturbation/rise": "RISE", "gradient/contrastive_grad_x_act": "Contrastive Grad×Act",
    "attention/rollout": "Attention rollout", "gradient/integrated_gradients": "Integrated Gradients",
    "control/random": "Random",
}  # fmt: skip


def compare(run: Run) -> Comparison:
    """Every claim that a run's samples can speak to; the rest says what is missing."""
    printed = published.load("compass")
    scores = run.scores()
    table = main_table(scores)
    # Kept with the run; computed anew only where it was never completed.
    shown = {finding.title: frame(finding) for finding in run.findings() or findings(run)}
    claims = [
        *_layout_claims(table),
        *_intervention_claims(shown),
        *_centre_claims(shown),
        *_reading_claims(shown),
        *_accuracy_claims(shown),
        *_instrument_claims(),
    ]
    return Comparison(tuple(claims), (_table_1(table, printed), _table_6(printed), _table_5(printed)))


def frame(finding: Finding) -> pd.DataFrame:
    return pd.DataFrame(list(finding.rows), columns=list(finding.columns))


def _layout_claims(table: pd.DataFrame) -> Iterator[Claim]:
    text = "Box-only geometry points more than 30 degrees better than every model-based explainer"
    real = table[~table["explainer"].map(is_control)].dropna(subset=["gap to box-only"])
    where, said = "section 4.2, table 1", "gaps of 34 to 43 degrees, 47.1 at best against 14.2 to 32.7"
    if real.empty:
        yield Claim(text, where, said, "no explainer beside control/box_only", "cannot tell")
    else:
        low = real["gap to box-only"].min()
        ours = f"gaps of {low:.1f} to {real['gap to box-only'].max():.1f} degrees"
        worse = bool((real["gap to box-only"] > 30).all())
        near = real.sort_values("gap to box-only").iloc[0]
        yield Claim(
            text, where, said, ours, "agree" if worse else "disagree",
            "" if worse else f"{near['explainer']} on {near['model']} is {low:.1f} degrees from the box "
            f"({near['dae low']:.1f} to {near['dae high']:.1f} against the box's {near['dae'] - low:.1f})",
        )  # fmt: skip
    noise = table[table["explainer"] == "control/random"]
    text = "Noise through the same projection is at chance, 90 degrees and .25"
    if noise.empty:
        yield Claim(text, "table 1", "89.9 to 94.2, .221 to .257", "no control/random in the run", "cannot tell")
    else:
        row = noise.iloc[0]
        inside = bool(row["dae low"] <= 90 <= row["dae high"])
        yield Claim(
            text, "table 1", "89.9 to 94.2, .221 to .257",
            f"{row['dae']:.1f} ({row['dae low']:.1f} to {row['dae high']:.1f}), {row['ea']:.3f}",
            "agree" if inside else "disagree",
            "" if inside else "sums over sectors favour the side with more picture, which is the target's side; a peak "
            f"drawn at random gives 90. Freed from the layout it is {row['excess dae']:.1f}",
        )  # fmt: skip


def _intervention_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    text, said = "The compass hardly reacts to the probed answer", "PTA 24.9 % (chance 25), JSD 0.004"
    probes = shown.get("Target intervention")
    probes = None if probes is None else probes[~probes["explainer"].map(is_control)]
    if probes is None or probes.empty:
        yield Claim(text, "E.1", said, "no probes in the run (dataset kinds: probe)", "cannot tell")
    else:
        follow = probes[probes["pta low"] > 0.25]
        best = probes.sort_values("pta").iloc[-1]
        ours = f"PTA at most {best['pta']:.3f} ({best['pta low']:.3f} to {best['pta high']:.3f}), {best['explainer']}"
        because = f"{len(follow)} of {len(probes)} rows follow the probe more often than chance" if len(follow) else ""
        yield Claim(text, "E.1", said, ours, "disagree" if len(follow) else "agree", because)
    text = "Swapping the roles in the question moves the peak by about a right angle"
    swaps = shown.get("Query role swap")
    swaps = None if swaps is None else swaps[~swaps["explainer"].map(is_control)]
    if swaps is None or swaps.empty:
        yield Claim(text, "E.1", "98.5 ± 52.7", "no swaps in the run (dataset kinds: swap)", "cannot tell")
    else:
        ours = (
            f"{swaps['shift'].min():.0f} to {swaps['shift'].max():.0f}; reading from the other object alone moves it "
        )
        ours += f"by {swaps['shift of the centre alone'].min():.0f} to {swaps['shift of the centre alone'].max():.0f}"
        none = swaps[swaps["shift at the same centre"] < swaps["shift of the centre alone"] / 2]
        yield Claim(
            text, "E.1", "98.5 ± 52.7", ours, "cannot tell",
            f"most of the shift is the moved centre in {len(none)} of {len(swaps)} rows, not the question",
        )  # fmt: skip
    text = "Direction explains less of the compass than location"
    parts = shown.get("Variance partition: fix the target, move the reference")
    parts = None if parts is None else parts[~parts["explainer"].map(is_control)]
    said = "eta² .013 and .069"
    if parts is None or parts.empty:
        yield Claim(text, "table 4", said, "no moves in the run (dataset kinds: move)", "cannot tell")
    else:
        less, more = parts[parts["low"] > 0], parts[parts["high"] < 0]
        ours = f"direction {_span(parts['eta2 direction'])}, location {_span(parts['eta2 location'])}"
        verdict: Agreement = "agree" if len(less) > len(parts) / 2 else "disagree" if len(more) else "cannot tell"
        because = f"location leads clearly in {len(less)} of {len(parts)} rows, direction in {len(more)}"
        yield Claim(text, "table 4", said, ours, verdict, because)


def _centre_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    text, said = "The true reference is no better a centre than a random one", "one-sided p >= .93"
    table = shown.get("Reference-centre randomisation")
    rows = None if table is None else table[(table["centre"] == "random") & ~table["explainer"].map(is_control)]
    if rows is None or rows.empty:
        yield Claim(text, "E.2, table 3", said, "no readings around other centres", "cannot tell")
        return
    won = rows[rows["better"] == "true centre"]
    yield Claim(
        text, "E.2, table 3", said, f"p from {rows['p (true is lower)'].min():.4f}",
        "disagree" if len(won) else "agree",
        f"{len(won)} of {len(rows)} rows are better from the true reference" if len(won) else "",
    )  # fmt: skip
    yield Claim(
        "Read from the target itself, the error falls to 22.5 degrees", "table 3", "22.5 on both datasets",
        "no answer: the direction from a point to itself", "disagree",
        "22.5 is half a sector: the peak of an empty compass against an angle of 0. Here it is a failure with a reason",
    )  # fmt: skip


def _reading_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    table = shown.get("Peak or circular mean?")
    if table is not None and len(table):
        rows = table[~table["explainer"].map(is_control)]
        text, said = "Peak and circular mean tell the same story", "56.0 and 49.5 degrees, r = .68"
        if len(rows):
            verdict: Agreement = "agree" if (rows["r low"] > 0).all() else "cannot tell"
            ours = f"r from {rows['pearson r'].min():.2f} to {rows['pearson r'].max():.2f}"
            yield Claim(text, "B.2", said, ours, verdict)
    damaged = shown.get("Damaged maps")
    if damaged is not None and len(damaged):
        rows = damaged[~damaged["explainer"].map(is_control)].dropna(subset=["dae"])
        clean, turned = (rows[rows["damage"] == name]["dae"] for name in ("none", "rotation 90"))
        if len(clean):
            worse = turned.to_numpy() > clean.to_numpy()
            yield Claim(
                "Turning the maps by a quarter costs direction", "table 7", "71.4 to 80.6 degrees",
                f"{clean.mean():.1f} to {turned.mean():.1f} on average", "agree" if worse.all() else "cannot tell",
                f"worse in {int(worse.sum())} of {len(worse)} rows",
            )  # fmt: skip


def _accuracy_claims(shown: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    text, said = "Higher accuracy does not come with lower DAE", "accuracy .554 to .717 while DAE goes 61.1 to 69.5"
    best = shown.get("Do better answers come with better directions?")
    if best is None or len(best) < 2:
        yield Claim(text, "section 6, table 9", said, "one model only", "cannot tell")
        return
    ours, lower, higher, apart = [], 0, 0, 0
    for dataset, part in best.groupby("dataset"):
        part = part.sort_values("accuracy")
        first, last = part.iloc[0], part.iloc[-1]
        if last["accuracy"] > first["accuracy"]:
            apart += 1
            lower += bool(last["dae high"] < first["dae low"])
            higher += bool(last["dae"] >= first["dae"])
            rise = f"accuracy {first['accuracy']:.2f} to {last['accuracy']:.2f}"
            ours.append(f"{dataset}: {rise}, DAE {first['dae']:.1f} to {last['dae']:.1f}")
    verdict: Agreement = "disagree" if lower else "agree" if higher == apart > 0 else "cannot tell"
    yield Claim(text, "section 6, table 9", said, "; ".join(ours) or "models answer alike", verdict)


def _instrument_claims() -> Iterator[Claim]:
    table = synthetic.relational_table()
    yield Claim(
        "Relational patterns score like a filled target box", "table 6", "11.5 to 12.5 degrees, EA >= .996",
        f"{table['dae'].min():.1f} to {table['dae'].max():.1f} degrees, EA >= {table['ea'].min():.3f}",
        "agree" if table["ea"].min() >= 0.99 and np.ptp(table["dae"]) < 1.5 else "disagree",
    )  # fmt: skip
    injected = synthetic.injection_table()
    steady = bool((np.diff(injected["dae to direction"]) <= 1e-9).all())
    yield Claim(
        "An injected direction is recovered", "table 5", "11.1 degrees at alpha = 1, crossover near .3",
        f"{injected['dae to direction'].iloc[-1]:.1f} degrees at alpha = 1, crossover at "
        f"{synthetic.crossover(injected):.2f}",
        "agree" if steady else "disagree", "the crossover depends on widths that are not given",
    )  # fmt: skip


def _span(values: pd.Series[float]) -> str:
    return f"{values.min():.3f} to {values.max():.3f}"


def _table_1(table: pd.DataFrame, printed: published.Published) -> Finding:
    names = dict(zip(printed.tables["Table 1"].column("method"), printed.tables["Table 1"].rows, strict=True))
    rows = []
    for row in table.to_dict("records"):
        said = names.get(METHODS.get(str(row["explainer"]).partition("(")[0], ""))
        both = (said[3], said[4]) if said else (None, None)
        rows.append((row["model"], row["dataset"], row["explainer"], *both, row["dae"], row["ea"], row["accuracy"]))
    names_of = ("model", "dataset", "explainer", "COCO-Pairs dae", "COCO-Pairs ea", "dae", "ea", "accuracy")
    return Finding("Table 1 beside this run", "Published for Qwen2-VL-7B on COCO-Pairs; other models and pictures.", (),
                   names_of, plain(pd.DataFrame(rows, columns=list(names_of))))  # fmt: skip


def _table_6(printed: published.Published) -> Finding:
    ours = {str(row["map"]): row for row in synthetic.relational_table().to_dict("records")}
    rows = tuple(
        (name, dae, ours[str(name)]["dae"], ours[str(name)]["ea"]) for name, dae, _ in printed.tables["Table 6"].rows
    )
    return Finding("Table 6 beside ours", "", (), ("map", "published dae", "dae", "ea"), rows)


def _table_5(printed: published.Published) -> Finding:
    ours = {float(row["alpha"]): row for row in synthetic.injection_table().to_dict("records")}
    rows = []
    for alpha, position, direction, _, follows in printed.tables["Table 5"].rows:
        mine = ours[float(str(alpha))]
        both = (position, mine["dae to position"]), (direction, mine["dae to direction"])
        rows.append((alpha, *both[0], *both[1], follows, mine["follows direction"]))
    names = ("alpha", "published to position", "to position", "published to direction", "to direction",
             "published follows direction", "follows direction")  # fmt: skip
    return Finding("Table 5 beside ours", "", (), names, tuple(rows))
